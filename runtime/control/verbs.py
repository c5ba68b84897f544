"""What can be asked of the owner of a store, and its form in a control record: a word and a JSON object."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, cast

import attrs

from ...actors.errors import BusError, Code
from ...actors.message import BusMessage
from ...actors.plain import Plain
from ...actors.record import check_keys, optional_text, required_count, required_text
from ...actors.strict_json import dumps, loads
from ...actors.wire import MAX_WIRE_BYTES, message_from_wire, message_to_wire

Kind = Literal["in", "out"]
Learned = Literal["unreachable", "alias"]
Decision = Literal["sent", "resend", "dead"]

MAX_ROWS: Final = 1_000
"""Rows that one control record names at most."""

MAX_ARGS_BYTES: Final = MAX_WIRE_BYTES + 1_024
"""The arguments of a verb: a whole message, and what is round it."""

# What tells which message it was and whose, without a word of what it says.
_KEPT_OF_MESSAGE: Final = ("id", "direction", "channel", "topic", "conversation_key", "idempotency_key")

_ROW: Final = re.compile(r"(in|out)-(0|[1-9][0-9]{0,17})")
_LEARNED: Final[Mapping[str, Learned]] = {"unreachable": "unreachable", "alias": "alias"}
_DECISIONS: Final[Mapping[str, Decision]] = {"sent": "sent", "resend": "resend", "dead": "dead"}


@attrs.frozen(order=True)
class RowRef:
    """A stored row as people name it: `in-7` is a message, `out-7` a send."""

    kind: Kind
    id: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.id}"

    @classmethod
    def parse(cls, text: str) -> RowRef:
        """Read one.

        Raises:
            BusError: INVALID_MESSAGE.
        """
        match = _ROW.fullmatch(text)
        if match is None:
            raise BusError(
                Code.INVALID_MESSAGE, f"{text[:40]!r} is no row: write in-7 (a message) or out-7 (a send)"
            )
        return cls(cast("Kind", match[1]), int(match[2]))


@attrs.frozen
class Requeue:
    """Send dead rows (and parked messages) through again, each as a new arrival.

    A single row is requeued and reported in one commit. Of several each has a commit of its own, which notes how far
    the record has come.
    """

    rows: tuple[RowRef, ...]


@attrs.frozen
class Purge:
    """Empty all rows that died at this time or before: microseconds since 1970 UTC."""

    older_than_us: int


@attrs.frozen
class Resolve:
    """Decide over an uncertain send: the channel has it, send it again, or give it up."""

    row: RowRef
    decision: Decision


@attrs.frozen
class Cancel:
    """Take back a send that waits."""

    row: RowRef
    reason: str = "cancelled"


@attrs.frozen
class CancelTimer:
    """Take a timer back."""

    timer: str


@attrs.frozen
class Forget:
    """Forget what a channel has learned of a recipient: that it cannot be reached, or where its chat moved to.

    Attributes:
        name: The conversation key of a mark; of an alias the address that the chat had before.
    """

    what: Learned
    channel: str
    name: str


@attrs.frozen
class PublishMessage:
    """Publish a message: an inbound one is handled, an outbound one sent."""

    message: BusMessage


Verb = Requeue | Purge | Resolve | Cancel | CancelTimer | Forget | PublishMessage

_WORDS: Final[Mapping[type[Verb], str]] = {
    Requeue: "requeue",
    Purge: "purge",
    Resolve: "resolve",
    Cancel: "cancel",
    CancelTimer: "cancel_timer",
    Forget: "forget",
    PublishMessage: "publish",
}


def verb_word(verb: Verb) -> str:
    """The word of a verb in its record."""
    return _WORDS[type(verb)]


def verb_args(verb: Verb) -> str:
    """The JSON object of a verb in its record.

    Raises:
        BusError: INVALID_MESSAGE, something in it has no JSON form; TOO_LARGE, more rows than one record names.
    """
    args: dict[str, Plain]
    match verb:
        case Requeue():
            _check_rows(verb.rows)
            args = {"rows": [str(row) for row in verb.rows]}
        case Purge():
            args = {"older_than_us": verb.older_than_us}
        case Resolve():
            args = {"row": str(verb.row), "decision": verb.decision}
        case Cancel():
            args = {"row": str(verb.row), "reason": verb.reason}
        case CancelTimer():
            args = {"timer": verb.timer}
        case Forget():
            args = {"what": verb.what, "channel": verb.channel, "name": verb.name}
        case PublishMessage():
            args = {"message": loads(message_to_wire(verb.message), limit_bytes=MAX_WIRE_BYTES)}
    return dumps(args, sort_keys=True)


def read_verb(word: str, args: str) -> Verb:
    """Read a verb from its record.

    Raises:
        BusError: INVALID_MESSAGE, an unknown word or wrong arguments; TOO_LARGE.
    """
    read = _READERS.get(word)
    if read is None:
        raise BusError(Code.INVALID_MESSAGE, f"{word[:40]!r} is no verb; there are: {', '.join(_READERS)}")
    found = loads(args, limit_bytes=MAX_ARGS_BYTES)
    if not isinstance(found, dict):
        raise BusError(Code.INVALID_MESSAGE, "the arguments of a verb are a JSON object")
    return read(found)


def ended_args(word: str, args: str) -> str:
    """What stays of a verb's arguments in its record once it has ended.

    A published message is a row of its own by then, which a purge can empty: its text must not stay here beside it.

    Args:
        word: As stored.
        args: As stored while it waited.
    Returns:
        The same; of a publish only what names the message, and `sha256` of all that was there.
    """
    if word != _WORDS[PublishMessage]:
        return args
    try:
        found = loads(args, limit_bytes=MAX_ARGS_BYTES)
    except BusError:
        found = None
    message = found.get("message") if isinstance(found, dict) else None
    told = message if isinstance(message, dict) else {}
    kept: dict[str, Plain] = {
        name: value for name in _KEPT_OF_MESSAGE if isinstance(value := told.get(name), str)
    }
    digest = hashlib.sha256(args.encode()).hexdigest()
    return dumps({"message": kept, "sha256": digest}, sort_keys=True)


def _read_requeue(args: dict[str, Plain]) -> Verb:
    check_keys(args, {"rows"}, "requeue")
    named = args.get("rows")
    if not isinstance(named, list) or not all(isinstance(row, str) for row in named):
        raise BusError(Code.INVALID_MESSAGE, "rows is a list of rows such as in-7")
    rows = tuple(RowRef.parse(row) for row in cast("list[str]", named))
    _check_rows(rows)
    return Requeue(rows)


def _read_purge(args: dict[str, Plain]) -> Verb:
    check_keys(args, {"older_than_us"}, "purge")
    older_than_us = required_count(args, "older_than_us")
    if not 0 <= older_than_us < 2**63:
        raise BusError(
            Code.INVALID_MESSAGE, "older_than_us must be microseconds since 1970", field="older_than_us"
        )
    return Purge(older_than_us)


def _read_resolve(args: dict[str, Plain]) -> Verb:
    check_keys(args, {"row", "decision"}, "resolve")
    decision = _DECISIONS.get(required_text(args, "decision"))
    if decision is None:
        raise BusError(Code.INVALID_MESSAGE, "a decision is sent, resend or dead")
    return Resolve(_send(required_text(args, "row")), decision)


def _read_cancel(args: dict[str, Plain]) -> Verb:
    check_keys(args, {"row", "reason"}, "cancel")
    return Cancel(_send(required_text(args, "row")), optional_text(args, "reason") or "cancelled")


def _read_cancel_timer(args: dict[str, Plain]) -> Verb:
    check_keys(args, {"timer"}, "cancel_timer")
    return CancelTimer(required_text(args, "timer"))


def _read_forget(args: dict[str, Plain]) -> Verb:
    check_keys(args, {"what", "channel", "name"}, "forget")
    what = _LEARNED.get(required_text(args, "what"))
    if what is None:
        raise BusError(Code.INVALID_MESSAGE, f"what can be forgotten: {', '.join(_LEARNED)}")
    return Forget(what, required_text(args, "channel"), required_text(args, "name"))


def _read_publish(args: dict[str, Plain]) -> Verb:
    check_keys(args, {"message"}, "publish")
    return PublishMessage(message_from_wire(dumps(args.get("message"))))


_READERS: Final[Mapping[str, Callable[[dict[str, Plain]], Verb]]] = {
    "requeue": _read_requeue,
    "purge": _read_purge,
    "resolve": _read_resolve,
    "cancel": _read_cancel,
    "cancel_timer": _read_cancel_timer,
    "forget": _read_forget,
    "publish": _read_publish,
}


def _send(text: str) -> RowRef:
    row = RowRef.parse(text)
    if row.kind != "out":
        raise BusError(Code.INVALID_MESSAGE, f"{row} is a message; only a send can be decided over")
    return row


def _check_rows(rows: tuple[RowRef, ...]) -> None:
    if not rows:
        raise BusError(Code.INVALID_MESSAGE, "no row is named")
    if len(rows) > MAX_ROWS:
        raise BusError(Code.TOO_LARGE, f"{len(rows)} rows, at most {MAX_ROWS}", limit=MAX_ROWS)
