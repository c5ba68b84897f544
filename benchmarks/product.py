"""The product under load, driven in a closed loop: so many messages in flight, never more."""

import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, cast

import apsw
import attrs
import trio

from benchmarks.raw import Rate
from benchmarks.raw_store import Sync
from shardline import BusMessage, Context, Direction, MessageEnvelope, Runtime, Status, Topology
from shardline.actors.identifiers import new_uuid7
from shardline.actors.keys import shard_of
from shardline.adapters.base import ChannelCaps, Edge, Inbound, Outbound, SendOutcome, Sent
from shardline.runtime.retention import Retention
from shardline.storage.records import InboxStatus, OutboxState

TEXT = "user3: I'm afraid not. Any version of mplayer except for -k7* should work for your cpu"
SENT_AT = "2026-01-01T00:00:00Z"
MOST_IN_FLIGHT = 1_024
Drive = Callable[["Memory", Runtime], Awaitable[None]]
Count = Callable[[Status], int]
"""How many messages have gone all the way, by what is stored; it fails if one has not."""


@attrs.define
class Memory:
    """A channel in memory: whatever is sent arrives."""

    name: str = "memory"
    prefix: str = "memory"
    # Never the limit: the runtime is what is measured.
    caps: ChannelCaps = ChannelCaps(concurrency=MOST_IN_FLIGHT)
    edge: Edge | None = None

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.edge = edge
        task_status.started()
        await trio.sleep_forever()

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        return Sent(None)

    async def say(self, number: int, conversations: int) -> None:
        await self.say_to(str(number % conversations), str(number))

    async def say_to(self, address: str, platform_message_id: str) -> None:
        assert self.edge is not None
        await self.edge.accept(
            Inbound(
                platform_message_id=platform_message_id,
                address=address,
                text=TEXT,
                sender="user1",
                sent_at=SENT_AT,
            )
        )


class Slots:
    """Places for messages in flight. Not a semaphore: whoever finds a free one goes on at once, without a round of
    the loop, because what is measured is the runtime and not its load.
    """

    def __init__(self, free: int) -> None:
        self._free = free
        self._parked: deque[trio.lowlevel.Task] = deque()

    async def take(self) -> None:
        """Take a place; wait for one if none is free."""
        if self._free:
            self._free -= 1
            return
        task = trio.lowlevel.current_task()
        self._parked.append(task)

        def leave(_: object) -> trio.lowlevel.Abort:
            self._parked.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def give(self, count: int) -> None:
        """Give so many back; those who wait longest get them."""
        self._free += count
        while self._free and self._parked:
            self._free -= 1
            trio.lowlevel.reschedule(self._parked.popleft())


def counting_bot(*, replies: bool) -> Topology:
    """Counts the turns of each conversation in its state, and says the number with the text."""
    topology = Topology()

    @topology.on("chat.message", concurrency=MOST_IN_FLIGHT)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if replies:
            turns = ctx.state.get("turns", 0)
            assert isinstance(turns, int)
            ctx.state["turns"] = turns + 1
            ctx.reply(f"{turns + 1}: {message.payload.text}")

    return topology


def product_chat(path: Path, sync: Sync, in_flight: int, conversations: int, seconds: float) -> Rate:
    """Accept, handle, reply, sent recorded; `in_flight` messages between the first and the last of these."""
    return _run(path, sync, counting_bot(replies=True), in_flight, conversations, seconds)


def product_chat_beside_slow(
    path: Path, sync: Sync, in_flight: int, conversations: int, seconds: float
) -> Rate:
    """As `product_chat`, while in every shard a conversation of its own has a handler that does not end."""
    topology = Topology()

    @topology.on("chat.message", concurrency=MOST_IN_FLIGHT, timeout_s=3_600)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.conversation_key.startswith("memory:slow"):
            await trio.sleep_forever()
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        ctx.reply(f"{turns + 1}: {message.payload.text}")

    async def block(channel: Memory, runtime: Runtime) -> None:
        shards = runtime.info.shard_count
        wanted = set(range(shards))
        number = 0
        while wanted:
            address = f"slow{number}"
            number += 1
            home = shard_of(f"memory:{address}", shards)
            if home in wanted:
                wanted.remove(home)
                await channel.say_to(address, f"slow-{home}")
        await runtime.wait_until(lambda: runtime.status().running_turns == shards)

    return _run(path, sync, topology, in_flight, conversations, seconds, first=block)


def product_chat_over(
    path: Path, sync: Sync, in_flight: int, conversations: int, seconds: float, *, retention: Retention
) -> Rate:
    """As `product_chat`, over a store that holds rows already, of which `retention` may take some away meanwhile."""
    return _run(
        path, sync, counting_bot(replies=True), in_flight, conversations, seconds, retention=retention
    )


def product_handle(path: Path, sync: Sync, conversations: int, seconds: float) -> Rate:
    """Accept, handle, done, nothing said; one publisher, who waits for each accept and for no end."""

    async def drive(channel: Memory, runtime: Runtime) -> None:
        until_s = time.perf_counter() + seconds
        number = 0
        while time.perf_counter() < until_s:
            await channel.say(number, conversations)
            number += 1
        await runtime.wait_until(lambda: runtime.is_quiet)

    return _measure(path, sync, counting_bot(replies=False), drive, _handled)


def product_publish(path: Path, sync: Sync, publishers: int, seconds: float) -> Rate:
    """`Runtime.publish_validated`, so many publishers at once; nobody handles what is stored."""

    async def drive(_: Memory, runtime: Runtime) -> None:
        until_s = time.perf_counter() + seconds

        async def publish(first: int) -> None:
            number = first
            while time.perf_counter() < until_s:
                await runtime.publish_validated(_message(number))
                number += publishers

        async with trio.open_nursery() as nursery:
            for first in range(publishers):
                nursery.start_soon(publish, first)

    return _measure(path, sync, Topology(), drive, _published)


def _run(
    path: Path,
    sync: Sync,
    topology: Topology,
    in_flight: int,
    conversations: int,
    seconds: float,
    first: Drive | None = None,
    retention: Retention | None = None,
) -> Rate:
    """`first` is done before the clock starts; what it leaves running is not waited for and not counted.

    With a `retention` the store holds other rows, which are not counted either.
    """
    said = 0

    async def drive(channel: Memory, runtime: Runtime) -> None:
        nonlocal said
        slots = Slots(in_flight)
        until_s = time.perf_counter() + seconds
        freed = 0

        def has_ended() -> bool:
            return runtime.counters.get("sent", 0) > freed

        async def free_slots() -> None:
            nonlocal freed
            while True:
                await runtime.wait_until(has_ended)
                slots.give(runtime.counters["sent"] - freed)
                freed = runtime.counters["sent"]

        async def say(begin: int) -> None:
            nonlocal said
            number = begin
            while time.perf_counter() < until_s:
                await slots.take()
                await channel.say(number, conversations)
                number += in_flight
                said += 1

        async with trio.open_nursery() as background:
            background.start_soon(free_slots)
            async with trio.open_nursery() as speakers:
                for begin in range(in_flight):
                    speakers.start_soon(say, begin)
            await runtime.wait_until(lambda: runtime.counters.get("sent", 0) == said)
            if first is None:
                await runtime.wait_until(lambda: runtime.is_quiet)
            background.cancel_scope.cancel()

    def count(status: Status) -> int:
        if retention is not None:
            return said
        if first is None:
            return _sent(status)
        assert status.outbox[OutboxState.SENT] == said
        return said

    return _measure(path, sync, topology, drive, count, first=first, retention=retention)


def _measure(
    path: Path,
    sync: Sync,
    topology: Topology,
    drive: Drive,
    count: Count,
    *,
    first: Drive | None = None,
    retention: Retention | None = None,
) -> Rate:

    async def main() -> Rate:
        channel = Memory()
        durability: Literal["full", "normal"] = "full" if sync == "FULL" else "normal"
        async with Runtime.open(
            topology,
            store=path,
            adapters=[channel],
            unhandled="park",
            durability=durability,
            grace_s=0,
            retention=retention,
        ) as runtime:
            if first is not None:
                await first(channel, runtime)
            commits = _commits(path)
            begin_s = time.perf_counter()
            await drive(channel, runtime)
            took_s = time.perf_counter() - begin_s
            return Rate(messages=count(runtime.status()), commits=_commits(path) - commits, took_s=took_s)

    return trio.run(main)


def _published(status: Status) -> int:
    return sum(status.inbox.values())


def _handled(status: Status) -> int:
    done = status.inbox[InboxStatus.DONE]
    assert done == sum(status.inbox.values())
    return done


def _sent(status: Status) -> int:
    sent = status.outbox[OutboxState.SENT]
    assert sent == sum(status.outbox.values()) == _handled(status)
    return sent


def _commits(path: Path) -> int:
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        ((count,),) = cast(
            "list[tuple[int]]", database.execute("SELECT commit_seq FROM store_commit").fetchall()
        )
        return count
    finally:
        database.close()


def _message(number: int) -> BusMessage:
    message_id = new_uuid7()
    return BusMessage(
        id=message_id,
        direction=Direction.INBOUND,
        channel="memory",
        topic="chat.message",
        conversation_key=f"memory:{number % 2_000}",
        idempotency_key=message_id,
        correlation_id=message_id,
        payload=MessageEnvelope(message_id=message_id, text=TEXT, sent_at=SENT_AT, session_id=message_id),
        created_at_us=1_767_225_600_000_000,
    )
