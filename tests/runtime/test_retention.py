"""What is past its time goes, what is needed stays, and nothing that counts on it is lost."""

from __future__ import annotations

import math
import signal
from pathlib import Path

import apsw
import pytest
import structlog.testing
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Event, Permanent, Runtime, Topology
from shardline.actors.identifiers import new_uuid7
from shardline.adapters.base import Uncertain
from shardline.runtime.defaults import PRUNE_EVERY_S, PRUNE_ROWS
from shardline.runtime.retention import Retention
from shardline.storage.records import InboxStatus, OutboxState
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.look import Look
from shardline.storage.sqlite.verify import verify
from shardline.testing import FakeChannel
from tests.kits.aging_clock import AgingClock
from tests.kits.bots import counting_bot, new_message, until_quiet
from tests.kits.forked import Script, run_forked

DAY_S = 86_400
AGED_US = 40 * DAY_S * 1_000_000
"""Past every default."""


async def next_pass() -> None:
    await trio.sleep(PRUNE_EVERY_S + 30)


def new_event(topic: str, *, idem: str | None = None, payload: str = "news") -> Event:
    return Event(
        id=new_uuid7(), ts_us=1_760_000_000_000_000, topic=topic, key="k", payload=payload, idem_key=idem
    )


def check_whole(path: Path) -> None:
    with Look(path) as look:
        assert verify(look).findings == ()


async def test_a_key_outlives_what_was_said_under_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    path, clock = tmp_path / "bot.db", AgingClock()
    retention = Retention(messages_s=DAY_S, keys_s=10 * DAY_S, history_s=DAY_S)
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    async with Runtime.open(
        counting_bot(), store=store, adapters=[FakeChannel()], clock=clock, retention=retention
    ) as runtime:
        first = await runtime.publish(new_message("a secret", idem="key-1"))
        await until_quiet(runtime)
        clock.pass_by(2 * DAY_S * 1_000_000)
        await next_pass()
        [row] = runtime.messages.list()
        assert row.message.payload.text == ""
        assert runtime.status().outbox[OutboxState.SENT] == 1
        again = await runtime.publish(new_message("another", idem="key-1"))
        assert (again.offset, again.duplicate) == (first.offset, True)

        clock.pass_by(9 * DAY_S * 1_000_000)
        await next_pass()
        assert runtime.messages.list() == []
        assert sum(runtime.status().outbox.values()) == 0
        anew = await runtime.publish(new_message("another", idem="key-1"))
        assert not anew.duplicate
        assert anew.offset == first.offset + 1
    assert b"a secret" not in path.read_bytes()
    check_whole(path)


async def test_what_has_not_ended_stays_however_old(tmp_path: Path, autojump_clock: MockClock) -> None:
    path, clock, topology, gate = tmp_path / "bot.db", AgingClock(), Topology(), trio.Event()

    @topology.on("chat.message", timeout_s=math.inf)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "die":
            raise Permanent("x.no")
        if message.payload.text == "wait":
            await ctx.step("look", lambda: _value("kept"))
            await ctx.send_now("early", "at once")
            await gate.wait()
        else:
            ctx.reply("re")

    channel = FakeChannel()
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    async with Runtime.open(topology, store=store, adapters=[channel], clock=clock) as runtime:
        await channel.say("dead", "die")
        await channel.say("open", "wait")
        await trio.testing.wait_all_tasks_blocked()
        channel.script(Uncertain("no answer"))
        await channel.say("unknown", "hi")
        await trio.sleep(1)
        await channel.say("fine", "hi")
        await trio.sleep(1)
        clock.pass_by(AGED_US)
        await next_pass()

        inbox = {row.record.conversation_key: row.record.status for row in runtime.messages.list()}
        assert inbox == {"fake:dead": InboxStatus.DEAD, "fake:open": InboxStatus.RUNNING}
        outbox = {row.record.conversation_key: row.record.state for row in runtime.outbox.list()}
        assert outbox == {"fake:unknown": OutboxState.UNCERTAIN, "fake:open": OutboxState.SENT}
        assert store.reader.step(2, "look") is not None
        gate.set()
        await trio.sleep(1)
        clock.pass_by(AGED_US)
        await next_pass()
        assert [row.record.status for row in runtime.messages.list()] == [InboxStatus.DEAD]
        assert store.reader.step(2, "look") is None
    check_whole(path)


async def _value(value: str) -> str:
    return value


async def test_offsets_go_on_behind_a_log_that_is_empty(tmp_path: Path, autojump_clock: MockClock) -> None:
    path, clock, topology = tmp_path / "bot.db", AgingClock(), counting_bot()
    topology.topic("short", retention_s=3_600)
    before: list[int] = []
    for aged in (False, True):
        store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
        async with Runtime.open(topology, store=store, adapters=[FakeChannel()], clock=clock) as runtime:
            places = [
                (await runtime.publish(new_message("hi"))).offset,
                *[(await runtime.publish(new_event(name))).offset for name in ("log", "short")],
            ]
            await until_quiet(runtime)
            if not aged:
                before = places
                clock.pass_by(AGED_US)
                await next_pass()
                assert _count(path, "inbox") == _count(path, "event") == 0
            else:
                assert places == [offset + 1 for offset in before]


async def test_an_event_topic_has_a_time_of_its_own(tmp_path: Path, autojump_clock: MockClock) -> None:
    path, clock, topology = tmp_path / "bot.db", AgingClock(), counting_bot()
    topology.topic("short", retention_s=3_600)
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    async with Runtime.open(topology, store=store, adapters=[FakeChannel()], clock=clock) as runtime:
        await runtime.publish(new_event("log"))
        await runtime.publish(new_event("short"))
        keyed = await runtime.publish(new_event("short", idem="once"))
        clock.pass_by(7_200 * 1_000_000)
        await next_pass()
        database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        rows = database.execute(
            "SELECT topic, body = x'', emptied_at IS NULL FROM event ORDER BY id"
        ).fetchall()
        database.close()
        assert rows == [("log", 0, 1), ("short", 1, 0)]
        again = await runtime.publish(new_event("short", idem="once", payload="other"))
        assert (again.duplicate, again.offset) == (True, keyed.offset)


async def test_a_pass_is_told_once_and_counted(tmp_path: Path, autojump_clock: MockClock) -> None:
    path, clock, channel = tmp_path / "bot.db", AgingClock(), FakeChannel()
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    with structlog.testing.capture_logs() as logs:
        async with Runtime.open(counting_bot(), store=store, adapters=[channel], clock=clock) as runtime:
            for number in range(PRUNE_ROWS + 1):
                await channel.say(f"chat-{number % 50}", "hi")
            await until_quiet(runtime)
            await next_pass()
            assert runtime.status().pruned == {}
            clock.pass_by(AGED_US)
            await next_pass()
            pruned = runtime.status().pruned

    [told] = [line for line in logs if line["event"] == "retention.pruned"]
    assert (told["messages"], told["sends"]) == (PRUNE_ROWS + 1, PRUNE_ROWS + 1)
    assert (pruned["messages"], pruned["sends"]) == (PRUNE_ROWS + 1, PRUNE_ROWS + 1)
    assert told["history"] == pruned["history"] > 2 * PRUNE_ROWS
    check_whole(path)


PRUNING = """
import os, signal, sys, trio
from trio.testing import MockClock
from shardline import Runtime
from shardline.actors.clock import FakeClock
from shardline.storage.journal import Journal
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot
from tests.runtime.test_retention import AGED_US, next_pass
left, commit = int(sys.argv[2]), Journal.commit
async def counted(self, part):
    global left
    done = await commit(self, part)
    left -= part.prune is not None
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
Journal.commit = counted
async def main():
    clock = FakeClock(1_760_000_000_000_000 + AGED_US)
    store = open_sqlite(sys.argv[1], mode="inline", durability="normal", clock=clock)
    async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()], clock=clock):
        await next_pass()
trio.run(main, clock=MockClock(autojump_threshold=0))
"""


async def test_sigkill_between_two_commits_of_a_pass_loses_nothing(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path, clock, channel = tmp_path / "bot.db", AgingClock(), FakeChannel()
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    async with Runtime.open(counting_bot(), store=store, adapters=[channel], clock=clock) as runtime:
        for number in range(2 * PRUNE_ROWS):
            await channel.say(f"chat-{number % 50}", "hi")
        await until_quiet(runtime, 1_000)
    # Nothing else runs here: a child may block.
    left = [(_count(path, "outbox"), _count(path, "inbox"), _count(path, "history"))]
    for prunes in (1, 2, 2, 2):
        child = run_forked(Script(PRUNING), str(path), str(prunes), timeout=40)
        assert child.returncode == -signal.SIGKILL, child.stderr
        check_whole(path)
        left.append((_count(path, "outbox"), _count(path, "inbox"), _count(path, "history")))

    assert [row[:2] for row in left] == [
        (2 * PRUNE_ROWS, 2 * PRUNE_ROWS), (PRUNE_ROWS, 2 * PRUNE_ROWS), (0, PRUNE_ROWS), (0, 0), (0, 0)
    ]  # fmt: skip
    assert left[4][2] < left[3][2] < left[0][2]


@pytest.mark.parametrize("seconds", [0, -1, math.nan, True, "1"])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(BusError) as refused:
        Retention(messages_s=seconds)

    assert (refused.value.code, refused.value.context["field"]) == (Code.INVALID_MESSAGE, "messages_s")


async def test_for_ever_prunes_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    path, clock, channel = tmp_path / "bot.db", AgingClock(), FakeChannel()
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    retention = Retention(messages_s=math.inf, keys_s=math.inf, history_s=math.inf)
    async with Runtime.open(
        counting_bot(), store=store, adapters=[channel], clock=clock, retention=retention
    ) as runtime:
        await channel.say("a", "hi")
        await until_quiet(runtime)
        clock.pass_by(1_000 * AGED_US)
        await next_pass()
        assert runtime.status().pruned == {}
    assert (_count(path, "inbox"), _count(path, "outbox"), _count(path, "history")) == (1, 1, 4)


def _count(path: Path, table: str) -> int:
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    return int(database.execute(f"SELECT count(*) FROM {table}").get)


YEAR_US = 365 * DAY_S * 1_000_000


@pytest.mark.parametrize("jumps", [(YEAR_US,), (-YEAR_US,), (-YEAR_US, YEAR_US), (YEAR_US, -YEAR_US)])
async def test_a_clock_that_is_set_takes_nothing_that_is_young(
    tmp_path: Path, autojump_clock: MockClock, jumps: tuple[int, ...]
) -> None:
    """Nor the keys, without which what a platform repeats would be new."""
    clock = AgingClock()
    store = open_sqlite(tmp_path / "bot.db", mode="inline", durability="normal", clock=clock)
    async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()], clock=clock) as runtime:
        await runtime.publish(new_message("hi", idem="0"))
        await until_quiet(runtime)
        for number, jump in enumerate(jumps, 1):
            clock.jump_wall(jump)
            await runtime.publish(new_message("hi", idem=str(number)))
            await next_pass()
            assert runtime.status().pruned == {}
        again = [await runtime.publish(new_message("hi", idem=str(n))) for n in range(len(jumps) + 1)]
        assert all(receipt.duplicate for receipt in again)
