"""The lines of a sink file: one JSON object a send, in one fixed form, so that a stranger's file is known at sight."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

_PLAIN = rb"[ !#-\[\]-~]*+"
_STRING = rb'"(%s(?:\\(?:["\\/bfnrt]|u[0-9a-f]{4})%s)*+)"' % (_PLAIN, _PLAIN)
_LINE = re.compile(
    rb'\{"conversation": %s, "idempotency_key": %s, "text": %s, "claim": (-?[0-9]{1,19})\}\n'
    % (_STRING, _STRING, _STRING)
)
# As far as a string was written: to its closing quote, or to the end of what there is.
_OPEN_STRING = re.compile(rb'"%s(?:\\["\\/bfnrtu]%s)*+(?:"|\\?\Z)' % (_PLAIN, _PLAIN))
_OPEN_NUMBER = re.compile(rb"-?[0-9]*")
_TURN = re.compile(r"([0-9]+): ")


@attrs.frozen(kw_only=True)
class SinkLine:
    """One send, as written."""

    conversation: str
    idempotency_key: str
    text: str
    claim: int

    @property
    def turn(self) -> int | None:
        """The number that the counting bot put in front of its answer."""
        found = _TURN.match(self.text)
        return None if found is None else int(found[1])


def render_line(line: SinkLine) -> bytes:
    """The bytes of a line, ASCII, with its line feed."""
    text = json.dumps(
        {
            "conversation": line.conversation,
            "idempotency_key": line.idempotency_key,
            "text": line.text,
            "claim": line.claim,
        }
    )
    return text.encode("ascii") + b"\n"


def parse_sink_line(data: bytes) -> SinkLine | None:
    """Read a whole line; None if it is not of our form."""
    found = _LINE.fullmatch(data)
    if found is None:
        return None
    return SinkLine(
        conversation=_unescaped(found[1]),
        idempotency_key=_unescaped(found[2]),
        text=_unescaped(found[3]),
        claim=int(found[4]),
    )


def key_of(data: bytes) -> str | None:
    """The idempotency key of a whole line; None if the line is not of our form."""
    found = _LINE.fullmatch(data)
    return None if found is None else _unescaped(found[2])


def _unescaped(inner: bytes) -> str:
    if b"\\" not in inner:
        return inner.decode("ascii")
    value = json.loads(b'"' + inner + b'"')
    return str(value)


def is_torn(data: bytes) -> bool:
    """Whether the end of a file is the beginning of a line of ours; zeros, as a power cut leaves them, may follow.

    Args:
        data: What stands after the last whole line, perhaps with a line feed; not empty.
    """
    rest = data.removesuffix(b"\n").rstrip(b"\0")
    for literal, inner in (
        (b'{"conversation": ', _OPEN_STRING),
        (b', "idempotency_key": ', _OPEN_STRING),
        (b', "text": ', _OPEN_STRING),
        (b', "claim": ', _OPEN_NUMBER),
        (b"}", None),
    ):
        if not rest.startswith(literal):
            return literal.startswith(rest)
        rest = rest[len(literal) :]
        found = None if inner is None else inner.match(rest)
        if found is not None:
            rest = rest[found.end() :]
    return not rest


def read_sink(path: Path) -> Iterator[SinkLine]:
    """The whole lines of a sink, one by one; anything else in it is passed over."""
    with path.open("rb") as file:
        for data in file:
            line = parse_sink_line(data)
            if line is not None:
                yield line


def order_violations(lines: Iterable[SinkLine]) -> Iterator[int]:
    """Find the lines whose turn is below an earlier one of their conversation; yields their indexes."""
    highest: dict[str, int] = {}
    for index, line in enumerate(lines):
        turn = line.turn
        if turn is None:
            continue
        before = highest.get(line.conversation, turn)
        if turn < before:
            yield index
        highest[line.conversation] = max(before, turn)


__all__ = ["SinkLine", "is_torn", "key_of", "order_violations", "parse_sink_line", "read_sink", "render_line"]
