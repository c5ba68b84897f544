"""Field report 43: a full disk is a typed refusal, nothing half done, and intake resumes by itself."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import apsw
import pytest
import trio
import trio.testing

from shardline.actors.errors import BusError, Code
from shardline.storage.commands import Committed, Outcome, StateWrite
from shardline.storage.sqlite import open_sqlite
from tests.kits.store_checks import check_store
from tests.kits.store_rows import finish_row
from tests.kits.stores import running


@pytest.fixture
def connections() -> Generator[list[apsw.Connection]]:
    """Every connection of the test, the writer's first but for the look of an existing file."""
    made: list[apsw.Connection] = []
    apsw.connection_hooks.append(made.append)
    yield made
    apsw.connection_hooks.remove(made.append)


async def test_full_store_refuses_publishes_keeps_commits_and_resumes(
    tmp_path: Path, connections: list[apsw.Connection], autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path, mode="inline")) as hand:
        writer = connections[0]
        record = await hand.accept("tg:1", 0, claim=True)
        ((pages,),) = writer.execute("PRAGMA page_count").fetchall()
        assert isinstance(pages, int)
        writer.execute(f"PRAGMA max_page_count = {pages + 20}").fetchall()
        stored: list[int] = []
        missing: list[int] = []
        for number in range(1, 400):
            try:
                await hand.store.publish(hand.publish(hand.new_inbox("tg:1", number, text="x" * 900)))
            except BusError as error:
                assert error.code is Code.STORE_FULL  # noqa: PT017
                missing.append(number)
            else:
                stored.append(number)
        commits: list[Outcome] = []
        grown = StateWrite("tg:1", bytes(200_000), 1)
        hand.store.submit(
            hand.commit(record.shard, inbox=(finish_row(record),), state=(grown,)), commits.append
        )
        await trio.sleep(20)

        assert stored
        assert len(missing) > 10
        assert commits == []
        assert hand.inbox(record.id) == record
        assert hand.store.reader.state("tg:1") is None

        writer.execute("PRAGMA max_page_count = 1000000").fetchall()
        await trio.sleep(6)
        assert commits == [Committed()]
        for number in missing:
            await hand.store.publish(hand.publish(hand.new_inbox("tg:1", number, text="x" * 900)))
    assert len(check_store(path)) == 400


async def test_what_needs_no_growth_is_still_stored(
    tmp_path: Path, connections: list[apsw.Connection], autojump_clock: trio.testing.MockClock
) -> None:
    async with running(open_sqlite(tmp_path / "bot.db", mode="inline")) as hand:
        writer = connections[0]
        record = await hand.accept("tg:1", 0, claim=True)
        writer.execute("PRAGMA max_page_count = 1").fetchall()

        await hand.move(finish_row(record))
