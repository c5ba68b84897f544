"""One HTML page of what a run found: no scripts, nothing loaded, no texts of messages. Needs Arrow, no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from .manifest import BadExport
from .run import read_summary

_MOST_ROWS: Final = 50
"""Findings of one check that the page shows."""
_STYLE: Final = """
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #fff; --dim: #59636e; --line: #d1d9e0; --bad: #b42318; }
@media (prefers-color-scheme: dark) {
  :root { --fg: #e6edf3; --bg: #0d1117; --dim: #9198a1; --line: #3d444d; --bad: #ff7b72; }
}
body { color: var(--fg); background: var(--bg); font: 15px/1.5 system-ui, sans-serif; max-width: 70rem;
  margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.bad { color: var(--bad); font-weight: 600; }
.dim, svg text { color: var(--dim); fill: var(--dim); font-size: 12px; }
svg { width: 100%; height: auto; }
"""
_COLOURS: Final = ("#2f81f7", "#d4803a", "#3fa266", "#a371f7", "#d6568b", "#7d8590")
_WIDTH: Final = 900
_HEIGHT: Final = 220
_LEFT: Final = 60
_BASE: Final = 190
_BAR: Final = 20
_BAR_LEFT: Final = 180
_BAR_RIGHT: Final = 80

Cell = int | float | str | None
Rows = list[dict[str, Cell]]


class _Frame(Protocol):
    def to_pylist(self) -> Rows: ...


def write_report(out: Path, page: Path, *, now_us: int) -> None:
    """Write the page.

    Args:
        out: The folder of a finished run.
        page: The file.
        now_us: Wall clock, microseconds since 1970 UTC.
    Raises:
        BadExport: the folder holds no finished run.
    """
    summary = read_summary(out)
    latency = read_rows(out / "measure/latency")
    found = {one.check: one.findings for one in summary.checks if one.findings}
    parts = [
        f"<h1>shardline audit</h1><p class=dim>{len(summary.stores)} stores, copied {_time(summary.taken_at_us)},"
        f" page made {_time(now_us)}, run {escape(summary.run_id)}</p>",
        "<h2>Checks</h2>",
        _table(
            ("check", "severity", "status", "rows", "findings", "error"),
            [
                (one.check, one.severity, one.status, one.rows_scanned, one.findings, one.error)
                for one in summary.checks
            ],
        ),
    ]
    parts += ["<h2>Findings by check</h2>", bars(found)]
    for kind, title in (("handle", "Time to handle, p95 ms"), ("send", "Time to send, p95 ms")):
        lines: dict[str, list[tuple[int, float]]] = {}
        for row in latency:
            if row["kind"] == kind and row["hour"] is not None:
                point = (cast("int", row["hour"]), cast("int", row["p95"]) / 1000)
                lines.setdefault(str(row["channel"]), []).append(point)
        parts += [f"<h2>{title}, by channel and hour</h2>", plot(lines)]
    parts += ["<h2>Backlog</h2>", plot(_backlog(read_rows(out / "measure/backlog")))]
    for name in ("attempts", "failures", "dead_letters", "pauses"):
        rows = read_rows(out / "measure" / name)
        parts.append(f"<h2>{name.replace('_', ' ').capitalize()}</h2>")
        parts.append(_records(rows) if rows else "<p class=dim>None.</p>")
    for one in summary.checks:
        if one.findings:
            rows = read_rows(out / "finding" / f"check={one.check}")
            parts.append(f"<h2>{escape(one.check)}: {one.findings:,}</h2>")
            parts.append(_records(rows[:_MOST_ROWS], leave_out=("run_id", "severity")))
            if len(rows) > _MOST_ROWS:
                parts.append(f"<p class=dim>and {len(rows) - _MOST_ROWS:,} more</p>")
    body = "\n".join(parts)
    page.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>shardline audit</title><style>{_STYLE}</style><body>{body}</body></html>\n"
    )


def read_rows(folder: Path) -> Rows:
    """The rows of a folder of Parquet files, in the order of all their values.

    Raises:
        BadExport: it is not there.
    """
    if not folder.is_dir():
        raise BadExport(f"{folder} is not there; run the audit again")
    parquet = import_module("pyarrow.parquet")
    rows: Rows = []
    for path in sorted(folder.glob("*.parquet")):
        rows += cast("_Frame", parquet.ParquetFile(path).read()).to_pylist()
    return sorted(rows, key=lambda row: [(value is not None, str(value).rjust(20)) for value in row.values()])


def plot(lines: Mapping[str, Iterable[tuple[int, float]]]) -> str:
    """Lines over time as SVG; x in microseconds."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return "<p class=dim>Nothing to show.</p>"
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    top = max(1e-9, *(y for _, y in points))
    span = max(last - first, 1)
    drawn = [
        f"<line x1={_LEFT} y1={_BASE} x2={_WIDTH} y2={_BASE} stroke='var(--line)'/>",
        f"<text x=0 y=22>{top:,.1f}</text><text x=0 y={_BASE}>0</text>",
        f"<text x={_LEFT} y={_HEIGHT - 12}>{_time(first)}</text>",
        f"<text x={_WIDTH} y={_HEIGHT - 12} text-anchor=end>{_time(last)}</text>",
    ]
    for number, (name, line) in enumerate(sorted(lines.items())):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [
            (
                _LEFT + (_WIDTH - _LEFT - 6) * (x - first) / span,
                _BASE - (_BASE - 18) * max(y, 0) / top,
            )
            for x, y in sorted(line)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        drawn.append(f"<polyline points='{path}' fill=none stroke='{colour}' stroke-width=2 />")
        drawn += [f"<circle cx={x:.1f} cy={y:.1f} r=3 fill='{colour}' />" for x, y in places]
        drawn.append(f"<text x={_LEFT + 130 * number} y=10 style='fill:{colour}'>{escape(name)}</text>")
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img>{''.join(drawn)}</svg>"


def bars(counts: Mapping[str, int]) -> str:
    """One bar a name as SVG, the longest first; counts are above zero."""
    if not counts:
        return "<p class=dim>None.</p>"
    most = max(counts.values())
    drawn: list[str] = []
    for number, (name, count) in enumerate(sorted(counts.items(), key=lambda one: (-one[1], one[0]))):
        y = _BAR * number
        long = max(2, (_WIDTH - _BAR_LEFT - _BAR_RIGHT) * count / most)
        drawn += [
            f"<text x={_BAR_LEFT - 8} y={y + 13} text-anchor=end>{escape(name)}</text>",
            f"<rect x={_BAR_LEFT} y={y + 3} width={long:.1f} height={_BAR - 8} fill='var(--bad)' />",
            f"<text x={_BAR_LEFT + long + 6:.1f} y={y + 13}>{count:,}</text>",
        ]
    return f"<svg viewBox='0 0 {_WIDTH} {_BAR * len(counts)}' role=img>{''.join(drawn)}</svg>"


def _backlog(rows: Rows) -> dict[str, list[tuple[int, float]]]:
    lines: dict[str, list[tuple[int, float]]] = {}
    names = {"in": "messages", "out": "sends"}
    for kind, name in names.items():
        waiting = 0
        for row in sorted(
            (row for row in rows if row["kind"] == kind), key=lambda row: cast("int", row["hour"])
        ):
            waiting += cast("int", row["came"]) - cast("int", row["ended"])
            lines.setdefault(name, []).append((cast("int", row["hour"]), waiting))
    return lines


def _records(rows: Rows, leave_out: Sequence[str] = ()) -> str:
    names = [name for name in rows[0] if name not in leave_out]
    return _table(names, [[_shown(name, row[name]) for name in names] for row in rows])


def _shown(name: str, value: Cell) -> Cell:
    return _time(value) if name in {"at", "hour"} and isinstance(value, int) else value


def _table(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        f"<tr>{''.join(_cell(name, value) for name, value in zip(heads, row, strict=True))}</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(head: str, value: Cell) -> str:
    if isinstance(value, int | float):
        kind = "number bad" if head == "findings" and value else "number"
        return f"<td class='{kind}'>{value:,}</td>"
    kind = " class=bad" if value == "failed" and head == "status" else ""
    return f"<td{kind}>{escape('' if value is None else str(value))}</td>"


def _time(at_us: int) -> str:
    try:
        return datetime.fromtimestamp(at_us / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return str(at_us)
