"""The runtime: opens a store, runs the actors, stops them in good order."""

from __future__ import annotations

import random
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import attrs
import structlog
import trio

from ..actors.child import ChildStatistics
from ..actors.clock import Clock, SystemClock
from ..actors.errors import BusError, Code
from ..actors.event import Event
from ..actors.failpoints import NO_FAILPOINTS, FailPoints
from ..actors.keys import prefix_of, shard_of
from ..actors.message import BusMessage, Direction, validate_message
from ..storage.commands import NewOutbox, Publish
from ..storage.port import Store, StoreInfo
from ..storage.records import InboxStatus, OutboundContent, OutboxRecord, OutboxState
from ..storage.sqlite import open_sqlite
from .activity import Activity
from .alarms import Alarms
from .build import Tree, build_tree, check_adapters
from .channel import Adapter
from .control.hands import LiveHands
from .defaults import GRACE_S, MAX_INFLIGHT, SHARD_COUNT
from .emits import new_event, publish_row
from .gate import Gate
from .life import Begun, ending_of
from .operators import DeadLetters, Messages, OutboxDesk
from .receipt import Receipt, receipt_of
from .retry import RetryPolicy
from .services import Services
from .timer_desk import TimerDesk
from .tokens import Tokens
from .topology import Topology


@attrs.frozen(kw_only=True)
class Status:
    """Where a runtime stands.

    Attributes:
        inbox, outbox: Stored rows by status and state; totals of the store.
        retried: Retries recorded in the history: of turns and of sends.
        run: Counters of this run, by name.
        timers: How many are set.
        next_timer_at_us: When the next of them is due.
        tokens_free: Tokens the edges may still take.
        running_turns, running_sends: Under way now.
        actors: The actor tree: what the root supervises, in start order.
    """

    inbox: Mapping[InboxStatus, int]
    outbox: Mapping[OutboxState, int]
    retried: tuple[int, int]
    run: Mapping[str, int]
    timers: int = 0
    next_timer_at_us: int | None = None
    tokens_free: int
    running_turns: int
    running_sends: int
    actors: tuple[ChildStatistics, ...]


class Runtime:
    """One open store with its actors. Made by `Runtime.open`."""

    def __init__(self, services: Services, tree: Tree, *, grace_s: float) -> None:
        self._services = services
        self._tree = tree
        self._grace_s = grace_s
        self._stop_asked = trio.Event()
        self._hurry = trio.Event()
        self._is_over = False
        # Shielded: a block that is cancelled, even while it opens, ends the tree in good order, not all at once.
        self._tree_scope = trio.CancelScope(shield=True)
        self._signals_scope = trio.CancelScope(shield=True)
        self._takes_signals = False
        self._may_begin = trio.Event()
        hands = LiveHands(services, self.publish_validated)
        self.dead_letters = DeadLetters(services, hands)
        self.messages = Messages(services)
        self.outbox = OutboxDesk(services)
        self.timers = TimerDesk(services, hands)
        self.has_cancelled_work = False

    @staticmethod
    @asynccontextmanager
    async def open(
        topology: Topology,
        *,
        store: str | Path | Store,
        adapters: Sequence[Adapter] = (),
        durability: Literal["full", "normal"] = "full",
        mode: Literal["thread", "inline"] = "thread",
        shard_count: int = SHARD_COUNT,
        max_inflight: int = MAX_INFLIGHT,
        unhandled: Literal["refuse", "park"] = "refuse",
        send_retry: RetryPolicy | None = None,
        grace_s: float = GRACE_S,
        clock: Clock | None = None,
        seed: int | None = None,
        failpoints: FailPoints = NO_FAILPOINTS,
        signals: AsyncIterator[int] | None = None,
    ) -> AsyncGenerator[Runtime]:
        """Open a store and run its actors until the block ends; then stop in good order.

        Args:
            topology: What is handled. It is fixed from here on.
            store: Path of the store's file, made if it is not there; or an open store.
            adapters: The channels.
            durability: `full`, accepted survives a power cut; `normal`, it survives a kill.
            mode: Where SQLite runs: on a thread of its own, or (`inline`) on trio's, as tests with a fake clock need.
            shard_count: Of a new store; an existing one has to have the same.
            max_inflight: Messages from the edges under way at once, >= 1.
            unhandled: What happens to a message that no handler takes.
            send_retry: How sends that did not happen are tried again.
            grace_s: Seconds a stop waits for turns and sends under way.
            clock: Where all time comes from.
            seed: Of the jitter.
            failpoints: For crash tests.
            signals: Of `trio.open_signal_receiver`: each is a `request_stop`, also while this opens (the block then
                begins at once, with `serve` returning) and while it stops.
        Raises:
            BusError: STORE_LOCKED, STORE_CORRUPT, STORE_MISMATCH, SCHEMA_TOO_NEW, NO_SUBSCRIBER and the like at
                opening; ADAPTER_FAILED or the adapter's own code, with its name, if an adapter cannot start or fails
                too often; STORE_IO or what an actor escalated while it runs, never wrapped in a group.
        """
        frozen = topology.freeze()
        check_adapters(frozen, adapters, park_unhandled=unhandled == "park")
        tokens = Tokens(max_inflight)
        used_clock = clock if clock is not None else SystemClock()
        opened: Store = (
            open_sqlite(
                store,
                shard_count=shard_count,
                durability=durability,
                mode=mode,
                clock=used_clock,
                failpoints=failpoints,
            )
            if isinstance(store, str | Path)
            else store
        )
        services = Services(
            store=opened,
            clock=used_clock,
            topology=frozen,
            tokens=tokens,
            alarms=Alarms(),
            gate=Gate((), at_once=1, changed=_nothing),
            activity=Activity(),
            random=random.Random(seed),
            log=structlog.get_logger("shardline"),
            window_rows=max(1, max_inflight // opened.info.shard_count),
        )

        async def publish(message: BusMessage) -> Receipt:
            return await runtime._publish_message(message, None, takes_token=False)

        tree = build_tree(
            services,
            adapters,
            send_retry=send_retry or RetryPolicy(),
            park_unhandled=unhandled == "park",
            publish=publish,
        )
        runtime = Runtime(services, tree, grace_s=grace_s)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runtime._run_tree)
                if signals is not None:
                    runtime._takes_signals = True
                    nursery.start_soon(runtime._take_signals, signals)
                try:
                    await runtime._may_begin.wait()
                    yield runtime
                finally:
                    await runtime._stop()
        except BaseExceptionGroup as group:
            raise ending_of(group, tree.edges)  # noqa: B904 (its cause is set already)
        finally:
            # Cancelled so early that the journal never ran, nobody else gives the file back.
            opened.close()

    @property
    def info(self) -> StoreInfo:
        """The store."""
        return self._services.store.info

    @property
    def counters(self) -> Mapping[str, int]:
        """Events of this run by name: accepted, duplicates, refused, handled, sent, retried, dead."""
        return self._services.counters

    async def publish_validated(self, message: BusMessage, *, timeout_s: float | None = None) -> Receipt:
        """Publish a message from outside: every rule is checked first.

        Raises:
            BusError: what `publish` raises, and INVALID_MESSAGE, TOO_LARGE, IDEMPOTENCY_KEY_REQUIRED.
        """
        validate_message(message)
        return await self._publish_message(message, timeout_s)

    async def publish(self, message: BusMessage | Event, *, timeout_s: float | None = None) -> Receipt:
        """Publish from trusted code; return once it is on disk.

        Args:
            message: An inbound message (it is handled), an outbound one (it is sent), or an event.
            timeout_s: Seconds to wait for a token; None waits as long as it takes, 0 not at all. Cancelled before
                the hand-over, nothing is stored; after it the call waits for the commit.
        Returns:
            Its place; that of the first one for a repeat.
        Raises:
            BusError: QUEUE_FULL, by `timeout_s` alone; BUS_CLOSED; NO_SUBSCRIBER, INVALID_TOPIC, UNKNOWN_CHANNEL;
                IDENTITY_MISMATCH, an outbound key is used for another send; STORE_FULL, STORE_BUSY, STORE_IO.
        """
        if isinstance(message, Event):
            return await self._publish_event(message)
        return await self._publish_message(message, timeout_s)

    def request_stop(self) -> None:
        """Let `serve` return; a second call ends the grace time of a stop under way."""
        if self._stop_asked.is_set():
            self._hurry.set()
        self._stop_asked.set()
        self._may_begin.set()

    async def serve(self, *, signals: bool = False) -> None:
        """Run until a stop is asked for.

        Args:
            signals: Take SIGINT and SIGTERM as that: the first stops in good order, a second one at once. Only in the
                main thread. With the `signals` of `open` it is so without.
        """
        if self._takes_signals:
            await self._stop_asked.wait()
            await self._drain()
            return
        if not signals:
            await self._stop_asked.wait()
            return
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._take_signals, received)
                await self._stop_asked.wait()
                await self._drain()
                nursery.cancel_scope.cancel()

    async def wait_drained(self) -> None:
        """Wait until every edge has ended by itself, every message is handled and every send has ended.

        Dead and parked rows, and uncertain sends that wait for a person, count as ended.
        """
        await self.wait_until(lambda: all(edge.is_finished for edge in self._tree.edges) and self.is_quiet)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that the work of this runtime brings about; it is checked whenever work has ended."""
        await self._services.activity.wait_until(condition)

    @property
    def is_quiet(self) -> bool:
        """Nothing is queued, running, in back-off or on its way, and no timer is due."""
        return self._services.is_quiet

    def status(self) -> Status:
        """Totals of the store and counters of this run."""
        services = self._services
        reader = services.store.reader
        return Status(
            inbox=reader.count_inbox(),
            outbox=reader.count_outbox(),
            retried=reader.count_retried(),
            run=dict(services.counters),
            timers=reader.count_timers(),
            next_timer_at_us=reader.next_timer_us(),
            tokens_free=services.tokens.free,
            running_turns=sum(len(topic.pool.running) for topic in services.topics.values()),
            running_sends=sum(len(delivery.pool.running) for delivery in services.deliveries.values()),
            actors=self._tree.root.statistics(),
        )

    # --- inside ----------------------------------------------------------------------------------------------

    async def _run_tree(self) -> None:
        try:
            with self._tree_scope:
                await self._tree.root.run(task_status=Begun(self._may_begin))
        finally:
            self._is_over = True
            self._signals_scope.cancel()
            self._services.activity.changed()

    async def _take_signals(self, received: AsyncIterator[int]) -> None:
        with self._signals_scope:
            async for _ in received:
                self.request_stop()

    async def _drain(self) -> None:
        """No intake, no new claims; then give what is under way its time."""
        services = self._services
        if services.draining:
            return
        await self._tree.root.remove("edges")
        services.draining = True
        services.tokens.close()
        services.flush_all()
        with trio.move_on_after(self._grace_s) as grace:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._cut_on_hurry, grace)
                await self.wait_until(lambda: self._is_over or self._is_drained)
                nursery.cancel_scope.cancel()
        self.has_cancelled_work = not self._is_over and not self._is_drained

    async def _cut_on_hurry(self, grace: trio.CancelScope) -> None:
        await self._hurry.wait()
        grace.cancel()

    @property
    def _is_drained(self) -> bool:
        return all(shard.is_drained for shard in self._services.shards)

    async def _stop(self) -> None:
        """The bounded stop at the end of the block, however it ends."""
        if not self._is_over:
            with trio.CancelScope(shield=True):
                await self._drain()
        self._tree_scope.cancel()

    async def _publish_message(
        self, message: BusMessage, timeout_s: float | None, *, takes_token: bool = True
    ) -> Receipt:
        if message.direction is Direction.OUTBOUND:
            return await self._publish_send(message)
        accept, name = self._tree.inbox.accept, f"topic:{message.topic}:{message.idempotency_key}"
        outcome = await accept(message, dedupe_key=name, timeout_s=timeout_s, takes_token=takes_token)
        home = shard_of(message.conversation_key, self.info.shard_count)
        return receipt_of(message.topic, home, outcome)

    async def _publish_send(self, message: BusMessage) -> Receipt:
        services = self._services
        self._check_open()
        key = message.conversation_key
        channel = message.channel or services.prefixes.get(prefix_of(key))
        if channel is None or channel not in services.deliveries:
            raise BusError(Code.UNKNOWN_CHANNEL, "no open channel for this message", channel=channel, key=key)
        now_us = services.clock.wall_us()
        home = shard_of(key, self.info.shard_count)
        row = NewOutbox(
            record=OutboxRecord(
                id=services.store.next_outbox_id(),
                shard=home,
                seq=0,
                channel=channel,
                idempotency_key=message.idempotency_key,
                part=0,
                conversation_key=key,
                created_at_us=now_us,
                updated_at_us=now_us,
            ),
            content=OutboundContent(
                text=message.payload.text,
                reply_to=message.payload.reply_to,
                correlation_id=message.correlation_id,
                hops=message.hops,
            ),
        )
        outcome = await publish_row(Publish(row=row, at_us=now_us), services)
        return receipt_of(message.topic, home, outcome)

    async def _publish_event(self, event: Event) -> Receipt:
        self._check_open()
        if event.topic not in self._services.topology.events:
            self._services.topology.check_conversation_topic(event.topic)
            raise BusError(
                Code.INVALID_TOPIC, f"{event.topic} is a conversation topic: publish a BusMessage to it"
            )
        row = new_event(event, self._services, fallback_key=None)
        now_us = self._services.clock.wall_us()
        return receipt_of(
            event.topic, row.partition, await publish_row(Publish(row=row, at_us=now_us), self._services)
        )

    def _check_open(self) -> None:
        if self._services.draining:
            raise BusError(Code.BUS_CLOSED, "the runtime is stopping")


def _nothing() -> None:
    """The gate of a runtime without suspects has nobody to tell."""
