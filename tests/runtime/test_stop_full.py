"""A stop ends in bounded time although the disk takes nothing: whoever waits for the journal is told."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import apsw
import pytest
import structlog.testing
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.runtime.stop import Stuck
from shardline.storage.journal import Mode
from shardline.storage.records import InboxStatus
from shardline.storage.sqlite import database, open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import new_message, until_quiet
from tests.kits.disks import Disk, held_by
from tests.kits.faulty_vfs import Fault, FaultyVfs
from tests.kits.store_checks import check_store
from tests.kits.store_rows import finish_row
from tests.kits.stores import running
from tests.kits.words import refused

GRACE_S = 30.0
LIMIT_S = GRACE_S + 20.0

Trouble = Literal["full", "busy", "unknown"]


def growing_bot() -> Topology:
    """Its turns need more room than the disk has."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.state["kept"] = "x" * 200_000
        ctx.reply(message.payload.text)

    return topology


@contextmanager
def troubled(path: Path, trouble: Trouble, disk: Disk, vfs: FaultyVfs) -> Generator[None]:
    """The store takes no turn's commit."""
    if trouble == "busy":
        with held_by(path):
            yield
        return
    if trouble == "full":
        disk.leave(20)
    else:
        vfs.arm(Fault("write", count=None, error=apsw.FullError))
    yield
    vfs.arm(None)


@pytest.fixture
def vfs(monkeypatch: pytest.MonkeyPatch) -> Generator[FaultyVfs]:
    # A connection that waits for another one of this thread waits in vain.
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 1)
    vfs = FaultyVfs("stopping")
    yield vfs
    vfs.unregister()


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("trouble", ["full", "busy", "unknown"])
async def test_a_stop_over_a_disk_that_takes_nothing_ends_and_loses_nothing(
    tmp_path: Path, autojump_clock: MockClock, vfs: FaultyVfs, trouble: Trouble, is_cancelled: bool
) -> None:
    path = tmp_path / "bot.db"
    disk = Disk(path, vfs=vfs.name)
    channel = FakeChannel()
    codes: list[Code] = []

    async def publish(runtime: Runtime) -> None:
        try:
            await runtime.publish(new_message("late", key="fake:late", idem="late"))
        except BusError as error:
            codes.append(error.code)

    began_s = math.inf
    with ExitStack() as stack, structlog.testing.capture_logs() as logs:
        async with trio.open_nursery() as publishers:
            with trio.CancelScope() as scope:
                async with Runtime.open(
                    growing_bot(), store=disk.store, adapters=[channel], grace_s=GRACE_S
                ) as runtime:
                    await channel.say("a", "hi")
                    stack.enter_context(troubled(path, trouble, disk, vfs))
                    publishers.start_soon(publish, runtime)
                    # The pulse, too, waits for the journal by then.
                    await trio.sleep(60)
                    began_s = trio.current_time()
                    if is_cancelled:
                        scope.cancel()
            assert trio.current_time() - began_s < LIMIT_S

    assert codes == [Code.STORE_IO if trouble == "unknown" else CODES[trouble]]
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == []
    async with Runtime.open(
        growing_bot(), store=open_sqlite(path, mode="inline"), adapters=[FakeChannel()]
    ) as runtime:
        assert not runtime.info.clean
        await until_quiet(runtime)
        rows = runtime.messages.list(key="fake:a")
        assert [row.record.status for row in rows] == [InboxStatus.DONE]
    stored = check_store(path)
    assert ("topic:chat.message:late" in stored) <= (trouble == "unknown")


CODES = {"full": Code.STORE_FULL, "busy": Code.STORE_BUSY}


@pytest.mark.parametrize("trouble", ["full", "busy"])
async def test_who_waits_for_such_a_stop_is_told_that_it_is_the_store(
    tmp_path: Path, autojump_clock: MockClock, vfs: FaultyVfs, trouble: Literal["full", "busy"]
) -> None:
    path = tmp_path / "bot.db"
    disk, channel, told = Disk(path, vfs=vfs.name), FakeChannel(), list[Stuck]()

    async def watch(runtime: Runtime) -> None:
        told.append(await runtime.wait_stuck())

    async def publish(runtime: Runtime) -> None:
        with refused(CODES[trouble]):
            await runtime.publish(new_message("late", key="fake:late", idem="late"))

    with ExitStack() as stack:
        async with trio.open_nursery() as nursery:
            async with Runtime.open(
                growing_bot(), store=disk.store, adapters=[channel], grace_s=0
            ) as runtime:
                nursery.start_soon(watch, runtime)
                await channel.say("a", "hi")
                stack.enter_context(troubled(path, trouble, disk, vfs))
                nursery.start_soon(publish, runtime)
                await trio.sleep(1)

    assert told == [Stuck(turns=0, sends=0, store=CODES[trouble])]


async def test_what_comes_after_the_journal_gave_up_is_refused_at_once(
    tmp_path: Path, autojump_clock: MockClock, vfs: FaultyVfs
) -> None:
    """A later commit must not be stored without the ones before it."""
    async with running(open_sqlite(tmp_path / "bot.db", mode="inline", vfs=vfs.name)) as hand:
        record = await hand.accept("tg:1", 1, claim=True)
        vfs.arm(Fault("write", count=None, error=apsw.FullError))
        hand.store.wind_down()
        with refused(Code.STORE_IO):
            await hand.move(finish_row(record))
        vfs.arm(None)
        began_s = trio.current_time()
        with refused(Code.STORE_IO):
            await hand.move(finish_row(record))
        assert trio.current_time() == began_s


@pytest.mark.parametrize("mode", ["inline", "thread"])
async def test_a_store_that_can_write_goes_on_while_it_winds_down(tmp_path: Path, mode: Mode) -> None:
    async with running(open_sqlite(tmp_path / "bot.db", mode=mode)) as hand:
        hand.store.wind_down()
        await hand.accept("tg:1", 1)
    async with running(open_sqlite(tmp_path / "bot.db", mode=mode)) as hand:
        assert hand.store.info.clean
