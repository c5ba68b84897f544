"""The table of the audit is what the two rules allow, no more and no less."""

from itertools import product

import attrs
import pytest

from shardline.actors.errors import BusError
from shardline.runtime import inbox_rules, outbox_rules
from shardline.storage.audit.transitions import TRANSITIONS, Transition
from shardline.storage.records import InboxRecord, InboxStatus, OutboxRecord, OutboxState, OutboxStatus

INBOX = InboxRecord(
    id=1, shard=0, seq=1, topic="t", partition=0, offset=0, channel=None, conversation_key="k",
    status=InboxStatus.QUEUED, claim=1,
)  # fmt: skip
OUTBOX = OutboxRecord(
    id=1, shard=0, seq=1, channel="c", idempotency_key="k", part=0, conversation_key="k", claim=1, attempts=1
)
IN_EVENTS: list[inbox_rules.InboxEvent] = [
    inbox_rules.Claim(1, waited=True), inbox_rules.Done(), inbox_rules.Fail("C", "text", 1, 1),
    inbox_rules.Dead("C", "text"), inbox_rules.Defer(1, 1), inbox_rules.Release(),
    inbox_rules.FoundAtStart(alone=False), inbox_rules.FoundAtStart(alone=True), inbox_rules.Park(),
    inbox_rules.Requeue(), inbox_rules.Purge(),
]  # fmt: skip
OUT_EVENTS: list[outbox_rules.OutboxEvent] = [
    outbox_rules.Start(), outbox_rules.Resend(), outbox_rules.Sent("1"), outbox_rules.Failed("C", "text", 1, 1),
    outbox_rules.Failed("C", "text"), outbox_rules.Uncertain("why"), outbox_rules.Defer(1, 1), outbox_rules.Release(),
    outbox_rules.FoundAtStart(), outbox_rules.ReconciledSent("1"), outbox_rules.ReconciledNotSent(),
    outbox_rules.ResolveSent(), outbox_rules.ResolveResend(), outbox_rules.ResolveDead(), outbox_rules.Drop(),
    outbox_rules.Cancel("C"), outbox_rules.Unhold(), outbox_rules.Requeue(), outbox_rules.Purge(),
]  # fmt: skip
SENDS = [
    OUTBOX,
    attrs.evolve(OUTBOX, in_flight=True),
    attrs.evolve(OUTBOX, uncertain_since_us=1, next_attempt_at_us=1),
    attrs.evolve(OUTBOX, status=OutboxStatus.FAILED),
    attrs.evolve(OUTBOX, status=OutboxStatus.FAILED, dead_at_us=1),
    attrs.evolve(OUTBOX, status=OutboxStatus.FAILED, dead_at_us=1, purged_at_us=1),
    attrs.evolve(OUTBOX, status=OutboxStatus.SENT),
]


def after_inbox(row: InboxRecord, event: inbox_rules.InboxEvent) -> InboxRecord | None:
    try:
        return inbox_rules.next_inbox_record(row, event, now_us=2, claim=1)
    except BusError:
        return None


def after_outbox(row: OutboxRecord, event: outbox_rules.OutboxEvent) -> OutboxRecord | None:
    try:
        return outbox_rules.next_outbox_record(row, event, now_us=2, claim=1)
    except BusError:
        return None


def test_the_table_is_what_the_rules_allow() -> None:
    found: set[Transition] = set()
    for status, blames, received in product(InboxStatus, (0, 4), IN_EVENTS):
        after = after_inbox(attrs.evolve(INBOX, status=status, blames=blames), received)
        if after is not None:
            found.add(("in", str(status), inbox_rules.event_word(received), str(after.status)))
    for send, happened in product(SENDS, OUT_EVENTS):
        sent = after_outbox(send, happened)
        if sent is not None:
            found.add(("out", str(send.state), outbox_rules.event_word(happened), str(sent.state)))

    assert {send.state for send in SENDS} == set(OutboxState)
    assert found == {one for one in TRANSITIONS if one[1]}


@pytest.mark.parametrize("kind", ["in", "out"])
def test_a_row_is_born_with_one_of_these(kind: str) -> None:
    born = {(event, after) for of, before, event, after in TRANSITIONS if of == kind and not before}

    assert (
        born
        == {
            "in": {
                ("accept", "queued"),
                ("accept+claim", "running"),
                ("park", "parked"),
                ("refuse", "refused"),
            },
            "out": {("enqueue", "ready"), ("enqueue+start", "flying")},
        }[kind]
    )
