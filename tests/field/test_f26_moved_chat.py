"""F26: a group becomes a supergroup. Its rows, its order and its state stay; only the address is another."""

from typing import Literal

import pytest
from trio.testing import MockClock

from shardline import BusMessage, Code, Context, Permanence, Topology
from shardline.adapters.base import NotSent
from shardline.testing import Harness

OLD, NEW = "-4001", "-1001557000001"


@pytest.mark.parametrize("store", ["memory", "sqlite-inline"])
async def test_f26_three_rows_arrive_at_the_new_id_in_order(
    store: Literal["memory", "sqlite-inline"], autojump_clock: MockClock
) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        for word in message.payload.text.split():
            ctx.reply(word)

    async with Harness(topology, channels=["telegram"], store=store) as bot:
        telegram = bot.channel("telegram")
        telegram.script(
            NotSent(Code.RECIPIENT_NOT_FOUND, Permanence.PERMANENT, text="migrated", moved_to=NEW)
        )
        await bot.say(f"tg:{OLD}", "m1 m2 m3")
        await bot.settle()
        rows = bot.outbox(f"tg:{OLD}")
        assert [(out.address, out.text) for out in telegram.attempts] == [
            (OLD, "m1"),
            (NEW, "m1"),
            (NEW, "m2"),
            (NEW, "m3"),
        ]
        assert [(row.status, row.attempts) for row in rows] == [("sent", 1)] * 3

        await bot.crash()
        await bot.say(f"tg:{NEW}", "m4")
        await bot.settle()
        assert [one.record.conversation_key for one in bot.runtime.messages.list()] == [f"tg:{OLD}"] * 2
        assert (telegram.attempts[-1].address, telegram.attempts[-1].text) == (NEW, "m4")
        assert bot.outbox(f"tg:{NEW}") == []
