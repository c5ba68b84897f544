"""What commands print: JSON for programs, tables for people. No text of a store can act on the terminal.

rich is loaded only where people look on.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import attrs
import click

from ...actors.instants import MAX_AT_US, rfc3339_from_us
from ...actors.plain import Plain
from .safe_text import safe_text

if TYPE_CHECKING:
    from rich.text import Text

_WIDE = 1_000
"""Columns where nobody watches: nothing is cut."""
_MOST = 24
_LEAST = 12
_GAP = 2
"""Columns of a table: the widest but the last, the narrowest last, between two."""


def json_line(value: Mapping[str, object]) -> str:
    """One JSON object in ASCII: what is not, and every control character, is escaped."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, default=str)


def show_json(values: Iterable[Mapping[str, object]]) -> None:
    """Print objects, one a line."""
    lines = [json_line(value) for value in values]
    if lines:
        click.echo("\n".join(lines))


def record_of(line: attrs.AttrsInstance) -> dict[str, object]:
    """The fields of a value as programs get them: times as RFC 3339 in UTC, without their unit in the name."""
    return {
        name.removesuffix("_us"): when(value) if name.endswith("_us") else value
        for name, value in attrs.asdict(line, recurse=False).items()
    }


def when(at_us: int | None) -> str | None:
    """A stored time as RFC 3339; one that no calendar has as its number."""
    if at_us is None:
        return None
    return rfc3339_from_us(at_us) if 0 <= at_us <= MAX_AT_US else str(at_us)


def age(us: int | None, now_us: int) -> str:
    """How long ago, short: `12s`, `3m`, `5h`, `8d`; `-` for never, `in 3m` for a time to come."""
    if us is None:
        return "-"
    seconds = (now_us - us) // 1_000_000
    ahead = "in " if seconds < 0 else ""
    seconds = abs(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{ahead}{seconds // length}{unit}"
    return f"{ahead}{seconds}s"


def moment(at_us: int | None, now_us: int) -> str:
    """A time, and how long ago that is."""
    if at_us is None:
        return "never"
    gone = age(at_us, now_us)
    return f"{when(at_us)} ({gone if gone.startswith('in ') else f'{gone} ago'})"


def reason(code: str | None, own_code: str | None, error: str | None) -> str:
    """Why a row failed, without what its code says already."""
    said = own_code or code or ""
    text = (
        (error or "").removeprefix(f"Permanent: {code} ({own_code}): ").removeprefix(f"Permanent: {code}: ")
    )
    return f"{said}: {text}" if said and text else said or text


def coloured(word: str, colour: str) -> str:
    """A word in a colour, where people want any (no-color.org); a stream that is no terminal is spared it by click."""
    return word if os.environ.get("NO_COLOR") else click.style(word, fg=colour)


def counted(count: int, what: str) -> str:
    """So many of something: `1 send`, `2,000 sends`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def cell(value: object) -> Text:
    """A value as harmless text."""
    from rich.text import Text  # noqa: PLC0415

    return Text(safe_text("" if value is None else str(value)))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table, one line a row; on a terminal what is too long is cut, the last column first.

    Args:
        columns: Heads; one that ends in `#` is of numbers.
    """
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    is_watched = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_watched else _WIDE
    cells = [[cell(value) for value in row] for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    room = width
    for index, head in enumerate(columns):
        is_last = index == len(columns) - 1
        most = max(_LEAST, room) if is_last else _MOST if is_watched else None
        longest = max([len(head), *(row[index].cell_len for row in cells)])
        room -= min(longest, most or longest) + _GAP
        justify: Literal["left", "right"] = "right" if head.endswith("#") else "left"
        table.add_column(
            head.removesuffix("#"), justify=justify, no_wrap=True, overflow="ellipsis", max_width=most
        )
    for row in cells:
        table.add_row(*row)
    buffer = io.StringIO()
    Console(file=buffer, width=width, force_terminal=is_watched, highlight=False).print(table)
    echo_lines(buffer.getvalue())


def show_fields(fields: Iterable[tuple[str, Plain]]) -> None:
    """Print names and values below each other; what is not there or not so is left out, what is so is `yes`."""
    said = [
        (name, "yes" if value is True else safe_text(str(value)))
        for name, value in fields
        if value is not None and value is not False and value != ""
    ]
    if not said:
        return
    indent = max(len(name) for name, _ in said) + 2
    for name, value in said:
        click.echo(f"{name:<{indent}}{value}")


def echo_lines(text: str) -> None:
    """Print lines without the blanks at their ends."""
    for line in text.splitlines():
        click.echo(line.rstrip())


__all__ = [
    "age",
    "cell",
    "coloured",
    "counted",
    "echo_lines",
    "json_line",
    "moment",
    "reason",
    "record_of",
    "show_fields",
    "show_json",
    "show_table",
    "when",
]
