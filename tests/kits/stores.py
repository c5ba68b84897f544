"""Stores that tests open, run, close and open again, as the public kit does; memory's by folder."""

from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from shardline.storage.journal import Journal
from shardline.storage.kit.opened import refusal, refusal_code, running, submit_all
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.sqlite.settings import Emits

__all__ = ["MemoryShelf", "memory_stores", "refusal", "refusal_code", "running", "submit_all"]


class MemoryShelf:
    """Stores in memory, each kept under the folder it was opened for."""

    def __init__(self, emits: Emits = "atomic") -> None:
        self._emits: Emits = emits
        self._databases: defaultdict[Path, MemoryDatabase] = defaultdict(MemoryDatabase)

    def open(self, folder: Path) -> Journal:
        return open_memory(database=self._databases[folder], emits=self._emits)

    @contextmanager
    def full(self, folder: Path) -> Generator[None]:
        """No page more for the store of a folder."""
        connection = self._databases[folder].source.connect()
        connection.execute("PRAGMA max_page_count = 1").fetchall()
        try:
            yield
        finally:
            connection.execute("PRAGMA max_page_count = 1000000").fetchall()


def memory_stores(emits: Emits = "atomic") -> Callable[[Path], Journal]:
    """Opens stores in memory, each kept under the folder it was opened for."""
    return MemoryShelf(emits).open
