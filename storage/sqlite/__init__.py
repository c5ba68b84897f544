"""The store in one SQLite file."""

from typing import TYPE_CHECKING

from ...actors.lazy_names import lazy_names

if TYPE_CHECKING:
    from .copying import copy_store
    from .store import open_sqlite

__all__ = ["copy_store", "open_sqlite"]

if not TYPE_CHECKING:
    # Whoever only looks into a store loads no writer.
    __getattr__ = lazy_names(__name__, {"copy_store": "copying", "open_sqlite": "store"})
    del TYPE_CHECKING, lazy_names
