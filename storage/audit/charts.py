"""Plots of the report as SVG: drawn here, so that the page needs no script and loads nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

import attrs

HOUR_US: Final = 3_600_000_000
NOTHING: Final = "<p class=dim>Nothing to show.</p>"

# Each is readable on white and on black; a ninth line has the first one's, with dashes.
_COLOURS: Final = ("#2f81f7", "#d4803a", "#3fa266", "#a371f7", "#d6568b", "#0e9aa7", "#a08a00", "#7d8590")
_DASHES: Final = ("none", "6 4", "2 3")
_WIDTH: Final = 900
_HEIGHT: Final = 220
_LEFT: Final = 80
_TOP: Final = 18
_BASE: Final = 190
_MOST_TIMES: Final = 5
_MOST_STEPS: Final = 4
_MOST_DOTS: Final = 100
"""Of a line with more points only the line is drawn."""
_BAR: Final = 20
_BAR_RIGHT: Final = 80
_LETTER: Final = 7
"""About as wide as one is."""
_MOST_LETTERS: Final = 50

_UNITS_MS: Final = (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
_LEAST_UNITS: Final = 2
"""So many of a unit are told in it."""

Point = tuple[int, float]


@attrs.frozen
class Bar:
    """One bar: its name, how many, and a colour of CSS."""

    name: str
    count: int
    colour: str = "var(--bar)"


def plot_times(lines: Mapping[str, Sequence[Point]]) -> str:
    """Lines of how long something took, in the unit that people would take for the longest; given in milliseconds."""
    most = max((y for line in lines.values() for _, y in line), default=0)
    unit, ms = next(((name, ms) for name, ms in _UNITS_MS if most >= _LEAST_UNITS * ms), ("ms", 1))
    return plot({name: [(x, y / ms) for x, y in line] for name, line in lines.items()}, unit)


def plot(lines: Mapping[str, Iterable[Point]], unit: str = "") -> str:
    """Lines over time, with what each colour stands for above them.

    Args:
        lines: By name; x in microseconds, on whole hours, y not below zero.
        unit: Of y.
    """
    sorted_lines = [(name, sorted(line)) for name, line in sorted(lines.items())]
    points = [point for _, line in sorted_lines for point in line]
    if not points:
        return NOTHING
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    step, top = _scale(max(y for _, y in points))
    span = max(last - first, 1)

    def across(x: int) -> float:
        return (
            (_LEFT + _WIDTH) / 2 if first == last else _LEFT + 6 + (_WIDTH - _LEFT - 12) * (x - first) / span
        )

    def up(y: float) -> float:
        return _BASE - (_BASE - _TOP) * max(y, 0) / top

    drawn: list[str] = []
    for number in range(round(top / step) + 1):
        y = up(number * step)
        said = f"{number * step:,.12g} {unit}".rstrip() if number else "0"
        drawn += [
            f"<line x1={_LEFT} y1={y:.1f} x2={_WIDTH} y2={y:.1f} stroke='var(--line)'/>",
            f"<text x={_LEFT - 8} y={y + 4:.1f} text-anchor=end>{escape(said)}</text>",
        ]
    drawn += [
        f"<text x={across(x):.1f} y={_HEIGHT - 12} text-anchor={anchor}>{show_time(x)}</text>"
        for x, anchor in _times(first, last)
    ]
    legend: list[str] = []
    for number, (name, line) in enumerate(sorted_lines):
        colour = _COLOURS[number % len(_COLOURS)]
        dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
        places = [(across(x), up(y)) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        # A browser shows the title where the mouse is.
        drawn.append(f"<g><title>{escape(name)}</title>")
        drawn.append(
            f"<polyline points='{path}' fill=none stroke='{colour}' stroke-width=2 stroke-dasharray='{dash}' />"
        )
        if len(places) <= _MOST_DOTS:
            drawn += [f"<circle cx={x:.1f} cy={y:.1f} r=3 fill='{colour}' />" for x, y in places]
        drawn.append("</g>")
        style = "solid" if dash == "none" else "dashed"
        legend.append(f"<span><i style='border-top: 3px {style} {colour}'></i>{escape(name)}</span>")
    return f"<p class=legend>{''.join(legend)}</p>{_frame(_HEIGHT, drawn)}"


def bars(counts: Sequence[Bar]) -> str:
    """One bar a name, in their order; counts are above zero."""
    if not counts:
        return "<p class=dim>None.</p>"
    names = [_cut(bar.name) for bar in counts]
    left = max(180, _LETTER * max(map(len, names)) + 16)
    most = max(bar.count for bar in counts)
    drawn: list[str] = []
    for number, (name, bar) in enumerate(zip(names, counts, strict=True)):
        y = _BAR * number
        long = max(2, (_WIDTH - left - _BAR_RIGHT) * bar.count / most)
        drawn += [
            f"<text x={left - 8} y={y + 13} text-anchor=end>{escape(name)}</text>",
            f"<rect x={left} y={y + 3} width={long:.1f} height={_BAR - 8} fill='{bar.colour}' />",
            f"<text x={left + long + 6:.1f} y={y + 13}>{bar.count:,}</text>",
        ]
    return _frame(_BAR * len(counts), drawn)


def show_time(at_us: int, *, seconds: bool = False) -> str:
    """A time in UTC; one that no calendar has as its number."""
    try:
        at = datetime.fromtimestamp(at_us / 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(at_us)
    return at.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def _frame(height: int, drawn: Sequence[str]) -> str:
    return f"<div class=wide><svg viewBox='0 0 {_WIDTH} {height}' role=img>{''.join(drawn)}</svg></div>"


def _scale(most: float) -> tuple[float, float]:
    """The step between lines that people can read, and the last of them, which is not below `most`."""
    if most <= 0:
        return 1, 1
    rough = most / _MOST_STEPS
    ten = 10 ** math.floor(math.log10(rough))
    step = next(ten * times for times in (1, 2, 5, 10) if ten * times >= rough * 0.999)
    return step, step * max(1, math.ceil(most / step * 0.999))


def _times(first: int, last: int) -> list[tuple[int, str]]:
    """Some whole hours from the first to the last, and which side of the text stands there."""
    hours = (last - first) // HOUR_US
    if hours == 0:
        return [(first, "middle")]
    count = min(_MOST_TIMES, hours + 1)
    times = [first + round(number * hours / (count - 1)) * HOUR_US for number in range(count)]
    return [*zip(times, ["start", *["middle"] * (count - 2), "end"], strict=True)]


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else name[: _MOST_LETTERS - 1] + "…"
