"""Runs a bot in a test: no network, no sleeping, a clock that jumps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Literal, Self

import attrs
import trio
import trio.testing

from ...actors.clock import Clock, FakeClock
from ...actors.errors import BusError, Code
from ...actors.given import shown
from ...actors.keys import split_key
from ...runtime.app import Runtime
from ...runtime.argument_checks import check_kind, check_length, check_one_of, check_whole
from ...runtime.breaker import Breaker
from ...runtime.defaults import MAX_BACKLOG, MAX_INFLIGHT, MAX_LANE_BACKLOG
from ...runtime.operators import Decision
from ...runtime.retry import RetryPolicy
from ...runtime.topology import Topology
from ...storage.memory import MemoryDatabase, open_memory
from ...storage.port import Store
from ...storage.records import OutboxRecord, StoredInbox
from ...storage.sqlite import copy_store, open_sqlite
from ..base import ChannelCaps
from .channel import FakeChannel

_LIMIT = 1_000
_MAX_ADVANCE_S = 100 * 366 * 86_400


class SendRow(OutboxRecord):
    """A send as stored, also under the short names that tests use."""

    @property
    def key(self) -> str:
        """The idempotency key: what `resolve` takes."""
        return self.idempotency_key

    @property
    def uncertain_since(self) -> int | None:
        """Since when nobody knows whether it went out; None while that is known."""
        return self.uncertain_since_us


@attrs.frozen
class MemoryPlace:
    """A store in memory that can be opened again."""

    database: MemoryDatabase

    def open(self, clock: Clock) -> Store:
        """Open the store."""
        return open_memory(clock=clock, database=self.database)

    def copy(self) -> MemoryPlace:
        """What a kill would leave."""
        return MemoryPlace(self.database.copy())


@attrs.frozen
class FilePlace:
    """A store in a file."""

    path: Path
    number: int = 0

    def open(self, clock: Clock) -> Store:
        """Open the store."""
        return open_sqlite(self.path, mode="inline", durability="normal", clock=clock)

    def copy(self) -> FilePlace:
        """What a kill would leave, beside the file that its owner is about to close."""
        number = self.number + 1
        target = self.path.with_name(f"bot-{number}.db")
        copy_store(self.path, target)
        return FilePlace(target, number)


def _is_text(value: object) -> bool:
    # Tests are not all checked for types.
    return isinstance(value, str)


class Harness:
    """A runtime over fake channels.

    Args:
        topology: The bot.
        channels: Names of the channels to pose as, or `FakeChannel`s.
        store: Where rows live: in memory, or in a file that `crash` leaves as a killed process would.
        seed: Of the jitter.
        max_inflight, max_lane_backlog, max_backlog, send_retry, send_breaker: As for `Runtime.open`.
        start_us: What the wall clock says at the start, microseconds since 1970 UTC.
    Raises:
        BusError: INVALID_MESSAGE, trio's clock is the real one: use pytest-trio's `autojump_clock`, or
            `shardline.testing.run`.

    >>> from shardline.testing import Harness, run
    >>> from shardline import Topology
    >>> topology = Topology()
    >>> @topology.on("chat.message")
    ... async def echo(ctx, message):
    ...     ctx.reply("you said " + message.payload.text)
    >>> async def main():
    ...     async with Harness(topology) as bot:
    ...         await bot.say("fake:1", "hi")
    ...         await bot.settle()
    ...         return bot.sent("fake:1")
    >>> run(main)
    ['you said hi']
    """

    def __init__(
        self,
        topology: Topology,
        *,
        channels: Sequence[str | FakeChannel] = ("fake",),
        store: Literal["memory", "sqlite-inline"] = "memory",
        seed: int = 0,
        max_inflight: int = MAX_INFLIGHT,
        send_retry: RetryPolicy | None = None,
        send_breaker: Breaker | None = None,
        max_lane_backlog: int = MAX_LANE_BACKLOG,
        max_backlog: int = MAX_BACKLOG,
        start_us: int = 1_767_225_600_000_000,
    ) -> None:
        check_kind(channels, Sequence, "channels", "names, or FakeChannels")
        for one in channels:
            check_kind(one, (str, FakeChannel), "channels", "names, or FakeChannels")
        check_one_of(store, ("memory", "sqlite-inline"), "store")
        check_whole(start_us, "start_us")
        self._topology = topology
        self._channels = {
            channel.name: channel
            for channel in (
                FakeChannel(one, ChannelCaps()) if isinstance(one, str) else one for one in channels
            )
        }
        self._store = store
        self._seed = seed
        self._max_inflight = max_inflight
        self._send_retry = send_retry
        self._send_breaker = send_breaker
        self._max_lane_backlog = max_lane_backlog
        self._max_backlog = max_backlog
        self._start_us = start_us
        self._clock = FakeClock(start_us=start_us)
        self._stack = AsyncExitStack()
        self._folder: TemporaryDirectory[str] | None = None
        self._runtime: Runtime | None = None
        self._place: MemoryPlace | FilePlace = MemoryPlace(MemoryDatabase())

    async def __aenter__(self) -> Self:
        if not isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock):
            raise BusError(
                Code.INVALID_MESSAGE,
                "a Harness needs trio's MockClock: take pytest-trio's autojump_clock, or shardline.testing.run",
            )
        # One for its whole life: a crash does not set the clock back.
        self._clock = FakeClock(start_us=self._start_us)
        if self._store == "sqlite-inline":
            self._folder = TemporaryDirectory(prefix="shardline-harness-")
            self._place = FilePlace(Path(self._folder.name) / "bot-0.db")
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return await self._stack.__aexit__(kind, error, trace)
        finally:
            if self._folder is not None:
                self._folder.cleanup()

    @property
    def runtime(self) -> Runtime:
        """The runtime under test."""
        if self._runtime is None:
            raise RuntimeError("use the Harness as `async with Harness(...) as bot`")
        return self._runtime

    @property
    def clock(self) -> FakeClock:
        """The wall clock of the bot, to read it or to set it (`jump_wall`)."""
        return self._clock

    def channel(self, name: str) -> FakeChannel:
        """One of the fake channels."""
        channel = self._channels.get(name) if _is_text(name) else None
        if channel is None:
            raise BusError(
                Code.UNKNOWN_CHANNEL, f"the Harness poses as no channel {shown(name)}: name it in channels="
            )
        return channel

    async def say(
        self, key: str, text: str, *, sender: str = "somebody", platform_message_id: str | None = None
    ) -> bool:
        """Let somebody write into a conversation; False for a duplicate or a refused message."""
        prefix, address = split_key(key)
        for channel in self._channels.values():
            if channel.prefix == prefix:
                return await channel.say(
                    address, text, sender=sender, platform_message_id=platform_message_id
                )
        raise BusError(Code.UNKNOWN_CHANNEL, f"no fake channel has the prefix {prefix}", key=key)

    async def settle(self, until_s: float | None = None) -> None:
        """Wait until nothing is left to do, back-offs included.

        Args:
            until_s: At most so many (fake) seconds; timers that are due before then are waited for too. None waits
                for no timer that is not due yet.
        """
        runtime = self.runtime
        if until_s is not None and until_s != math.inf:
            check_length(until_s, "until_s", may_be_zero=True)
        horizon_us = None if until_s is None else self._clock.wall_us() + until_s * 1_000_000

        def is_settled() -> bool:
            due_us = runtime.timers.next_due_us
            return runtime.is_quiet and (horizon_us is None or due_us is None or due_us >= horizon_us)

        with trio.move_on_after(float("inf") if until_s is None else until_s):
            await runtime.wait_until(is_settled)

    async def advance(self, seconds: float) -> None:
        """Let (fake) time pass, 0 seconds or more."""
        check_length(seconds, "seconds", may_be_zero=True)
        if seconds > _MAX_ADVANCE_S:
            raise BusError(Code.INVALID_MESSAGE, f"seconds are at most {_MAX_ADVANCE_S}: a hundred years")
        await trio.sleep(seconds)

    def sent(self, key: str) -> list[str]:
        """Texts delivered to a conversation, in order."""
        return [
            out.text
            for channel in self._channels.values()
            for out in channel.delivered
            if out.conversation_key == key
        ]

    def outbox(self, key: str) -> list[SendRow]:
        """The conversation's sends as stored, in the order they were decided."""
        rows = self.runtime.outbox.list(key=key, limit=_LIMIT)
        return [
            SendRow(**vars(row.record))
            for row in sorted(rows, key=lambda row: (row.record.seq, row.record.part))
        ]

    def dead(self) -> list[StoredInbox]:
        """Dead messages, the newest first."""
        return self.runtime.dead_letters.list(limit=_LIMIT)

    async def resolve(self, send: OutboxRecord | str, decision: Decision) -> None:
        """Decide over an uncertain send: a row of `outbox`, or its `key`."""
        check_kind(send, (str, OutboxRecord), "send", "a row of `outbox`, or its key")
        await self.runtime.outbox.resolve(self._row_id(send) if isinstance(send, str) else send.id, decision)

    async def requeue(self, row_id: int) -> None:
        """Send a dead message through again."""
        await self.runtime.dead_letters.requeue(row_id)

    async def crash(self) -> None:
        """Drop everything that is not on disk, as a kill would, and open again."""
        left = self._place.copy()
        for channel in self._channels.values():
            channel.cut()
        self.runtime.request_stop()
        self.runtime.request_stop()
        await self._stack.aclose()
        for channel in self._channels.values():
            channel.mend()
        self._stack = AsyncExitStack()
        self._place = left
        await self._open()

    def _row_id(self, key: str) -> int:
        for row in self.runtime.outbox.list(limit=_LIMIT):
            if row.record.idempotency_key == key:
                return row.record.id
        raise BusError(Code.NOT_FOUND, "no send has this key", key=key)

    async def _open(self) -> None:
        clock = self._clock
        self._runtime = await self._stack.enter_async_context(
            Runtime.open(
                self._topology,
                store=self._place.open(clock),
                adapters=list(self._channels.values()),
                clock=clock,
                seed=self._seed,
                max_inflight=self._max_inflight,
                send_retry=self._send_retry,
                send_breaker=self._send_breaker,
                max_lane_backlog=self._max_lane_backlog,
                max_backlog=self._max_backlog,
            )
        )
