"""The edge actor: runs one adapter and gives it the one way in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from ..actors.child import crash_in
from ..actors.codec import pack_plain, unpack_plain
from ..actors.errors import BusError, Code, error_code_of
from ..actors.given import shown
from ..actors.keys import shard_of
from ..actors.message import BusMessage, clean_text
from ..actors.names import canonical
from ..storage.commands import Duplicate, Fact, Stored
from .adapter_start import Start, is_of_the_runtime
from .argument_checks import check_kind, check_words
from .arrival import CONTENT_CODES, check_arrival, message_of
from .channel import UNKNOWN_TOPIC, Adapter, Inbound
from .defaults import ADAPTER_SLOW_S, ADAPTER_START_S
from .edge_report import EdgeReports, EdgeState
from .refusal import refused_message

if TYPE_CHECKING:
    from .inbox import Inbox
    from .services import Services

_FACT_BYTES = 64 * 1024
_SHOWN_CHARS = 80


class EdgeActor:
    """One adapter's reading side.

    Args:
        adapter: The channel.
        inbox: Where messages go in.
        services: The runtime's parts.

    Attributes:
        is_finished: The adapter has ended by itself, for good.
        has_started: It was ready at least once since the runtime was opened.
        failure: What it failed with last.
        reports: What the adapter says of its connection.
        last_received_us: When it last handed a message over, microseconds since 1970 UTC.
    """

    def __init__(self, adapter: Adapter, inbox: Inbox, services: Services) -> None:
        self.adapter = adapter
        self.is_finished = False
        self.has_started = False
        self.failure: Exception | None = None
        self.reports = EdgeReports()
        self.last_received_us: int | None = None
        self._inbox = inbox
        self._scope = trio.CancelScope()
        self._services = services
        self._log = services.log.bind(channel=adapter.name)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the adapter until it ends by itself or is cancelled.

        Raises:
            Exception: What the adapter raised.
            StartTimeoutError: It did not start in time.
            RuntimeError: It returned without having started.
        """
        self.is_finished = False
        if self._services.deliveries[self.adapter.name].line.is_stopped:
            task_status.started()
            self.is_finished = True
            return
        start = Start(task_status, self._note_started)
        self._services.alarms.after(ADAPTER_SLOW_S, partial(self._warn, start))
        try:
            with trio.CancelScope() as self._scope:
                with start.scope:
                    await self.adapter.run(self, task_status=start)
                start.check()
        except Exception as error:
            if self.has_started and error_code_of(error) is Code.BAD_TOKEN:
                self._services.deliveries[self.adapter.name].stop()
                self.is_finished = True
                self._services.activity.changed()
                return
            # As the supervisor will know it.
            crash = crash_in(error)
            self.failure = None if is_of_the_runtime(crash) else crash
            raise
        finally:
            start.is_over = True
            self.reports.clear()
        self.is_finished = True
        self._services.activity.changed()

    def stop(self) -> None:
        """Read nothing any more: the channel refuses the bot's credentials."""
        self._scope.cancel()

    async def accept(self, inbound: Inbound, *, facts: Mapping[str, str] | None = None) -> Stored | None:
        """See `Edge.accept`."""
        if type(inbound) is not Inbound:
            check_kind(inbound, Inbound, "inbound", "an Inbound")
        services, adapter = self._services, self.adapter
        self.last_received_us = now_us = services.clock.wall_us()
        if self.reports.last is not None and self.reports.clear():
            self._log.info("edge.recovered")
        recipients = services.deliveries[adapter.name].recipients
        if not recipients.concern(inbound):
            return await self._take(inbound, facts, (), now_us)
        inbound, learned = recipients.arriving(inbound, now_us)
        try:
            return await self._take(inbound, facts, learned, now_us)
        except BaseException:
            recipients.owe(learned)
            raise

    async def _take(
        self, inbound: Inbound, facts: Mapping[str, str] | None, kept: tuple[Fact, ...], now_us: int
    ) -> Stored | None:
        services, adapter = self._services, self.adapter
        info = services.store.info
        message: BusMessage | None = None
        try:
            if facts:
                kept = (*_packed(adapter.name, facts), *kept)
            made = message_of(
                inbound,
                channel=adapter.name,
                prefix=adapter.prefix,
                store_uuid=info.uuid,
                store_made_at_us=info.created_at_us,
                now_us=now_us,
            )
            check_arrival(inbound, made)
            message = made
            dedupe_key = f"in:{adapter.name}:{inbound.platform_message_id}"
            accept = self._accept_waiting if adapter.caps.waits else self._inbox.accept
            outcome = await self._offer(partial(accept, message, dedupe_key=dedupe_key, facts=kept))
        except BusError as error:
            if not adapter.caps.linear or (
                error.code not in CONTENT_CODES and error.code is not Code.QUEUE_FULL
            ):
                raise
            await self._keep_refused(inbound, message, error, kept)
            return None
        return outcome if isinstance(outcome, Stored) else None

    def _offer(self, accept: Callable[[], Awaitable[Stored | Duplicate]]) -> Awaitable[Stored | Duplicate]:
        """Where nobody can be told, a message waits for a store without room; else the one who asks is told."""
        pause = self._services.intake.store
        if self.adapter.caps.linear:
            return pause.offer(accept)
        pause.check()
        return accept()

    async def _accept_waiting(
        self, message: BusMessage, *, dedupe_key: str, facts: tuple[Fact, ...]
    ) -> Stored | Duplicate:
        """Where the conversation is full, wait until it has room."""
        services = self._services
        while True:
            try:
                return await self._inbox.accept(message, dedupe_key=dedupe_key, facts=facts)
            except BusError as error:
                if error.code is not Code.QUEUE_FULL:
                    raise
            home = services.shards[shard_of(message.conversation_key, services.store.info.shard_count)]
            await services.intake.wait_room_in(home, message.conversation_key)

    async def _keep_refused(
        self, inbound: Inbound, message: BusMessage | None, error: BusError, facts: tuple[Fact, ...]
    ) -> None:
        """Store a message that nobody can be told is refused; one that breaks a rule (None) as far as it can be."""
        services, name = self._services, self.adapter.name
        kept = message or refused_message(
            inbound, channel=name, prefix=self.adapter.prefix, now_us=services.clock.wall_us()
        )
        if error.code is Code.INVALID_TOPIC:
            # A log of its own for every name that an adapter makes up would grow without bound.
            kept = attrs.evolve(kept, topic=UNKNOWN_TOPIC)
        key = f"in:{name}:{kept.idempotency_key}"
        outcome = await self._offer(
            partial(self._inbox.accept, kept, dedupe_key=key, facts=facts, refusal=error)
        )
        if isinstance(outcome, Stored) and error.code is not Code.QUEUE_FULL:
            self._log.warning(
                "message.refused",
                bus_error_code=str(error.code),
                message_id=f"in-{outcome.id}",
                platform_message_id=_loggable(kept.extensions.platform_message_id),
            )

    def fact(self, key: str) -> str | None:
        """See `Edge.fact`."""
        check_words(key, "key")
        stored = self._services.store.reader.fact(self.adapter.name, key)
        if stored is None:
            return None
        value = unpack_plain(stored, limit_bytes=_FACT_BYTES)
        return value if isinstance(value, str) else None

    def refused(self, reason: str, *, where: str) -> None:
        """See `Edge.refused`."""
        self._services.count("refused")
        self._log.warning("message.unreadable", reason=reason, where=where)

    def report(self, state: EdgeState, text: str = "", *, action: str = "") -> None:
        """See `Edge.report`."""
        if self.reports.tell(state, text, action, trio.current_time()):
            if state == "ok":
                self._log.info("edge.recovered")
            else:
                self._log.warning("edge.degraded", state=state, text=text)

    def _warn(self, start: Start) -> None:
        if start.is_pending:
            self._log.warning("edge.start_delayed", waited_s=ADAPTER_SLOW_S, limit_s=ADAPTER_START_S)

    def _note_started(self) -> None:
        self.has_started = True


def _packed(namespace: str, facts: Mapping[str, str]) -> tuple[Fact, ...]:
    if not _is_map(facts):
        raise BusError(Code.INVALID_MESSAGE, "facts must be a map", field="facts")
    return tuple(
        Fact(namespace, canonical(key, "a fact's key"), pack_plain(value, limit_bytes=_FACT_BYTES, what=key))
        for key, value in facts.items()
    )


def _loggable(platform_message_id: object) -> str:
    """An id that was refused, perhaps for being none: a logger must be able to write it."""
    if not isinstance(platform_message_id, str):
        return shown(platform_message_id)
    return clean_text(platform_message_id[:_SHOWN_CHARS])


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)
