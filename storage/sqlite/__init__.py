"""The store in one SQLite file."""

from .copying import copy_store
from .store import open_sqlite

__all__ = ["copy_store", "open_sqlite"]
