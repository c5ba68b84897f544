"""Every (state, event) pair of an outbox row."""

from __future__ import annotations

import itertools

import attrs
import pytest

from shardline.actors.errors import BusError, Code
from shardline.runtime.defaults import MAX_ERRORS
from shardline.runtime.outbox_rules import (
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
    Sent,
    Start,
    Uncertain,
    Unhold,
    event_word,
    mark_failed,
    mark_sent,
    next_outbox_record,
    outbox_move,
    start_attempt,
)
from shardline.storage.commands import OutboxMove
from shardline.storage.records import Failure, OutboxRecord, OutboxState, OutboxStatus

NOW_US = 1_000_000
OLD = Failure(at_us=10, code="RATE_LIMITED", text="before", claim=3)
BASE = OutboxRecord(
    id=7,
    shard=2,
    seq=40,
    channel="fake",
    idempotency_key="k",
    part=1_000,
    conversation_key="fk:1",
    claim=4,
    attempts=2,
    degraded="thread",
    generation=1,
    created_at_us=5,
    updated_at_us=90,
    last_attempt_at_us=90,
    errors=(OLD,),
)
READY, FLYING, FAILED = OutboxState.READY, OutboxState.FLYING, OutboxState.FAILED
UNCERTAIN, DEAD, SENT = OutboxState.UNCERTAIN, OutboxState.DEAD, OutboxState.SENT
PURGED = OutboxState.PURGED
ROWS = {
    READY: BASE,
    FLYING: attrs.evolve(BASE, in_flight=True),
    FAILED: attrs.evolve(BASE, status=OutboxStatus.FAILED, next_attempt_at_us=NOW_US, wait_us=500),
    UNCERTAIN: attrs.evolve(BASE, uncertain_since_us=95, next_attempt_at_us=NOW_US, wait_us=500),
    DEAD: attrs.evolve(BASE, status=OutboxStatus.FAILED, dead_at_us=95),
    SENT: attrs.evolve(BASE, status=OutboxStatus.SENT, sent_at_us=95, accepted=True),
    PURGED: attrs.evolve(BASE, status=OutboxStatus.FAILED, dead_at_us=95, purged_at_us=97, errors=()),
}
EVENTS: dict[str, OutboxEvent] = {
    "start": Start(),
    "resend": Resend(),
    "sent": Sent("m1", deduped=True, degraded="reply"),
    "failed": Failed("HANDLER_FAILED", "503", NOW_US + 700, 700),
    "failed for good": Failed("RECIPIENT_BLOCKED", "403"),
    "uncertain": Uncertain("ReadTimeout"),
    "uncertain, resend": Uncertain("ReadTimeout", NOW_US + 700, 700),
    "defer": Defer(NOW_US + 300, 300),
    "release": Release(),
    "recover": FoundAtStart(),
    "recover, resend": FoundAtStart(NOW_US + 700, 700),
    "reconcile-sent": ReconciledSent("m2"),
    "reconcile-ready": ReconciledNotSent(),
    "resolve-sent": ResolveSent("m3"),
    "resolve-resend": ResolveResend(),
    "resolve-dead": ResolveDead(),
    "drop": Drop(),
    "cancel": Cancel("DELIVERY_PERMANENT", "not wanted"),
    "unhold": Unhold(),
    "requeue": Requeue(),
    "purge": Purge(),
}


def _more(code: str, text: str) -> tuple[Failure, ...]:
    return (OLD, Failure(at_us=NOW_US, code=code, text=text, claim=4))


_NOW = attrs.evolve(BASE, updated_at_us=NOW_US)
_STARTED = attrs.evolve(_NOW, in_flight=True, claim=5, attempts=3, last_attempt_at_us=NOW_US)
_SENT = attrs.evolve(_NOW, status=OutboxStatus.SENT, sent_at_us=NOW_US)
_DEAD = attrs.evolve(_NOW, status=OutboxStatus.FAILED, dead_at_us=NOW_US)
_CANCELLED = attrs.evolve(_DEAD, errors=_more("DELIVERY_PERMANENT", "not wanted"))
_TIMED_OUT = attrs.evolve(_NOW, uncertain_since_us=NOW_US, errors=_more("DELIVERY_UNCERTAIN", "ReadTimeout"))
_FOUND = attrs.evolve(
    _TIMED_OUT, errors=_more("DELIVERY_UNCERTAIN", "the process ended before the outcome was stored")
)
EXPECTED: dict[tuple[OutboxState, str], OutboxRecord] = {
    (READY, "start"): _STARTED,
    (FAILED, "start"): _STARTED,
    (READY, "cancel"): _CANCELLED,
    (FAILED, "cancel"): _CANCELLED,
    (READY, "unhold"): _NOW,
    (FLYING, "sent"): attrs.evolve(
        _SENT, accepted=True, deduped=True, platform_message_id="m1", degraded="reply"
    ),
    (FLYING, "failed"): attrs.evolve(
        _NOW,
        status=OutboxStatus.FAILED,
        next_attempt_at_us=NOW_US + 700,
        wait_us=700,
        errors=_more("HANDLER_FAILED", "503"),
    ),
    (FLYING, "failed for good"): attrs.evolve(_DEAD, errors=_more("RECIPIENT_BLOCKED", "403")),
    (FLYING, "uncertain"): _TIMED_OUT,
    (FLYING, "uncertain, resend"): attrs.evolve(_TIMED_OUT, next_attempt_at_us=NOW_US + 700, wait_us=700),
    (FLYING, "defer"): attrs.evolve(_NOW, attempts=1, next_attempt_at_us=NOW_US + 300, wait_us=300),
    (FLYING, "release"): attrs.evolve(_NOW, attempts=1),
    (FLYING, "recover"): _FOUND,
    (FLYING, "recover, resend"): attrs.evolve(_FOUND, next_attempt_at_us=NOW_US + 700, wait_us=700),
    (UNCERTAIN, "resend"): _STARTED,
    (UNCERTAIN, "reconcile-sent"): attrs.evolve(_SENT, accepted=True, platform_message_id="m2"),
    (UNCERTAIN, "reconcile-ready"): _NOW,
    (UNCERTAIN, "resolve-sent"): attrs.evolve(_SENT, platform_message_id="m3"),
    (UNCERTAIN, "resolve-resend"): attrs.evolve(_NOW, generation=2, attempts=0),
    (UNCERTAIN, "resolve-dead"): attrs.evolve(
        _DEAD, errors=_more("DELIVERY_UNCERTAIN", "given up by a person")
    ),
    (UNCERTAIN, "drop"): attrs.evolve(_DEAD, errors=_more("DELIVERY_UNCERTAIN", "dropped by policy")),
    (DEAD, "requeue"): attrs.evolve(_NOW, generation=2, attempts=0, errors=()),
    (DEAD, "purge"): attrs.evolve(ROWS[DEAD], purged_at_us=NOW_US, updated_at_us=NOW_US, errors=()),
}
STATES_AFTER = {
    "start": FLYING,
    "resend": FLYING,
    "sent": SENT,
    "failed": FAILED,
    "failed for good": DEAD,
    "uncertain": UNCERTAIN,
    "uncertain, resend": UNCERTAIN,
    "defer": READY,
    "release": READY,
    "recover": UNCERTAIN,
    "recover, resend": UNCERTAIN,
    "reconcile-sent": SENT,
    "reconcile-ready": READY,
    "resolve-sent": SENT,
    "resolve-resend": READY,
    "resolve-dead": DEAD,
    "drop": DEAD,
    "cancel": DEAD,
    "unhold": READY,
    "requeue": READY,
    "purge": PURGED,
}


def _id(pair: tuple[OutboxState, str]) -> str:
    return f"{pair[0]}-{pair[1]}"


def _refusal(
    row: OutboxRecord, event: OutboxEvent, *, now_us: int = NOW_US, claim: int | None = 4
) -> BusError:
    with pytest.raises(BusError) as caught:
        next_outbox_record(row, event, now_us=now_us, claim=claim)
    return caught.value


@pytest.mark.parametrize("state", OutboxState)
def test_each_sample_row_is_in_the_state_it_stands_for(state: OutboxState) -> None:
    assert ROWS[state].state is state


@pytest.mark.parametrize("pair", sorted(EXPECTED), ids=_id)
def test_allowed_event_gives_the_row_of_the_table(pair: tuple[OutboxState, str]) -> None:
    after = next_outbox_record(ROWS[pair[0]], EVENTS[pair[1]], now_us=NOW_US, claim=4)

    assert after == EXPECTED[pair]
    assert after.state is STATES_AFTER[pair[1]]


@pytest.mark.parametrize(
    "pair", [pair for pair in itertools.product(OutboxState, EVENTS) if pair not in EXPECTED], ids=_id
)
def test_every_other_event_is_refused(pair: tuple[OutboxState, str]) -> None:
    event = EVENTS[pair[1]]
    error = _refusal(ROWS[pair[0]], event)

    assert error.code is Code.INVALID_TRANSITION
    assert error.context["from"] == str(pair[0])
    assert error.context["event"] == event_word(event)


@pytest.mark.parametrize("state", OutboxState)
@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("claim", [3, 5])
def test_foreign_claim_is_stale_in_every_state(state: OutboxState, name: str, claim: int) -> None:
    error = _refusal(ROWS[state], EVENTS[name], claim=claim)

    assert error.code is Code.STALE_CLAIM
    assert (error.context["held"], error.context["given"]) == (4, claim)


@pytest.mark.parametrize("name", ["sent", "failed", "failed for good", "uncertain", "defer", "release"])
def test_an_outcome_must_name_its_claim(name: str) -> None:
    assert _refusal(ROWS[FLYING], EVENTS[name], claim=None).code is Code.STALE_CLAIM


@pytest.mark.parametrize(
    "identity", [Identity("other", "k", 1_000), Identity("fake", "K", 1_000), Identity("fake", "k", 0)]
)
def test_foreign_identity_is_refused_before_anything_else(identity: Identity) -> None:
    with pytest.raises(BusError) as caught:
        next_outbox_record(ROWS[SENT], Sent("m"), now_us=NOW_US, claim=99, identity=identity)

    assert caught.value.code is Code.IDENTITY_MISMATCH
    assert caught.value.context["given"] == identity


def test_own_identity_passes() -> None:
    after = next_outbox_record(BASE, Start(), now_us=NOW_US, claim=4, identity=Identity("fake", "k", 1_000))

    assert after == _STARTED


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (READY, Start(head=False)),
        (READY, Start(held=True)),
        (FAILED, Start(head=False)),
        (UNCERTAIN, Resend(head=False)),
        (UNCERTAIN, Resend(held=True)),
    ],
)
def test_only_a_head_that_is_not_held_starts(state: OutboxState, event: OutboxEvent) -> None:
    assert _refusal(ROWS[state], event).code is Code.INVALID_TRANSITION


@pytest.mark.parametrize("state", [FAILED, UNCERTAIN])
def test_start_before_due_is_refused_unless_waited_out(state: OutboxState) -> None:
    early: OutboxEvent = Start() if state is FAILED else Resend()
    waited: OutboxEvent = Start(waited=True) if state is FAILED else Resend(waited=True)

    assert _refusal(ROWS[state], early, now_us=NOW_US - 1).code is Code.INVALID_TRANSITION
    assert next_outbox_record(ROWS[state], waited, now_us=1, claim=4).state is FLYING


def test_a_deferred_row_waits_out_its_pause() -> None:
    deferred = next_outbox_record(ROWS[FLYING], EVENTS["defer"], now_us=NOW_US, claim=4)

    assert _refusal(deferred, Start(), now_us=NOW_US + 299).code is Code.INVALID_TRANSITION
    assert next_outbox_record(deferred, Start(), now_us=NOW_US + 300, claim=4).attempts == BASE.attempts


def test_a_parked_row_is_not_resent_by_policy() -> None:
    parked = next_outbox_record(ROWS[FLYING], Uncertain("ReadTimeout"), now_us=NOW_US, claim=4)

    assert _refusal(parked, Resend(waited=True)).code is Code.INVALID_TRANSITION
    assert next_outbox_record(parked, ResolveResend(), now_us=NOW_US, claim=None).state is READY


@pytest.mark.parametrize("text", ["", "  \n"])
@pytest.mark.parametrize("retry_at_us", [None, NOW_US])
def test_a_failure_needs_a_text(text: str, retry_at_us: int | None) -> None:
    with pytest.raises(BusError) as caught:
        mark_failed(
            ROWS[FLYING], code="HANDLER_FAILED", text=text, retry_at_us=retry_at_us, now_us=NOW_US, claim=4
        )

    assert caught.value.code is Code.INVALID_TRANSITION


def test_errors_keep_the_newest_and_are_bounded() -> None:
    row = BASE
    for turn in range(MAX_ERRORS + 3):
        row = next_outbox_record(row, Start(), now_us=turn, claim=None)
        row = next_outbox_record(row, Failed("STORE_IO", str(turn), turn), now_us=turn, claim=row.claim)

    assert [error.text for error in row.errors] == [str(turn) for turn in range(3, MAX_ERRORS + 3)]


def test_a_row_can_be_born_flying() -> None:
    new = OutboxRecord(
        id=1, shard=0, seq=0, channel="fake", idempotency_key="k", part=0, conversation_key="fk:1"
    )
    born = next_outbox_record(new, Start(), now_us=NOW_US, claim=None)

    assert (born.state, born.claim, born.attempts) == (FLYING, 1, 1)


def test_the_verbs_are_moves() -> None:
    started = start_attempt(BASE, now_us=NOW_US)
    sent = mark_sent(ROWS[FLYING], platform_message_id="m1", now_us=NOW_US, claim=4)
    failed = mark_failed(ROWS[FLYING], code="RECIPIENT_BLOCKED", text="403", now_us=NOW_US, claim=4)

    assert started == OutboxMove(BASE, _STARTED, "start")
    assert (sent.event, sent.after.state, sent.after.platform_message_id) == ("sent", SENT, "m1")
    assert failed == OutboxMove(
        ROWS[FLYING], EXPECTED[FLYING, "failed for good"], "dead", "RECIPIENT_BLOCKED"
    )


@pytest.mark.parametrize(
    ("pair", "word", "code", "to_tail"),
    [
        ((READY, "start"), "start", None, False),
        ((UNCERTAIN, "resend"), "start", None, False),
        ((FLYING, "sent"), "sent", None, False),
        ((FLYING, "failed"), "failed", "HANDLER_FAILED", False),
        ((FLYING, "failed for good"), "dead", "RECIPIENT_BLOCKED", False),
        ((FLYING, "uncertain"), "uncertain", "DELIVERY_UNCERTAIN", False),
        ((FLYING, "defer"), "defer", "RATE_LIMITED", False),
        ((FLYING, "release"), "release", None, False),
        ((FLYING, "recover"), "recover", "DELIVERY_UNCERTAIN", False),
        ((UNCERTAIN, "reconcile-sent"), "reconcile-sent", None, False),
        ((UNCERTAIN, "reconcile-ready"), "reconcile-ready", None, False),
        ((UNCERTAIN, "resolve-sent"), "resolve-sent", None, False),
        ((UNCERTAIN, "resolve-resend"), "resolve-resend", None, True),
        ((UNCERTAIN, "resolve-dead"), "resolve-dead", "DELIVERY_UNCERTAIN", False),
        ((UNCERTAIN, "drop"), "drop", "DELIVERY_UNCERTAIN", False),
        ((READY, "cancel"), "cancel", "DELIVERY_PERMANENT", False),
        ((READY, "unhold"), "unhold", None, True),
        ((DEAD, "requeue"), "requeue", None, True),
    ],
)
def test_move_has_the_word_and_code_of_the_history(
    pair: tuple[OutboxState, str], word: str, code: str | None, to_tail: bool
) -> None:
    before = ROWS[pair[0]]
    move = outbox_move(before, EVENTS[pair[1]], now_us=NOW_US, claim=4)

    assert move == OutboxMove(before, EXPECTED[pair], word, code, to_tail)
    assert move.code is None or type(move.code) is str
