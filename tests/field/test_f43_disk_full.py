"""Field entry 43: the disk fills up in the middle: typed, intake stops, the rest goes on, all resumes by itself.

Every write of a whole run that finds no room, one by one: `tests/crash/test_vfs_bot.py`, `test_any_fault.py` beside
it, and `tests/storage/sqlite/test_commit_failures.py`. A stop over a full disk: `tests/runtime/test_stop_full.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import apsw
import attrs
import pytest
import structlog.testing
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Edge, Inbound, Outbound, SendOutcome, Sent
from shardline.runtime.defaults import PULSE_S
from shardline.storage.commands import Committed, Outcome, StateWrite
from shardline.storage.records import OutboxState
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.health import integrity
from shardline.storage.sqlite.look import Look
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot, new_message, until_quiet
from tests.kits.disks import Disk
from tests.kits.faulty_vfs import Fault, FaultyVfs
from tests.kits.operated import operate
from tests.kits.store_checks import check_store
from tests.kits.store_rows import finish_row
from tests.kits.stores import running

COUNT = 60
PAGES = 50


class Updates:
    """A poller of sixty updates; it confirms each to the platform when it is stored.

    Attributes:
        runs: How often it was started.
        confirmed: The updates, in order.
    """

    name = prefix = "upd"
    caps = ChannelCaps()

    def __init__(self) -> None:
        self.runs = 0
        self.confirmed: list[int] = []
        self.sent: list[str] = []

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.runs += 1
        task_status.started()
        for number in range(COUNT):
            text = f"{number} " + "x" * 3000
            await edge.accept(Inbound(platform_message_id=str(number), address=f"{number}", text=text))
            self.confirmed.append(number)

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        self.sent.append(out.text.split()[1])
        return Sent(None)


def extra(name: str) -> BusMessage:
    return attrs.evolve(new_message("y" * 3000, key=f"upd:p{name}", idem=name), channel="upd")


async def test_intake_stops_over_a_full_disk_and_resumes_by_itself(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    path, updates = tmp_path / "bot.db", Updates()
    disk = Disk(path)
    disk.leave(PAGES)
    refused: list[str] = []
    with structlog.testing.capture_logs() as logs:
        async with Runtime.open(counting_bot(), store=disk.store, adapters=[updates]) as runtime:
            await trio.sleep(30)
            before = list(updates.confirmed)
            for number in range(20):
                try:
                    await runtime.publish(extra(str(number)))
                except BusError as error:
                    assert error.code is Code.STORE_FULL  # noqa: PT017
                    refused.append(str(number))
            await trio.sleep(300)
            status = runtime.status()

            assert 5 < len(before) < COUNT
            assert updates.confirmed == before
            assert len(refused) > 10
            assert status.intake.is_paused
            assert status.intake.store_code is Code.STORE_FULL
            assert status.intake.store_s > 300
            stored = {row.message.extensions.platform_message_id for row in runtime.messages.list(limit=1000)}
            assert {str(number) for number in before} == stored - {None}

            disk.heal()
            await trio.sleep(5.1)
            assert updates.confirmed == list(range(COUNT))
            for name in refused:
                receipt = await runtime.publish(extra(name))
                assert not receipt.duplicate
            await until_quiet(runtime)
            assert not runtime.status().intake.is_paused
            numbers = [text for text in updates.sent if text.isdigit()]
            assert Counter(numbers) == Counter(str(number) for number in range(COUNT))
            assert len(updates.sent) == COUNT + 20
            assert runtime.status().run.get("crashes", 0) == 0

    assert updates.runs == 1
    told = [entry["event"] for entry in logs if entry["event"].startswith("intake.")]
    assert told == ["intake.store_refused", "intake.store_recovered"]
    assert len(check_store(path)) == COUNT + 20


@pytest.mark.parametrize("pages", [7, *(pytest.param(n, marks=pytest.mark.long) for n in range(0, 60, 2))])
async def test_a_disk_that_is_full_from_any_page_on_loses_nothing_and_resumes(
    tmp_path: Path, autojump_clock: MockClock, pages: int
) -> None:
    path, updates = tmp_path / "bot.db", Updates()
    disk = Disk(path)
    async with Runtime.open(counting_bot(), store=disk.store, adapters=[updates]) as runtime:
        disk.leave(pages)
        await trio.sleep(60)
        stored = {row.message.extensions.platform_message_id for row in runtime.messages.list(limit=1000)}
        assert stored == {str(number) for number in updates.confirmed}
        assert len(stored) < COUNT

        disk.heal()
        await trio.sleep(5.1)
        await until_quiet(runtime)
        assert updates.confirmed == list(range(COUNT))
        assert Counter(updates.sent) == Counter(str(number) for number in range(COUNT))
        assert runtime.status().run.get("crashes", 0) == 0
    assert updates.runs == 1
    assert len(check_store(path)) == COUNT


async def test_whoever_looks_from_outside_is_told_as_soon_as_a_write_has_failed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """The note of the owner cannot be written, and the last one says that all is well."""
    path, vfs = tmp_path / "bot.db", FaultyVfs("full-for-a-look")
    try:
        store = open_sqlite(path, mode="inline", durability="normal", vfs=vfs.name)
        async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()]):
            await trio.sleep(1)
            assert operate("status", "--health", "--store", path).stdout == "health  ok\n"
            vfs.arm(Fault("write", count=None, error=apsw.FullError))
            await trio.sleep(PULSE_S)
            health = operate("status", "--health", "--store", path)
            told = json.loads(operate("status", "--health", "--store", path, "--json").stdout)
            people = operate("status", "--store", path).stdout
            doctor = operate("doctor", "--store", path).stdout
            vfs.arm(None)
            await trio.sleep(2 * PULSE_S)
            healed = operate("status", "--health", "--store", path)
    finally:
        vfs.unregister()

    assert health.exit_code == 1
    assert health.stdout.startswith(
        "health  failing\n  store_failing: the store takes nothing: STORE_FULL, since "
    )
    assert told["state"] == "failing"
    assert [reason["word"] for reason in told["reasons"]] == ["store_failing"]
    assert "store_failing" in people
    assert "the store takes nothing: STORE_FULL" in doctor
    assert "the owner writes it" not in doctor
    assert (healed.exit_code, healed.stdout) == (0, "health  ok\n")


def test_what_the_bundled_sqlite_makes_of_fifty_pages(tmp_path: Path) -> None:
    """The entry's own figures: the runtime leans on them."""
    database, stored = apsw.Connection(str(tmp_path / "plain.db")), 0
    database.execute("PRAGMA max_page_count = 50")
    database.execute("CREATE TABLE told (number INTEGER PRIMARY KEY, text TEXT)")
    with pytest.raises(apsw.FullError):
        while stored < COUNT:
            database.execute("INSERT INTO told (text) VALUES (?)", ("x" * 3500,))
            stored += 1

    assert stored == 48
    assert not database.in_transaction
    assert database.pragma("integrity_check") == "ok"
    database.execute("UPDATE told SET text = ? WHERE number = 1", ("y" * 3500,))
    database.execute(f"PRAGMA max_page_count = {PAGES * 2}")
    for _ in range(stored, COUNT):
        database.execute("INSERT INTO told (text) VALUES (?)", ("x" * 3500,))
    assert database.execute("SELECT count(*) FROM told").fetchall() == [(COUNT,)]
    database.close()


async def test_a_store_of_fifty_pages(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The entry's own input; the tables of an empty store take most of these pages."""
    path = tmp_path / "bot.db"
    disk, hook = Disk(path), FakeChannel(caps=ChannelCaps(linear=False))
    disk.limit(PAGES)
    refused: list[int] = []
    async with Runtime.open(counting_bot(), store=disk.store, adapters=[hook]) as runtime:
        for number in range(COUNT):
            try:
                await hook.say(f"{number}", "x" * 3000, platform_message_id=str(number))
            except BusError as error:
                assert error.code is Code.STORE_FULL  # noqa: PT017
                refused.append(number)
        assert len(refused) > COUNT / 2
        assert not disk.is_in_transaction
        with Look(path) as look:
            assert integrity(look, is_full=True) == []
        disk.heal()
        await trio.sleep(5.1)
        for number in refused:
            await hook.say(f"{number}", "x" * 3000, platform_message_id=str(number))
        await until_quiet(runtime)

        assert Counter(out.address for out in hook.delivered) == Counter(str(n) for n in range(COUNT))
    assert len(check_store(path)) == COUNT


async def test_a_channel_that_can_say_no_says_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    """A web hook answers 503 and the platform comes again; it must not wait for a disk."""
    disk = Disk(tmp_path / "bot.db")
    hook = FakeChannel(caps=ChannelCaps(linear=False))
    codes: list[Code] = []
    async with Runtime.open(counting_bot(), store=disk.store, adapters=[hook]) as runtime:
        disk.leave(1)
        for number in range(30):
            try:
                await hook.say("a", "x" * 3000, platform_message_id=str(number))
            except BusError as error:
                codes.append(error.code)
        assert set(codes) == {Code.STORE_FULL}
        assert len(codes) > 20
        disk.heal()
        await trio.sleep(5)
        for number in range(30):
            await hook.say("a", "x" * 3000, platform_message_id=str(number))
        await until_quiet(runtime)

        assert [out.text.partition(":")[0] for out in hook.delivered] == [str(n + 1) for n in range(30)]


async def test_a_send_whose_end_needs_no_room_ends(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The commit of another conversation that does not fit must not hold it up."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "grow":
            ctx.state["kept"] = "x" * 200_000
        ctx.reply(message.payload.text)

    go_on = trio.Event()

    class Slow(FakeChannel):
        async def send(self, out: Outbound) -> SendOutcome:
            if out.text == "slow":
                await go_on.wait()
            return await super().send(out)

    disk, channel = Disk(tmp_path / "bot.db"), Slow()
    async with Runtime.open(topology, store=disk.store, adapters=[channel]) as runtime:
        await channel.say("a", "slow")
        await trio.sleep(1)
        disk.leave(20)
        await channel.say("b", "grow")
        await trio.sleep(1)
        assert runtime.outbox.list(key="fake:b") == []
        go_on.set()
        await trio.sleep(11)

        assert [row.record.state for row in runtime.outbox.list(key="fake:a")] == [OutboxState.SENT]
        assert [out.text for out in channel.delivered] == ["slow"]
        disk.heal()
        await until_quiet(runtime)
        assert [out.text for out in channel.delivered] == ["slow", "grow"]


@pytest.mark.parametrize("is_same_shard", [False, True])
async def test_what_fits_passes_what_does_not_but_never_in_its_own_shard(
    tmp_path: Path, autojump_clock: MockClock, is_same_shard: bool
) -> None:
    disk = Disk(tmp_path / "bot.db")
    async with running(disk.store) as hand:
        big = await hand.accept("tg:1", 1, claim=True)
        other = (
            "tg:1"
            if is_same_shard
            else next(
                key for key in (f"tg:{n}" for n in range(2, 100)) if hand.shard(key) != hand.shard("tg:1")
            )
        )
        small = await hand.accept(other, 2, claim=not is_same_shard)
        disk.leave(10)
        told: list[tuple[str, Outcome]] = []
        grown = (StateWrite("tg:1", bytes(200_000), 1),)
        hand.store.submit(
            hand.commit(big.shard, inbox=(finish_row(big),), state=grown),
            lambda one: told.append(("big", one)),
        )
        moves = () if is_same_shard else (finish_row(small),)
        hand.store.submit(hand.commit(small.shard, inbox=moves), lambda one: told.append(("small", one)))
        await trio.sleep(20)

        assert told == ([] if is_same_shard else [("small", Committed())])
        disk.heal()
        await trio.sleep(6)
        assert [name for name, _ in told] == (["big", "small"] if is_same_shard else ["small", "big"])
        assert {type(outcome) for _, outcome in told} == {Committed}
    check_store(tmp_path / "bot.db")
