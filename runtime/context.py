"""What a handler may do in its turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, TypeVar, overload

from ..actors.content import Content, Rich, SendRef
from ..actors.errors import BusError, Code
from ..actors.idempotency import turn_key
from ..actors.keys import check_conversation_key
from ..actors.message import BusMessage
from ..actors.names import canonical
from ..actors.plain import Plain
from ..storage.records import InboxRecord, OnUncertain
from .content_checks import checked_content
from .context_checks import check_text, checked_event, checked_policy
from .context_ephemeral import EphemeralVerbs
from .context_schedule import ScheduleVerbs
from .context_surroundings import Surroundings
from .defaults import MAX_EFFECTS, MAX_HOPS
from .effects import Effect, MessageEffect, SendEffect
from .state import read_state, state_write
from .turn_now import TurnNow, check_name

if TYPE_CHECKING:
    import structlog.typing

    from ..storage.commands import StateWrite
    from ..storage.port import StoredState
    from .turn import QueuedRow

T = TypeVar("T")


class Context(ScheduleVerbs, EphemeralVerbs):
    """One turn of a handler: the message, the conversation's state, and what it may decide.

    `reply`, `send`, `publish`, `schedule` and `cancel` buffer; everything is stored in one commit with "this message
    is done", or not at all. `send_now` and `step` are stored at once, whatever becomes of the turn. Once the turn has
    ended every call is STALE_CLAIM.

    Attributes:
        message: The message.
    """

    __slots__ = (
        "_deadline_s",
        "_effects",
        "_ended",
        "_now",
        "_record",
        "_replies",
        "_rest",
        "_sends",
        "_state",
        "_state_fault",
        "_state_write",
        "_stored_state",
        "_surroundings",
        "_timers",
        "message",
    )

    def __init__(
        self,
        message: BusMessage,
        record: InboxRecord,
        *,
        stored_state: StoredState | None,
        deadline_s: float,
        surroundings: Surroundings,
        rest: tuple[QueuedRow, ...] = (),
    ) -> None:
        self.message = message
        self._rest = rest
        self._record = record
        self._stored_state = stored_state
        self._state: dict[str, Plain] | None = None
        self._state_fault: BusError | None = None
        self._state_write: StateWrite | None = None
        self._effects: list[Effect] = []
        self._replies = self._sends = self._timers = 0
        self._ended = False
        self._now: TurnNow | None = None
        self._deadline_s = deadline_s
        self._surroundings = surroundings

    @property
    def messages(self) -> tuple[BusMessage, ...]:
        """The message; with `album_s` of `Topology.on` all parts of its album, in the order they came."""
        return (self.message, *(part.message for part in self._rest))

    @property
    def claim(self) -> int:
        """The number of this run of the message: a fence for systems outside."""
        return self._record.claim

    @property
    def failures(self) -> int:
        """Turns of this message that failed before, in this generation."""
        return self._record.failures

    @property
    def generation(self) -> int:
        """How often the message was requeued."""
        return self._record.generation

    @property
    def deadline_s(self) -> float:
        """When the turn's time is over, in seconds of `trio.current_time()`."""
        return self._deadline_s

    @property
    def log(self) -> structlog.typing.FilteringBoundLogger:
        """A logger bound to the message's ids."""
        return self._surroundings.logger(self)

    @property
    def state(self) -> MutableMapping[str, Plain]:
        """The conversation's own state: plain values, at most 256 KiB packed. Stored if it changed.

        The first touch in a turn brings a state of an older version to the declared one.

        Raises:
            BusError: what `read_state` refuses; the turn then fails with it, also if the handler catches it.
        """
        self.check_active()
        if self._state_fault is not None:
            raise self._state_fault
        if self._state is None:
            try:
                self._state = read_state(
                    self._stored_state, self._surroundings.state_shape, self.message.conversation_key
                )
            except BusError as error:
                self._state_fault = error
                raise
        return self._state

    def reply(self, content: str | Content, *, on_uncertain: OnUncertain | str | None = None) -> SendRef:
        """Answer in the conversation the message came from.

        Args:
            content: A text (at least one visible character, no lone surrogates, at most 1 MiB; cut into parts where
                the channel takes less at once), or `Media`, `Edit`, `Delete`, `Action` of `shardline.content`, where
                the channel's caps say that it takes them.
            on_uncertain: `park`, `resend` or `drop`, where this send's own policy differs from the channel's.
        Returns:
            The name of the send.
        Raises:
            BusError: INVALID_MESSAGE, TOO_LARGE; UNKNOWN_CHANNEL; STALE_CLAIM after the turn.
        """
        key = self.message.conversation_key
        channel = self.message.channel or self._surroundings.channel_of(key)
        name = self._turn_key("reply", self._replies, key)
        effect = self._send_effect(
            channel, key, content, name, on_uncertain, self.message.extensions.platform_message_id
        )
        self._add(effect)
        self._replies += 1
        return effect.ref

    def send(
        self,
        channel: str,
        key: str,
        content: str | Content,
        *,
        idempotency_key: str | None = None,
        on_uncertain: OnUncertain | str | None = None,
        bulk: bool = False,
    ) -> SendRef:
        """Send to any conversation of any open channel.

        Args:
            channel: The channel's name.
            key: The conversation key; its prefix must be the channel's.
            content: As in `reply`.
            idempotency_key: A key of your own: the same key is sent once, however often it is asked for. The same key
                for another conversation or text fails the turn with IDENTITY_MISMATCH.
            on_uncertain: As in `reply`.
            bulk: Part of a broadcast: where the channel's rate limits hold things up, answers to people go first.
        Raises:
            BusError: INVALID_MESSAGE, TOO_LARGE; UNKNOWN_CHANNEL; STALE_CLAIM after the turn.
        """
        self.check_active()
        canonical(channel, "channel")
        check_conversation_key(key)
        if idempotency_key is None:
            name = self._turn_key("send", self._sends, key)
        else:
            name = canonical(idempotency_key, "idempotency_key")
        effect = self._send_effect(channel, key, content, name, on_uncertain, None, is_bulk=bulk)
        self._add(effect)
        self._sends += 1
        return effect.ref

    async def send_now(
        self, name: str, content: str | Content, *, on_uncertain: OnUncertain | str | None = None
    ) -> SendRef:
        """Answer while the turn goes on: the send is stored at once, goes out before the turn's replies, and stays.

        A later run of the turn that comes to the same name sends nothing, also if its text is another by then.

        Args:
            name: Unique among the turn's early sends, at most 128 characters; part of the send's key.
            content, on_uncertain: As in `reply`.
        Returns:
            The name of the send, once it is on disk.
        Raises:
            BusError: INVALID_MESSAGE, also for a name that is taken; TOO_LARGE, the turn has 1,000 effects;
                UNKNOWN_CHANNEL; STALE_CLAIM, the turn's time is over.
        """
        key = self.message.conversation_key
        channel = self.message.channel or self._surroundings.channel_of(key)
        idempotency_key = self._turn_key("now", check_name(name), key)
        effect = self._send_effect(
            channel, key, content, idempotency_key, on_uncertain, self.message.extensions.platform_message_id
        )
        await self._turn_now().send(name, effect)
        return effect.ref

    @overload
    async def step(self, name: str, fn: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def step(self, name: str, fn: Callable[[], T]) -> T: ...
    async def step(self, name: str, fn: Callable[[], T | Awaitable[T]]) -> T:
        """Run something whose result is to be kept: a later run of this message gets it back without running it.

        It runs at least once: a crash between its end and the commit runs it again. What it raises is not kept.
        Steps of one turn may run side by side.

        Args:
            name: Unique among the steps of the message, at most 128 characters.
            fn: Without arguments; plain, or async. A plain one runs on the event loop's thread: what blocks belongs
                into `trio.to_thread.run_sync` inside an async one.
        Returns:
            The result as it is stored, on the first run too: plain values, at most 256 KiB packed.
        Raises:
            BusError: INVALID_MESSAGE, a name that is taken, or a result that cannot be stored, with its path;
                TOO_LARGE, the result, or the turn has 1,000 effects; STALE_CLAIM, the turn's time is over.
        """
        self.check_active()
        return await self._turn_now().step(check_name(name), fn)

    def step_key(self, name: str) -> str:
        """A key for the remote's own idempotency: the same in every run of this message, also after a requeue."""
        self.check_active()
        return turn_key(
            inbound_id=self._record.id,
            # As the results do, it outlives a requeue.
            generation=0,
            verb="step",
            name=check_name(name),
            conversation_key=self.message.conversation_key,
            store_uuid=self._surroundings.store_uuid,
        )

    def publish(
        self,
        topic: str,
        payload: Plain,
        *,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        idem_key: str | None = None,
    ) -> None:
        """Publish to an event topic, or a text to a conversation topic.

        Args:
            topic: An event topic, or a conversation topic with a handler.
            payload: Plain values for an event, as they are now; the text for a conversation topic.
            key: The event's key; the conversation for a conversation topic (default: this one).
            headers: Of an event.
            idem_key: An event with the same one is stored once.
        Raises:
            BusError: INVALID_TOPIC, NO_SUBSCRIBER, INVALID_MESSAGE, TOO_LARGE, STALE_CLAIM after the turn; HOP_LIMIT,
                an event that too many messages caused. A message that too many caused is stored, and dead where it
                arrives.
        """
        self.check_active()
        if self._surroundings.is_event_topic(canonical(topic, "topic")):
            # An event has no row that could be dead; a message over the limit is, where it arrives.
            self._check_hops()
            self._add(checked_event(topic, payload, key, headers, idem_key))
            return
        if not isinstance(payload, str):
            raise BusError(Code.INVALID_MESSAGE, "a conversation topic takes a text", topic=topic)
        target = self.message.conversation_key if key is None else key
        check_conversation_key(target)
        check_text(payload)
        self._add(MessageEffect(topic, target, payload))

    def end(self) -> None:
        """The turn is over: every later call is STALE_CLAIM."""
        self._ended = True

    @property
    def is_ended(self) -> bool:
        """Whether the turn is over."""
        return self._ended

    @property
    def record(self) -> InboxRecord:
        """Where the message stands in this turn."""
        return self._record

    @property
    def effects(self) -> list[Effect]:
        """What was decided so far, in order."""
        return self._effects

    def seal(self) -> None:
        """The handler has returned: fix what it made of the state. What a task it left behind does later is too late.

        Raises:
            BusError: INVALID_MESSAGE for a value that cannot be stored, with its path; TOO_LARGE; what touching the
                state raised.
        """
        if self._state_fault is not None:
            raise self._state_fault
        if self._state is not None:
            self._state_write = state_write(
                self.message.conversation_key, self._state, self._stored_state, self._surroundings.state_shape
            )

    @property
    def state_write(self) -> StateWrite | None:
        """What `seal` found changed."""
        return self._state_write

    def _turn_key(self, verb: str, name: str | int, key: str) -> str:
        record = self._record
        return turn_key(
            inbound_id=record.id,
            generation=record.generation,
            verb=verb,
            name=str(name),
            conversation_key=key,
            store_uuid=self._surroundings.store_uuid,
        )

    def _send_effect(
        self,
        channel: str,
        key: str,
        content: str | Content,
        name: str,
        on_uncertain: OnUncertain | str | None,
        reply_to: str | None,
        *,
        is_bulk: bool = False,
    ) -> SendEffect:
        self.check_active()
        caps = self._surroundings.check_channel(channel, key)
        rich: Rich | None = None
        if isinstance(content, str):
            check_text(content, name)
            text = content
        else:
            text, rich = checked_content(content, name, channel, caps)
        policy = None if on_uncertain is None else checked_policy(on_uncertain)
        return SendEffect(SendRef(channel, name), key, text, reply_to, policy, is_bulk, rich)

    def _turn_now(self) -> TurnNow:
        if self._now is None:
            self._now = TurnNow(self, self._surroundings)
        return self._now

    def _add(self, effect: Effect) -> None:
        if len(self._effects) + (self._now.count if self._now else 0) >= MAX_EFFECTS:
            raise BusError(Code.TOO_LARGE, f"a turn has at most {MAX_EFFECTS} effects", limit=MAX_EFFECTS)
        self._effects.append(effect)

    def _count_timer(self) -> int:
        index, self._timers = self._timers, self._timers + 1
        return index

    def _check_hops(self) -> None:
        if self.message.hops + 1 > MAX_HOPS:
            raise BusError(
                Code.HOP_LIMIT, f"more than {MAX_HOPS} messages caused one another", hops=self.message.hops
            )

    def check_active(self) -> None:
        """Refuse what comes after the turn's end.

        Raises:
            BusError: STALE_CLAIM.
        """
        if self._ended:
            raise BusError(
                Code.STALE_CLAIM,
                "this turn has ended; what it decides now has no effect",
                claim=self._record.claim,
            )
