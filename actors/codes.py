"""Error codes: one sorted registry of code, permanence, meaning and the operator's action.

Callers branch on `Code` and `Permanence`, never on texts. A new code is one member and one registry line.
"""

from enum import StrEnum, unique

import attrs

__all__ = ["REGISTRY", "Code", "CodeEntry", "Permanence"]


@unique
class Permanence(StrEnum):
    """What a failure says about a second try."""

    PERMANENT = "permanent"
    """The same call fails again; do not retry."""
    TRANSIENT = "transient"
    """Nothing happened; a later try may work."""
    UNCERTAIN = "uncertain"
    """It may have happened; only a look-up, a policy or a person can tell."""


@unique
class Code(StrEnum):
    """Every code that shardline raises or stores; the value equals the name."""

    ACTOR_FAILED = "ACTOR_FAILED"
    ADAPTER_FAILED = "ADAPTER_FAILED"
    BAD_TOKEN = "BAD_TOKEN"  # noqa: S105 (a code, no password)
    BUS_CLOSED = "BUS_CLOSED"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    CONTENT_REFUSED = "CONTENT_REFUSED"
    CRASH_LOOP = "CRASH_LOOP"
    DELIVERY_PERMANENT = "DELIVERY_PERMANENT"
    DELIVERY_UNCERTAIN = "DELIVERY_UNCERTAIN"
    EXPIRED = "EXPIRED"
    FENCED = "FENCED"
    FORKED = "FORKED"
    HANDLER_FAILED = "HANDLER_FAILED"
    HANDLER_TIMEOUT = "HANDLER_TIMEOUT"
    HOP_LIMIT = "HOP_LIMIT"
    IDEMPOTENCY_KEY_REQUIRED = "IDEMPOTENCY_KEY_REQUIRED"
    IDENTITY_MISMATCH = "IDENTITY_MISMATCH"
    INVALID_MESSAGE = "INVALID_MESSAGE"
    INVALID_TOPIC = "INVALID_TOPIC"
    INVALID_TRANSITION = "INVALID_TRANSITION"
    NOT_AUTHORIZED = "NOT_AUTHORIZED"
    NOT_FOUND = "NOT_FOUND"
    NO_ACCESS = "NO_ACCESS"
    NO_SUBSCRIBER = "NO_SUBSCRIBER"
    QUEUE_FULL = "QUEUE_FULL"
    RATE_LIMITED = "RATE_LIMITED"
    RECIPIENT_BLOCKED = "RECIPIENT_BLOCKED"
    RECIPIENT_NOT_FOUND = "RECIPIENT_NOT_FOUND"
    SCHEMA_TOO_NEW = "SCHEMA_TOO_NEW"
    STALE_CLAIM = "STALE_CLAIM"
    STORE_BUSY = "STORE_BUSY"
    STORE_CORRUPT = "STORE_CORRUPT"
    STORE_FULL = "STORE_FULL"
    STORE_IO = "STORE_IO"
    STORE_LOCKED = "STORE_LOCKED"
    STORE_MISMATCH = "STORE_MISMATCH"
    TOO_LARGE = "TOO_LARGE"
    TOPIC_ALREADY_HANDLED = "TOPIC_ALREADY_HANDLED"
    TOPIC_FROZEN = "TOPIC_FROZEN"
    UNKNOWN_ADAPTER = "UNKNOWN_ADAPTER"
    UNKNOWN_CHANNEL = "UNKNOWN_CHANNEL"
    UNSAFE_FILESYSTEM = "UNSAFE_FILESYSTEM"
    WOULD_DEADLOCK = "WOULD_DEADLOCK"
    WRONG_LOOP = "WRONG_LOOP"

    @property
    def permanence(self) -> Permanence:
        """Whether a second try can help."""
        return _BY_CODE[self].permanence

    @property
    def meaning(self) -> str:
        """One sentence: what happened."""
        return _BY_CODE[self].meaning

    @property
    def action(self) -> str:
        """One sentence: what the operator or caller does about it."""
        return _BY_CODE[self].action


@attrs.frozen
class CodeEntry:
    """One line of the registry."""

    code: Code
    permanence: Permanence
    meaning: str
    action: str


_P = Permanence.PERMANENT
_T = Permanence.TRANSIENT
_U = Permanence.UNCERTAIN

REGISTRY: tuple[CodeEntry, ...] = (
    CodeEntry(
        Code.ACTOR_FAILED,
        _T,
        "A part of the runtime itself could not start, after five more tries.",
        "Read the error that the text names, and its traceback; start again once its cause is gone.",
    ),
    CodeEntry(
        Code.ADAPTER_FAILED,
        _T,
        "A channel's adapter could not start, or failed again and again.",
        "Read the error that the text names; start again once its cause is gone.",
    ),
    CodeEntry(
        Code.BAD_TOKEN,
        _T,
        "The channel refuses the bot's credentials.",
        "Put a valid token in place; waiting rows go out by themselves.",
    ),
    CodeEntry(
        Code.BUS_CLOSED,
        _P,
        "The runtime or actor is closing and takes nothing more.",
        "Publish again to the runtime that is opened next.",
    ),
    CodeEntry(
        Code.CIRCUIT_OPEN,
        _T,
        "The circuit breaker of the topic or channel is open after repeated failures.",
        "Wait for the half-open probe; look at the failures that opened it.",
    ),
    CodeEntry(
        Code.CONTENT_REFUSED,
        _P,
        "The channel refuses this content.",
        "Change the content and send it as a new message.",
    ),
    CodeEntry(
        Code.CRASH_LOOP,
        _P,
        "The process died five times while this message alone could be blamed.",
        "Find out why its handler ends the process, then requeue it.",
    ),
    CodeEntry(
        Code.DELIVERY_PERMANENT,
        _P,
        "The channel refused the send for good.",
        "Read the stored errors; requeue only after the cause is gone.",
    ),
    CodeEntry(
        Code.DELIVERY_UNCERTAIN,
        _U,
        "Bytes may have reached the channel, but no complete answer came back.",
        "Look in the chat, then resolve the row as sent, resend or dead.",
    ),
    CodeEntry(
        Code.EXPIRED,
        _P,
        "The time to live ended before the message was handled.",
        "Raise the topic's ttl_s or handle it faster.",
    ),
    CodeEntry(
        Code.FENCED,
        _P,
        "Another owner holds the shard now; this commit came too late.",
        "Nothing; re-read and decide again, the new owner goes on.",
    ),
    CodeEntry(
        Code.FORKED,
        _P,
        "A child process used a store that its parent opened.",
        "Open a store of its own in each process.",
    ),
    CodeEntry(
        Code.HANDLER_FAILED,
        _T,
        "The user's handler raised an exception.",
        "Read the stored error; the retry policy decides what comes next.",
    ),
    CodeEntry(
        Code.HANDLER_TIMEOUT,
        _T,
        "The handler ran longer than its time limit.",
        "Raise timeout_s or make the handler faster.",
    ),
    CodeEntry(
        Code.HOP_LIMIT,
        _P,
        "The message was caused by a chain of more than 64 messages.",
        "Break the loop in which handlers answer each other.",
    ),
    CodeEntry(
        Code.IDEMPOTENCY_KEY_REQUIRED,
        _P,
        "A message came without an idempotency key.",
        "Give each message a key that its repeat shares.",
    ),
    CodeEntry(
        Code.IDENTITY_MISMATCH,
        _P,
        "The same key came again with another payload or recipient.",
        "Use a fresh key for different content.",
    ),
    CodeEntry(
        Code.INVALID_MESSAGE,
        _P,
        "A value breaks a rule of the message format, or of an argument.",
        "Correct the field or argument that the message names.",
    ),
    CodeEntry(
        Code.INVALID_TOPIC,
        _P,
        "The topic's name is malformed, reserved or not in the topology.",
        "Declare the topic, or correct its name.",
    ),
    CodeEntry(
        Code.INVALID_TRANSITION,
        _P,
        "The row's state does not allow this step.",
        "Look at the row's state; another decision came first.",
    ),
    CodeEntry(
        Code.NOT_AUTHORIZED,
        _P,
        "The caller may not do this.",
        "Use credentials that carry the role or space.",
    ),
    CodeEntry(
        Code.NOT_FOUND,
        _P,
        "No row, topic or file of this name exists.",
        "Check the name; the row may have been pruned.",
    ),
    CodeEntry(
        Code.NO_ACCESS,
        _P,
        "The bot lacks the right to write there.",
        "Give the bot the right in the chat, then requeue.",
    ),
    CodeEntry(
        Code.NO_SUBSCRIBER,
        _P,
        "No handler is declared for this conversation topic.",
        "Declare a handler before the runtime is opened.",
    ),
    CodeEntry(
        Code.QUEUE_FULL,
        _T,
        "There was no room within the caller's time limit.",
        "Publish later, or raise the limit; look at the backlog.",
    ),
    CodeEntry(
        Code.RATE_LIMITED,
        _T,
        "The channel or peer asks to slow down.",
        "Nothing; the pause is kept and sending goes on by itself.",
    ),
    CodeEntry(
        Code.RECIPIENT_BLOCKED,
        _P,
        "The recipient blocked the bot or removed it.",
        "Wait until the recipient writes again.",
    ),
    CodeEntry(
        Code.RECIPIENT_NOT_FOUND,
        _P,
        "The channel knows no such recipient.",
        "Correct the conversation key.",
    ),
    CodeEntry(
        Code.SCHEMA_TOO_NEW,
        _P,
        "The file or record was written by a newer version.",
        "Run that version or a later one.",
    ),
    CodeEntry(
        Code.STALE_CLAIM,
        _P,
        "The turn or send is over; its claim was replaced.",
        "Nothing; the newer claim decides.",
    ),
    CodeEntry(
        Code.STORE_BUSY,
        _T,
        "Another connection held the store's write lock too long.",
        "Find the process that keeps a transaction open.",
    ),
    CodeEntry(
        Code.STORE_CORRUPT,
        _P,
        "The store's file is damaged; it was left unchanged.",
        "Restore a backup copy.",
    ),
    CodeEntry(
        Code.STORE_FULL,
        _T,
        "The disk or quota is full.",
        "Free space; intake resumes by itself.",
    ),
    CodeEntry(
        Code.STORE_IO,
        _T,
        "The disk failed to read or write.",
        "Check the disk and the limits of the process (`ulimit -f`), then start again: no answered message is lost.",
    ),
    CodeEntry(
        Code.STORE_LOCKED,
        _T,
        "Another runtime owns this store.",
        "Stop the other one, or give this one its own store.",
    ),
    CodeEntry(
        Code.STORE_MISMATCH,
        _P,
        "The store was made with other settings or for another account, or a conversation's state by newer code.",
        "Use the stored settings, the newer code, or a new store.",
    ),
    CodeEntry(
        Code.TOO_LARGE,
        _P,
        "A value is larger than its limit.",
        "Store the data elsewhere and send a reference.",
    ),
    CodeEntry(
        Code.TOPIC_ALREADY_HANDLED,
        _P,
        "The topic and channel already have a handler.",
        "Remove one of the two declarations.",
    ),
    CodeEntry(
        Code.TOPIC_FROZEN,
        _P,
        "Topics, handlers and their options are fixed once the runtime runs.",
        "Declare before opening the runtime.",
    ),
    CodeEntry(
        Code.UNKNOWN_ADAPTER,
        _P,
        "No adapter of this name is installed, or the one that is cannot be used.",
        "Install the plug-in, correct its name, or do what the error says.",
    ),
    CodeEntry(
        Code.UNKNOWN_CHANNEL,
        _P,
        "No adapter of the runtime serves this channel or prefix.",
        "Add the adapter, or correct the channel.",
    ),
    CodeEntry(
        Code.UNSAFE_FILESYSTEM,
        _P,
        "The store lies on a file system on which its journal is not safe.",
        "Move it to a local disk, or override knowingly.",
    ),
    CodeEntry(
        Code.WOULD_DEADLOCK,
        _P,
        "The call would wait for a conversation that waits for it.",
        "Publish without waiting, or to another conversation.",
    ),
    CodeEntry(
        Code.WRONG_LOOP,
        _P,
        "A call of one event loop was awaited in another.",
        "In asyncio take what shardline.asyncio gives, in trio the runtime itself.",
    ),
)
"""Every code once, ascending by name."""

_BY_CODE: dict[Code, CodeEntry] = {entry.code: entry for entry in REGISTRY}
