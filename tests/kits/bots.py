"""Bots and messages that runtime tests share, and what must hold once a bot is quiet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import trio

from shardline import BusMessage, Context, Direction, MessageEnvelope, Runtime, Topology
from shardline.actors.identifiers import new_uuid7
from shardline.actors.keys import shard_of
from shardline.storage.records import InboxStatus, OutboxState
from shardline.testing import FakeChannel


def neighbour_of(key: str, shards: int) -> str:
    """The key of another conversation of the same shard."""
    others = (f"crowd:{number}" for number in range(100))
    return next(
        other for other in others if other != key and shard_of(other, shards) == shard_of(key, shards)
    )


def new_message(
    text: str, *, key: str = "fake:a", idem: str | None = None, direction: Direction = Direction.INBOUND
) -> BusMessage:
    """A chat message from a program; `idem` None makes it a new one."""
    message_id = new_uuid7()
    return BusMessage(
        id=message_id,
        direction=direction,
        channel="fake",
        topic="chat.message",
        conversation_key=key,
        idempotency_key=idem or message_id,
        correlation_id=message_id,
        payload=MessageEnvelope(
            message_id=message_id, text=text, sent_at="2026-01-01T00:00:00Z", session_id=new_uuid7()
        ),
        created_at_us=1_767_225_600_000_000,
    )


def counting_bot(work_s: float = 0.0) -> Topology:
    """Answers `"{turn}: {text}"`, the turn counted in the conversation's state. It also knows the event topic `log`."""
    topology = Topology()
    topology.topic("log")

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        await trio.sleep(work_s)
        ctx.reply(f"{turns + 1}: {message.payload.text}")

    return topology


async def until_quiet(runtime: Runtime, limit_s: float = 60) -> None:
    """Wait until nothing is left to do."""
    with trio.fail_after(limit_s):
        await runtime.wait_until(lambda: runtime.is_quiet)


def texts_to(address: str, *channels: FakeChannel) -> list[str]:
    """What was delivered to a conversation, in order, by one channel after the other."""
    return [out.text for channel in channels for out in channel.delivered if out.address == address]


def check_counted(said: Mapping[str, Sequence[str]], *channels: FakeChannel) -> None:
    """A counting bot has answered all that was said to it, by conversation: once each, in order."""
    for address, texts in said.items():
        assert texts_to(address, *channels) == [f"{n}: {text}" for n, text in enumerate(texts, 1)]
    keys = Counter(out.idempotency_key for channel in channels for out in channel.delivered)
    assert set(keys.values()) <= {1}


def check_all_done(runtime: Runtime, *, crashes: int = 0, max_inflight: int = 1024) -> None:
    """Everything stored is done and sent, nothing was counted against a message, every token is back."""
    status = runtime.status()
    assert status.inbox[InboxStatus.DONE] == sum(status.inbox.values())
    assert status.outbox[OutboxState.SENT] == sum(status.outbox.values())
    assert (status.tokens_free, status.running_turns, status.running_sends) == (max_inflight, 0, 0)
    rows = runtime.messages.list(limit=10_000)
    assert {row.record.failures for row in rows} <= {0}
    assert max((row.record.crashes for row in rows), default=0) == crashes
