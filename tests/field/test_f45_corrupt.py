"""Field entry 45: a damaged file is one typed error, one line, an exit code and a hint; its bytes stay as they are.

Other damage at a start: `tests/storage/sqlite/test_opening.py`.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import apsw
import pytest
import structlog.testing
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.reader import SqliteReader
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot, new_message, until_quiet
from tests.kits.faulty_vfs import Fault, FaultyVfs
from tests.kits.forked import Script, run_forked

BOT = """
from shardline import Topology, run
from shardline.testing import FakeChannel
topology = Topology()
@topology.on("chat.message")
async def answer(ctx, message): ...
run(topology, store="bot.db", adapters=[FakeChannel()])
"""


def run_bot(folder: Path) -> subprocess.CompletedProcess[str]:
    return run_forked(Script(BOT), timeout=50, folder=folder)


async def test_a_start_over_damage_is_one_line_and_an_exit_code(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path, channel = tmp_path / "bot.db", FakeChannel()
    async with Runtime.open(
        counting_bot(), store=open_sqlite(path, mode="inline"), adapters=[channel]
    ) as runtime:
        await channel.say("a", "hi")
        await until_quiet(runtime)
    damaged = bytearray(path.read_bytes())
    damaged[100:200] = b"\xff" * 100
    path.write_bytes(damaged)
    done = run_bot(tmp_path)

    assert done.returncode == 1
    [line] = (done.stdout + done.stderr).splitlines()
    assert line.startswith("shardline: STORE_CORRUPT: ")
    assert line.endswith("Restore a backup copy.")
    assert path.read_bytes() == bytes(damaged)


def ends_once(logs: list[dict[str, object]]) -> bool:
    events = Counter(entry["event"] for entry in logs)
    return events["actor.restarted"] == 0


@pytest.fixture
def vfs() -> Generator[FaultyVfs]:
    vfs = FaultyVfs("damaged")
    yield vfs
    vfs.unregister()


async def test_damage_that_a_write_finds_ends_the_runtime_once(
    tmp_path: Path, autojump_clock: MockClock, vfs: FaultyVfs
) -> None:
    channel, began_s = FakeChannel(), trio.current_time()
    with structlog.testing.capture_logs() as logs, pytest.raises(BusError) as caught:
        async with Runtime.open(
            counting_bot(),
            store=open_sqlite(tmp_path / "bot.db", mode="inline", vfs=vfs.name),
            adapters=[channel],
        ):
            vfs.arm(Fault("write", count=None, error=apsw.CorruptError))
            await trio.sleep_forever()

    vfs.arm(None)
    assert caught.value.code is Code.STORE_CORRUPT
    assert trio.current_time() - began_s < 6
    assert [entry["event"] for entry in logs].count("journal.ended") == 1
    assert ends_once([dict(entry) for entry in logs])


async def test_damage_that_a_read_finds_ends_the_runtime_once(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard that reads its lanes: without this it would start again five times, and its supervisor as often."""

    def damaged(*_: object) -> None:
        raise BusError(Code.STORE_CORRUPT, "the store cannot be read: malformed")

    channel, began_s = FakeChannel(), trio.current_time()
    with structlog.testing.capture_logs() as logs, pytest.raises(BusError) as caught:
        async with Runtime.open(
            counting_bot(), store=open_sqlite(tmp_path / "bot.db", mode="inline"), adapters=[channel]
        ):
            monkeypatch.setattr(SqliteReader, "waiting_controls", damaged)
            await trio.sleep_forever()

    assert caught.value.code is Code.STORE_CORRUPT
    assert trio.current_time() - began_s < 6
    assert [entry["event"] for entry in logs].count("actor.crashed") <= 3
    assert ends_once([dict(entry) for entry in logs])


def test_a_damaged_timer_ends_the_opening_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"

    async def set_one() -> None:
        topology = Topology()

        @topology.on("chat.message")
        async def later(ctx: Context, message: BusMessage) -> None:
            ctx.schedule(message.payload.text, after_s=3_600)

        async with Runtime.open(topology, store=path, adapters=[FakeChannel()]) as runtime:
            await runtime.publish(new_message("hello", key="fake:1"), wait="handled")

    trio.run(set_one)
    database = apsw.Connection(str(path))
    database.execute("UPDATE timer SET body = x'81a1', due_at = 1")
    database.close()

    async def open_again() -> None:
        with trio.fail_after(20):
            async with Runtime.open(counting_bot(), store=path, adapters=[FakeChannel()]) as runtime:
                await runtime.wait_until(lambda: False)

    with pytest.raises(BusError) as refused:
        trio.run(open_again)
    assert refused.value.code is Code.STORE_CORRUPT
    assert "timer" in refused.value.message
