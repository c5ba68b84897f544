"""Each backend against the whole contract, by the kit that any other backend is proved with."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from shardline.actors.kit_check import KitCheck
from shardline.storage.journal import Journal
from shardline.storage.port import Caps
from shardline.storage.sqlite import database, open_sqlite
from shardline.testing import store_kit
from tests.kits.disks import held_by
from tests.kits.stores import memory_stores

FSYNC = Caps(shared="host", durable="fsync", emits="atomic")
PROCESS = Caps(shared="host", durable="process", emits="relayed")
MEMORY = Caps(shared="process", durable="none", emits="atomic")
MEMORY_RELAYED = Caps(shared="process", durable="none", emits="relayed")


def open_thread(folder: Path) -> Journal:
    return open_sqlite(folder / "bot.db")


def open_inline(folder: Path) -> Journal:
    return open_sqlite(folder / "bot.db", mode="inline", durability="normal", emits="relayed")


@pytest.mark.parametrize("check", store_kit(open_thread, FSYNC), ids=str)
async def test_sqlite_on_a_thread(check: KitCheck, tmp_path: Path) -> None:
    await check(tmp_path)


@pytest.mark.parametrize("check", store_kit(open_inline, PROCESS), ids=str)
async def test_sqlite_inline(check: KitCheck, tmp_path: Path) -> None:
    await check(tmp_path)


@pytest.mark.parametrize("check", store_kit(memory_stores(), MEMORY), ids=str)
async def test_memory(check: KitCheck, tmp_path: Path) -> None:
    await check(tmp_path)


@pytest.mark.parametrize("check", store_kit(memory_stores("relayed"), MEMORY_RELAYED), ids=str)
async def test_memory_with_relayed_emits(check: KitCheck, tmp_path: Path) -> None:
    await check(tmp_path)


TROUBLED = [
    check
    for check in store_kit(open_inline, PROCESS, trouble=lambda folder: held_by(folder / "bot.db"))
    if check.name
    in {"condition_says_what_keeps_commits_waiting", "wind_down_refuses_what_the_store_does_not_take"}
]


@pytest.mark.parametrize("check", TROUBLED, ids=str)
async def test_sqlite_under_a_foreign_lock(
    check: KitCheck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 1)
    assert len(TROUBLED) == 2
    await check(tmp_path)
