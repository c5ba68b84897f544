"""What other readers of the file rely on: times of the event log, anchors of the chains, plain columns, indexes."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import apsw
import pytest
import trio.testing

from shardline.storage.sqlite import open_sqlite, reader
from shardline.storage.sqlite.chain import ANCHOR_ROWS, find_break
from tests.kits.store_rows import AT_US, fail_row, fail_send
from tests.kits.stores import running, submit_all


def read(path: Path, query: str) -> list[apsw.SQLiteValues]:
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


async def test_times_of_a_partition_never_fall(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    times = [5, 3, 9, 9, 1]
    async with running(open_sqlite(path)) as hand:
        for partition in (0, 1):
            await submit_all(
                hand,
                *(
                    hand.publish(
                        hand.new_event("order.shipped", at_us, partition=partition), at_us=AT_US + at_us
                    )
                    for at_us in times
                ),
            )
    async with running(open_sqlite(path)) as hand:
        await hand.store.publish(hand.publish(hand.new_event("order.shipped", 0), at_us=AT_US))
        rows = read(path, f"SELECT part, off, ts - {AT_US} FROM event ORDER BY part, off")

    risen = [5, 5, 9, 9, 9]
    first = [(0, offset, ts) for offset, ts in enumerate([*risen, 9])]
    assert rows == first + [(1, offset, ts) for offset, ts in enumerate(risen)]


async def test_chain_head_is_kept_every_4096_rows(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path, mode="inline", durability="normal")) as hand:
        parts = [hand.publish(hand.new_inbox("tg:1", number)) for number in range(ANCHOR_ROWS + 10)]
        await submit_all(hand, *parts)
        shard = hand.shard("tg:1")
        chain = hand.store.reader.history(shard, 0, 10_000)
        anchors = read(path, "SELECT shard, hseq, h FROM anchor")

    anchor = chain[ANCHOR_ROWS - 1]
    assert anchors == [(shard, ANCHOR_ROWS, anchor.h)]
    assert find_break(chain[ANCHOR_ROWS:], before=anchor.h, hseq=ANCHOR_ROWS) is None


async def test_newest_failure_stands_in_columns_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path)) as hand:
        record = await hand.accept("tg:1", 1, claim=True)
        await hand.move(fail_row(record, text="torn \ud800"))
        send = await hand.enqueue("tg:1", "a", started=True)
        await hand.move(fail_send(send))

    columns = "error_code, own_code, last_error, json_extract(errors, '$[0].code')"
    assert read(path, f"SELECT {columns} FROM inbox") == [
        ("HANDLER_FAILED", "x.own", "torn ?", "HANDLER_FAILED")
    ]
    assert read(path, f"SELECT {columns} FROM outbox") == [("RATE_LIMITED", None, "no", "RATE_LIMITED")]


async def test_every_change_of_a_row_has_a_number_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path)) as hand:
        for number in range(5):
            await hand.accept("tg:1", number)
        await hand.enqueue("tg:1", "a")
        failed = await hand.accept("tg:1", 9, claim=True)
        await hand.move(fail_row(failed))

    numbers = read(path, "SELECT change_seq FROM inbox UNION ALL SELECT change_seq FROM outbox ORDER BY 1")
    assert numbers == [(number,) for number in (1, 2, 3, 4, 5, 6, 8)]
    assert read(path, "SELECT change_seq FROM store_commit") == [(8,)]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("_NEXT_INBOX_KEY", "inbox_open"),
        ("_INBOX_LANE", "inbox_open"),
        ("_OUTBOX_PAGE", "outbox_open"),
        ("_OUTBOX_LANE", "outbox_open"),
    ],
)
async def test_lane_queries_read_an_index_in_its_order(tmp_path: Path, query: str, index: str) -> None:
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path)):
        pass
    steps = read(path, "EXPLAIN QUERY PLAN " + cast("str", getattr(reader, query)).replace("?", "1"))
    said = " / ".join(str(step[3]) for step in steps)

    assert f"USING INDEX {index}" in said or f"USING COVERING INDEX {index}" in said
    assert "SCAN" not in said
    assert "TEMP B-TREE" not in said
