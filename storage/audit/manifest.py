"""The manifests of a folder of exports: what each export holds. A file that no manifest names is not part of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from glob import glob
from pathlib import Path, PurePosixPath
from typing import Final, cast

import attrs
from attrs import validators

from ...actors.system import sync_file
from .tables import TABLES, Growth

FORMAT: Final = 2
_FOLDER: Final = "manifest"
_OTHER_VERSION: Final = "was made by another version of shardline"
_AGAIN: Final = "export the store again into a new folder, with the version that audits it"
_Make = Callable[..., object]
_IS_COUNT: Final = validators.and_(validators.instance_of(int), validators.ge(0))
_IS_NUMBER: Final = validators.instance_of(int)
_IS_TEXT: Final = validators.instance_of(str)


class BadExport(Exception):
    """A folder is no export, or is damaged."""


class OtherColumns(BadExport):
    """An export was made by a version that exports other columns.

    Args:
        path: The manifest.
        table: Whose columns differ.
        what: Which one, and how.
    """

    def __init__(self, path: Path, table: str, what: str) -> None:
        super().__init__(f"{path} {_OTHER_VERSION}: {table} {what}; {_AGAIN}")
        self.table = table


@attrs.frozen(kw_only=True)
class TablePart:
    """What one export wrote of one table.

    Attributes:
        rows: Over all files.
        min_seq, max_seq: The bounds of `change_seq`, `hseq` or `id`; None where there are no rows.
        files: Below the folder of exports.
        columns: Of the files, by name: their kinds.
    """

    rows: int = attrs.field(validator=_IS_COUNT)
    min_seq: int | None = attrs.field(validator=validators.optional(_IS_NUMBER))
    max_seq: int | None = attrs.field(validator=validators.optional(_IS_NUMBER))
    files: Sequence[str] = attrs.field(validator=validators.deep_iterable(_IS_TEXT))
    columns: Mapping[str, str]


@attrs.frozen(kw_only=True)
class Manifest:
    """One export of one store.

    Attributes:
        number: Counts the exports of the store into this folder, from 1.
        heads: By shard, the number and the hash (hex) of the last history row.
        logs: By `topic/part` of events, the last offset.
        accounts: By channel, whose it is on its platform; None, the version that made it did not say.
    """

    store: str = attrs.field(validator=_IS_TEXT)
    number: int = attrs.field(validator=_IS_COUNT)
    schema: int = attrs.field(validator=_IS_COUNT)
    shard_count: int = attrs.field(validator=_IS_COUNT)
    taken_at_us: int = attrs.field(validator=_IS_NUMBER)
    commit_seq: int = attrs.field(validator=_IS_COUNT)
    change_seq: int = attrs.field(validator=_IS_COUNT)
    heads: Mapping[str, tuple[int, str]]
    logs: Mapping[str, int]
    tables: Mapping[str, TablePart]
    accounts: Mapping[str, str] | None = None


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    """Make an export count: the last thing it does."""
    place = folder / _FOLDER
    place.mkdir(exist_ok=True)
    path = place / _name_of(manifest)
    text = json.dumps({"format": FORMAT, **attrs.asdict(manifest)}, indent=1, sort_keys=True)
    beside = path.with_suffix(".new")
    with beside.open("w") as file:
        file.write(text + "\n")
        file.flush()
        sync_file(file.fileno())
    beside.replace(path)
    return path


def read_manifests(folder: Path) -> list[Manifest]:
    """All exports of a folder, by store and number.

    Raises:
        BadExport: there is none, one is damaged, or one is missing in a row of them.
    """
    found = [_read(path) for path in sorted((folder / _FOLDER).glob("*.json"))]
    if not found:
        raise BadExport(f"{folder} holds no export; make one with `shardline audit export`")
    counted: dict[str, int] = {}
    for manifest in found:
        counted[manifest.store] = counted.get(manifest.store, 0) + 1
        if manifest.number != counted[manifest.store]:
            raise BadExport(
                f"export {counted[manifest.store]} of store {manifest.store} is missing in {folder}"
            )
    return found


def read_exports(places: Sequence[Path]) -> dict[Path, list[Manifest]]:
    """All exports of folders, or of the folders in them.

    Args:
        places: Each holds exports itself, or folders that do, one or two levels below; a `*` in its name stands for
            all that fit.
    Returns:
        The manifests, by the folder that they describe.
    Raises:
        BadExport: as `read_manifests`; or two folders hold exports of one store.
    """
    found: dict[Path, list[Manifest]] = {}
    owners: dict[str, Path] = {}
    for root in dict.fromkeys(root for place in places for root in _roots(place)):
        found[root] = read_manifests(root)
        for store in {manifest.store for manifest in found[root]}:
            other = owners.setdefault(store, root)
            if other != root:
                raise BadExport(f"{other} and {root} both hold exports of store {store}; give one of them")
    return found


def _roots(place: Path) -> list[Path]:
    named = [place] if place.exists() else [Path(name) for name in sorted(glob(str(place)))]
    roots: list[Path] = []
    for one in named:
        depths = (_FOLDER, f"*/{_FOLDER}", f"*/*/{_FOLDER}")
        # What a folder holds itself comes first: nobody keeps exports inside of exports.
        by_depth = [sorted(one.glob(depth)) for depth in depths]
        roots += [manifests.parent for manifests in next(filter(None, by_depth), by_depth[0])]
    return roots or [place]


def newest(manifests: Sequence[Manifest]) -> dict[str, Manifest]:
    """The last export of each store."""
    return {manifest.store: manifest for manifest in manifests}


def parts_of(manifests: Sequence[Manifest], table: str) -> list[TablePart]:
    """What has to be read for a table: all exports, or the newest where each holds the whole."""
    counting = newest(manifests).values() if TABLES[table].growth is Growth.WHOLE else manifests
    return [manifest.tables[table] for manifest in counting]


def _read(path: Path) -> Manifest:
    try:
        manifest = _parse(path)
        _check(path, manifest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        # A validator's error holds more than its text.
        why = error.args[0] if isinstance(error, TypeError) else error
        raise BadExport(f"{path} is damaged: {why}; copy it again, or export into a new folder") from error
    return manifest


def _parse(path: Path) -> Manifest:
    record = cast("dict[str, object]", json.loads(path.read_text()))
    if record.pop("format") != FORMAT:
        raise BadExport(f"{path} {_OTHER_VERSION}; {_AGAIN}")
    tables = cast("dict[str, dict[str, object]]", record.pop("tables"))
    heads = cast("dict[str, list[object]]", record.pop("heads"))
    if tables.keys() != TABLES.keys():
        raise BadExport(f"{path} {_OTHER_VERSION}; {_AGAIN}")
    _check_values("logs", record["logs"], int)
    _check_values("accounts", record.get("accounts", {}), str)
    for name, said in tables.items():
        _check_columns(path, name, said.get("columns"))
    make = cast("_Make", Manifest)
    part = cast("_Make", TablePart)
    return cast(
        "Manifest",
        make(
            **record,
            heads={shard: _head(head) for shard, head in heads.items()},
            tables={name: part(**value) for name, value in tables.items()},
        ),
    )


def _check_values(name: str, said: object, kind: type) -> None:
    values = cast("dict[str, object]", said).values() if isinstance(said, dict) else [None]
    if not all(isinstance(value, kind) for value in values):
        raise TypeError(f"{name!r} holds something else than {kind.__name__}")


def _head(said: list[object]) -> tuple[int, str]:
    number, h = said
    if not isinstance(number, int) or not isinstance(h, str):
        raise TypeError(f"{said!r} is no head of a chain")
    return number, h


def columns_of(table: str) -> dict[str, str]:
    """The columns of a table by name: their kinds."""
    return {column.name: column.kind for column in TABLES[table].columns}


def _check_columns(path: Path, table: str, found: object) -> None:
    """That the files have the columns that are read: Spark takes one that is not there for NULL in all rows."""
    if not isinstance(found, dict):
        raise OtherColumns(path, table, "does not say which columns it has")
    kinds, wanted = cast("dict[str, object]", found), columns_of(table)
    for name in (*wanted, *kinds):
        if name not in kinds:
            raise OtherColumns(path, table, f"has no column {name!r}")
        if name not in wanted:
            raise OtherColumns(path, table, f"has a column {name!r}, which this version does not know")
        if kinds[name] != wanted[name]:
            raise OtherColumns(path, table, f"has {name!r} as {kinds[name]}, not {wanted[name]}")


def _check(path: Path, manifest: Manifest) -> None:
    """That a manifest is the one that its name says, and names files of its own store alone, each once."""
    if path.name != _name_of(manifest):
        raise ValueError(
            f"it is export {manifest.number} of store {manifest.store}, which its name does not say"
        )
    for table, part in manifest.tables.items():
        for name in part.files:
            parts = PurePosixPath(name).parts
            if parts[:2] != (table, f"store={manifest.store}") or ".." in parts:
                raise ValueError(f"{name} is no file of {table} of its store")
        if len(set(part.files)) != len(part.files):
            raise ValueError(f"it names a file of {table} twice")


def _name_of(manifest: Manifest) -> str:
    return f"{manifest.store}-{manifest.number:06}.json"
