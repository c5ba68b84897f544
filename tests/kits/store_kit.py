"""The conformance kit: a backend's test class says how to open it, and inherits the whole contract."""

from __future__ import annotations

from tests.kits.store_life_kit import StoreLifeKit
from tests.kits.store_reads_kit import StoreReadsKit
from tests.kits.store_sends_kit import StoreSendsKit
from tests.kits.store_writes_kit import StoreWritesKit


class StoreKit(StoreWritesKit, StoreLifeKit, StoreSendsKit, StoreReadsKit):
    """Every promise of a store. Give `open`, `durable` and `emits`."""
