"""F20: what the adapter says decides; nobody reads texts or names of exceptions."""

import pytest
from trio.testing import MockClock

from shardline import BusMessage, Code, Context, Permanence, Topology
from shardline.adapters.base import NotSent
from shardline.storage.records import OutboxState
from shardline.testing import Harness

TEXT = "network unreachable timeout 429"


def echo() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


async def test_f20_a_permanent_refusal_is_one_attempt_whatever_its_text(autojump_clock: MockClock) -> None:
    async with Harness(echo()) as bot:
        bot.channel("fake").script(NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT, text=TEXT))
        await bot.say("fake:1", "hi")
        await bot.settle()
        (row,) = bot.outbox("fake:1")
        dead = [one.record.id for one in bot.runtime.outbox.list(state=OutboxState.DEAD)]

    assert len(bot.channel("fake").attempts) == 1
    assert dead == [row.id], "it is a dead letter"
    assert (row.attempts, row.dead_at_us is not None) == (1, True)
    assert [(error.code, error.text) for error in row.errors] == [("CONTENT_REFUSED", TEXT)]


@pytest.mark.parametrize("name", ["NetworkError", "BadRequest", "RetryAfter"])
async def test_f20_the_name_of_an_exception_says_nothing(name: str, autojump_clock: MockClock) -> None:
    async with Harness(echo()) as bot:
        bot.channel("fake").script(type(name, (Exception,), {})(TEXT))
        await bot.say("fake:1", "hi")
        await bot.settle()
        (row,) = bot.outbox("fake:1")

    assert len(bot.channel("fake").attempts) == 1
    assert (row.status, row.uncertain_since is not None) == ("pending", True)
