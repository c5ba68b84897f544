"""Disks that fill up: a store whose file may not grow any more, or whose log takes no write."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from shardline.storage.journal import Journal, Mode
from shardline.storage.sqlite import open_sqlite
from tests.kits.forked import Running, Script, start_forked

PLENTY = 2**30


class Disk:
    """One store file on a disk that may have room for so many pages and no more.

    Args:
        path: The store's file.
        mode: Of the store.
        vfs: Of the store.
    Attributes:
        store: Open, not yet run.
    """

    def __init__(self, path: Path, mode: Mode = "inline", *, vfs: str | None = None) -> None:
        connections: list[apsw.Connection] = []
        apsw.connection_hooks.append(connections.append)
        try:
            self.store: Journal = open_sqlite(path, mode=mode, durability="normal", vfs=vfs)
        finally:
            apsw.connection_hooks.remove(connections.append)
        self._writer = next(one for one in connections if not one.readonly("main"))

    def leave(self, pages: int) -> None:
        """Let the file grow by so many pages and no further."""
        ((now,),) = self._writer.execute("PRAGMA page_count").fetchall()
        assert isinstance(now, int)
        self.limit(now + pages)

    def heal(self) -> None:
        """Room for all."""
        self.limit(PLENTY)

    @property
    def is_in_transaction(self) -> bool:
        """Whether the writer has a transaction open."""
        return self._writer.in_transaction

    def limit(self, pages: int) -> None:
        """Let the file have so many pages; fewer than it has are as many as it has."""
        self._writer.execute(f"PRAGMA max_page_count = {pages}").fetchall()


@contextmanager
def beside(script: str, path: Path) -> Generator[Running]:
    """Another process that does something to the store: it says when it has begun, and ends with its input."""
    with start_forked(Script(script), str(path)) as process:
        assert process.stdout.readline()
        yield process
        process.stdin.close()
        assert process.wait(30) == 0


@contextmanager
def held_by(path: Path) -> Generator[None]:
    """Another connection has the write lock."""
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()
