"""Each backend against the whole contract."""

from __future__ import annotations

import pytest

from shardline.storage.journal import Journal
from shardline.storage.memory import open_memory
from shardline.storage.sqlite import open_sqlite
from tests.kits.store_kit import StoreKit
from tests.kits.stores import Home


class TestThread(StoreKit):
    durable = "fsync"
    shared = "host"
    emits = "atomic"

    def open(self, home: Home) -> Journal:
        return open_sqlite(home.path)


@pytest.mark.usefixtures("autojump_clock")
class TestInline(StoreKit):
    durable = "process"
    shared = "host"
    emits = "relayed"

    def open(self, home: Home) -> Journal:
        return open_sqlite(home.path, mode="inline", durability="normal", emits="relayed")


@pytest.mark.usefixtures("autojump_clock")
class TestMemory(StoreKit):
    durable = "none"
    shared = "process"
    emits = "atomic"

    def open(self, home: Home) -> Journal:
        return open_memory(database=home.database)


@pytest.mark.usefixtures("autojump_clock")
class TestMemoryRelayed(StoreKit):
    durable = "none"
    shared = "process"
    emits = "relayed"

    def open(self, home: Home) -> Journal:
        return open_memory(database=home.database, emits="relayed")
