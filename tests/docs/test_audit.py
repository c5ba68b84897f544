"""The page of the audit says what the audit is."""

import attrs
import pytest

from tests.kits.pages import ROOT, tables, with_pages

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from shardline.storage.audit.checks.base import Limits
from shardline.storage.audit.checks.registry import ALL_CHECKS, ALL_MEASURES
from shardline.storage.audit.schemas import FINDING, OUTCOME
from shardline.storage.audit.tables import TABLES

pytestmark = [with_pages, pytest.mark.spark]

PAGE = ROOT / "docs/reference/audit.md"


def rows(section: str) -> list[list[str]]:
    [table] = tables(PAGE, section)
    return [[row[0].strip("`"), *row[1:]] for row in table[1:]]


def test_every_check_and_measure_is_in_its_table() -> None:
    assert rows("## Checks") == [
        [one.name, str(one.severity), ", ".join(one.tables), ", ".join(one.keys), one.doc]
        for one in ALL_CHECKS.values()
    ]
    assert rows("## Measures") == [
        [one.name, ", ".join(one.tables), one.doc] for one in ALL_MEASURES.values()
    ]


def test_every_limit_is_in_the_table() -> None:
    limits: dict[str, int] = attrs.asdict(Limits())

    assert [row[:2] for row in rows("## Limits")] == [[name, str(value)] for name, value in limits.items()]


def test_every_table_and_column_is_in_its_table() -> None:
    assert rows("## Exported tables") == [
        [
            one.name,
            ", ".join(("store", *one.partitions)),
            one.growth.value,
            ", ".join(column.name for column in one.columns),
        ]
        for one in TABLES.values()
    ]
    assert [row[0] for row in rows("## Findings")] == FINDING.names
    assert [row[0] for row in rows("## Summary")] == OUTCOME.names
