"""What a channel is to the runtime: an adapter that reads and sends, and the values that pass between the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, runtime_checkable

import attrs
import trio

from ..actors.content import Action, Content, ContentKind, Text
from ..actors.errors import Code, Permanence
from ..actors.extensions import EMPTY, Extensions, Kind
from ..actors.message import MAX_RAW_BYTES
from ..actors.value import value
from ..storage.commands import Stored
from .caps_checks import check_caps
from .defaults import MAX_FILE_BYTES
from .edge_report import EdgeState
from .rates import NO_LIMITS, Chat, Rate, RateLimits

UNKNOWN_TOPIC = "channel.unknown"
"""What an adapter cannot express: stored and parked, visible and never lost."""

NO_ADDRESS = "~none"
"""The address of what belongs to no conversation that can be named."""


Degradation = Literal["thread", "reply", "formatting"]
"""What a send can do without."""

UncertainPolicy = Literal["park", "resend", "drop"]
"""What becomes of a send whose result nobody knows."""


@attrs.frozen(kw_only=True)
class ChannelCaps:
    """What a channel can do.

    Attributes:
        max_text: Longest text one send takes, in `unit`s.
        unit: How the channel counts a text.
        deduplicates: The channel itself drops a second send with our idempotency key.
        reconciles: The adapter can look up whether a send happened (`reconcile`).
        linear: Input is read in one line (poll, file, gateway) that cannot refuse a single message.
        concurrency: Sends of this channel under way at once.
        waits: Input of one conversation can stand still while others go on (a file): where the conversation is full
            its next message waits, instead of being refused.
        topics: Topics the adapter produces.
        limits: How many sends the platform takes, per chat, group and bot.
        on_uncertain: What becomes of a send whose result nobody knows, where neither its message says nor a look-up
            finds out. None: `resend` where the channel `deduplicates`, else `park`.
        block_on_uncertain: A send whose result nobody knows holds all that comes behind it in its conversation, until
            that is decided; else it holds the further parts of its own text alone.
        degradations: What the adapter can send without, where the platform refuses it (`Outbound.degraded`).
        contents: What it takes: `text`, `media`, `edit`, `delete`, `action`. Others are refused where they are decided.
        max_file_bytes: The largest file of a `Media`.
    Raises:
        BusError: INVALID_MESSAGE, INVALID_TOPIC; the field is in its context.
    """

    max_text: int = 4096
    unit: Literal["codepoint", "utf16", "byte"] = "codepoint"
    deduplicates: bool = False
    reconciles: bool = False
    linear: bool = True
    waits: bool = False
    concurrency: int = 16
    send_timeout_s: float = 30.0
    topics: tuple[str, ...] = ("chat.message",)
    limits: RateLimits = NO_LIMITS
    on_uncertain: UncertainPolicy | None = None
    block_on_uncertain: bool = False
    degradations: tuple[Degradation, ...] = ()
    contents: tuple[ContentKind, ...] = ("text",)
    max_file_bytes: int = MAX_FILE_BYTES

    def __attrs_post_init__(self) -> None:
        check_caps(self)


@value(kw_only=True)
class Inbound:
    """One message as an adapter read it. The conversation key is `prefix:address`.

    Attributes:
        platform_message_id: The platform's own id, never reused inside the channel; what duplicates are known by.
        sent_at: When the platform says it was sent, RFC 3339; None takes the time of acceptance.
        raw: The update's bytes, at most 256 KiB.
        session_id: UUIDv7; None takes the conversation's own.
        moved_from: The platform says that the chat had this address before: it stays the same conversation.
        moved_to: The platform says that the chat has this address from now on.
    """

    platform_message_id: str
    address: str
    text: str
    sender: str | None = None
    sent_at: str | None = None
    topic: str = "chat.message"
    reply_to: str | None = None
    session_id: str | None = None
    extensions: Extensions = EMPTY
    raw: bytes | None = None
    moved_from: str | None = None
    moved_to: str | None = None

    @staticmethod
    def unknown(
        *,
        platform_message_id: str,
        raw: bytes,
        address: str = NO_ADDRESS,
        sender: str | None = None,
        sent_at: str | None = None,
    ) -> Inbound:
        """What the adapter has no words for: stored under the topic `channel.unknown` and parked, for people to see.

        Args:
            platform_message_id, sender, sent_at: As of a message.
            raw: The update's bytes; of more than 256 KiB the beginning is kept.
            address: The conversation; left out where the update has none.
        """
        return Inbound(
            platform_message_id=platform_message_id,
            address=address,
            text="",
            sender=sender,
            sent_at=sent_at,
            topic=UNKNOWN_TOPIC,
            extensions=Extensions(
                kind=Kind.UNKNOWN, platform_message_id=platform_message_id, from_user_id=sender
            ),
            raw=raw[:MAX_RAW_BYTES] if _is_bytes(raw) else raw,
        )


def _is_bytes(value: object) -> bool:
    # What is none is refused where it is accepted.
    return isinstance(value, bytes)


def _text_of(out: Outbound) -> Content:
    return Text(out.text)


@value(kw_only=True)
class Outbound:
    """One send, as an adapter gets it.

    Attributes:
        address: The conversation's address on the channel, without prefix; where its chat has moved, the current one.
        idempotency_key: Ours, the same at every attempt of this send.
        claim: Grows with every start of this send.
        text: The text; of a `Media` its caption, of an `Edit` the new one; else empty.
        content: What to send, as it was decided.
        target: The platform's id of the message that an `Edit` or `Delete` is about.
        degraded: What to send without, for the platform has refused it; None at the first call of an attempt.
    """

    id: int
    channel: str
    conversation_key: str
    address: str
    text: str
    idempotency_key: str
    part: int
    claim: int
    attempt: int
    reply_to: str | None = None
    degraded: Degradation | None = None
    content: Content = attrs.field(default=attrs.Factory(_text_of, takes_self=True))
    target: str | None = None


@value
class Sent:
    """The channel has it. `deduped`: it had it before and dropped this copy."""

    platform_message_id: str | None
    deduped: bool = False


@value
class NotSent:
    """The channel does not have it, for certain: refused, or no byte left.

    Attributes:
        retry_after_s: What the platform asks to wait for, seconds.
        scope: Whom a RATE_LIMITED concerns; None means the chat.
        max_text: With TOO_LARGE: the longest text that the platform takes after all, in the channel's unit.
        degrade: What to give up to get it out: the core sends once more without it, if the channel's caps name it.
        moved_to: The chat has this address now: the send goes there at once, whatever `code` and `permanence` say.
    """

    code: Code
    permanence: Permanence
    retry_after_s: float | None = None
    scope: Literal["chat", "bot"] | None = None
    text: str = ""
    max_text: int | None = None
    degrade: Degradation | None = None
    moved_to: str | None = None


@value
class Uncertain:
    """Bytes may have left and no complete answer came: nobody knows."""

    reason: str


SendOutcome = Sent | NotSent | Uncertain


class Edge(Protocol):
    """What an adapter's `run` is given."""

    async def accept(self, inbound: Inbound, *, facts: Mapping[str, str] | None = None) -> Stored | None:
        """Take a token, validate, commit; return after the COMMIT.

        Args:
            inbound: The message.
            facts: The adapter's own facts, stored in the same commit (a position, say).
        Waits while the runtime has no room: for a token, while `max_backlog` messages are open, and on a linear edge
        while the store is full or busy.

        Returns:
            The row's place, or None where the message was a duplicate or was refused (counted either way). A linear
            edge's refused message is stored all the same, as a row of status `refused`, together with the facts.
        Raises:
            BusError: only from an edge that is not linear: what breaks a rule, by its code, and QUEUE_FULL, its
                conversation has `max_lane_backlog` messages waiting; BUS_CLOSED; STORE_FULL, STORE_BUSY, STORE_IO.
        """
        ...

    def fact(self, key: str) -> str | None:
        """A durable fact of this adapter, as stored by an earlier `accept`."""
        ...

    def refused(self, reason: str, *, where: str) -> None:
        """Count something unreadable that cannot be stored, and log where it stood."""
        ...

    def report(self, state: EdgeState, text: str = "", *, action: str = "") -> None:
        """Say how the connection is, for the runtime's health.

        A report is gone with the next message that is accepted, when `run` ends, and after two minutes in which it is
        not said again.

        Args:
            state: `ok`, `degraded`, or `failing`.
            text: What is wrong, for people, such as "another consumer uses this token"; no address, no secret.
            action: What to do about it.
        Raises:
            BusError: INVALID_MESSAGE, no such state, or no text.
        """
        ...


@runtime_checkable
class Adapter(Protocol):
    """A channel plug-in. `name` is the channel's name, `prefix` that of its conversation keys.

    `send` reports its outcome as a value; any exception, cancel or time-out of it means Uncertain.
    """

    @property
    def name(self) -> str: ...
    @property
    def prefix(self) -> str: ...
    @property
    def caps(self) -> ChannelCaps: ...

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read the channel until it ends or the runtime cancels; call `task_status.started()` when ready."""
        ...

    async def send(self, out: Outbound) -> SendOutcome:
        """Send one message, once."""
        ...


@runtime_checkable
class HasChats(Protocol):
    """An adapter several of whose conversations may be one chat to the platform, or whose chats are of two kinds."""

    def chat_of(self, address: str) -> Chat:
        """The chat of a conversation, as rate limits and pauses count it. Pure."""
        ...


@runtime_checkable
class Reconciles(Protocol):
    """An adapter whose caps say `reconciles`: it can look a send up."""

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        """Whether this send happened; None where the channel cannot tell any more.

        An error, or a NotSent that is RATE_LIMITED or BAD_TOKEN, is about the question: it is asked again later. A 429
        pauses its chat or bot, BAD_TOKEN stops the channel, and neither is a try.
        """
        ...


@runtime_checkable
class Acts(Protocol):
    """An adapter with ephemeral calls: typing signs, answers to buttons."""

    async def act(self, address: str, action: Action) -> None:
        """Do it, once, or raise: nobody tries again. It is cut off after 5 s."""
        ...


@runtime_checkable
class Splits(Protocol):
    """An adapter that cuts long texts itself, where `max_text` does not say it all (markup, say)."""

    def split(self, text: str) -> list[str]:
        """The parts of a text, in order, each with something to see; pure. A text that fits is one part."""
        ...


__all__ = [
    "NO_ADDRESS",
    "UNKNOWN_TOPIC",
    "Acts",
    "Adapter",
    "ChannelCaps",
    "Chat",
    "Degradation",
    "Edge",
    "HasChats",
    "Inbound",
    "NotSent",
    "Outbound",
    "Rate",
    "RateLimits",
    "Reconciles",
    "SendOutcome",
    "Sent",
    "Splits",
    "Stored",
    "Uncertain",
]
