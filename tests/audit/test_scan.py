"""What SQLite writes as text and Arrow parses is what stood in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

import apsw
import pytest

pytest.importorskip("pyarrow", reason="the extra `audit` is not installed")

from shardline.storage.audit.scan import Stretch, open_copy, scan, stretches
from shardline.storage.audit.tables import Column, Growth, Table

COLUMNS = (Column("id", "int"), Column("said", "text"), Column("h", "blob"))
ODD = Table(name="odd", growth=Growth.WHOLE, columns=COLUMNS, has_ids=True)
ROWS: list[tuple[int, str | None, bytes | None]] = [
    (-(2**63), "", b""),
    (-1, None, None),
    (1, 'a "quoted", text', b"\0\xff"),
    (2, "two\nlines\r\nand\ra tab\t", b'\n,"'),
    (3, "NULL", b"x" * 300),
    (4, '"', None),
    (5, "a\0b", b"\0"),
    (6, "Grüße 👋 \u2028", b"1"),
    (7, ",", b"2"),
    (8, "back\\slash \\n", b"\\"),
    (9, "null", b"null"),
    (10, "]", b"]"),
    (11, "[0,1]", None),
    (12, "\x7f\x85\x1f", b"4"),
    (2**63 - 1, " padded ", b"3"),
]


class Rows(Protocol):
    def to_pylist(self) -> list[dict[str, object]]: ...


def make(path: Path) -> None:
    database = apsw.Connection(str(path))
    database.execute("CREATE TABLE odd (id INTEGER PRIMARY KEY, said TEXT, h BLOB) STRICT")
    database.executemany("INSERT INTO odd VALUES (?, ?, ?)", ROWS)
    database.close()


def read(
    path: Path, columns: tuple[Column, ...], condition: str = "1", *values: int
) -> list[tuple[object, ...]]:
    with open_copy(path) as database:
        batches = list(scan(database, ODD, columns, Stretch(), condition=condition, values=values))
    rows = [row for batch in batches for row in cast("Rows", batch).to_pylist()]
    return [tuple(row[column.name] for column in columns) for row in rows]


def test_values_arrive_exactly(tmp_path: Path) -> None:
    make(tmp_path / "a.db")

    assert sorted(read(tmp_path / "a.db", COLUMNS), key=repr) == sorted(ROWS, key=repr)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_among_plain_ones_arrives_exactly(
    tmp_path: Path, row: tuple[int, str | None, bytes | None]
) -> None:
    """What SQLite writes of it decides how all of them are read."""
    make(tmp_path / "a.db")
    plain = [(3, "NULL", b"x" * 300), (7, ",", b"2")]
    found = read(tmp_path / "a.db", COLUMNS, "id IN (?, 3, 7)", row[0])

    assert sorted(found, key=repr) == sorted({row, *plain}, key=repr)


@pytest.mark.parametrize("place", range(3))
def test_a_column_alone_keeps_its_nulls(tmp_path: Path, place: int) -> None:
    make(tmp_path / "a.db")
    found = read(tmp_path / "a.db", (COLUMNS[place],))

    assert sorted(found, key=repr) == sorted(((row[place],) for row in ROWS), key=repr)


def test_a_condition_leaves_rows_out(tmp_path: Path) -> None:
    make(tmp_path / "a.db")

    assert read(tmp_path / "a.db", COLUMNS[:1], "id BETWEEN ? AND 4", 3) == [(3,), (4,)]
    assert read(tmp_path / "a.db", COLUMNS, "id = 0") == []


def test_the_parts_of_a_table_are_all_of_it_once(tmp_path: Path) -> None:
    database = apsw.Connection(str(tmp_path / "a.db"))
    database.execute("CREATE TABLE odd (id INTEGER PRIMARY KEY, said TEXT, h BLOB) STRICT")
    database.execute(
        "WITH RECURSIVE n(i) AS (SELECT 5 UNION ALL SELECT i + 3 FROM n WHERE i < 60000)"
        " INSERT INTO odd (id) SELECT i FROM n"
    )
    want = [row[0] for row in database.execute("SELECT id FROM odd").fetchall()]
    database.close()
    with open_copy(tmp_path / "a.db") as copy:
        parts = stretches(copy, ODD, 25_001)
        found = [
            row["id"]
            for part in parts
            for batch in scan(copy, ODD, COLUMNS[:1], part)
            for row in cast("Rows", batch).to_pylist()
        ]

    assert len(parts) == 3
    assert found == want
