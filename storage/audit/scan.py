"""Reads a copy of a store as Arrow: SQLite builds the text of whole columns, Arrow parses it.

A row that crosses into Python value by value costs more than SQLite needs to read it. So one row of the answer is a
text of thousands of rows, made and parsed without Python's lock: several threads scan several places of one copy.

A JSON array of a row is made at once, and read as CSV where it holds no backslash, for then nothing in it is escaped.
Where it does, the same rows are asked for as CSV, whose texts take several steps each.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast
from urllib.parse import quote

import apsw
import attrs
import msgpack

from ..sqlite.database import close_connection, harden
from .arrow import Batch, Field, parse_csv, parse_json
from .tables import CONTENT_HASH, Column, Table

_WINDOW_ROWS: Final = 20_000
"""Numbers of rows that one answer is about; it lies in memory as text."""
_NOT_SAID: Final = frozenset({"correlation_id", "hops", "bulk", "on_uncertain", "reply_to"})
"""What a body holds beside its content."""
_HASH: Final = "content_hash"
_HASHED: Final = f"iif(emptied_at IS NULL AND purged_at IS NULL,{_HASH}(body),NULL)"
"""What was said and is gone is nothing; hashed as it lies there, all of it would be the same."""

Bound = str | int


@attrs.frozen(kw_only=True)
class Stretch:
    """A part of a table: rows with ids from `first` to `last`; None, the table has no ids and is read whole."""

    first: int | None = None
    last: int | None = None

    @property
    def length(self) -> int:
        """How many ids it has room for; 1 where it has none."""
        return 1 if self.first is None or self.last is None else self.last - self.first + 1


def stretches(database: apsw.Connection, table: Table, ids: int) -> list[Stretch]:
    """Cut a table.

    Args:
        database: A copy.
        table: Which one.
        ids: The most ids in one part.
    """
    if not table.has_ids:
        return [Stretch()]
    [(first, last)] = cast(
        "list[tuple[int | None, int | None]]",
        database.execute(f"SELECT min(id), max(id) FROM {table.name}").fetchall(),  # noqa: S608
    )
    if first is None or last is None:
        return []
    return [Stretch(first=at, last=min(at + ids - 1, last)) for at in range(first, last + 1, ids)]


@contextmanager
def open_copy(path: Path) -> Generator[apsw.Connection]:
    """A connection to a file that nobody else has open; it needs no locks and no log."""
    name = f"file:{quote(str(path.absolute()))}?immutable=1"
    connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        harden(connection)
        yield connection
    finally:
        close_connection(connection)


def scan(
    database: apsw.Connection,
    table: Table,
    columns: Sequence[Column],
    stretch: Stretch,
    *,
    condition: str = "1",
    values: Sequence[Bound] = (),
    beside: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Batch]:
    """Read a part of a table, some thousands of rows at a time, in no order.

    Args:
        database: A copy.
        table: Which one.
        columns: Which of its columns.
        stretch: Which part.
        condition: SQL over the table's columns, with a `?` for each of `values`.
        beside: Texts that are read beside the columns: name -> SQL.
    Raises:
        ArrowInvalid: a text is no UTF-8.
    """
    if any(column == CONTENT_HASH for column in columns):
        database.create_scalar_function(_HASH, hash_content, 1, deterministic=True)
    fields = [Field(column.name, column.kind, _text_of(column), _value_of(column)) for column in columns]
    fields += [Field(name, "text", _quoted(sql), sql) for name, sql in beside.items()]
    where = condition if stretch.first is None else f"id BETWEEN ? AND ? AND ({condition})"

    def ask(line: str, window: tuple[int, ...]) -> bytes | None:
        statement = f"SELECT CAST(group_concat({line}, char(10)) AS BLOB) FROM {table.name} WHERE {where}"  # noqa: S608
        [(text,)] = cast(
            "list[tuple[bytes | None]]", database.execute(statement, (*window, *values)).fetchall()
        )
        return text

    json_line = f"json_array(0,{','.join(field.value for field in fields)},0)"
    csv_line = "||','||".join(field.sql for field in fields)
    for window in _windows(stretch):
        text = ask(json_line, window)
        if text is None:
            continue
        if b"\\" not in text:
            yield parse_json(text, fields)
            continue
        text = ask(csv_line, window)
        if text is not None:
            yield parse_csv(text, fields)


def _windows(stretch: Stretch) -> Iterator[tuple[int, ...]]:
    if stretch.first is None or stretch.last is None:
        yield ()
        return
    for first in range(stretch.first, stretch.last + 1, _WINDOW_ROWS):
        yield first, min(first + _WINDOW_ROWS - 1, stretch.last)


def _text_of(column: Column) -> str:
    """SQL that gives a value as a field of CSV; nothing at all is NULL."""
    name = f'"{column.source or column.name}"'
    if column == CONTENT_HASH:
        return f"coalesce({_HASHED},'')"
    match column.kind:
        case "int":
            return f"coalesce({name},'')"
        case "text":
            return _quoted(name)
        case "blob":
            # `hex` makes an empty text of NULL.
            return f"iif({name} IS NULL,'','\"'||hex({name})||'\"')"


def _value_of(column: Column) -> str:
    """SQL that gives a value of JSON."""
    name = f'"{column.source or column.name}"'
    if column == CONTENT_HASH:
        return _HASHED
    return f"iif({name} IS NULL,NULL,hex({name}))" if column.kind == "blob" else name


def _quoted(value: str) -> str:
    return f"coalesce('\"'||replace({value},'\"','\"\"')||'\"','')"


def hash_content(*arguments: apsw.SQLiteValue) -> str | None:
    """SHA-256 of what a send's body says; None where the body is damaged."""
    try:
        record = cast("dict[str, object]", msgpack.unpackb(cast("bytes", arguments[0])))
        said = {name: value for name, value in record.items() if name not in _NOT_SAID}
        return sha256(msgpack.packb(said)).hexdigest()
    except (ValueError, AttributeError, TypeError, msgpack.UnpackException):
        return None
