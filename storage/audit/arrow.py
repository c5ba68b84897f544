"""The little of Arrow that the audit needs, typed: pyarrow brings no types of its own."""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

import attrs

from .tables import Column, Kind


@attrs.frozen
class Field:
    """One field of a text of rows: its name, its kind, and the SQL that makes it. Blobs are in hex.

    Attributes:
        sql: Makes a field of CSV.
        value: Makes a value of JSON.
    """

    name: str
    kind: Kind
    sql: str
    value: str


class ArrowSchema(Protocol):
    """Names and types of columns."""

    @property
    def names(self) -> list[str]:
        """Of the columns, in order."""
        ...


class _Buffer(Protocol):
    def to_pybytes(self) -> bytes: ...


class _Array(Protocol):
    @property
    def null_count(self) -> int: ...
    def buffers(self) -> list[_Buffer | None]: ...
    def combine_chunks(self) -> _Array: ...
    def unique(self) -> _Array: ...
    def to_pylist(self) -> list[str | None]: ...
    def __len__(self) -> int: ...


class RecordBatch(Protocol):
    """What Spark takes."""

    @property
    def num_rows(self) -> int:
        """How many."""
        ...


class Batch(Protocol):
    """Rows as columns: a table of Arrow."""

    @property
    def num_rows(self) -> int:
        """How many."""
        ...

    @property
    def column_names(self) -> list[str]:
        """In order."""
        ...

    def column(self, i: int | str) -> _Array:
        """One column."""
        ...

    def set_column(self, i: int, field_: str, column: object) -> Batch:
        """The same with another column."""
        ...

    def append_column(self, field_: str, column: object) -> Batch:
        """The same with one more column."""
        ...

    def drop_columns(self, columns: str) -> Batch:
        """The same without a column."""
        ...

    def filter(self, mask: object) -> Batch:
        """The rows that a mask names."""
        ...

    def select(self, columns: Sequence[str]) -> Batch:
        """The same with some columns, in this order."""
        ...

    def to_batches(self) -> list[RecordBatch]:
        """As record batches."""
        ...


class _Writer(Protocol):
    def write_table(self, table: Batch) -> None: ...
    def close(self) -> None: ...


class _FileMetadata(Protocol):
    @property
    def num_rows(self) -> int: ...


class _Scalar(Protocol):
    def as_py(self) -> int | None: ...


class _Compute(Protocol):
    def equal(self, left: object, right: object) -> object: ...
    def min(self, array: object) -> _Scalar: ...
    def max(self, array: object) -> _Scalar: ...


class _Csv(Protocol):
    def ReadOptions(self, **options: object) -> object: ...  # noqa: N802 (Arrow's own names)
    def ParseOptions(self, **options: object) -> object: ...  # noqa: N802
    def ConvertOptions(self, **options: object) -> object: ...  # noqa: N802
    def read_csv(self, source: object, **options: object) -> Batch: ...


class _ArrayType(Protocol):
    def from_buffers(self, type: object, length: int, buffers: Sequence[object]) -> _Array: ...


class _TableType(Protocol):
    def from_pylist(self, mapping: Sequence[Mapping[str, object]], schema: ArrowSchema) -> Batch: ...


class _Arrow(Protocol):
    def int64(self) -> object: ...
    def string(self) -> object: ...
    def binary(self) -> object: ...
    def py_buffer(self, data: bytes) -> object: ...
    def repeat(self, value: str, size: int) -> object: ...
    def schema(self, fields: Sequence[tuple[str, object]]) -> ArrowSchema: ...


_pyarrow: Final = import_module("pyarrow")
_arrow: Final = cast("_Arrow", _pyarrow)
_array: Final = cast("_ArrayType", _pyarrow.Array)
_table: Final = cast("_TableType", _pyarrow.Table)
_parquet: Final = import_module("pyarrow.parquet")
_csv: Final = cast("_Csv", import_module("pyarrow.csv"))
_compute: Final = cast("_Compute", import_module("pyarrow.compute"))
_numpy: Final = import_module("numpy")


def arrow_schema(columns: Sequence[Column]) -> ArrowSchema:
    """The schema of a file that holds these columns."""
    return _arrow.schema([(column.name, arrow_type(column.kind)) for column in columns])


def parse_csv(text: bytes, fields: Sequence[Field]) -> Batch:
    """Rows of text as columns; nothing at all is NULL, two quotes are an empty text.

    Raises:
        ArrowInvalid: the text has other fields, or is no UTF-8.
    """
    return _parse(text, fields, [field.name for field in fields], null="", is_broken=True)


def parse_json(text: bytes, fields: Sequence[Field]) -> Batch:
    """Rows of text as columns: a JSON array a line, without a backslash, with a value before the fields and one behind.

    Raises:
        ArrowInvalid: as `parse_csv`.
    """
    # The brackets are part of the two that are left out.
    names = ["[", *(field.name for field in fields), "]"]
    return _parse(text, fields, names, null="null", is_broken=False)


def _parse(
    text: bytes, fields: Sequence[Field], names: Sequence[str], *, null: str, is_broken: bool
) -> Batch:
    types: Mapping[str, object] = {
        field.name: _arrow.string() if field.kind == "blob" else arrow_type(field.kind) for field in fields
    }
    batch = _csv.read_csv(
        cast("object", _pyarrow.BufferReader(text)),
        read_options=_csv.ReadOptions(column_names=names, block_size=len(text) + 1, use_threads=False),
        parse_options=_csv.ParseOptions(newlines_in_values=is_broken, ignore_empty_lines=False),
        convert_options=_csv.ConvertOptions(
            column_types=types,
            include_columns=[field.name for field in fields],
            null_values=[null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    for place, field in enumerate(fields):
        if field.kind == "blob":
            batch = batch.set_column(place, field.name, _from_hex(batch.column(place).combine_chunks()))
    return batch


def table_of(rows: Sequence[tuple[object, ...]], schema: ArrowSchema) -> Batch:
    """Rows as a table of Arrow."""
    records = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return _table.from_pylist(records, schema=schema)


def with_text(batch: Batch, name: str, text: str) -> Batch:
    """The same with one more column, which holds one text in all rows."""
    return batch.append_column(name, _arrow.repeat(text, batch.num_rows))


def split(batch: Batch, key: str) -> list[tuple[str, Batch]]:
    """Rows by the value of a column that has no NULL, which is left out."""
    values = cast("list[str]", batch.column(key).unique().to_pylist())
    rest = batch.drop_columns(key)
    if len(values) == 1:
        return [(values[0], rest)]
    return [(value, rest.filter(_compute.equal(batch.column(key), value))) for value in values]


def bounds(batch: Batch, column: str) -> tuple[int | None, int | None]:
    """The least and the largest value of a column of integers."""
    values = batch.column(column)
    return _compute.min(values).as_py(), _compute.max(values).as_py()


class ParquetFile:
    """Writes one Parquet file."""

    def __init__(self, path: Path, columns: Sequence[Column]) -> None:
        self._writer = cast(
            "_Writer",
            _parquet.ParquetWriter(
                path,
                arrow_schema(columns),
                compression="zstd",
                compression_level=1,
                # Else a byte that changes on a disk or on the way is another value, and nobody knows.
                write_page_checksum=True,
            ),
        )

    def write(self, rows: Batch) -> None:
        """Add rows."""
        self._writer.write_table(rows)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def write_table(path: Path, table: Batch) -> None:
    """A table as a file of its own."""
    cast("Callable[..., None]", _parquet.write_table)(table, path, write_page_checksum=True)


def count_rows(folder: Path) -> int:
    """How many rows the Parquet files of a folder hold, by what they say of themselves."""
    read = cast("Callable[[Path], _FileMetadata]", _parquet.read_metadata)
    return sum(read(path).num_rows for path in folder.glob("*.parquet"))


def _from_hex(texts: _Array) -> _Array:
    """Bytes of a column of hex texts: the same places at half the length."""
    valid, offsets, data = texts.buffers()
    if offsets is None or data is None:
        return texts
    halves = cast(
        "bytes", (_numpy.frombuffer(offsets, dtype="<i4", count=len(texts) + 1) // 2).astype("<i4").tobytes()
    )
    blob = unhexlify(data.to_pybytes().rstrip(b"\0"))
    buffers = [valid, _arrow.py_buffer(halves), _arrow.py_buffer(blob)]
    return _array.from_buffers(_arrow.binary(), len(texts), buffers)


def arrow_type(kind: Kind) -> object:
    """Arrow's type of a kind."""
    match kind:
        case "int":
            return _arrow.int64()
        case "text":
            return _arrow.string()
        case "blob":
            return _arrow.binary()
