"""Listings cost what they show: their statements walk indexes."""

from pathlib import Path

import apsw
import pytest

from shardline.storage.sqlite.filters import NO_FILTERS, Filters
from shardline.storage.sqlite.listing import (
    MAX_PREVIEW,
    Page,
    RowId,
    dead_query,
    find_sends,
    messages,
    sends,
)
from shardline.storage.sqlite.look import Look
from shardline.storage.sqlite.migrate import load_migrations
from tests.kits.operated import make_store


@pytest.mark.parametrize(
    "filters", [NO_FILTERS, Filters(own_code="x.a", since_us=1), Filters(kind="in", topic="t")]
)
@pytest.mark.parametrize("after", [None, RowId("in", 1), RowId("out", 1)])
def test_a_page_of_dead_letters_sorts_nothing(filters: Filters, after: RowId | None) -> None:
    database = apsw.Connection(":memory:")
    for step in load_migrations():
        database.execute(step.script).fetchall()
    query = dead_query(filters, after, 16)
    assert query is not None
    statement, bound = query
    plan = [
        str(row[3])
        for row in database.execute(f"EXPLAIN QUERY PLAN {statement} LIMIT ? OFFSET ?", (*bound, 100, 0))
    ]

    assert any("USING INDEX inbox_dead" in line for line in plan)
    assert [line for line in plan if "TEMP B-TREE" in line] == []


def test_long_texts_are_cut_in_listings_alone(tmp_path: Path) -> None:
    make_store(tmp_path / "bot.db", texts=("y" * 1000,))
    with Look(tmp_path / "bot.db") as look:
        [message] = messages(look, NO_FILTERS, Page())
        [send] = sends(look, NO_FILTERS, Page())
        whole = look.ask(lambda reader: reader.inbox(1))

    assert message.text == "y" * MAX_PREVIEW + "…"
    assert send.text == "re " + "y" * (MAX_PREVIEW - 3) + "…"
    assert whole is not None
    assert whole.message.payload.text == "y" * 1000


def test_sends_of_one_key_are_found_in_every_channel(tmp_path: Path) -> None:
    make_store(tmp_path / "bot.db", texts=("good",) * 4)
    database = apsw.Connection(str(tmp_path / "bot.db"))
    database.execute("UPDATE outbox SET channel = 'channel-' || id, idempotency_key = 'one' WHERE id <> 3")
    database.close()
    with Look(tmp_path / "bot.db") as look:
        assert find_sends(look, "one") == [1, 2, 4]
        assert find_sends(look, "none") == []
