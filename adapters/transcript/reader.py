"""A chat log as lines: plain or gzip, read with bounded memory, a bad line is a value and never an exception.

A line is one JSON object with `conversation` (integer or text), `seq` (integer), `sender`, `at` (HH:MM) and `text`;
other keys are ignored. Whether a file is gzip is told by its first bytes, not by its name.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import tempfile
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import attrs

from ...actors.errors import BusError, Code
from ...actors.keys import conversation_key
from ...actors.names import canonical
from ...actors.plain import Plain
from ...actors.strict_json import loads
from ...actors.system import read_at

PREFIX = "demo"
"""Prefix of the conversation keys."""
MAX_LINE_BYTES = 1 << 20
MAX_TEXT_BYTES = 1_000_000
"""Below the limit of a message, so that an answer that repeats the text still fits."""
MAX_NAME_CHARS = 256
MAX_UNPACKED_BYTES = 4 << 30
"""Where unpacking a gzip log stops: the rest is one bad line."""

_CHUNK_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_AT = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
# Quick and right for a line that is valid: a key cannot come twice, so the first one is the only one.
_FIRST_KEY = re.compile(rb'\{"conversation": ?(?:(-?[1-9][0-9]{0,17}|0)|"([A-Za-z0-9_.@#-]+)") ?,')


@attrs.frozen(kw_only=True)
class ChatLine:
    """One message of a log; `number` counts the file's lines from 1, `seq` the conversation's."""

    number: int
    conversation: str
    seq: int
    sender: str
    at: str
    text: str


@attrs.frozen
class BadLine:
    """A line that is no message, and why; `reason` never holds the line's text."""

    number: int
    reason: str


def parse_line(number: int, data: bytes) -> ChatLine | BadLine:
    """Read one line.

    Args:
        number: Its number, from 1.
        data: Its bytes, with or without the line feed.
    """
    data = data.removesuffix(b"\n")
    if len(data) > MAX_LINE_BYTES:
        return BadLine(number, f"longer than {MAX_LINE_BYTES} bytes")
    try:
        value = loads(data)
        if not isinstance(value, dict):
            return BadLine(number, "not a JSON object")
        return ChatLine(
            number=number,
            conversation=_conversation(value.get("conversation")),
            seq=_seq(value.get("seq")),
            sender=_sender(value.get("sender")),
            at=_at(value.get("at")),
            text=_text(value.get("text")),
        )
    except BusError as error:
        return BadLine(number, error.message)


def _bad(reason: str) -> BusError:
    return BusError(Code.INVALID_MESSAGE, reason)


def _is_int(value: Plain) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _conversation(value: Plain) -> str:
    if isinstance(value, int) and _is_int(value) and -(2**63) <= value < 2**63:
        return str(value)
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARS:
        raise _bad(f"conversation must be an integer or a text of at most {MAX_NAME_CHARS} characters")
    try:
        conversation_key(PREFIX, value)
    except BusError as error:
        raise _bad("conversation must not be empty or hold white space") from error
    return value


def _seq(value: Plain) -> int:
    if not isinstance(value, int) or not _is_int(value) or not 0 <= value < 2**63:
        raise _bad("seq must be an integer, 0 or more")
    return value


def _sender(value: Plain) -> str:
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARS:
        raise _bad(f"sender must be a text of at most {MAX_NAME_CHARS} characters")
    return canonical(value, "sender")


def _at(value: Plain) -> str:
    if not isinstance(value, str) or _AT.fullmatch(value) is None:
        raise _bad("at must be a time of day, HH:MM")
    return value


def _text(value: Plain) -> str:
    if not isinstance(value, str) or not value:
        raise _bad("text must be a text that is not empty")
    if len(value) * 4 > MAX_TEXT_BYTES and len(value.encode()) > MAX_TEXT_BYTES:
        raise _bad(f"text has more than {MAX_TEXT_BYTES} bytes")
    return value


def conversation_of(data: bytes) -> str | None:
    """Which conversation a line belongs to, without a full look at it; None for a line that is certainly bad."""
    found = _FIRST_KEY.match(data)
    if found is not None:
        return (found[1] or found[2]).decode()
    line = parse_line(1, data)
    return line.conversation if isinstance(line, ChatLine) else None


@attrs.define
class ChatLog:
    """An open log with an index of its lines: about 16 bytes of memory a line, whatever the line holds.

    Attributes:
        starts: Byte offset of each line, and at the end the size: shape (lines + 1,).
        lanes: For each conversation in order of appearance the indexes of its lines, ascending; bad lines that the
            index noticed are a lane of their own.
        tail: The gzip data broke off or is too large: one more bad line.
        prefix_digest: Digest of the first `prefix_bytes` asked for at open; None if no line ends there.
        digest: Digest of all of it.
    """

    starts: array[int]
    lanes: list[array[int]]
    tail: BadLine | None
    prefix_digest: str | None
    digest: str
    _file: BinaryIO = attrs.field(alias="file")

    @property
    def lines(self) -> int:
        return len(self.starts) - 1

    @property
    def size_bytes(self) -> int:
        return self.starts[-1]

    def read(self, index: int) -> ChatLine | BadLine:
        """Read one line; any order, any thread, one at a time."""
        start, end = self.starts[index], self.starts[index + 1]
        # A little over the limit is enough to be refused; a long line is never held.
        data = read_at(self._file.fileno(), min(end - start, MAX_LINE_BYTES + 2), start)
        return parse_line(index + 1, data)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> ChatLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _nothing() -> None:
    pass


def open_log(path: Path, *, prefix_bytes: int = 0, check: Callable[[], None] = _nothing) -> ChatLog:
    """Open a log and index it: one pass over the file, two over a gzip one.

    A gzip log is unpacked into a temporary file without a name, because its lines are read in another order than
    they stand; at most `MAX_UNPACKED_BYTES`. What is appended after this call is not seen.

    Args:
        path: A regular file.
        prefix_bytes: Also make the digest of that many leading bytes.
        check: Called at least once a megabyte; an exception of it ends the opening.
    Raises:
        OSError: The file cannot be read.
    """
    file: BinaryIO = path.open("rb", buffering=_CHUNK_BYTES)
    try:
        broken: str | None = None
        if file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC:
            file.seek(0)
            with file:
                spool, broken = _unpacked(file, check)
            file = spool
        file.seek(0)
        return _indexed(file, broken, prefix_bytes, check)
    except BaseException:
        file.close()
        raise


def _unpacked(packed: BinaryIO, check: Callable[[], None]) -> tuple[BinaryIO, str | None]:
    spool = cast("BinaryIO", tempfile.TemporaryFile(buffering=_CHUNK_BYTES))  # noqa: SIM115 (the log closes it)
    broken: str | None = None
    try:
        with gzip.GzipFile(fileobj=packed, mode="rb") as plain:
            while True:
                check()
                try:
                    chunk = plain.read1(_CHUNK_BYTES)
                except (EOFError, zlib.error, gzip.BadGzipFile):
                    broken = "the gzip data is broken or ends early"
                    break
                if not chunk:
                    break
                if spool.tell() + len(chunk) > MAX_UNPACKED_BYTES:
                    broken = f"more than {MAX_UNPACKED_BYTES} bytes unpacked"
                    break
                spool.write(chunk)
        spool.flush()
    except BaseException:
        spool.close()
        raise
    return spool, broken


def _indexed(file: BinaryIO, broken: str | None, prefix_bytes: int, check: Callable[[], None]) -> ChatLog:
    starts: array[int] = array("Q")
    lanes: dict[str | None, array[int]] = {}
    hasher = hashlib.blake2b(digest_size=16)
    prefix_digest: str | None = None
    size = os.fstat(file.fileno()).st_size
    offset = checked = 0
    while offset < size and (data := file.readline(min(size - offset, MAX_LINE_BYTES + 2))):
        start, before = offset, hasher.copy() if broken is not None else hasher
        hasher.update(data)
        offset += len(data)
        conversation = conversation_of(data)
        last = data
        while (
            not last.endswith(b"\n")
            and offset < size
            and (last := file.readline(min(size - offset, _CHUNK_BYTES)))
        ):
            check()
            hasher.update(last)
            offset += len(last)
        whole = last.endswith(b"\n")
        if not whole and broken is not None:
            # What broke off is the bad line that `tail` counts.
            offset, hasher = start, before
            break
        lane = lanes.get(conversation)
        if lane is None:
            lane = lanes[conversation] = array("Q")
        lane.append(len(starts))
        starts.append(start)
        if offset == prefix_bytes:
            prefix_digest = hasher.hexdigest()
        if offset - checked >= _CHUNK_BYTES:
            checked = offset
            check()
    starts.append(offset)
    tail = None if broken is None else BadLine(len(starts), broken)
    return ChatLog(
        starts=starts,
        lanes=list(lanes.values()),
        tail=tail,
        prefix_digest=prefix_digest,
        digest=hasher.hexdigest(),
        file=file,
    )


__all__ = [
    "MAX_LINE_BYTES",
    "MAX_NAME_CHARS",
    "MAX_TEXT_BYTES",
    "MAX_UNPACKED_BYTES",
    "PREFIX",
    "BadLine",
    "ChatLine",
    "ChatLog",
    "conversation_of",
    "open_log",
    "parse_line",
]
