"""The runtime: opens a store, runs the actors, stops them in good order."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import structlog
import trio

from ..actors.clock import Clock, SystemClock
from ..actors.errors import BusError, Code
from ..actors.event import Event
from ..actors.failpoints import NO_FAILPOINTS, FailPoints
from ..actors.keys import shard_of
from ..actors.message import BusMessage, Direction, validate_message
from ..actors.names import canonical
from ..actors.storable import check_storable
from ..storage.commands import Publish
from ..storage.port import Store, StoreInfo
from ..storage.sqlite import open_sqlite
from .activity import Activity
from .alarms import Alarms
from .argument_checks import check_callable
from .build import Tree, build_tree, check_adapters
from .channel import Adapter
from .control.hands import LiveHands
from .defaults import GRACE_S, MAX_BACKLOG, MAX_INFLIGHT, MAX_LANE_BACKLOG, SHARD_COUNT
from .emits import new_event, publish_row
from .gate import Gate
from .handled import Handled, publish_handled
from .health import Health
from .intake import Intake
from .life import Begun, ending_of
from .loops import check_handlers, check_trio_task
from .open_checks import check_opening
from .operators import DeadLetters, Messages, OutboxDesk
from .publish_send import publish_outbound
from .receipt import Receipt, receipt_of
from .recipient_desk import RecipientDesk
from .retention import Retention
from .retry import RetryPolicy
from .sender import Sender
from .services import Services
from .status import Status, status_of
from .stop import Stop, Stuck
from .stop_signals import stop_signals
from .timer_desk import TimerDesk
from .tokens import Tokens
from .topology import Topology
from .tracing import Tracing

if TYPE_CHECKING:
    from .breaker import Breaker
    from .metrics import Metrics


class Runtime:
    """One open store with its actors. Made by `Runtime.open`."""

    def __init__(self, services: Services, tree: Tree, *, grace_s: float) -> None:
        self._services = services
        self._tree = tree
        self._stop = Stop(services, tree.root, grace_s=grace_s)
        # Shielded: a block that is cancelled, even while it opens, ends the tree in good order, not all at once.
        self._tree_scope = trio.CancelScope(shield=True)
        self._signals_scope = trio.CancelScope(shield=True)
        self._takes_signals = False
        self._may_begin = trio.Event()
        hands = LiveHands(services, self.publish_validated)
        self.dead_letters = DeadLetters(services, hands)
        self.messages = Messages(services)
        self.outbox = OutboxDesk(services)
        self.sender = Sender(services)
        self.timers = TimerDesk(services, hands)
        self.recipients = RecipientDesk(services, hands)

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
        max_lane_backlog: int = MAX_LANE_BACKLOG,
        max_backlog: int = MAX_BACKLOG,
        unhandled: Literal["refuse", "park"] = "refuse",
        unsafe_filesystem: Literal["refuse", "allow"] = "refuse",
        send_retry: RetryPolicy | None = None,
        send_breaker: Breaker | None = None,
        retention: Retention | None = None,
        tracing: Tracing | None = None,
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
            shard_count: Of a new store, 1 to 1,024; an existing one has to have the same.
            max_inflight: Messages from the edges under way at once, >= 1.
            max_lane_backlog: Messages waiting in one conversation, >= 1; beyond it the next one is refused.
            max_backlog: Open messages, >= 1; beyond it edges and publishers wait.
            unhandled: What happens to a message that no handler takes.
            unsafe_filesystem: Whether the store may lie where a write-ahead log breaks, such as NFS.
            send_retry: How sends that did not happen are tried again.
            send_breaker: When all sends of a channel pause because one conversation after another fails.
            retention: How long what has ended is kept; 30 days.
            tracing: Entered around turns and sends; None costs nothing.
            grace_s: Seconds a stop waits for turns and sends under way.
            clock: Where all time comes from.
            seed: Of the jitter.
            failpoints: For crash tests.
            signals: Of `trio.open_signal_receiver`: each is a `request_stop`, also while this opens (the block then
                begins at once, with `serve` returning) and while it stops.
        Raises:
            BusError: STORE_LOCKED, STORE_CORRUPT, STORE_MISMATCH, SCHEMA_TOO_NEW, NO_SUBSCRIBER and the like at
                opening; ADAPTER_FAILED or the adapter's own code, with its name, if an adapter cannot start or fails
                too often; ACTOR_FAILED if an actor of the runtime itself cannot start; STORE_IO or what an actor
                escalated while it runs, never wrapped in a group.
        """
        check_trio_task()
        check_opening(
            topology, store, adapters, durability=durability, mode=mode, shard_count=shard_count,
            max_inflight=max_inflight, max_lane_backlog=max_lane_backlog, max_backlog=max_backlog,
            unhandled=unhandled, unsafe_filesystem=unsafe_filesystem, send_retry=send_retry,
            send_breaker=send_breaker, retention=retention, tracing=tracing, grace_s=grace_s, clock=clock,
            seed=seed, failpoints=failpoints, signals=signals,
        )  # fmt: skip
        frozen = topology.freeze()
        check_handlers(frozen)
        check_adapters(frozen, adapters, park_unhandled=unhandled == "park")
        tokens = Tokens(max_inflight)
        activity, log = Activity(), structlog.get_logger("shardline")
        used_clock = clock if clock is not None else SystemClock()
        opened: Store = (
            open_sqlite(
                store,
                shard_count=shard_count,
                durability=durability,
                mode=mode,
                clock=used_clock,
                failpoints=failpoints,
                unsafe_filesystem=unsafe_filesystem,
            )
            if isinstance(store, str | Path)
            else store
        )
        services = Services(
            store=opened,
            clock=used_clock,
            topology=frozen,
            tokens=tokens,
            intake=Intake(opened, activity, log, max_lane_backlog=max_lane_backlog, max_backlog=max_backlog),
            alarms=Alarms(),
            gate=Gate((), at_once=1, changed=lambda: None),
            activity=activity,
            random=random.Random(seed),
            log=log,
            window_rows=max(1, max_inflight // opened.info.shard_count),
        )

        async def publish(message: BusMessage) -> Receipt:
            return await runtime._publish_message(message, None, takes_token=False)

        tree = build_tree(
            services,
            adapters,
            send_retry=send_retry or RetryPolicy(),
            send_breaker=send_breaker,
            retention=retention or Retention(),
            tracing=tracing,
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
                    await runtime._end()
        except BaseExceptionGroup as group:
            raise ending_of(group, tree.root, tree.edges)  # noqa: B904 (its cause is set already)
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
        check_trio_task()
        validate_message(message)
        return await self._publish_message(message, timeout_s)

    @overload
    async def publish(
        self, message: BusMessage | Event, *, timeout_s: float | None = None, wait: None = None
    ) -> Receipt: ...
    @overload
    async def publish(
        self, message: BusMessage, *, timeout_s: float | None = None, wait: Literal["handled"]
    ) -> Handled: ...
    async def publish(
        self,
        message: BusMessage | Event,
        *,
        timeout_s: float | None = None,
        wait: Literal["handled"] | None = None,
    ) -> Receipt | Handled:
        """Publish from trusted code; return once it is on disk.

        Args:
            message: An inbound message (it is handled), an outbound one (it is sent), or an event.
            timeout_s: Seconds to wait for room; None waits as long as it takes, 0 not at all. Cancelled before
                the hand-over, nothing is stored; after it the call waits for the commit.
            wait: `handled` waits for the end too, a repeat for that of the first one; cancelled then, what is stored
                goes on.
        Returns:
            Its place; that of the first one for a repeat. With `wait`, what became of it.
        Raises:
            BusError: QUEUE_FULL, by `timeout_s`, or its conversation has `max_lane_backlog` messages waiting;
                BUS_CLOSED; NO_SUBSCRIBER, INVALID_TOPIC, UNKNOWN_CHANNEL; IDENTITY_MISMATCH, an outbound key is used
                for another send; STORE_FULL, STORE_BUSY, STORE_IO; INVALID_MESSAGE, TOO_LARGE, it could not be read
                back; WOULD_DEADLOCK, the turn that calls this would wait for itself.
        """
        check_trio_task()
        if wait is not None:
            return await publish_handled(
                partial(self.publish, message, timeout_s=timeout_s), message, wait, self._services
            )
        if isinstance(message, Event):
            return await self._publish_event(message)
        check_storable(message)
        return await self._publish_message(message, timeout_s)

    def request_stop(self) -> None:
        """Let `serve` return; a second call ends the grace time of a stop under way."""
        self._stop.ask()
        self._may_begin.set()

    async def wait_stuck(self) -> Stuck:
        """For the owner of the process: wait until a stop is over its time and something ignores its cancellation.

        The messages of turns that do are then back on disk; the process can end without more ado, and must.
        """
        return await self._stop.wait_stuck()

    async def serve(self, *, signals: bool = False) -> None:
        """Run until a stop is asked for.

        Args:
            signals: Take the signals that stop a program as that: the first stops in good order, a second one at once,
                a third one ends the process where it stands, with 3. Only in the main thread. With the `signals` of
                `open` it is so without.
        """
        if self._takes_signals:
            await self._stop.asked.wait()
            await self._stop.drain()
            return
        if not signals:
            await self._stop.asked.wait()
            return
        with stop_signals() as received:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop.take_signals, received)
                await self._stop.asked.wait()
                await self._stop.drain()
                nursery.cancel_scope.cancel()

    async def wait_drained(self) -> None:
        """Wait until every edge has ended by itself, every message is handled and every send has ended.

        Dead and parked rows, and uncertain sends that wait for a person, count as ended.
        """
        await self.wait_until(lambda: all(edge.is_finished for edge in self._tree.edges) and self.is_quiet)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that the work of this runtime brings about; it is checked whenever work has ended."""
        check_callable(condition, "condition", "a function")
        await self._services.activity.wait_until(condition)

    @property
    def has_cancelled_work(self) -> bool:
        """Whether the stop cut turns or sends off: they are on disk and go on at the next start."""
        return self._stop.has_cancelled_work

    @property
    def is_quiet(self) -> bool:
        """Nothing is queued, running, in back-off or on its way, and no timer is due."""
        return self._services.is_quiet

    def status(self) -> Status:
        """Totals of the store, counters of this run, and what is under way."""
        return status_of(self._services, self._tree.root.statistics())

    def health(self) -> Health:
        """How it is, in plain words: ok, degraded or failing, with reasons."""
        return self._tree.health.look()

    def metrics(self) -> Metrics:
        """Its numbers for Prometheus, in a registry of their own; needs the extra `metrics`."""
        from .metrics import Metrics  # noqa: PLC0415 (of an extra)

        return Metrics(self._services, self._tree)

    # --- inside ----------------------------------------------------------------------------------------------

    async def _run_tree(self) -> None:
        try:
            with self._tree_scope:
                await self._tree.root.run(task_status=Begun(self._may_begin))
        finally:
            self._stop.is_over = True
            self._signals_scope.cancel()
            self._services.ends.close()
            self._services.activity.changed()

    async def _take_signals(self, received: AsyncIterator[int]) -> None:
        with self._signals_scope:
            async for _ in received:
                self.request_stop()

    async def _end(self) -> None:
        """The bounded stop at the end of the block, however it ends."""
        if not self._stop.is_over:
            with trio.CancelScope(shield=True):
                await self._stop.drain()
        self._stop.cut()
        self._tree_scope.cancel()

    async def _publish_message(
        self, message: BusMessage, timeout_s: float | None, *, takes_token: bool = True
    ) -> Receipt:
        home = shard_of(message.conversation_key, self.info.shard_count)
        if message.direction is Direction.OUTBOUND:
            return receipt_of(message.topic, home, await publish_outbound(message, self._services))
        accept, name = self._tree.inbox.accept, f"topic:{message.topic}:{message.idempotency_key}"
        outcome = await accept(message, dedupe_key=name, timeout_s=timeout_s, takes_token=takes_token)
        return receipt_of(message.topic, home, outcome)

    async def _publish_event(self, event: Event) -> Receipt:
        self._check_open()
        if canonical(event.topic, "topic") not in self._services.topology.events:
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
