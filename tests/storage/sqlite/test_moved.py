"""A store that is moved, replaced or deleted under its owner is told; put back, it is well again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import structlog.testing
from trio.testing import MockClock

from shardline import Runtime
from shardline.runtime.health import HealthState
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot, new_message, until_quiet
from tests.kits.operated import operate
from tests.kits.store_checks import check_store


def words(runtime: Runtime) -> list[str]:
    return [reason.word for reason in runtime.health().reasons]


async def test_a_moved_file_is_told_and_put_back_nothing_is_lost(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path, away = tmp_path / "bot.db", tmp_path / "away.db"
    store = open_sqlite(path, mode="inline", durability="normal")
    async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()]) as runtime:
        await runtime.publish(new_message("0", idem="0"))
        assert words(runtime) == []
        path.rename(away)
        assert words(runtime) == ["store_moved"]
        shutil.copy(away, path)
        await runtime.publish(new_message("1", idem="1"))
        assert words(runtime) == ["store_moved"]
        assert runtime.health().state is HealthState.FAILING
        away.replace(path)
        assert words(runtime) == []
        await runtime.publish(new_message("2", idem="2"))
        await until_quiet(runtime)
    assert len(check_store(path)) == 3


async def test_a_deleted_log_is_told_and_a_stop_saves_what_it_held(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path = tmp_path / "bot.db"
    store = open_sqlite(path, mode="inline", durability="normal")
    async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()]) as runtime:
        await runtime.publish(new_message("0", idem="0"))
        (tmp_path / "bot.db-wal").unlink()
        await runtime.publish(new_message("1", idem="1"))
        assert words(runtime) == ["store_moved"]
        await until_quiet(runtime)
    assert len(check_store(path)) == 2


async def test_a_deleted_lock_file_is_told_before_a_second_owner_comes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path = tmp_path / "bot.db"
    store = open_sqlite(path, mode="inline", durability="normal")
    async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()]) as runtime:
        assert words(runtime) == []
        (tmp_path / "bot.db.lock").unlink()
        assert words(runtime) == ["store_moved"]
        assert "another process can open the store" in runtime.health().reasons[0].text
        # One that was made anew, or that a second owner has taken, is not this one.
        (tmp_path / "bot.db.lock").touch()
        assert words(runtime) == ["store_moved"]
    store = open_sqlite(path, mode="inline", durability="normal")
    async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()]) as runtime:
        assert words(runtime) == []


async def test_a_store_that_is_gone_under_its_owner_is_named_from_outside_and_at_the_end(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path, away = tmp_path / "bot.db", tmp_path / "away.db"
    with structlog.testing.capture_logs() as logs:
        store = open_sqlite(path, mode="inline", durability="normal")
        async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()]) as runtime:
            await runtime.publish(new_message("0", idem="0"))
            await until_quiet(runtime)
            path.rename(away)
            told = operate("status", "--health", "--store", path)
    after = operate("status", "--health", "--store", path)

    assert (told.exit_code, after.exit_code) == (1, 2)
    assert f"was moved or deleted while process {os.getpid()} has it open" in told.stderr
    assert "does not exist" in after.stderr
    assert [entry["log_level"] for entry in logs if entry["event"] == "store.moved"] == ["error"]
