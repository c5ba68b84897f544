"""The baselines are only worth something if they leave the rows that the product leaves."""

from pathlib import Path

import apsw
import pytest

from benchmarks.raw import raw_chat, raw_publish
from benchmarks.raw_store import Sync


def rows(database: apsw.Connection, query: str) -> list[tuple[object, ...]]:
    return list(database.execute(query))


@pytest.mark.parametrize("sync", ["FULL", "NORMAL"])
def test_raw_chat_takes_every_message_to_its_end(tmp_path: Path, sync: Sync) -> None:
    rate = raw_chat(tmp_path / "raw.db", sync, 0.05)
    database = apsw.Connection(str(tmp_path / "raw.db"))
    done = rate.messages

    assert done > 0
    assert rate.commits == 3 * done
    assert database.pragma("integrity_check") == "ok"
    assert rows(database, "select status, claim, count(*) from inbox group by 1, 2") == [("done", 1, done)]
    assert rows(database, "select status, in_flight, count(*) from outbox group by 1, 2") == [
        ("sent", 0, done)
    ]
    assert rows(database, "select kind, count(*) from history group by 1") == [
        ("in", 2 * done),
        ("out", 2 * done),
    ]
    assert rows(database, "select count(*) from conversation") == [(min(done, 2_000),)]
    assert rows(database, "select commit_seq, next_inbox_id, next_outbox_id from store_commit") == [
        (3 * done, done + 1, done + 1)
    ]
    assert rows(database, "select sum(seq), sum(hseq) from shard") == [(2 * done, 4 * done)]


@pytest.mark.parametrize("rows_per_tx", [1, 16])
def test_raw_publish_puts_whole_batches_into_a_commit(tmp_path: Path, rows_per_tx: int) -> None:
    rate = raw_publish(tmp_path / "raw.db", "NORMAL", rows_per_tx, 0.05)
    database = apsw.Connection(str(tmp_path / "raw.db"))

    assert rate.messages == rate.commits * rows_per_tx > 0
    assert rows(database, "select status, claim, count(*) from inbox group by 1, 2") == [
        ("queued", 0, rate.messages)
    ]
    assert rows(database, "select count(*) from history") == [(rate.messages,)]


def test_offsets_of_a_partition_have_no_holes(tmp_path: Path) -> None:
    raw_publish(tmp_path / "raw.db", "NORMAL", 16, 0.05)
    database = apsw.Connection(str(tmp_path / "raw.db"))

    assert (
        rows(database, "select 1 from inbox group by part having max(off) - min(off) + 1 <> count(*)") == []
    )
