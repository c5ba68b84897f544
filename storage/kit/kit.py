"""The whole contract of a store."""

from __future__ import annotations

from ...actors.errors import BusError, Code
from ...actors.kit_check import KitCheck, checks_of
from ..port import Caps
from .claims import StoreClaimsKit
from .life import StoreLifeKit
from .opened import OpenStore, Trouble
from .parts import StorePartsKit
from .reads import StoreReadsKit
from .sends import StoreSendsKit
from .steps import StoreStepsKit
from .timers import StoreTimersKit
from .upkeep import StoreUpkeepKit
from .writes import StoreWritesKit


class StoreKit(
    StoreWritesKit,
    StoreLifeKit,
    StoreSendsKit,
    StorePartsKit,
    StoreStepsKit,
    StoreReadsKit,
    StoreTimersKit,
    StoreUpkeepKit,
    StoreClaimsKit,
):
    """Every promise of a store."""


def store_kit(open_store: OpenStore, caps: Caps, *, trouble: Trouble | None = None) -> list[KitCheck]:
    """Every promise of a store as a check of its own.

    Args:
        open_store: Opens the store of a folder: makes it the first time, and finds it again after it was closed. A
            store that is gone with the process keeps by folder what the next opening finds.
        caps: What the store is to claim. What `durable` says is proved by opening a copy of the folder.
        trouble: While it is entered, the store of a folder takes no commit that needs room. Without it nothing is
            proved of what the store does then; with it two checks take up to fifteen seconds of trio's clock.
    Returns:
        Checks; each is called with an empty folder, under trio.

    >>> import logging, structlog
    >>> structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from shardline.storage.port import Caps
    >>> from shardline.storage.sqlite import open_sqlite
    >>> from shardline.testing import run, store_kit
    >>> caps = Caps(shared="process", durable="process", emits="atomic")
    >>> checks = store_kit(
    ...     lambda folder: open_sqlite(folder / "bot.db", mode="inline", durability="normal"), caps
    ... )
    >>> async def main() -> str:
    ...     with TemporaryDirectory() as folder:
    ...         await checks[0](Path(folder))
    ...     return checks[0].promise
    >>> run(main)
    'order of submission is the order of seq and offset'
    """
    for what, holds in (("open_store", callable(open_store)), ("caps", _is_caps(caps))):
        if not holds:
            raise BusError(Code.INVALID_MESSAGE, f"{what} is wanted as store_kit describes it", field=what)
    return checks_of(StoreKit(open_store, caps, trouble))


def _is_caps(value: object) -> bool:
    return isinstance(value, Caps)


__all__ = ["OpenStore", "StoreKit", "store_kit"]
