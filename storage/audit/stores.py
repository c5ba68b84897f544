"""Which stores some files are: one store under two names would be counted twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...actors.errors import BusError
from ..sqlite.look import Look
from .manifest import BadExport


def name_stores(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by the uuids of their stores.

    Args:
        paths: Stores; their owners may be writing.
    Raises:
        BadExport: two are of one store.
        BusError: as `Look`.
    """
    found: dict[str, Path] = {}
    for path in paths:
        try:
            with Look(path) as look:
                store = look.meta.uuid
        except BusError as error:
            # What a store says of itself does not say which one of many it is.
            raise BusError(error.code, f"{path}: {error.message}", **error.context) from error
        other = found.setdefault(store, path)
        if other != path:
            raise BadExport(f"{other} and {path} are both store {store}; give one of them")
    return found
