"""From an empty or older file to the schema of this version: a backup copy first, then all steps in one transaction."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Final, cast

import apsw
import attrs

from ...actors.errors import BusError, Code
from ...actors.system import sync_folder
from .files import create_private
from .settings import Settings

_NAME: Final = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")


@attrs.frozen
class Migration:
    """One step: `script` takes a store from schema `number` - 1 to `number`."""

    number: int
    script: str


@attrs.frozen
class Found:
    """What a file says of itself; schema 0 is an empty database."""

    schema: int
    shard_count: int = 0
    lane_policy: str = ""


def load_migrations() -> tuple[Migration, ...]:
    """The steps shipped with this version, 1, 2, …"""
    steps: list[Migration] = []
    for entry in (resources.files(__package__) / "schema").iterdir():
        match = _NAME.fullmatch(entry.name)
        if match is not None:
            steps.append(Migration(int(match[1]), entry.read_text("utf-8")))
    return tuple(sorted(steps, key=lambda step: step.number))


def inspect(connection: apsw.Connection) -> Found:
    """Read what a database is, without changing it.

    Raises:
        BusError: STORE_MISMATCH, the database is no store.
        apsw.Error: it cannot be read, for instance because it is damaged.
    """
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    if not tables:
        return Found(0)
    if ("store_meta",) not in tables:
        raise BusError(Code.STORE_MISMATCH, "the file is another program's database")
    rows = connection.execute("SELECT schema, shard_count, lane_policy FROM store_meta").fetchall()
    if len(rows) != 1:
        raise BusError(Code.STORE_CORRUPT, "the store does not say what it is")
    return Found(*cast("tuple[int, int, str]", rows[0]))


def check_settings(found: Found, settings: Settings, newest: int) -> None:
    """Refuse a store that these settings or this version cannot open.

    Raises:
        BusError: SCHEMA_TOO_NEW, STORE_MISMATCH.
    """
    if found.schema > newest:
        raise BusError(
            Code.SCHEMA_TOO_NEW,
            f"the store has schema {found.schema}, this version knows {newest}",
            schema=found.schema,
        )
    if found.schema == 0:
        return
    for name, stored, wanted in (
        ("shard_count", found.shard_count, settings.shard_count),
        ("lane_policy", found.lane_policy, settings.lane_policy),
    ):
        if stored != wanted:
            raise BusError(
                Code.STORE_MISMATCH,
                f"the store was made with {name} {stored}, not {wanted}",
                setting=name,
                stored=stored,
                wanted=wanted,
            )


def migrate(connection: apsw.Connection, schema: int, migrations: Sequence[Migration]) -> None:
    """Run the steps above `schema` inside the caller's transaction."""
    for step in migrations:
        if step.number > schema:
            connection.execute(step.script).fetchall()
    if schema:
        connection.execute("UPDATE store_meta SET schema = ?", (migrations[-1].number,))


@contextmanager
def backed_up(connection: apsw.Connection, path: Path, schema: int, now_us: int) -> Generator[Path]:
    """Have a copy of a store beside it, as it was before the block; where the block fails, none.

    It has a name of its own until the block has ended, the same each time: a start that is killed again and again, by
    a service manager that waits no longer, would fill the disk with copies of a store that is as it was.

    Yields:
        What the copy will be, mode 0600, named for the schema it has.
    Raises:
        apsw.Error, OSError: there is no whole copy, and no part of one.
    """
    copy = path.with_name(f"{path.name}.schema-{schema}-{now_us}.backup")
    partial = path.with_name(f"{path.name}.schema-{schema}.partial")
    _take_away(partial)
    create_private(partial)
    try:
        _copy(connection, partial)
        yield copy
        partial.replace(copy)
    except BaseException:
        _take_away(partial)
        raise
    sync_folder(path.parent)


def _copy(connection: apsw.Connection, copy: Path) -> None:
    target = apsw.Connection(str(copy), vfs=connection.open_vfs)
    try:
        with target.backup("main", connection, "main") as backup:
            backup.step()
    finally:
        target.close()


def _take_away(partial: Path) -> None:
    for suffix in ("", "-journal"):
        partial.with_name(partial.name + suffix).unlink(missing_ok=True)
