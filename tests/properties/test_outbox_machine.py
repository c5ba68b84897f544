"""One conversation's sends over a channel that fails, loses answers and dies, against a model of what arrived."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shardline.actors.errors import BusError, Code
from shardline.runtime.defaults import MAX_ERRORS
from shardline.runtime.outbox_rules import (
    Cancel,
    Defer,
    Drop,
    Failed,
    FoundAtStart,
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
    outbox_move,
)
from shardline.runtime.retry import RetryPolicy
from shardline.storage.records import OutboxRecord, OutboxState

POLICY = RetryPolicy(max_retries=2, jitter="none", base_delay_s=0.000_01, max_delay_s=0.000_02)
_DECISIONS: list[OutboxEvent] = [ResolveSent("m"), ResolveResend(), ResolveDead(), Drop()]
_OUTCOMES: list[OutboxEvent] = [
    Sent("m"),
    Failed("STORE_IO", "503", 0, 0),
    Failed("NO_ACCESS", "403"),
    Uncertain("ReadTimeout"),
    Defer(0, 0),
    Release(),
]


class OutboxMachine(RuleBasedStateMachine):
    """Delivery of one conversation; `wire` is what the platform really got, by row id."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[OutboxRecord] = []
        self.now_us = 0
        self.next_seq = 1
        self.wire: list[int] = []
        self.doubtful: set[int] = set()
        self.claims: dict[int, int] = {}
        self.known_unsent: Counter[tuple[int, int]] = Counter()

    @property
    def head(self) -> OutboxRecord | None:
        """The first row that is neither settled nor parked."""
        for row in sorted(self.rows, key=lambda row: row.seq):
            parked = row.state is OutboxState.UNCERTAIN and row.next_attempt_at_us is None
            if row.state not in {OutboxState.SENT, OutboxState.DEAD, OutboxState.PURGED} and not parked:
                return row
        return None

    @property
    def flying(self) -> OutboxRecord | None:
        """The row in flight."""
        return next((row for row in self.rows if row.in_flight), None)

    def _in(self, *states: OutboxState) -> list[OutboxRecord]:
        return [row for row in self.rows if row.state in states]

    def _apply(self, row: OutboxRecord, event: OutboxEvent, claim: int | None = None) -> OutboxRecord:
        move = outbox_move(row, event, now_us=self.now_us, claim=claim)
        after = move.after
        if move.to_tail:
            after = self._at_tail(after)
        self.rows[self.rows.index(row)] = after
        return after

    def _at_tail(self, row: OutboxRecord) -> OutboxRecord:
        self.next_seq += 1
        return attrs.evolve(row, seq=self.next_seq - 1)

    def _retry_at(self, row: OutboxRecord) -> tuple[int | None, int | None]:
        if POLICY.is_spent(row.attempts):
            return None, None
        wait_us = int(POLICY.delay_s(row.attempts - 1, 0.5) * 1_000_000)
        return self.now_us + wait_us, wait_us

    @rule()
    def enqueue(self) -> None:
        number = len(self.rows) + 1
        new = OutboxRecord(
            id=number,
            shard=0,
            seq=0,
            channel="fake",
            idempotency_key=str(number),
            part=0,
            conversation_key="fk:1",
        )
        self.rows.append(self._at_tail(new))

    @rule(wait_us=st.integers(1, 15))
    def time_passes(self, wait_us: int) -> None:
        self.now_us += wait_us

    @precondition(lambda self: self.flying is None and self.head is not None)
    @rule()
    def start_the_head(self) -> None:
        head = self.head
        assert head is not None
        is_due = head.next_attempt_at_us is None or head.next_attempt_at_us <= self.now_us
        event = Resend() if head.state is OutboxState.UNCERTAIN else Start()
        if not is_due:
            with pytest.raises(BusError) as caught:
                self._apply(head, event)
            assert caught.value.code is Code.INVALID_TRANSITION
            return
        after = self._apply(head, event)
        assert after.in_flight
        assert after.claim == head.claim + 1

    @precondition(lambda self: self.flying is not None)
    @rule(arrived=st.booleans())
    def the_answer_is_lost(self, arrived: bool) -> None:
        row = self.flying
        assert row is not None
        if arrived:
            self.wire.append(row.id)
        self.doubtful.add(row.id)
        self._apply(row, Uncertain("ReadTimeout", *self._retry_at(row)), row.claim)

    @precondition(lambda self: self.flying is not None)
    @rule()
    def it_arrives(self) -> None:
        row = self.flying
        assert row is not None
        self.wire.append(row.id)
        self._apply(row, Sent(f"m{len(self.wire)}"), row.claim)

    @precondition(lambda self: self.flying is not None)
    @rule(permanent=st.booleans())
    def it_is_refused(self, permanent: bool) -> None:
        row = self.flying
        assert row is not None
        retry_at_us, wait_us = (None, None) if permanent else self._retry_at(row)
        after = self._apply(row, Failed("STORE_IO", "503", retry_at_us, wait_us), row.claim)
        assert (after.state is OutboxState.DEAD) == (permanent or POLICY.is_spent(row.attempts))

    @precondition(lambda self: self.flying is not None)
    @rule(event=st.sampled_from([Defer(5, 5), Defer(), Release()]))
    def no_byte_left(self, event: OutboxEvent) -> None:
        row = self.flying
        assert row is not None
        after = self._apply(row, event, row.claim)
        assert after.attempts == row.attempts - 1

    @precondition(lambda self: self.flying is not None)
    @rule(arrived=st.booleans(), resend=st.booleans())
    def the_process_dies(self, arrived: bool, resend: bool) -> None:
        row = self.flying
        assert row is not None
        if arrived:
            self.wire.append(row.id)
        self.doubtful.add(row.id)
        after = self._apply(row, FoundAtStart(*self._retry_at(row)) if resend else FoundAtStart())
        assert after.state is OutboxState.UNCERTAIN

    @precondition(lambda self: self._in(OutboxState.UNCERTAIN))
    @rule(data=st.data())
    def the_adapter_looks_it_up(self, data: st.DataObject) -> None:
        row = data.draw(st.sampled_from(self._in(OutboxState.UNCERTAIN)))
        if row.id in self.wire:
            self._apply(row, ReconciledSent("m"))
        else:
            self.known_unsent[row.id, row.generation] += 1
            self._apply(row, ReconciledNotSent())

    @precondition(lambda self: self._in(OutboxState.UNCERTAIN))
    @rule(data=st.data(), decision=st.sampled_from(_DECISIONS))
    def a_person_or_the_policy_decides(self, data: st.DataObject, decision: OutboxEvent) -> None:
        row = data.draw(st.sampled_from(self._in(OutboxState.UNCERTAIN)))
        self._apply(row, decision, row.claim)

    @precondition(lambda self: self._in(OutboxState.DEAD))
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        row = data.draw(st.sampled_from(self._in(OutboxState.DEAD)))
        after = self._apply(row, Requeue())
        assert after.seq == max(other.seq for other in self.rows)

    @precondition(lambda self: self._in(OutboxState.DEAD))
    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        row = data.draw(st.sampled_from(self._in(OutboxState.DEAD)))
        after = self._apply(row, Purge())
        assert after.state is OutboxState.PURGED
        for event in (Requeue(), Purge(), Start()):
            with pytest.raises(BusError) as caught:
                self._apply(after, event)
            assert caught.value.code is Code.INVALID_TRANSITION

    @precondition(lambda self: self._in(OutboxState.READY, OutboxState.FAILED))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        row = data.draw(st.sampled_from(self._in(OutboxState.READY, OutboxState.FAILED)))
        self._apply(row, Cancel("DELIVERY_PERMANENT"))

    @precondition(lambda self: any(row.claim for row in self.rows))
    @rule(data=st.data(), outcome=st.sampled_from(_OUTCOMES))
    def a_late_answer_is_void(self, data: st.DataObject, outcome: OutboxEvent) -> None:
        row = data.draw(st.sampled_from([row for row in self.rows if row.claim]))
        with pytest.raises(BusError) as caught:
            self._apply(row, outcome, row.claim - 1)
        assert caught.value.code is Code.STALE_CLAIM

    @precondition(lambda self: any(not row.in_flight for row in self.rows))
    @rule(data=st.data(), outcome=st.sampled_from(_OUTCOMES))
    def an_answer_without_a_send_is_refused(self, data: st.DataObject, outcome: OutboxEvent) -> None:
        row = data.draw(st.sampled_from([row for row in self.rows if not row.in_flight]))
        with pytest.raises(BusError) as caught:
            self._apply(row, outcome, row.claim)
        assert caught.value.code is Code.INVALID_TRANSITION

    @invariant()
    def one_in_flight(self) -> None:
        assert sum(row.in_flight for row in self.rows) <= 1

    @invariant()
    def no_row_is_lost(self) -> None:
        assert sorted(row.id for row in self.rows) == list(range(1, len(self.rows) + 1))

    @invariant()
    def claims_never_fall(self) -> None:
        for row in self.rows:
            assert row.claim >= self.claims.get(row.id, 0)
            assert row.claim >= row.attempts
            self.claims[row.id] = row.claim

    @invariant()
    def attempts_are_bounded(self) -> None:
        for row in self.rows:
            # A look-up that finds nothing gives one more try, whatever the budget says.
            assert row.attempts <= POLICY.attempts + self.known_unsent[row.id, row.generation]

    @invariant()
    def a_row_without_doubt_arrives_once(self) -> None:
        for row in self.rows:
            if row.id not in self.doubtful:
                assert self.wire.count(row.id) == (row.state is OutboxState.SENT)

    @invariant()
    def untouched_rows_arrive_in_order(self) -> None:
        once = [n for n in self.wire if n not in self.doubtful and self.rows[n - 1].generation == 0]
        assert once == sorted(once)

    @invariant()
    def lists_and_times_fit_the_state(self) -> None:
        for row in self.rows:
            assert len(row.errors) <= MAX_ERRORS
            assert row.attempts >= 0
            assert (row.sent_at_us is not None) == (row.state is OutboxState.SENT)
            assert (row.uncertain_since_us is not None) == (row.state is OutboxState.UNCERTAIN)
            assert (row.dead_at_us is not None) == (row.state in {OutboxState.DEAD, OutboxState.PURGED})
            if row.state in {OutboxState.FLYING, OutboxState.SENT, OutboxState.DEAD}:
                assert row.next_attempt_at_us is None


OutboxMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=50, deadline=None)
TestOutboxMachine = OutboxMachine.TestCase
