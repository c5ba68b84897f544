"""One HTML page of what a run found: no scripts, nothing loaded, no texts of messages. Needs Arrow, no Java."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from .charts import Bar, Point, bars, plot, plot_times, show_time
from .checks.base import Severity
from .checks.registry import ALL_CHECKS
from .manifest import BadExport
from .summary import Outcome, Summary, read_summary

_MOST_ROWS: Final = 50
"""Rows of one table that the page shows."""
_MOST_READ: Final = 10_000
"""Findings of one check that are read to show the first of them."""
_MOST_BARS: Final = 20
_MOST_STORES: Final = 20
_STYLE: Final = """
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #fff; --dim: #59636e; --line: #d1d9e0; --bad: #b42318;
  --warn: #9a6700; --good: #1a7f37; --bar: #2f81f7; }
@media (prefers-color-scheme: dark) {
  :root { --fg: #e6edf3; --bg: #0d1117; --dim: #9198a1; --line: #3d444d; --bad: #ff7b72; --warn: #d29922;
    --good: #3fb950; }
}
body { color: var(--fg); background: var(--bg); font: 15px/1.5 system-ui, sans-serif; max-width: 70rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
a { color: inherit; }
h2 { margin: 2rem 0 .5rem; font-size: 1.25rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; }
th { white-space: nowrap; }
.long { overflow-wrap: anywhere; min-width: 15rem; }
.time { white-space: nowrap; }
.id { overflow-wrap: anywhere; min-width: 7rem; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.bad { color: var(--bad); font-weight: 600; }
.warn { color: var(--warn); font-weight: 600; }
.good { color: var(--good); font-weight: 600; }
.dim, svg text { color: var(--dim); fill: var(--dim); font-size: 12px; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: 0; font-size: 13px; }
.legend i { display: inline-block; width: 1.4rem; margin-right: .4rem; vertical-align: middle; }
svg { display: block; width: 100%; min-width: 40rem; height: auto; }
@media print {
  body { max-width: none; margin: 0; font-size: 11px; }
  table { font-size: 10px; }
  tr, svg { break-inside: avoid; }
  h2 { break-after: avoid; }
  svg { min-width: 0; }
}
"""
_IDS: Final = frozenset({"store", "channel", "conversation_key", "ref_id", "code"})
_TIMES: Final = frozenset({"at", "hour"})
_TEXTS: Final = frozenset({"detail", "error"})

Cell = int | float | str | None
Rows = list[dict[str, Cell]]


class _Frame(Protocol):
    def to_pylist(self) -> Rows: ...


class _File(Protocol):
    def iter_batches(self) -> Iterable[_Frame]: ...


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
    body = "\n".join(
        [
            "<h1>shardline audit</h1>",
            *_head(summary, now_us),
            "<h2>Checks</h2>",
            _checks(summary.checks),
            "<h2>Findings by check</h2>",
            bars(_found_bars(summary.checks)),
            *_measures(out, summary),
            *(part for one in summary.checks if one.findings for part in _finding(out, one)),
        ]
    )
    page.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>shardline audit</title><style>{_STYLE}</style><body>{body}</body></html>\n"
    )


def read_rows(folder: Path, most: int | None = None) -> Rows:
    """The rows of a folder of Parquet files, in the order of all their values.

    Args:
        folder: Of files.
        most: About so many are read; None, all.
    Raises:
        BadExport: it is not there, or a file is damaged.
    """
    if not folder.is_dir():
        raise BadExport(f"{folder} is not there; run the audit again")
    rows: Rows = []
    for batch in _batches(folder):
        rows += batch
        if most is not None and len(rows) >= most:
            break
    return sorted(rows, key=lambda row: [(value is not None, str(value).rjust(20)) for value in row.values()])


def _batches(folder: Path) -> Iterator[Rows]:
    parquet = import_module("pyarrow.parquet")
    for path in sorted(folder.glob("*.parquet")):
        try:
            for batch in cast("_File", parquet.ParquetFile(path)).iter_batches():
                yield batch.to_pylist()
        except (OSError, ValueError) as error:
            raise BadExport(f"{path} is damaged: {error}; run the audit again") from error


def verdict(summary: Summary) -> str:
    """What a run found, in one sentence."""
    asked = [one for one in summary.checks if one.status != "not_run"]
    failed = sum(one.status == "failed" for one in asked)
    errors = summary.found(Severity.ERROR)
    warnings = summary.found() - errors
    ran = f"{_many(len(asked) - failed, 'check')} ran"
    found = f"found {_many(errors, 'error')} and {_many(warnings, 'warning')}"
    could_not = f"; {_many(failed, 'check')} could not be run" if failed else ""
    lost = len(summary.measures_failed)
    could_not += f"; {_many(lost, 'measure')} could not be taken" if lost else ""
    return f"{ran}, {found if errors or warnings else 'nothing found'}{could_not}"


def said_detail(detail: Cell) -> str:
    """The detail of a finding for people: `name=value`, with blanks between."""
    text = "" if detail is None else str(detail)
    try:
        record = cast("object", json.loads(text))
    except ValueError:
        return text
    if not isinstance(record, dict):
        return text
    fields = cast("dict[str, object]", record)
    return " ".join(f"{name}={_quoted(str(value))}" for name, value in fields.items())


def _head(summary: Summary, now_us: int) -> list[str]:
    worst = "good"
    if summary.found() or not summary.is_complete:
        worst = "bad" if summary.found(Severity.ERROR) or not summary.is_complete else "warn"
    stores = ", ".join(summary.stores[:_MOST_STORES])
    more = len(summary.stores) - _MOST_STORES
    rows = ", ".join(f"{name} {count:,}" for name, count in summary.rows.items())
    since = "" if summary.since_us is None else f", findings since {show_time(summary.since_us)}"
    return [
        f"<p class={worst}>{escape(verdict(summary))}.</p>",
        f"<p class=dim>{_many(len(summary.stores), 'store')}, copied {show_time(summary.taken_at_us)}{since},"
        f" page made {show_time(now_us)}, times in UTC, run {escape(summary.run_id)}.<br>"
        f"Stores: {escape(stores)}{f', and {more:,} more' if more > 0 else ''}.<br>"
        f"Rows read: {escape(rows)}.</p>",
    ]


def _checks(checks: Iterable[Outcome]) -> str:
    heads = ("check", "severity", "status", "rows", "findings", "error")
    rows: list[str] = []
    for one in checks:
        colour = "bad" if one.severity is Severity.ERROR else "warn"
        status = "<td class=bad>failed</td>" if one.status == "failed" else _cell("status", one.status)
        found = (
            f"<td class='number {colour}'><a href='#{escape(one.check)}'>{one.findings:,}</a></td>"
            if one.findings
            else _cell("findings", one.findings)
        )
        cells = (_cell("check", one.check), _cell("severity", str(one.severity)), status)
        rows.append("".join((*cells, _cell("rows", one.rows_scanned), found, _cell("error", one.error))))
    return _grid(heads, {"rows", "findings"}, rows)


def _found_bars(checks: Iterable[Outcome]) -> list[Bar]:
    found = sorted((-(one.findings or 0), one.check, one.severity) for one in checks if one.findings)
    return [
        Bar(check, -count, "var(--bad)" if severity is Severity.ERROR else "var(--warn)")
        for count, check, severity in found
    ]


def _measures(out: Path, summary: Summary) -> list[str]:
    taken = {
        name: read_rows(out / "measure" / name)
        for name in ("latency", "backlog", "attempts", "failures", "dead_letters", "pauses")
        if name not in summary.measures_failed
    }
    failed = {
        name: f"<p class=bad>Could not be taken: {escape(why)}</p>"
        for name, why in summary.measures_failed.items()
    }
    parts: list[str] = []
    for kind, title in (("handle", "Time to handle"), ("send", "Time to send")):
        parts.append(f"<h2>{title}: 95 of 100 took no longer, by channel and hour</h2>")
        parts.append(failed.get("latency") or plot_times(_latency(taken["latency"], kind)))
    parts.append("<h2>Backlog: how many were waiting, by hour</h2>")
    parts.append(failed.get("backlog") or plot(_backlog(taken["backlog"])))
    for name, title, charted in (
        ("attempts", "Attempts: sends by how many they took", _attempts),
        ("failures", "Failures by channel and code", _failures),
        ("dead_letters", "Dead letters", None),
        ("pauses", "Pauses", None),
    ):
        parts.append(f"<h2>{title}</h2>")
        if name in failed:
            parts.append(failed[name])
        elif not taken[name]:
            parts.append("<p class=dim>None.</p>")
        else:
            rows = taken[name]
            parts += [] if charted is None else [bars(charted(rows))]
            # Of what goes on over time the newest counts.
            newest = sorted(rows, key=lambda row: _number(row.get("hour")), reverse=True)
            parts.append(_records(newest if "hour" in rows[0] else rows))
    return parts


def _finding(out: Path, one: Outcome) -> list[str]:
    rows = read_rows(out / "finding" / f"check={one.check}", _MOST_READ)
    known = ALL_CHECKS.get(one.check)
    return [
        f"<h2 id='{escape(one.check)}'>{escape(one.check)}: {one.findings:,}</h2>",
        f"<p class=dim>{escape(known.doc)}</p>" if known else "",
        _records(rows, of=one.findings, leave_out=("run_id", "severity")),
    ]


def _latency(rows: Rows, kind: str) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = {}
    for row in rows:
        if row["kind"] == kind and row["hour"] is not None:
            point = (_number(row["hour"]), _number(row["p95"]) / 1000)
            lines.setdefault(str(row["channel"]), []).append(point)
    return lines


def _backlog(rows: Rows) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = {}
    names = {"in": "messages", "out": "sends"}
    for kind, name in names.items():
        waiting = 0
        for row in sorted((row for row in rows if row["kind"] == kind), key=lambda row: _number(row["hour"])):
            waiting += _number(row["came"]) - _number(row["ended"])
            lines.setdefault(name, []).append((_number(row["hour"]), waiting))
    return lines


def _attempts(rows: Rows) -> list[Bar]:
    counts: dict[int, int] = {}
    for row in rows:
        counts[_number(row["attempts"])] = counts.get(_number(row["attempts"]), 0) + _number(row["rows"])
    return [Bar(_many(attempts, "attempt"), count) for attempts, count in sorted(counts.items())][:_MOST_BARS]


def _failures(rows: Rows) -> list[Bar]:
    named = sorted((-_number(row["rows"]), f"{row['channel']}: {row['code']}", row["kind"]) for row in rows)
    return [
        Bar(f"{name} ({'messages' if kind == 'in' else 'sends'})", -count)
        for count, name, kind in named[:_MOST_BARS]
    ]


def _records(rows: Rows, *, of: int | None = None, leave_out: Sequence[str] = ()) -> str:
    names = [name for name in rows[0] if name not in leave_out]
    numbers = {name for name in names if isinstance(rows[0][name], int) and name not in _TIMES}
    lines = ["".join(_cell(name, _shown(name, row[name])) for name in names) for row in rows[:_MOST_ROWS]]
    more = (len(rows) if of is None else of) - len(lines)
    rest = f"<p class=dim>and {more:,} more</p>" if more > 0 else ""
    return _grid(names, numbers, lines) + rest


def _shown(name: str, value: Cell) -> Cell:
    if name in _TIMES and isinstance(value, int):
        return show_time(value, seconds=name == "at")
    return said_detail(value) if name == "detail" else value


def _grid(heads: Iterable[str], numbers: set[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th{' class=number' if name in numbers else ''}>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<div class=wide><table><tr>{head}</tr>{body}</table></div>"


def _cell(head: str, value: Cell) -> str:
    if isinstance(value, int | float):
        return f"<td class=number>{value:,}</td>"
    kind = " class=id" if head in _IDS and value else ""
    if head in _TEXTS and value:
        kind = " class=long"
    if head in _TIMES and value:
        kind = " class=time"
    return f"<td{kind}>{escape('' if value is None else str(value))}</td>"


def _quoted(text: str) -> str:
    """A text that is empty, or holds blanks of its own, in quotes."""
    return text if text.split() == [text] else f"'{text}'"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _number(value: Cell) -> int:
    return value if isinstance(value, int) else 0
