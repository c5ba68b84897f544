"""Stores that tests open, run, close and open again, as the public kit does; memory's by folder."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from shardline.storage.journal import Journal
from shardline.storage.kit.opened import refusal, refusal_code, running, submit_all
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.sqlite.settings import Emits

__all__ = ["memory_stores", "refusal", "refusal_code", "running", "submit_all"]


def memory_stores(emits: Emits = "atomic") -> Callable[[Path], Journal]:
    """Opens stores in memory, each kept under the folder it was opened for."""
    databases: defaultdict[Path, MemoryDatabase] = defaultdict(MemoryDatabase)

    def open_store(folder: Path) -> Journal:
        return open_memory(database=databases[folder], emits=emits)

    return open_store
