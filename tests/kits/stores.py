"""Stores that tests open, run, close and open again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, Literal

import attrs
import pytest
import trio

from shardline.actors.errors import BusError, Code
from shardline.actors.failpoints import NO_FAILPOINTS, FailPoints
from shardline.storage.commands import Outcome, Part, Refused
from shardline.storage.journal import Journal
from shardline.storage.memory import MemoryDatabase
from tests.kits.store_rows import Hand


@attrs.frozen
class Home:
    """What outlives a store that is closed: a folder for a file, a database for memory."""

    folder: Path
    database: MemoryDatabase = attrs.Factory(MemoryDatabase)
    failpoints: FailPoints = NO_FAILPOINTS

    @property
    def path(self) -> Path:
        return self.folder / "bot.db"


class StoreContract:
    """What each part of the contract needs: `open` opens the home's store, anew after it was closed."""

    durable: ClassVar[Literal["none", "process", "fsync"]]
    emits: ClassVar[Literal["atomic", "relayed"]]
    shared: ClassVar[Literal["process", "host"]]

    def open(self, home: Home) -> Journal:
        raise NotImplementedError

    @pytest.fixture
    def home(self, tmp_path: Path) -> Home:
        return Home(tmp_path)


@asynccontextmanager
async def running(store: Journal) -> AsyncGenerator[Hand]:
    """Run a store until the block ends, then stop it in good order."""
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(store.run)
            yield Hand(store)
            nursery.cancel_scope.cancel()


async def submit_all(hand: Hand, *parts: Part) -> list[Outcome]:
    """Submit parts without a checkpoint between, so that they meet in one batch; their outcomes, in order.

    They must also settle in that order.
    """
    outcomes: list[Outcome] = []
    order: list[int] = []
    done = trio.Event()
    for index, part in enumerate(parts):

        def settle(outcome: Outcome, index: int = index) -> None:
            outcomes.append(outcome)
            order.append(index)
            if len(outcomes) == len(parts):
                done.set()

        hand.store.submit(part, settle)
    await done.wait()
    assert order == list(range(len(parts)))
    return outcomes


def refusal(outcome: Outcome) -> BusError:
    """The error of a refused part."""
    assert isinstance(outcome, Refused), outcome
    return outcome.error


def refusal_code(outcome: Outcome) -> Code:
    """The code of a refused part."""
    return refusal(outcome).code
