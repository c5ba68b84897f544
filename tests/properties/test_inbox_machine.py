"""An inbox row under every sequence of events, against a model in ten lines."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shardline.actors.errors import BusError, Code
from shardline.runtime.defaults import MAX_BLAMES, MAX_ERRORS
from shardline.runtime.inbox_rules import (
    Claim,
    Dead,
    Defer,
    Done,
    Fail,
    FoundAtStart,
    InboxEvent,
    Park,
    Purge,
    Release,
    Requeue,
    event_word,
    inbox_move,
)
from shardline.runtime.retry import RetryPolicy
from shardline.storage.records import InboxRecord, InboxStatus

# The model: where each word leads. `blame` may also end dead.
MODEL = {
    ("queued", "claim"): "running",
    ("failed", "claim"): "running",
    ("queued", "park"): "parked",
    ("failed", "park"): "parked",
    ("running", "done"): "done",
    ("running", "fail"): "failed",
    ("running", "dead"): "dead",
    ("running", "defer"): "failed",
    ("running", "release"): "queued",
    ("running", "crash"): "queued",
    ("running", "blame"): "queued",
    ("dead", "requeue"): "queued",
    ("parked", "requeue"): "queued",
    ("dead", "purge"): "purged",
}
POLICY = RetryPolicy(max_retries=3)
NEW = InboxRecord(
    id=1,
    shard=0,
    seq=1,
    topic="chat.message",
    partition=0,
    offset=0,
    channel="fake",
    conversation_key="fk:1",
    status=InboxStatus.QUEUED,
)
_TURN_ENDS: list[InboxEvent] = [
    Done(),
    Fail("HANDLER_FAILED", "boom", 0, 0),
    Dead("HANDLER_FAILED", "boom"),
    Defer(0, 0),
    Release(),
]
_ANY_EVENT: list[InboxEvent] = [
    *_TURN_ENDS,
    Claim(1),
    FoundAtStart(alone=False),
    FoundAtStart(alone=True),
    Park(),
    Requeue(),
    Purge(),
]


@attrs.define
class Counts:
    """What the model counts by itself."""

    claims: int = 0
    failures: int = 0
    crashes: int = 0
    blames: int = 0
    generation: int = 0


class InboxMachine(RuleBasedStateMachine):
    """One row, its owner, its zombies and a person."""

    def __init__(self) -> None:
        super().__init__()
        self.row = NEW
        self.now_us = 0
        self.counts = Counts()
        self.history: list[tuple[str, str, str]] = []

    def _apply(self, event: InboxEvent, claim: int | None) -> None:
        before = self.row
        move = inbox_move(before, event, now_us=self.now_us, claim=claim)
        after = move.after
        expected = MODEL[before.status, move.event]
        assert after.status == expected or (move.event == "blame" and after.status is InboxStatus.DEAD)
        assert after.claim == before.claim + (move.event == "claim")
        self.history.append((before.status, after.status, move.event))
        self.row = after

    @rule(wait_us=st.integers(0, 50))
    def time_passes(self, wait_us: int) -> None:
        self.now_us += wait_us

    @precondition(lambda self: self.row.status in {InboxStatus.QUEUED, InboxStatus.FAILED})
    @rule(waited=st.booleans())
    def claim(self, waited: bool) -> None:
        is_due = waited or self.row.next_at_us is None or self.row.next_at_us <= self.now_us
        if not is_due:
            with pytest.raises(BusError) as caught:
                self._apply(Claim(1, waited), None)
            assert caught.value.code is Code.INVALID_TRANSITION
            return
        self._apply(Claim(1, waited), None)
        self.counts.claims += 1

    @precondition(lambda self: self.row.status is InboxStatus.RUNNING)
    @rule(unit=st.floats(0, 1, exclude_max=True))
    def fail(self, unit: float) -> None:
        self.counts.failures += 1
        if POLICY.is_spent(self.counts.failures):
            self._apply(Dead("HANDLER_FAILED", "boom"), self.row.claim)
            return
        wait_us = int(POLICY.delay_s(self.row.failures, unit) * 1_000_000)
        self._apply(Fail("HANDLER_FAILED", "boom", self.now_us + wait_us, wait_us), self.row.claim)

    @precondition(lambda self: self.row.status is InboxStatus.RUNNING)
    @rule(event=st.sampled_from([Done(), Defer(0, 0), Release()]))
    def end_without_failure(self, event: InboxEvent) -> None:
        self._apply(event, self.row.claim)
        if isinstance(event, Done):
            self.counts.crashes = self.counts.blames = 0

    @precondition(lambda self: self.row.status is InboxStatus.RUNNING)
    @rule(alone=st.booleans())
    def crash(self, alone: bool) -> None:
        self.counts.crashes += 1
        self.counts.blames += alone
        self._apply(FoundAtStart(alone), None)
        assert (self.row.status is InboxStatus.DEAD) == (self.counts.blames >= MAX_BLAMES)

    @precondition(lambda self: self.row.status in {InboxStatus.QUEUED, InboxStatus.FAILED})
    @rule()
    def handler_vanishes(self) -> None:
        self._apply(Park(), None)

    @precondition(lambda self: self.row.status in {InboxStatus.DEAD, InboxStatus.PARKED})
    @rule()
    def requeue(self) -> None:
        self._apply(Requeue(), None)
        self.counts = Counts(claims=self.counts.claims, generation=self.counts.generation + 1)

    @precondition(lambda self: self.row.status is InboxStatus.DEAD)
    @rule()
    def purge(self) -> None:
        self._apply(Purge(), None)

    @precondition(lambda self: self.row.claim > 0)
    @rule(event=st.sampled_from(_TURN_ENDS), back=st.integers(1, 3))
    def zombie_answers_late(self, event: InboxEvent, back: int) -> None:
        with pytest.raises(BusError) as caught:
            self._apply(event, self.row.claim - back)
        assert caught.value.code is Code.STALE_CLAIM

    @rule(event=st.sampled_from(_ANY_EVENT))
    def anything_outside_the_table_is_refused(self, event: InboxEvent) -> None:
        if (self.row.status, event_word(event)) in MODEL:
            return
        with pytest.raises(BusError) as caught:
            self._apply(event, self.row.claim)
        assert caught.value.code is Code.INVALID_TRANSITION

    @invariant()
    def the_numbers_are_those_of_the_model(self) -> None:
        row, counts = self.row, self.counts
        assert (row.claim, row.generation) == (counts.claims, counts.generation)
        assert (row.failures, row.crashes, row.blames) == (counts.failures, counts.crashes, counts.blames)

    @invariant()
    def attempts_are_bounded(self) -> None:
        assert self.row.failures <= POLICY.attempts
        assert len(self.row.errors) <= MAX_ERRORS

    @invariant()
    def the_history_replays_to_the_row(self) -> None:
        at = "queued"
        for before, after, _ in self.history:
            assert before == at
            at = after
        assert at == self.row.status

    @invariant()
    def identity_and_order_never_change(self) -> None:
        same = (
            "id",
            "shard",
            "seq",
            "topic",
            "partition",
            "offset",
            "channel",
            "conversation_key",
            "accepted_at_us",
        )
        assert all(getattr(self.row, name) == getattr(NEW, name) for name in same)

    @invariant()
    def only_a_failed_row_waits(self) -> None:
        assert (self.row.next_at_us is not None) == (self.row.status is InboxStatus.FAILED)
        assert (self.row.dead_at_us is not None) == (
            self.row.status in {InboxStatus.DEAD, InboxStatus.PURGED}
        )
        assert (self.row.done_at_us is not None) == (self.row.status is InboxStatus.DONE)


InboxMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestInboxMachine = InboxMachine.TestCase
