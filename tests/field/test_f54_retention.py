"""Field entry 54: finished rows stay for ever; odd column types."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
import trio
from trio.testing import MockClock

from shardline import Runtime
from shardline.actors.clock import FakeClock
from shardline.runtime.retention import Retention
from shardline.storage.commands import Part, Refused
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.look import Look
from shardline.storage.sqlite.migrate import load_migrations
from shardline.storage.sqlite.verify import verify
from shardline.testing import FakeChannel
from tests.kits.audited import make_chats
from tests.kits.bots import counting_bot, until_quiet
from tests.kits.store_rows import AT_US, Hand, claim_row, finish_row, finish_send
from tests.kits.stores import submit_all

HOUR_S = 3_600
LIVE = 10
"""Chats that say something within the last hour."""


def counts(path: Path) -> dict[str, int]:
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    return {
        table: int(database.execute(f"SELECT count(*) FROM {table}").get)
        for table in ("inbox", "outbox", "history")
    }


def pages(path: Path) -> int:
    """Size of the database, what is still in its log included."""
    return int(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY).pragma("page_count"))


async def run_cycle(path: Path, clock: FakeClock, messages: int, age_s: int) -> int:
    """A bot answers so many messages, their time goes by, and a few more come; the size of the file."""
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    channel = FakeChannel()
    async with Runtime.open(
        counting_bot(),
        store=store,
        adapters=[channel],
        clock=clock,
        retention=Retention(messages_s=age_s, keys_s=age_s, history_s=age_s),
        max_lane_backlog=messages,
    ) as runtime:
        for start in range(0, messages, 500):
            async with trio.open_nursery() as nursery:
                for number in range(start, start + 500):
                    nursery.start_soon(channel.say, f"chat-{number % 100}", f"text {number}")
        await until_quiet(runtime, 10_000)
        await trio.sleep(age_s + 60)
        for number in range(LIVE):
            await channel.say(f"chat-{number}", "still here")
        await until_quiet(runtime)
        await trio.sleep(age_s - 120)
        kept = counts(path)
        # Each live message: accepted with its claim, done; enqueued with its start, sent.
        assert (kept["inbox"], kept["outbox"]) == (LIVE, LIVE)
        assert kept["history"] == 4 * LIVE
        assert runtime.counters["handled"] == messages + LIVE
    with Look(path) as look:
        verdict = verify(look)
    assert verdict.findings == ()
    assert verdict.pruned > 0
    return pages(path)


async def test_rows_are_the_live_rows_and_the_file_stays_as_it_is(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path, clock = tmp_path / "bot.db", FakeClock()
    first = await run_cycle(path, clock, 500, 600)
    second = await run_cycle(path, clock, 500, 600)
    third = await run_cycle(path, clock, 500, 600)

    # Pages are used again; new keys fall into them a little otherwise.
    assert second <= first * 1.05
    assert third <= second * 1.05


async def fill(path: Path, messages: int, first: int) -> None:
    """So many messages that are done, each with its answer that is sent."""
    store = open_sqlite(path, mode="inline", durability="normal")
    hand = Hand(store)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        for start in range(first, first + messages, 500):
            accepts: list[Part] = []
            ends: list[Part] = []
            sends: list[Part] = []
            for number in range(start, start + 500):
                key = f"tg:{1 + number % 1_000}"
                row, answer = hand.new_inbox(key, number), hand.new_outbox(key, f"a-{number}", started=True)
                done = finish_row(claim_row(row.record).after)
                accepts.append(hand.publish(row, claim=True))
                ends.append(hand.commit(hand.shard(key), inbox=(done,), new_outbox=(answer,)))
                sends.append(hand.commit(hand.shard(key), outbox=(finish_send(answer.record),)))
            for outcome in await submit_all(hand, *accepts, *ends, *sends):
                assert not isinstance(outcome, Refused), outcome
        nursery.cancel_scope.cancel()


async def forget(path: Path, hours: int, messages: int) -> int:
    """So many hours later the bot runs for a while; how many pages its file has."""
    clock = FakeClock(start_us=AT_US + hours * HOUR_S * 1_000_000)
    retention = Retention(messages_s=HOUR_S, keys_s=HOUR_S, history_s=HOUR_S)
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    channel = FakeChannel()
    async with Runtime.open(
        counting_bot(), store=store, adapters=[channel], clock=clock, retention=retention
    ) as runtime:
        for number in range(LIVE):
            await channel.say(f"chat-{hours}-{number}", "hi")
        await until_quiet(runtime)
        await trio.sleep(HOUR_S - 60)
        assert runtime.status().pruned["history"] >= 4 * messages
    return pages(path)


@pytest.mark.long
async def test_a_hundred_thousand_messages_leave_the_live_rows_alone(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path, messages = tmp_path / "bot.db", 100_000
    await fill(path, messages, 0)
    first = await forget(path, 2, messages)
    kept = counts(path)
    await fill(path, messages, messages)
    second = await forget(path, 9, messages)

    assert kept == {"inbox": LIVE, "outbox": LIVE, "history": 4 * LIVE}
    assert counts(path) == kept
    assert second <= first * 1.02
    with Look(path) as look:
        assert verify(look).findings == ()


PLAIN = {"INTEGER", "TEXT", "BLOB"}


VALUES: dict[str, int | str | bytes] = {"INTEGER": 2**62 + 1, "TEXT": "Ünï 👋", "BLOB": b"\0\xff"}
"""By declared type; a reader that takes an integer for a double, or a blob for a text, changes them."""


def columns_of(database: apsw.Connection) -> dict[str, dict[str, str]]:
    """Of every table: its columns and their declared types."""
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {
        table: {column[1]: column[2] for column in database.execute(f"PRAGMA table_info({table})")}
        for table in tables
    }


def quoted(name: str) -> str:
    return f'"{name}"'


def new_schema() -> apsw.Connection:
    database = apsw.Connection(":memory:")
    for step in load_migrations():
        database.execute(step.script)
    return database


def test_a_value_in_every_column_is_read_by_its_declared_type() -> None:
    database = new_schema()
    for table, columns in columns_of(database).items():
        # Of the one row that such a table may have.
        is_single = table in {"store_meta", "store_commit"}
        values = {
            name: 1 if is_single and name == "id" else VALUES[declared] for name, declared in columns.items()
        }
        database.execute(f"DELETE FROM {table}")
        database.execute(
            f"INSERT INTO {table} ({', '.join(map(quoted, columns))}) VALUES ({', '.join('?' * len(columns))})",
            tuple(values.values()),
        )
        (found,) = database.execute(f"SELECT * FROM {table}").fetchall()
        assert dict(zip(columns, found, strict=True)) == values, table
        (kinds,) = database.execute(
            f"SELECT {', '.join(f'typeof({quoted(name)})' for name in columns)} FROM {table}"
        ).fetchall()
        assert [str(kind).upper() for kind in kinds] == list(columns.values()), table


def test_every_value_of_a_real_store_has_the_declared_type(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_chats(path, chats=3, dead=1)
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    seen: set[str] = set()
    for table, columns in columns_of(database).items():
        for name, declared in columns.items():
            kinds = {
                kind for (kind,) in database.execute(f"SELECT DISTINCT typeof({quoted(name)}) FROM {table}")
            }
            assert kinds <= {declared.lower(), "null"}, (table, name)
            seen |= {table} if kinds else set()
    database.close()

    assert seen >= {"inbox", "outbox", "history", "instance", "shard"}


def test_every_column_has_a_plain_declared_type() -> None:
    database = new_schema()
    for table, columns in columns_of(database).items():
        assert set(columns.values()) <= PLAIN, table
        (strict,) = database.execute(
            "SELECT strict FROM pragma_table_list WHERE name = ?", (table,)
        ).fetchall()
        assert strict == (1,), table
