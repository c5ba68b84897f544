"""Field entries 9 and 19: the last confirmation is lost, and nobody is at the far end."""

from __future__ import annotations

import pytest
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import RateLimits
from shardline.adapters.telegram import Telegram
from shardline.adapters.telegram.sim.script import Fault, message_update
from shardline.adapters.telegram.sim.server import open_sim
from shardline.storage.memory import MemoryDatabase
from shardline.storage.records import OutboxState
from tests.adapters.telegram.platform import open_platform
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_bot import LIMIT_S, quiet, store
from tests.kits.bots import new_message
from tests.kits.ports import kept_port


async def test_f09_the_last_confirmation_is_lost() -> None:
    """Update 77, "/restart": the call that confirms it ends in a network error, so a new process gets it again."""
    handled: list[str] = []
    topology = Topology()

    @topology.on("chat.message")
    async def restart(ctx: Context, message: BusMessage) -> None:
        handled.append(message.payload.text)
        ctx.reply("restarting")

    async with open_platform() as platform:
        bot, database = platform.bot, MemoryDatabase()
        bot.push({"update_id": 77, **message_update(5, "/restart", 1)})
        bot.add_fault(Fault(method="getUpdates", kind="drop", after=1, times=-1))
        async with Runtime.open(topology, store=store(database), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(bot.sent()) == 1)
        assert bot.waiting == 1
        assert (handled, [call.text for call in bot.sent()]) == (["/restart"], ["restarting"])

        bot.forget_faults()
        async with Runtime.open(topology, store=store(database), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: bot.waiting == 0)
            assert runtime.counters.get("duplicates", 0) == 1
        assert (handled, [call.text for call in bot.sent()]) == (["/restart"], ["restarting"])


@pytest.mark.long
async def test_f19_a_refused_connection_is_tried_again_and_sent_once() -> None:
    # Nobody listens at the port: the system itself refuses.
    port = kept_port()
    base = f"http://127.0.0.1:{port}"
    adapter = Telegram(TOKEN, api_base=base, limits=RateLimits(), start_wait_s=0)
    topology = Topology()

    @topology.on("chat.message")
    async def tell(ctx: Context, message: BusMessage) -> None:
        ctx.send("telegram", "tg:5", "while away")

    async with Runtime.open(topology, store=store(), adapters=[adapter]) as runtime:
        await runtime.publish(new_message("tell them"))
        with trio.fail_after(LIMIT_S):
            await runtime.wait_until(lambda: any(row.record.errors for row in runtime.outbox.list()))
        [row] = runtime.outbox.list()
        assert row.record.state in {OutboxState.READY, OutboxState.FAILED}
        assert "no connection" in str(row.record.errors[-1])

        async with open_sim(port=port) as server:
            with trio.fail_after(LIMIT_S):
                await server.bot(TOKEN).wait_sent(1)
                await runtime.wait_until(lambda: runtime.counters.get("sent", 0) == 1)
            assert [call.text for call in server.bot(TOKEN).sent()] == ["while away"]
    await adapter.aclose()
