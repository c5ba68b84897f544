"""What may be handled: topics, their handlers, and the moment when that is fixed."""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import TypeVar

import attrs

from ..actors.errors import BusError, Code
from ..actors.event import Event
from ..actors.given import is_number, shown
from ..actors.message import DIALOGUE_TOPICS, BusMessage
from ..actors.names import check_name, check_topic
from ..actors.plain import Plain
from .argument_checks import check_kind, check_length, check_whole
from .breaker import Breaker
from .context import Context
from .context_checks import checked_headers
from .defaults import CONCURRENCY, HANDLER_TIMEOUT_S, MAX_ALBUM_S
from .recurrence import Recurrence
from .retry import RetryPolicy
from .schedules import Schedule, check_schedule, check_target
from .state import StateShape, Upgrade, declared_shape

_MOST_LISTED: typing.Final = 8
Handler = Callable[[Context, BusMessage], Awaitable[None]]
_MAX_PARTITIONS = 2**31 - 1
H = TypeVar("H", bound=Handler)


@attrs.frozen(kw_only=True)
class HandlerSpec:
    """One declared handler. `channel` None takes what no other handler of the topic names."""

    topic: str
    channel: str | None
    concurrency: int
    timeout_s: float
    retry: RetryPolicy
    breaker: Breaker | None
    album_s: float | None = None
    function: Handler


@attrs.frozen(kw_only=True)
class EventTopic:
    """A declared event topic: an append-only log. `partitions` None means one for each shard."""

    name: str
    partitions: int | None = None
    retention_s: float | None = None
    ttl_s: float | None = None


@attrs.frozen(kw_only=True)
class FrozenTopology:
    """The topology as a runtime sees it; it never changes.

    Attributes:
        handlers: topic -> channel (or None) -> handler.
        events: Event topics by name.
        state: Of its conversations.
        schedules: Declared schedules by name.
    """

    handlers: typing.Mapping[str, typing.Mapping[str | None, HandlerSpec]]
    events: typing.Mapping[str, EventTopic]
    state: StateShape = StateShape()
    schedules: typing.Mapping[str, Schedule] = MappingProxyType({})

    def handler_of(self, topic: str, channel: str | None) -> HandlerSpec | None:
        """The handler that takes a message of this topic and channel."""
        by_channel = self.handlers.get(topic)
        if by_channel is None:
            return None
        return by_channel.get(channel) or by_channel.get(None)

    def check_conversation_topic(self, topic: str) -> None:
        """Refuse a topic that conversations cannot use here.

        Raises:
            BusError: INVALID_TOPIC, unknown or an event topic; NO_SUBSCRIBER, known but without a handler.
        """
        if topic in self.handlers:
            return
        if topic in DIALOGUE_TOPICS:
            raise BusError(
                Code.NO_SUBSCRIBER, f"no handler for topic {topic}; {self.list_handlers()}", topic=topic
            )
        if topic in self.events:
            raise BusError(
                Code.INVALID_TOPIC, f"{topic} is an event topic: publish an Event to it", topic=topic
            )
        raise BusError(
            Code.INVALID_TOPIC,
            f"topic {topic[:128]} is not in the topology; {self.list_handlers()}; "
            "`Topology.topic` declares an event topic",
            topic=topic[:128],
        )

    def list_handlers(self) -> str:
        """What there are handlers for, to be told to whoever meant one of them."""
        names = [
            topic if channel is None else f"{topic} of channel {channel}"
            for topic, by_channel in self.handlers.items()
            for channel in by_channel
        ]
        more = f" and {len(names) - _MOST_LISTED:,} more" if len(names) > _MOST_LISTED else ""
        return f"there are handlers for: {', '.join(names[:_MOST_LISTED]) or 'nothing'}{more}"


class Topology:
    """Collects handlers and event topics until a runtime opens with it.

    >>> topology = Topology()
    >>> @topology.on("chat.message")
    ... async def answer(ctx: Context, message: BusMessage) -> None:
    ...     ctx.reply(message.payload.text)
    """

    def __init__(self) -> None:
        self._handlers: dict[str, dict[str | None, HandlerSpec]] = {}
        self._events: dict[str, EventTopic] = {}
        self._state: StateShape | None = None
        self._schedules: dict[str, Schedule] = {}
        self._frozen: FrozenTopology | None = None

    def topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        retention_s: float | None = None,
        ttl_s: float | None = None,
    ) -> None:
        """Declare an event topic.

        Args:
            name: 1 to 8 segments of `[a-z0-9_-]`, at most 128 characters.
            partitions: > 0; None means one for each shard. Fixed for the life of a store.
            retention_s, ttl_s: Seconds, > 0; None keeps the default.
        Raises:
            BusError: TOPIC_FROZEN; INVALID_TOPIC; TOPIC_ALREADY_HANDLED; INVALID_MESSAGE for a bad number.
        """
        self._check_open(name)
        check_topic(name)
        if name in self._handlers or name in DIALOGUE_TOPICS:
            raise BusError(Code.INVALID_TOPIC, f"{name} is a conversation topic", topic=name)
        if name in self._events:
            raise BusError(Code.TOPIC_ALREADY_HANDLED, f"topic {name} is declared already", topic=name)
        if partitions is not None:
            check_whole(partitions, "partitions", lowest=1, highest=_MAX_PARTITIONS)
        for what, number in (("retention_s", retention_s), ("ttl_s", ttl_s)):
            if number is not None:
                check_length(number, what)
        self._events[name] = EventTopic(
            name=name, partitions=partitions, retention_s=retention_s, ttl_s=ttl_s
        )

    def on(
        self,
        topic: str,
        *,
        channel: str | None = None,
        concurrency: int = CONCURRENCY,
        timeout_s: float = HANDLER_TIMEOUT_S,
        retry: RetryPolicy | None = None,
        breaker: Breaker | None = None,
        album_s: float | None = None,
    ) -> Callable[[H], H]:
        """Declare the handler of a conversation topic.

        Args:
            topic: The topic.
            channel: Only messages of this channel; None takes what no other handler of the topic names.
            concurrency: Turns of the topic at once, > 0; with several handlers the largest counts.
            timeout_s: Seconds a turn may take, > 0.
            retry: What happens when it fails.
            breaker: When all its turns pause because one conversation after another fails; None for never, so that
                no conversation ever waits for another.
            album_s: Take the parts of an album (`media_group_id`) in one turn, as `ctx.messages`: those that follow
                the first one within this many seconds, with nothing between them, at most 10. Each album waits that
                long; at most 60. None: each part is a turn.
        Raises:
            BusError: TOPIC_FROZEN; INVALID_TOPIC; TOPIC_ALREADY_HANDLED; INVALID_MESSAGE for a bad option or function.
        """
        self._check_open(topic)
        check_topic(topic)
        if topic in self._events:
            raise BusError(Code.INVALID_TOPIC, f"{topic} is an event topic; groups read it", topic=topic)
        if channel is not None:
            check_name(channel, "channel")
        if channel in self._handlers.get(topic, {}):
            raise BusError(
                Code.TOPIC_ALREADY_HANDLED,
                f"topic {topic} has a handler already",
                topic=topic,
                channel=channel,
            )
        check_whole(concurrency, "concurrency", lowest=1)
        if timeout_s != math.inf:
            check_length(timeout_s, "timeout_s")
        if retry is not None:
            check_kind(retry, RetryPolicy, "retry", "a RetryPolicy")
        if breaker is not None:
            check_kind(breaker, Breaker, "breaker", "a Breaker")
        if album_s is not None and not (is_number(album_s) and 0 < album_s <= MAX_ALBUM_S):
            raise BusError(
                Code.INVALID_MESSAGE,
                f"album_s must be greater than 0, and {MAX_ALBUM_S:g} at most",
                topic=topic,
                album_s=shown(album_s),
            )

        def declare(function: H) -> H:
            self._check_open(topic)
            _check_function(function, topic)
            self._handlers.setdefault(topic, {})[channel] = HandlerSpec(
                topic=topic,
                channel=channel,
                concurrency=concurrency,
                timeout_s=timeout_s,
                retry=retry if retry is not None else RetryPolicy(),
                breaker=breaker,
                album_s=album_s,
                function=function,
            )
            return function

        return declare

    def state(self, *, version: int, upgrade: Upgrade | None = None) -> None:
        """Declare the version of the conversations' state, and how a state of an older one becomes it.

        Args:
            version: From 1 on, which also holds without a declaration. Never less than what is stored.
            upgrade: (state, the version that wrote it) -> state: a plain function without side effects, which may
                change its argument. It runs when a turn first touches `ctx.state` of an older version; the result is
                stored with that turn. Required from version 2 on.
        Raises:
            BusError: TOPIC_FROZEN; INVALID_MESSAGE for a bad version or hook, or a second declaration.
        """
        self._check_open(None)
        if self._state is not None:
            raise BusError(Code.INVALID_MESSAGE, "the state is declared already", version=self._state.version)
        self._state = declared_shape(version, upgrade)

    def every(
        self,
        name: str,
        rule: Recurrence,
        payload: Plain,
        *,
        topic: str,
        key: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Declare something that arrives again and again, by itself.

        It is set when a runtime opens with it. It keeps its next time over restarts; changed here it begins anew, and
        left out here it goes.

        Args:
            name: 1 to 64 of `[a-z0-9_.-]`: what it is known by, from one version of the bot to the next.
            rule: `Every` or `Cron`.
            payload: The text for a conversation topic; plain values for an event topic.
            topic: Where to.
            key: The conversation, which a conversation topic needs; the event's key.
            headers: Of an event.
        Raises:
            BusError: TOPIC_FROZEN; INVALID_MESSAGE; TOPIC_ALREADY_HANDLED, the name is taken. When a runtime opens:
                INVALID_TOPIC, NO_SUBSCRIBER, TOO_LARGE.
        """
        self._check_open(topic)
        schedule = Schedule(
            name=name, rule=rule, payload=payload, topic=topic, key=key, headers=checked_headers(headers)
        )
        check_schedule(schedule)
        if name in self._schedules:
            raise BusError(Code.TOPIC_ALREADY_HANDLED, f"schedule {name} is declared already", schedule=name)
        self._schedules[name] = schedule

    def freeze(self) -> FrozenTopology:
        """Fix what is declared; later declarations are TOPIC_FROZEN. Freezing twice gives the same.

        Raises:
            BusError: INVALID_TOPIC, NO_SUBSCRIBER, INVALID_MESSAGE, TOO_LARGE: a schedule goes nowhere, or brings what
                cannot be stored; nothing is fixed then.
        """
        if self._frozen is None:
            frozen = FrozenTopology(
                handlers=MappingProxyType(
                    {t: MappingProxyType(dict(by)) for t, by in self._handlers.items()}
                ),
                events=MappingProxyType(dict(self._events)),
                state=self._state or StateShape(),
                schedules=MappingProxyType(dict(self._schedules)),
            )
            for schedule in self._schedules.values():
                check_target(schedule, frozen)
            self._frozen = frozen
        return self._frozen

    def _check_open(self, topic: str | None) -> None:
        if self._frozen is not None:
            raise BusError(
                Code.TOPIC_FROZEN,
                "the topology is fixed since a runtime opened with it; declare before",
                topic=topic,
            )


def _check_function(function: Handler, topic: str) -> None:
    if not inspect.iscoroutinefunction(function):
        raise BusError(
            Code.INVALID_MESSAGE, "a handler must be an async function (ctx, message)", topic=topic
        )
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) != 2 or any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        raise BusError(Code.INVALID_MESSAGE, "a handler takes two arguments: ctx and message", topic=topic)
    try:
        hints = typing.get_type_hints(function)
    except Exception:
        return
    takes = hints.get(positional[1].name, BusMessage)
    if takes is Event:
        raise BusError(Code.INVALID_MESSAGE, "`on` gets a BusMessage; groups get an Event", topic=topic)
