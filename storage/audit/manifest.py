"""The manifests of a folder of exports: what each export holds. A file that no manifest names is not part of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import attrs

from ...actors.system import sync_file
from .tables import TABLES, Growth

FORMAT: Final = 1
_FOLDER: Final = "manifest"
_Make = Callable[..., object]


class BadExport(Exception):
    """A folder is no export, or is damaged."""


@attrs.frozen(kw_only=True)
class TablePart:
    """What one export wrote of one table.

    Attributes:
        rows: Over all files.
        min_seq, max_seq: The bounds of `change_seq`, `hseq` or `id`; None where there are no rows.
        files: Below the folder of exports.
    """

    rows: int
    min_seq: int | None
    max_seq: int | None
    files: Sequence[str]


@attrs.frozen(kw_only=True)
class Manifest:
    """One export of one store.

    Attributes:
        number: Counts the exports of the store into this folder, from 1.
        heads: By shard, the number and the hash (hex) of the last history row.
    """

    store: str
    number: int
    schema: int
    shard_count: int
    taken_at_us: int
    commit_seq: int
    change_seq: int
    next_event_id: int
    heads: Mapping[str, tuple[int, str]]
    tables: Mapping[str, TablePart]


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    """Make an export count: the last thing it does."""
    place = folder / _FOLDER
    place.mkdir(exist_ok=True)
    path = place / f"{manifest.store}-{manifest.number:06}.json"
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


def newest(manifests: Sequence[Manifest]) -> dict[str, Manifest]:
    """The last export of each store."""
    return {manifest.store: manifest for manifest in manifests}


def parts_of(manifests: Sequence[Manifest], table: str) -> list[TablePart]:
    """What has to be read for a table: all exports, or the newest where each holds the whole."""
    counting = newest(manifests).values() if TABLES[table].growth is Growth.WHOLE else manifests
    return [manifest.tables[table] for manifest in counting]


def _read(path: Path) -> Manifest:
    try:
        record = cast("dict[str, object]", json.loads(path.read_text()))
        if record.pop("format") != FORMAT:
            raise BadExport(f"{path} is of another version")
        tables = cast("dict[str, dict[str, object]]", record.pop("tables"))
        heads = cast("dict[str, list[object]]", record.pop("heads"))
        if tables.keys() != TABLES.keys():
            raise BadExport(f"{path} names other tables")
        make = cast("_Make", Manifest)
        part = cast("_Make", TablePart)
        return cast(
            "Manifest",
            make(
                **record,
                heads={shard: (head[0], head[1]) for shard, head in heads.items()},
                tables={name: part(**value) for name, value in tables.items()},
            ),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadExport(f"{path} is damaged: {error}") from error
