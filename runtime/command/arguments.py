"""What people type: `field=value`, row ids, times."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

from ...actors.errors import BusError
from ...actors.instants import us_from_rfc3339
from ...storage.records import InboxStatus, OutboxState
from ...storage.sqlite.filters import Filters, Kind
from ...storage.sqlite.listing import Page, RowId
from .problem import Problem

List = Literal["inbox", "outbox", "dlq", "timers"]

FIELDS: Final[Mapping[List, tuple[str, ...]]] = {
    "inbox": (
        "id", "key", "topic", "channel", "status", "code", "own_code", "part", "since", "until",
    ),
    "outbox": ("id", "key", "channel", "state", "code", "own_code", "part", "since", "until"),
    "dlq": (
        "id", "kind", "key", "topic", "channel", "code", "own_code", "since", "until",
    ),
    "timers": ("id", "key", "topic", "since", "until"),
}  # fmt: skip
"""The fields that each list can be filtered by."""

_STATES: Final = (*OutboxState, "held")
_KINDS: Final[Mapping[List, Kind | None]] = {"inbox": "in", "outbox": "out", "dlq": None, "timers": None}
_ROW: Final = re.compile(r"(?:(in|out)-)?([0-9]{1,18})")
_AGE: Final = re.compile(r"([0-9]{1,9})(s|m|h|d|w)")
_SHOWN: Final = 80
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def shown(text: str) -> str:
    """What was typed as an error shows it: quoted, and of a long one the beginning."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}… ({len(text):,} characters)"


def now_us() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def parse_filters(arguments: Sequence[str], listing: List) -> Filters:
    """Read `field=value` arguments.

    Raises:
        Problem: exit code 2, an unknown field, a field twice, or a value that none can have.
    """
    return _filters(_given(arguments, listing), listing)


def parse_timer_filters(arguments: Sequence[str]) -> Mapping[str, str | int]:
    """The same for timers; times are microseconds since 1970 UTC.

    Raises:
        Problem: as `parse_filters`.
    """
    return {
        name: parse_time(value, name) if name in {"since", "until"} else value
        for name, value in _given(arguments, "timers").items()
    }


def _given(arguments: Sequence[str], listing: List) -> dict[str, str]:
    given: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals:
            raise Problem(
                f"{shown(argument)} is no filter: write field=value; fields: {', '.join(FIELDS[listing])}"
            )
        if name not in FIELDS[listing]:
            raise Problem(f"unknown field {shown(name)}; fields: {', '.join(FIELDS[listing])}")
        if name in given:
            raise Problem(f"{name} is given twice")
        given[name] = value
    return given


def _filters(given: Mapping[str, str], listing: List) -> Filters:
    row = None
    if "id" in given:
        row = parse_row(given["id"], _KINDS[listing])
    kind = None if row is None else row.kind
    if "kind" in given:
        named = cast("Kind", _one_of("kind", given["kind"], ("in", "out")))
        if kind not in {None, named}:
            raise Problem(f"id={row} is not of kind {named}")
        kind = named
    status, state, part = given.get("status"), given.get("state"), given.get("part")
    return Filters(
        kind=kind,
        id=None if row is None else row.number,
        key=given.get("key"),
        topic=given.get("topic"),
        channel=given.get("channel"),
        status=None if status is None else InboxStatus(_one_of("status", status, tuple(InboxStatus))),
        state=None if state in {None, "held"} else OutboxState(_one_of("state", state or "", _STATES)),
        is_held=state == "held",
        code=given.get("code"),
        own_code=given.get("own_code"),
        part=None if part is None else _number("part", part),
        since_us=parse_time(given["since"], "since") if "since" in given else None,
        until_us=parse_time(given["until"], "until") if "until" in given else None,
    )


def parse_row(text: str, kind: Kind | None) -> RowId:
    """Read a row's id.

    Args:
        text: `in-7`, `out-7`, or the number alone where the kind is known.
        kind: The only kind that is meant; None, the text must say it.
    Raises:
        Problem: exit code 2.
    """
    match = _ROW.fullmatch(text)
    if match is None or (match[1] is None and kind is None):
        example = f"{kind}-7 or 7" if kind is not None else "in-7 (a message) or out-7 (a send)"
        raise Problem(f"{shown(text)} is no id: write {example}")
    said = cast("Kind | None", match[1]) or kind
    if said is None or kind not in {None, said}:
        raise Problem(f"{text} is a {'message' if said == 'in' else 'send'}: see `shardline {said}box`")
    return RowId(said, int(match[2]))


def parse_page(limit: int, offset: int, after: str | None, kind: Kind | None) -> Page:
    """Read the paging options.

    Raises:
        Problem: exit code 2, `after` is no id.
    """
    return Page(limit=limit, offset=offset, after=None if after is None else parse_row(after, kind))


def parse_time(text: str, what: str) -> int:
    """Read a time: RFC 3339, or how long ago (`90s`, `15m`, `2h`, `7d`, `1w`).

    Returns:
        Microseconds since 1970 UTC.
    Raises:
        Problem: exit code 2.
    """
    age = _AGE.fullmatch(text)
    if age is not None:
        return max(0, now_us() - int(age[1]) * _UNIT_S[age[2]] * 1_000_000)
    try:
        return us_from_rfc3339(text, what)
    except BusError:
        raise Problem(
            f"{what} {shown(text)} is no time: write 2026-02-16T11:12:00Z, or how long ago: 90s, 15m, 2h, 7d, 1w"
        ) from None


def _one_of(name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise Problem(f"unknown {name} {shown(value)}; there are: {', '.join(known)}")
    return value


def _number(name: str, value: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", value) is None:
        raise Problem(f"{name} {shown(value)} is no number")
    return int(value)


__all__ = [
    "FIELDS",
    "List",
    "now_us",
    "parse_filters",
    "parse_page",
    "parse_row",
    "parse_time",
    "parse_timer_filters",
    "shown",
]
