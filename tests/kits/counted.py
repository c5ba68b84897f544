"""A store whose reads are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import cast

import attrs

from shardline.storage.port import Reader, Store


@attrs.define
class CountedReads:
    """Counts the calls of each read by name, and passes them on.

    Attributes:
        calls: How often each was called.
        rows: How many rows the lanes were given, by conversation.
    """

    _reader: Reader
    calls: Counter[str] = attrs.field(factory=Counter[str])
    rows: Counter[str] = attrs.field(factory=Counter[str])

    def __getattr__(self, name: str) -> Callable[..., object]:
        read = cast("Callable[..., object]", getattr(self._reader, name))

        def counted(*args: object, **kwargs: object) -> object:
            self.calls[name] += 1
            found = read(*args, **kwargs)
            if name.endswith("_lane"):
                self.rows[str(args[1])] += len(cast("list[object]", found))
            return found

        return counted


@attrs.define
class _CountedStore:
    _store: Store
    reader: Reader

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def counted_store(store: Store) -> tuple[Store, CountedReads]:
    """The store, and what counts its reads from now on."""
    reads = CountedReads(store.reader)
    return cast("Store", _CountedStore(store, cast("Reader", reads))), reads
