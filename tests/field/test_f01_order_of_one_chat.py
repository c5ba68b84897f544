"""Field entry 1: one conversation is handled strictly in order, whatever each message takes."""

from __future__ import annotations

import signal
from pathlib import Path

import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.telegram.sim.script import message_update
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel, Harness
from tests.adapters.telegram.platform import open_platform
from tests.field.order_bot import UPDATES, updates, work_s
from tests.kits.forked import run_forked, start_forked

BOT = Path(__file__).with_name("order_bot.py")
TEXTS = ["1", "2", "3", "4", "5", "6", "7", "8"]


async def test_a_backlog_of_one_chat_is_handled_in_its_order(autojump_clock: MockClock) -> None:
    topology = Topology()
    handled: list[str] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.sleep(work_s(message.payload.text))
        handled.append(message.payload.text)
        ctx.reply(message.payload.text)

    channel = FakeChannel("telegram")
    async with Harness(topology, channels=[channel]) as bot:
        for update in updates():
            assert await channel.read(update)
        await bot.settle()

        assert handled == TEXTS
        assert bot.sent("tg:4201") == TEXTS


async def test_a_page_of_one_chat_is_handled_in_its_order() -> None:
    """The same backlog as updates of the platform, over a socket."""
    topology, handled = Topology(), list[str]()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.sleep(work_s(message.payload.text))
        handled.append(message.payload.text)
        ctx.reply(message.payload.text)

    async with open_platform() as platform:
        for number, update_id in enumerate(UPDATES, 1):
            platform.bot.push({"update_id": update_id, **message_update(4201, str(number), number)})
        with trio.fail_after(20):
            async with Runtime.open(topology, store=open_memory(), adapters=[platform.adapter()]):
                await platform.bot.wait_sent(8)

        assert handled == TEXTS
        assert [call.text for call in platform.bot.sent(4201)] == TEXTS


def test_a_kill_half_way_changes_nothing_of_the_order(tmp_path: Path) -> None:
    with start_forked(BOT, str(tmp_path)) as running:
        seen = [running.stdout.readline().strip() for _ in range(4)]
        running.kill()
    assert running.returncode == -signal.SIGKILL
    assert seen == TEXTS[:4]

    done = run_forked(BOT, str(tmp_path), timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    handled = (tmp_path / "handled").read_text().split()
    # The kill may fall between a turn and its commit: then that one runs again. Nothing else does.
    assert sorted(set(handled)) == TEXTS
    assert handled == sorted(handled)
    assert len(handled) <= len(TEXTS) + 1
    sent = [line.split()[1] for line in (tmp_path / "sent").read_text().splitlines()]
    assert sent == TEXTS
