"""The little of Arrow that the export needs, typed: pyarrow brings no types of its own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from .tables import Column, Kind

Value = int | str | bytes | None


class ArrowSchema(Protocol):
    """Names and types of columns."""

    @property
    def names(self) -> list[str]:
        """Of the columns, in order."""
        ...


class _Writer(Protocol):
    def write_table(self, table: object) -> None: ...
    def close(self) -> None: ...


class _Types(Protocol):
    def int64(self) -> object: ...
    def string(self) -> object: ...
    def binary(self) -> object: ...
    def array(self, values: Sequence[Value], type: object) -> object: ...
    def schema(self, fields: Sequence[tuple[str, object]]) -> ArrowSchema: ...


class _TableType(Protocol):
    def from_arrays(self, arrays: Sequence[object], *, schema: ArrowSchema) -> object: ...


_pyarrow: Final = import_module("pyarrow")
_parquet: Final = import_module("pyarrow.parquet")
_types: Final = cast("_Types", _pyarrow)


def arrow_schema(columns: Sequence[Column]) -> ArrowSchema:
    """The schema of a file that holds these columns."""
    return _types.schema([(column.name, _arrow_type(column.kind)) for column in columns])


class ParquetFile:
    """Writes one Parquet file, as lists of columns."""

    def __init__(self, path: Path, columns: Sequence[Column]) -> None:
        self._kinds = [_arrow_type(column.kind) for column in columns]
        self._schema = arrow_schema(columns)
        self._table = cast("_TableType", _pyarrow.Table)
        self._writer = cast("_Writer", _parquet.ParquetWriter(path, self._schema, compression="zstd"))
        self.rows: int = 0

    def write(self, rows: Sequence[Sequence[Value]]) -> None:
        """Add rows; a value that is not of its column's kind raises."""
        columns = zip(*rows, strict=True)
        arrays = [_types.array(list(values), kind) for values, kind in zip(columns, self._kinds, strict=True)]
        self._writer.write_table(self._table.from_arrays(arrays, schema=self._schema))
        self.rows += len(rows)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def _arrow_type(kind: Kind) -> object:
    match kind:
        case "int":
            return _types.int64()
        case "text":
            return _types.string()
        case "blob":
            return _types.binary()
