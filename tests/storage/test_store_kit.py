"""The kit can fail: for each of its checks there are wrong stores, and it catches every one."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from shardline.actors.errors import BusError
from shardline.testing import KitCheck, store_kit
from tests.kits.memory_mutants import WallStore
from tests.kits.stores import MemoryShelf
from tests.kits.wrong_store_parts import PARTS
from tests.kits.wrong_store_reads import READS
from tests.kits.wrong_store_steps import STEPS
from tests.kits.wrong_store_timers import TIMERS
from tests.kits.wrong_store_upkeep import UPKEEP
from tests.kits.wrong_stores import STORES

ALL = STORES.found + READS.found + PARTS.found + STEPS.found + TIMERS.found + UPKEEP.found

WRONG = [(name, kind) for name, kind in ALL if kind.claims.durable == "none"]
# Their folders are copied by another process, which a clock that jumps would not wait for.
WRONG_OF_DISK = [(name, kind) for name, kind in ALL if kind.claims.durable != "none"]


def kit_of(kind: type[WallStore]) -> list[KitCheck]:
    shelf = MemoryShelf()
    return store_kit(lambda folder: kind(shelf.open(folder)), kind.claims, trouble=shelf.full)


async def check_is_caught(name: str, kind: type[WallStore], folder: Path) -> None:
    [check] = [check for check in kit_of(kind) if check.name == name]
    with pytest.raises((AssertionError, BusError)):
        await check(folder)


@pytest.mark.parametrize("check", kit_of(WallStore), ids=str)
async def test_a_right_store_passes(check: KitCheck, tmp_path: Path, autojump_clock: MockClock) -> None:
    await check(tmp_path)


@pytest.mark.parametrize(("name", "kind"), WRONG, ids=[f"{kind.__name__}-{name}" for name, kind in WRONG])
async def test_a_wrong_store_is_caught(
    name: str, kind: type[WallStore], tmp_path: Path, autojump_clock: MockClock
) -> None:
    await check_is_caught(name, kind, tmp_path)


@pytest.mark.parametrize(("name", "kind"), WRONG_OF_DISK, ids=[name for name, _ in WRONG_OF_DISK])
async def test_a_store_that_only_claims_to_last_is_caught(
    name: str, kind: type[WallStore], tmp_path: Path
) -> None:
    await check_is_caught(name, kind, tmp_path)


def test_every_check_catches_something() -> None:
    assert {name for name, _ in ALL} == {check.name for check in kit_of(WallStore)}
