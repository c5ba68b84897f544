"""Which fail points a part passes."""

from __future__ import annotations

import pytest

from shardline.actors.failpoints import KINDS
from shardline.storage.commands import (
    Commit,
    Emit,
    EmitNumber,
    InboxMove,
    InTurn,
    OutboxMove,
    Part,
    Publish,
    StepWrite,
    TakeLease,
)
from shardline.storage.labels import labels, labels_of
from shardline.storage.memory import open_memory
from shardline.storage.records import InboxRecord, InboxStatus, OutboxRecord
from tests.kits.store_rows import AT_US, TOPIC, Hand

INBOX = InboxRecord(
    id=1, shard=0, seq=1, topic=TOPIC, partition=0, offset=0, channel=None, conversation_key="tg:1",
    status=InboxStatus.RUNNING,
)  # fmt: skip
OUTBOX = OutboxRecord(
    id=1, shard=0, seq=1, channel="telegram", idempotency_key="a", part=0, conversation_key="tg:1"
)


@pytest.fixture
def hand() -> Hand:
    return Hand(open_memory())


def inbox(event: str) -> Commit:
    return Commit(shard=0, epoch=1, at_us=AT_US, inbox=(InboxMove(INBOX, INBOX, event),))


def outbox(event: str) -> Commit:
    return Commit(shard=0, epoch=1, at_us=AT_US, outbox=(OutboxMove(OUTBOX, OUTBOX, event),))


@pytest.mark.parametrize(
    ("part", "kinds"),
    [
        (inbox("claim"), set[str]()),
        (inbox("done"), {"done"}),
        (inbox("fail"), {"retry"}),
        (inbox("dead"), {"dead"}),
        (inbox("requeue"), {"requeue"}),
        (inbox("crash"), {"recovery"}),
        (inbox("blame"), {"recovery"}),
        (outbox("start"), {"send-start"}),
        (outbox("sent"), {"send-result"}),
        (outbox("failed"), {"send-result", "retry"}),
        (outbox("uncertain"), {"send-result"}),
        (outbox("release"), {"send-result"}),
        (outbox("dead"), {"send-result", "dead"}),
        (outbox("drop"), {"dead"}),
        (outbox("requeue"), {"requeue"}),
        (TakeLease(0), set[str]()),
    ],
)
def test_kinds_of_a_transition(part: Part, kinds: set[str]) -> None:
    assert labels(part) == kinds
    assert kinds <= set(KINDS)


def test_kinds_of_new_rows(hand: Hand) -> None:
    accept = hand.publish(hand.new_inbox("tg:1", 1))
    send = hand.new_outbox("tg:1", "a", started=True)
    number = EmitNumber(0, 1, 0)
    emit = hand.commit(0, emits=(Emit(number, hand.new_inbox("tg:1", 1)),))

    assert labels(accept) == {"accept"}
    assert labels(Publish(row=accept.row, at_us=AT_US, relayed=number)) == {"accept", "relay"}
    assert labels(hand.commit(0, new_outbox=(send,))) == {"send-start"}
    assert labels(hand.commit(0, new_outbox=(hand.new_outbox("tg:1", "b"),))) == frozenset()
    assert labels(hand.publish(hand.new_outbox("tg:1", "c"), claim=True)) == {"send-start"}
    assert labels(emit) == {"emit"}
    assert labels(hand.commit(0, turn=InTurn(INBOX, (StepWrite("a", b"1"),)))) == {"step"}
    assert labels(hand.commit(0, new_outbox=(send,), turn=InTurn(INBOX))) == {"send-now", "send-start"}
    assert labels_of([accept, inbox("done"), emit]) == {"accept", "done", "emit"}
    assert labels_of([]) == frozenset()
