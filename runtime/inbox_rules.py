"""The states of an inbox row, as a pure function.

States, and who moves a row on:

    queued    accepted and waiting. The shard claims it when it is the head of its lane.
    running   claimed. The topic's worker ends the turn; recovery ends it for a process that died.
    failed    the turn failed or was deferred, and the row holds its lane until it is due. The shard claims it again.
    dead      gave up, with its reasons. A person requeues it.
    parked    nobody can handle it, now or yet. A person requeues it.
    done      handled. Final.
    purged    a person emptied the dead row. Final.
    refused   stored past the bounds of its lane, only to be counted. Final.

A row is born queued, running (its claim rode along), refused or parked; the table is in `next_inbox_record`.

What survives a crash: everything here, for a transition exists once its commit does. A row found running at start was
in flight when the process died: it is queued again under its old claim number, so the next claim voids every late
answer. `claim` grows at each claim and never falls. `failures` counts turns that ended by exception or time limit in
this generation, `crashes` recoveries that found the row claimed, `blames` those that found nothing else claimed.
"""

from __future__ import annotations

from ..actors.errors import Code
from ..actors.value import changed, value
from ..storage.commands import InboxMove
from ..storage.records import InboxRecord, InboxStatus
from .defaults import MAX_BLAMES
from .transition import failure, invalid_transition, keep_last, stale_claim


@value
class Claim:
    """Start a turn.

    Attributes:
        epoch: Number of the instance that runs it.
        waited: The caller has waited out the row's back-off itself; the wall clock, which may have been set back
            meanwhile, is not asked.
    """

    epoch: int
    waited: bool = False


@value
class Done:
    """The turn succeeded."""


@value
class Fail:
    """The turn failed and will be tried again at `due_us`, after `wait_us`."""

    code: str
    text: str
    due_us: int
    wait_us: int
    own_code: str | None = None


@value
class Dead:
    """The turn failed for good: its error is permanent, or the retry budget is spent.

    `ran` is False where the row was refused before its handler ran (HOP_LIMIT, EXPIRED); no failed turn is counted.
    """

    code: str
    text: str
    own_code: str | None = None
    ran: bool = True


@value
class Defer:
    """The turn may not run now (the breaker is open): try again at `due_us`, after `wait_us`. Counts nothing."""

    due_us: int
    wait_us: int
    code: str = Code.CIRCUIT_OPEN


@value
class Release:
    """A clean stop gives the claim back. Counts nothing."""


@value
class FoundAtStart:
    """Recovery found the row running; `alone` means that nothing else was in flight, so that it is blamed."""

    alone: bool


@value
class Park:
    """The handler of a waiting row has vanished: put the row aside until a person requeues it."""

    code: str = Code.NO_SUBSCRIBER
    text: str = "no handler for this topic and channel"


@value
class Requeue:
    """A person sends the row through again, as a new arrival at the tail of its lane."""


@value
class Purge:
    """A person empties a dead row: what it said goes, its identity stays."""


InboxEvent = Claim | Done | Fail | Dead | Defer | Release | FoundAtStart | Park | Requeue | Purge

_TURN_EVENTS = (Done, Fail, Dead, Defer, Release)
_WORDS: dict[type[InboxEvent], str] = {
    Claim: "claim",
    Done: "done",
    Fail: "fail",
    Dead: "dead",
    Defer: "defer",
    Release: "release",
    FoundAtStart: "crash",
    Park: "park",
    Requeue: "requeue",
    Purge: "purge",
}


def event_word(event: InboxEvent) -> str:
    """The word for `event` in the history."""
    return "blame" if isinstance(event, FoundAtStart) and event.alone else _WORDS[type(event)]


def next_inbox_record(
    record: InboxRecord, event: InboxEvent, *, now_us: int, claim: int | None
) -> InboxRecord:
    """Where `record` stands after `event`.

    | state             | event -> next                                                                        |
    |-------------------|--------------------------------------------------------------------------------------|
    | queued            | claim -> running, claim+1; park -> parked                                            |
    | failed            | when due, claim -> running, claim+1; park -> parked                                  |
    | running           | done -> done, crashes and blames 0; fail -> failed, failures+1; dead -> dead;        |
    |                   | defer -> failed; release -> queued; found at start -> queued, crashes+1 (and         |
    |                   | blames+1 if alone; dead at 5 blames)                                                 |
    | dead, parked      | requeue -> queued, generation+1, failures, crashes, blames 0, errors cleared         |
    | dead              | purge -> purged, errors cleared                                                      |
    | done, refused,    | final                                                                                |
    | purged            |                                                                                      |

    Args:
        record: The row as stored.
        event: What happened.
        now_us: Wall clock, microseconds since 1970 UTC.
        claim: The claim the caller acts under. The events that end a turn need it; for the others None means
            "whoever holds it".
    Returns:
        A new record; `seq` is unchanged (the store draws the new one of a requeue).
    Raises:
        BusError: STALE_CLAIM, the caller's claim is not the row's; INVALID_TRANSITION, anything outside the table.
    """
    if claim != record.claim and (claim is not None or isinstance(event, _TURN_EVENTS)):
        raise stale_claim(record.id, held=record.claim, given=claim, event=event_word(event))
    status = record.status
    match event:
        case Claim():
            if status is InboxStatus.QUEUED or (
                status is InboxStatus.FAILED and _may_start(record, event, now_us)
            ):
                return _claimed(record, event.epoch, now_us)
        case Done():
            if status is InboxStatus.RUNNING:
                return _done(record, now_us)
        case FoundAtStart():
            if status is InboxStatus.RUNNING:
                return _found_at_start(record, event, now_us)
        case Park():
            if status is InboxStatus.QUEUED or status is InboxStatus.FAILED:
                reason = failure(event.code, event.text, now_us, record.claim)
                return changed(
                    record,
                    status=InboxStatus.PARKED,
                    next_at_us=None,
                    wait_us=None,
                    errors=keep_last(record.errors, reason),
                )
        case Requeue():
            if status is InboxStatus.DEAD or status is InboxStatus.PARKED:
                return _requeued(record)
        case Purge():
            if status is InboxStatus.DEAD:
                return changed(record, status=InboxStatus.PURGED, errors=())
        case _:
            if status is InboxStatus.RUNNING:
                return _ended(record, event, now_us)
    raise invalid_transition(record.id, status=status, event=event_word(event))


def inbox_move(record: InboxRecord, event: InboxEvent, *, now_us: int, claim: int | None) -> InboxMove:
    """The same transition with its word and code, ready for a Commit."""
    after = next_inbox_record(record, event, now_us=now_us, claim=claim)
    match event:
        case Claim() | Done() | Release() | Purge():
            return InboxMove(record, after, _WORDS[type(event)])
        case FoundAtStart():
            code = str(Code.CRASH_LOOP) if after.status is InboxStatus.DEAD else None
            return InboxMove(record, after, event_word(event), code)
        case Requeue():
            return InboxMove(record, after, "requeue", to_tail=True)
        case _:
            return InboxMove(record, after, _WORDS[type(event)], str(event.code))


def done_move(record: InboxRecord, *, now_us: int) -> InboxMove:
    """What nearly every turn comes to, at half the cost: `inbox_move` of `Done` under the record's own claim.

    Raises:
        BusError: as `next_inbox_record`.
    """
    if record.status is InboxStatus.RUNNING:
        return InboxMove(record, _done(record, now_us), "done")
    return inbox_move(record, Done(), now_us=now_us, claim=record.claim)


def accepted(record: InboxRecord, *, seq: int, offset: int, epoch: int | None) -> InboxRecord:
    """A new row with the place that the journal gave it; with an epoch its claim rode along.

    Args:
        record: As handed over: queued, parked or refused, claim 0.
        seq: Its place in its shard.
        offset: Its place in (topic, partition).
        epoch: Number of the instance whose claim rode along; None without one.
    """
    if epoch is None:
        return changed(record, seq=seq, offset=offset)
    return changed(
        record,
        seq=seq,
        offset=offset,
        status=InboxStatus.RUNNING,
        claim=1,
        epoch=epoch,
        started_at_us=record.accepted_at_us,
    )


def _may_start(record: InboxRecord, event: Claim, now_us: int) -> bool:
    return event.waited or record.next_at_us is None or record.next_at_us <= now_us


def _claimed(record: InboxRecord, epoch: int, now_us: int) -> InboxRecord:
    return changed(
        record,
        status=InboxStatus.RUNNING,
        claim=record.claim + 1,
        epoch=epoch,
        started_at_us=now_us,
        next_at_us=None,
        wait_us=None,
    )


def _done(record: InboxRecord, now_us: int) -> InboxRecord:
    return changed(record, status=InboxStatus.DONE, crashes=0, blames=0, done_at_us=now_us)


def _ended(record: InboxRecord, event: Fail | Dead | Defer | Release, now_us: int) -> InboxRecord:
    match event:
        case Fail():
            return changed(
                record,
                status=InboxStatus.FAILED,
                failures=record.failures + 1,
                next_at_us=event.due_us,
                wait_us=event.wait_us,
                errors=keep_last(
                    record.errors, failure(event.code, event.text, now_us, record.claim, event.own_code)
                ),
            )
        case Dead():
            return changed(
                record,
                status=InboxStatus.DEAD,
                failures=record.failures + event.ran,
                dead_at_us=now_us,
                errors=keep_last(
                    record.errors, failure(event.code, event.text, now_us, record.claim, event.own_code)
                ),
            )
        case Defer():
            return changed(record, status=InboxStatus.FAILED, next_at_us=event.due_us, wait_us=event.wait_us)
        case Release():
            return changed(record, status=InboxStatus.QUEUED)


def _found_at_start(record: InboxRecord, event: FoundAtStart, now_us: int) -> InboxRecord:
    crashes = record.crashes + 1
    blames = record.blames + event.alone
    if blames < MAX_BLAMES:
        return changed(record, status=InboxStatus.QUEUED, crashes=crashes, blames=blames)
    reason = failure(Code.CRASH_LOOP, "the process died each time it ran alone", now_us, record.claim)
    return changed(
        record,
        status=InboxStatus.DEAD,
        crashes=crashes,
        blames=blames,
        dead_at_us=now_us,
        errors=keep_last(record.errors, reason),
    )


def _requeued(record: InboxRecord) -> InboxRecord:
    return changed(
        record,
        status=InboxStatus.QUEUED,
        failures=0,
        crashes=0,
        blames=0,
        generation=record.generation + 1,
        started_at_us=None,
        dead_at_us=None,
        errors=(),
    )
