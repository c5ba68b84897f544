"""The states of an outbox row, as a pure function.

States, and who moves a row on:

    ready      waits for its turn. Delivery starts it when it is the head of its conversation.
    flying     bytes may be leaving. Delivery records the adapter's outcome; recovery ends it for a process that died.
    failed     the channel does not have it; it holds its conversation until it is due. Delivery starts it again.
    uncertain  nobody knows whether the channel has it. With a due time the policy sends it again; without one it is
               parked, until the adapter's look-up or a person decides.
    dead       gave up, with its history. A person requeues it.
    sent       the channel has it. Final.
    purged     a person emptied the dead row. Final.

ready = pending without `in_flight`; flying = pending and `in_flight`; uncertain = pending and `uncertain_since_us`;
dead = failed and `dead_at_us`. A row is born ready, or flying where its first start rode along: the caller applies
`Start` to the new record. The table is in `next_outbox_record`.

What survives a crash: everything here, for a transition exists once its commit does. A start is on disk before the
first byte leaves, so a row found flying at start may have been sent: it becomes uncertain, never ready by guess.
`claim` grows at each start and never falls; `attempts` counts the starts of this generation that were not taken back.
"""

from __future__ import annotations

from ..actors.errors import BusError, Code
from ..actors.value import changed
from ..storage.commands import OutboxMove
from ..storage.records import OutboxRecord, OutboxState
from .outbox_events import (
    SEND_EVENTS,
    TAIL_EVENTS,
    Cancel,
    Defer,
    Drop,
    Failed,
    FoundAtStart,
    Identity,
    OutboxEvent,
    Purge,
    ReconciledNotSent,
    ReconciledSent,
    Release,
    Requeue,
    Resend,
    ResolveDead,
    ResolveResend,
    ResolveSent,
    Resplit,
    Sent,
    Start,
    Uncertain,
    Unhold,
    event_word,
)
from .outbox_steps import dead, landed, renewed, sent, settled, started
from .transition import invalid_transition, stale_claim

__all__ = [
    "Cancel",
    "Defer",
    "Drop",
    "Failed",
    "FoundAtStart",
    "Identity",
    "OutboxEvent",
    "Purge",
    "ReconciledNotSent",
    "ReconciledSent",
    "Release",
    "Requeue",
    "Resend",
    "ResolveDead",
    "ResolveResend",
    "ResolveSent",
    "Resplit",
    "Sent",
    "Start",
    "Uncertain",
    "Unhold",
    "event_word",
    "mark_failed",
    "mark_sent",
    "next_outbox_record",
    "outbox_move",
    "sent_move",
    "start_attempt",
]

_CODED = (Failed, Defer, Cancel, ResolveDead, Resplit)
_NOT_KNOWN = (Uncertain, FoundAtStart, Drop)


def next_outbox_record(
    record: OutboxRecord,
    event: OutboxEvent,
    *,
    now_us: int,
    claim: int | None,
    identity: Identity | None = None,
) -> OutboxRecord:
    """Where `record` stands after `event`.

    | state         | event -> next                                                                        |
    |---------------|--------------------------------------------------------------------------------------|
    | ready, failed | when due, as the head and not held: start -> flying, claim+1, attempts+1;            |
    |               | cancel -> dead                                                                       |
    | ready         | unhold -> ready                                                                      |
    | flying        | sent -> sent; failed -> failed, or dead without retry; uncertain -> uncertain;       |
    |               | defer, release -> ready, attempts-1; found at start -> uncertain;                    |
    |               | resplit (its text too long, once) -> ready with the first piece, attempts-1          |
    | uncertain     | when due, resend -> flying, claim+1, attempts+1; reconciled: sent or ready;          |
    |               | resolved: sent, dead, or ready with generation+1, attempts 0; drop -> dead           |
    | dead          | requeue -> ready, generation+1, attempts 0, errors cleared;                          |
    |               | purge -> purged, errors cleared                                                      |
    | sent, purged  | final                                                                                |

    Args:
        record: The row as stored.
        event: What happened.
        now_us: Wall clock, microseconds since 1970 UTC.
        claim: The claim the caller acts under. The outcome of a send needs it; for the others None means "whoever
            holds it".
        identity: The row the caller means, where it knows more than the record it passes.
    Returns:
        A new record; `seq` is unchanged (the store draws the new one of an arrival at the tail).
    Raises:
        BusError: IDENTITY_MISMATCH, another row is meant; STALE_CLAIM, the caller's claim is not the row's;
            INVALID_TRANSITION, anything outside the table, or a failure without a text.
    """
    if identity is not None:
        _check_identity(record, identity)
    if claim != record.claim and (claim is not None or isinstance(event, SEND_EVENTS)):
        raise stale_claim(record.id, held=record.claim, given=claim, event=event_word(event))
    state = record.state
    match event:
        case Start():
            if state is OutboxState.READY or state is OutboxState.FAILED:
                return started(record, event, now_us)
        case Resend():
            # An uncertain row without a due time is parked: its budget is spent, or its policy is to wait.
            if state is OutboxState.UNCERTAIN and record.next_attempt_at_us is not None:
                return started(record, event, now_us)
        case Sent() | Failed() | Uncertain() | Defer() | Release() | Resplit() | FoundAtStart():
            if state is OutboxState.FLYING:
                return landed(record, event, now_us)
        case Cancel():
            if state is OutboxState.READY or state is OutboxState.FAILED:
                return dead(record, event.code, event.text, now_us)
        case Unhold():
            if state is OutboxState.READY:
                return changed(record, updated_at_us=now_us)
        case Requeue():
            if state is OutboxState.DEAD:
                return changed(renewed(record, now_us), errors=())
        case Purge():
            if state is OutboxState.DEAD:
                return changed(record, purged_at_us=now_us, updated_at_us=now_us, errors=())
        case _:
            if state is OutboxState.UNCERTAIN:
                return settled(record, event, now_us)
    raise invalid_transition(record.id, status=state, event=event_word(event))


def outbox_move(
    record: OutboxRecord,
    event: OutboxEvent,
    *,
    now_us: int,
    claim: int | None,
    identity: Identity | None = None,
) -> OutboxMove:
    """The same transition with its word and code, ready for a Commit."""
    after = next_outbox_record(record, event, now_us=now_us, claim=claim, identity=identity)
    code: str | None = None
    if isinstance(event, _CODED):
        code = str(event.code)
    elif isinstance(event, _NOT_KNOWN):
        code = str(Code.DELIVERY_UNCERTAIN)
    return OutboxMove(record, after, event_word(event), code, isinstance(event, TAIL_EVENTS))


def sent_move(record: OutboxRecord, event: Sent, *, now_us: int) -> OutboxMove:
    """What nearly every send comes to, at a third of the cost: `outbox_move` under the record's own claim.

    Raises:
        BusError: as `next_outbox_record`.
    """
    if record.state is OutboxState.FLYING:
        return OutboxMove(record, sent(record, event, now_us), "sent")
    return outbox_move(record, event, now_us=now_us, claim=record.claim)


def start_attempt(
    record: OutboxRecord, *, now_us: int, claim: int | None = None, waited: bool = False
) -> OutboxMove:
    """Begin a send of a row that is the head of its conversation and not held.

    Raises:
        BusError: as `next_outbox_record`.
    """
    return outbox_move(record, Start(waited=waited), now_us=now_us, claim=claim)


def mark_sent(
    record: OutboxRecord, *, platform_message_id: str | None, deduped: bool = False, now_us: int, claim: int
) -> OutboxMove:
    """Record that the channel has it.

    Raises:
        BusError: as `next_outbox_record`.
    """
    return outbox_move(record, Sent(platform_message_id, deduped), now_us=now_us, claim=claim)


def mark_failed(
    record: OutboxRecord,
    *,
    code: str,
    text: str,
    retry_at_us: int | None = None,
    wait_us: int | None = None,
    now_us: int,
    claim: int,
) -> OutboxMove:
    """Record that the channel does not have it; without `retry_at_us` the row is dead.

    Args:
        record: The row, flying.
        code: Why; a `Code`.
        text: For people, not empty.
        retry_at_us: When it may start again, wall clock, microseconds.
        wait_us: The length of that wait.
        now_us: Wall clock, microseconds since 1970 UTC.
        claim: The claim the send was started under.
    Raises:
        BusError: INVALID_TRANSITION, the text is empty; else as `next_outbox_record`.
    """
    return outbox_move(record, Failed(code, text, retry_at_us, wait_us), now_us=now_us, claim=claim)


def _check_identity(record: OutboxRecord, identity: Identity) -> None:
    own = Identity(record.channel, record.idempotency_key, record.part)
    if identity != own:
        raise BusError(
            Code.IDENTITY_MISMATCH,
            f"row {record.id} is another send than the one meant",
            row_id=record.id,
            held=own,
            given=identity,
        )
