"""What a run did: of each check what it read and found. A table of Parquet, and a file that is written last."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, cast

import attrs

from .arrow import table_of, write_table
from .checks.base import Severity
from .manifest import BadExport
from .schemas import OUTCOME, to_arrow

FILE: Final = "summary.json"
TABLE: Final = "summary"
_BEGINS: Final = b'{\n "run_id": "'

Status = Literal["ran", "failed", "not_run"]


@attrs.frozen(kw_only=True)
class Outcome:
    """What became of one check.

    Attributes:
        status: `ran`; `failed`, it could not be carried out; `not_run`, nobody asked for it.
        rows_scanned: Over the tables it reads; None unless it ran, and so is `findings`.
        error: Why it failed.
    """

    check: str
    severity: Severity
    status: Status
    rows_scanned: int | None = None
    findings: int | None = None
    seconds: float = 0.0
    error: str | None = None


@attrs.frozen(kw_only=True)
class Summary:
    """One run.

    Attributes:
        rows: By table: read, which is what the manifests say.
        measures_failed: Measures that could not be taken, and why.
    """

    run_id: str
    taken_at_us: int
    since_us: int | None
    stores: Sequence[str]
    rows: dict[str, int]
    checks: Sequence[Outcome]
    measures_failed: dict[str, str]

    @property
    def is_complete(self) -> bool:
        """Whether everything that was asked for ran."""
        return not self.measures_failed and all(one.status != "failed" for one in self.checks)

    def found(self, least: Severity = Severity.WARNING) -> int:
        """How many findings there are of this severity or a worse one."""
        return sum(
            one.findings or 0
            for one in self.checks
            if least is Severity.WARNING or one.severity is Severity.ERROR
        )


def write_summary(out: Path, summary: Summary) -> None:
    """Write both; the file last, since it says that the run is finished."""
    (out / TABLE).mkdir()
    rows = [(summary.run_id, *(getattr(one, name) for name in OUTCOME.names[1:])) for one in summary.checks]
    write_table(out / TABLE / "part.parquet", table_of(rows, to_arrow(OUTCOME)))
    (out / FILE).write_text(json.dumps(attrs.asdict(summary), indent=1) + "\n")


def read_summary(out: Path) -> Summary:
    """What a run wrote.

    Raises:
        BadExport: the folder holds no finished run.
    """
    try:
        record = cast("dict[str, object]", json.loads((out / FILE).read_text()))
        checks = cast("list[dict[str, object]]", record.pop("checks"))
        make = cast("Callable[..., Summary]", Summary)
        outcome = cast("Callable[..., Outcome]", Outcome)
        return make(
            **record,
            checks=[outcome(**{**one, "severity": Severity(cast("str", one["severity"]))}) for one in checks],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadExport(f"{out} holds no finished run: {error}") from error


def is_ours(summary: Path) -> bool:
    """Whether a file is a run's own: whole, cut off while it was written, or empty as it is before."""
    if not summary.is_file():
        return False
    with summary.open("rb") as file:
        found = file.read(len(_BEGINS))
    return _BEGINS.startswith(found)
