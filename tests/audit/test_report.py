"""The page stands for itself: nothing is loaded, nothing runs, and both colour schemes are there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import attrs
import pytest

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from shardline.storage.audit.charts import plot, plot_times
from shardline.storage.audit.checks.base import Severity
from shardline.storage.audit.manifest import BadExport
from shardline.storage.audit.report import said_detail, write_report
from shardline.storage.audit.run import in_one_line
from shardline.storage.audit.summary import Outcome, Summary

pytestmark = pytest.mark.spark

HOUR_US = 3_600_000_000
EVIL = "<script>alert(1)</script>"
VOID = {"br", "meta", "line", "circle", "polyline", "rect"}
CHECK = "stuck_pending"
MEASURES: dict[str, list[dict[str, int | float | str | None]]] = {
    "latency": [
        {"kind": kind, "channel": channel, "hour": hour * HOUR_US, "p95": 1000 * hour}
        for kind in ("handle", "send")
        for channel in ("fake", EVIL)
        for hour in range(3)
    ],
    "backlog": [
        {"kind": kind, "hour": hour * HOUR_US, "came": 5, "ended": 4}
        for kind in ("in", "out")
        for hour in range(3)
    ],
    "attempts": [{"channel": EVIL, "attempts": 1, "rows": 12_345}],
    "failures": [],
    "dead_letters": [],
    "pauses": [],
}


class Arrow(Protocol):
    def from_pylist(self, rows: object) -> object: ...


class Parser(HTMLParser):
    """Keeps what was opened, and refuses what is closed wrongly."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.places: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            # A place in the page itself is nothing to load.
            elif name == "href" and value and value.startswith("#"):
                self.places.append(value[1:])
            elif name in {"src", "href", "srcset", "action"} or name[:2] == "on":
                self.links.append(name)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1] != tag and self.open[-1] in {"p"}:
            self.open.pop()
        assert self.open.pop() == tag


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Of a run with findings whose texts are hostile."""
    summary = Summary(
        run_id="run", taken_at_us=HOUR_US, since_us=None, stores=["a"], rows={"outbox": 60},
        checks=[
            Outcome(check=CHECK, severity=Severity.ERROR, status="ran", rows_scanned=60, findings=60),
            Outcome(check="hash_chain", severity=Severity.ERROR, status="failed", error=EVIL),
            Outcome(check="sequence_gaps", severity=Severity.ERROR, status="not_run"),
        ],
        measures_failed={},
    )  # fmt: skip
    json = import_module("json")
    (tmp_path / "summary.json").write_text(json.dumps(attrs.asdict(summary)))
    finding = [
        {
            "run_id": "run",
            "severity": "error",
            "store": "a",
            "channel": EVIL,
            "ref_id": str(number),
            "at": number,
        }
        for number in range(60)
    ]
    for name, rows in {
        **{f"measure/{one}": many for one, many in MEASURES.items()},
        f"finding/check={CHECK}": finding,
    }.items():
        folder = tmp_path / name
        folder.mkdir(parents=True)
        if rows:
            table = cast("Arrow", import_module("pyarrow").Table).from_pylist(rows)
            import_module("pyarrow.parquet").write_table(table, folder / "part.parquet")
    write_report(tmp_path, tmp_path / "report.html", now_us=2 * HOUR_US)
    return tmp_path / "report.html"


def test_the_page_is_whole_and_by_itself(page: Path) -> None:
    text = page.read_text()
    parser = Parser()
    parser.feed(text)
    parser.close()

    assert parser.open == []
    assert parser.links == []
    assert parser.places == parser.ids == [CHECK]
    assert not {"script", "link", "img", "iframe", "object"} & set(parser.seen)
    assert parser.seen.count("svg") == 5
    # Only what was found has a bar, and the one number of attempts.
    assert parser.seen.count("rect") == 2
    assert f"text-anchor=end>{CHECK}</text>" in text
    assert parser.seen.count("polyline") == 6
    assert "prefers-color-scheme: dark" in text
    assert "color-scheme: light dark" in text
    assert f"<h2 id='{CHECK}'>{CHECK}: 60</h2>" in text
    assert "and 10 more" in text
    assert "class=bad>failed" in text
    assert "<td>not_run</td>" in text
    assert "url(" not in text


def test_the_page_begins_with_what_was_found(page: Path) -> None:
    text = page.read_text()

    assert "1 check ran, found 60 errors and 0 warnings; 1 check could not be run." in text
    assert "1 store, copied" in text


def test_a_measure_that_failed_is_told_and_the_rest_is_shown(page: Path) -> None:
    out = page.parent
    json = import_module("json")
    summary = json.loads((out / "summary.json").read_text())
    summary["measures_failed"] = {"latency": EVIL}
    (out / "summary.json").write_text(json.dumps(summary))
    for file in (out / "measure/latency").iterdir():
        file.unlink()
    (out / "measure/latency").rmdir()
    write_report(out, page, now_us=0)
    text = page.read_text()

    assert text.count("<p class=bad>Could not be taken: &lt;script&gt;") == 2
    assert "1 measure could not be taken." in text
    assert f"<h2 id='{CHECK}'>{CHECK}: 60</h2>" in text


def test_a_damaged_file_of_results_is_named(page: Path) -> None:
    [file] = (page.parent / "measure/attempts").iterdir()
    file.write_bytes(file.read_bytes()[:40])

    with pytest.raises(BadExport, match="is damaged"):
        write_report(page.parent, page, now_us=0)


def test_each_of_many_channels_has_its_own_line_and_name() -> None:
    drawn = plot({f"channel-{number}": [(0, 1.0), (HOUR_US, 2.0)] for number in range(20)}, "ms")
    looks = re.findall(r"stroke='([^']*)' stroke-width=2 stroke-dasharray='([^']*)'", drawn)

    assert len(set(looks)) == 20
    assert all(f"</i>channel-{number}</span>" in drawn for number in range(20))
    assert "2 ms" in drawn


def test_one_hour_is_named_once() -> None:
    assert plot({"fake": [(HOUR_US, 0.0)]}).count("1970-01-01 01:00") == 1


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ('{"age_s":7214,"status":"failed"}', "age_s=7214 status=failed"),
        ('{"from":"","why":"not allowed"}', "from='' why='not allowed'"),
        ("no JSON", "no JSON"),
        ("[1]", "[1]"),
        (None, ""),
    ],
)
def test_a_detail_is_shown_for_people(detail: str | None, said: str) -> None:
    assert said_detail(detail) == said


@pytest.mark.parametrize(
    ("most_ms", "said"),
    [
        (0.4, "0.4 ms"),
        (1_999, "2,000 ms"),
        (2_000, "2 s"),
        (3 * 3_600_000, "3 h"),
        (1_000_000_000, "15 days"),
        (10**12, "15,000 days"),
    ],
)
def test_long_times_have_a_unit_that_people_read(most_ms: float, said: str) -> None:
    drawn = plot_times({"fake": [(0, 0.1), (HOUR_US, most_ms)]})
    [*_, last] = re.findall(r"text-anchor=end>([^<]*(?:ms|s|min|h|days))<", drawn)

    assert last == said


def test_a_large_count_is_written_out() -> None:
    assert "2,000,000" in plot({"messages": [(0, 1.0), (HOUR_US, 2_000_000.0)]})


@pytest.mark.long
def test_a_browser_shows_it_light_and_dark(page: Path) -> None:
    names = (os.environ.get("SHARDLINE_TEST_BROWSER", ""), "chromium", "chromium-browser")
    browser = next((found for name in names if name and (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip(
            "there is no chromium on the path: install it, or name one like it in SHARDLINE_TEST_BROWSER, and this"
            " test looks at the page"
        )
    shots: list[bytes] = []
    for scheme in ("0", "1"):
        shot = page.with_name(f"{scheme}.png")
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,2400",
            f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}", page.as_uri(),
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=50)
        shots.append(shot.read_bytes())

    assert all(shot.startswith(b"\x89PNG") for shot in shots)
    assert min(map(len, shots)) > 10_000
    assert shots[0] != shots[1]


JAVA = """An error occurred while calling o853.parquet.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.jobAborted(QueryExecutionErrors.scala:1)
Caused by: java.io.IOException: No space left on device
\t... 21 more
"""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            JAVA,
            "ValueError: An error occurred while calling o853.parquet. java.io.IOException: No space left on device",
        ),
        (
            JAVA[: JAVA.index("Caused")],
            "ValueError: An error occurred while calling o853.parquet. "
            "org.apache.spark.SparkException: Job aborted.",
        ),
        ("no such column\nat line 1", "ValueError: no such column"),
        ("x" * 1_000, f"ValueError: {'x' * 288}"),
    ],
)
def test_an_error_of_a_check_is_its_cause_in_one_line(said: str, line: str) -> None:
    assert in_one_line(ValueError(said)) == line
