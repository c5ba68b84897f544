"""Field entry 12 with two bots that really poll with one token: each ends the other's poll, and neither gives up.

The clock runs fast, for both bots and for the server between them: a minute of conflict takes three seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.telegram.limits import CONFLICT_PAUSE_S, CONFLICT_S
from shardline.adapters.telegram.poller import ANOTHER
from shardline.runtime.health import HealthState
from shardline.storage.memory import open_memory
from tests.adapters.telegram.platform import open_platform

LIMIT_S = 2_000


def is_told(runtime: Runtime) -> bool:
    """Whether its health says in plain words that another one is there."""
    told = [(reason.word, reason.about, reason.text) for reason in runtime.health().reasons]
    return told == [("channel_reports", "telegram", ANOTHER)]


def echo(handled: list[str]) -> Topology:
    """Answers every message with its text, and keeps it."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        handled.append(message.payload.text)
        ctx.reply(message.payload.text)

    return topology


async def until(condition: Callable[[], bool]) -> float:
    """Wait for what no event tells of; answers with when it was seen."""
    for _ in range(LIMIT_S):
        if condition():
            return trio.current_time()
        await trio.sleep(1)
    raise AssertionError("it does not come to that")


async def test_two_bots_of_one_token_poll_on_slowly_say_so_and_lose_nothing(mock_clock: MockClock) -> None:
    mock_clock.rate = 20
    one, other = list[str](), list[str]()
    async with (
        open_platform() as platform,
        Runtime.open(echo(one), store=open_memory(), adapters=[platform.adapter()]) as stays,
    ):
        bot, begun_s = platform.bot, trio.current_time()
        async with Runtime.open(echo(other), store=open_memory(), adapters=[platform.adapter()]) as goes:
            both = (stays, goes)
            told_s = [await until(partial(is_told, each)) for each in both]
            # Each ends the other's poll, and rests before its next one.
            polls, took_s = bot.polls, trio.current_time() - begun_s

            assert min(told_s) - begun_s >= CONFLICT_S, "said while it may be a poll left over from a restart"
            assert [each.health().state for each in both] == [HealthState.DEGRADED] * 2
            assert CONFLICT_S / (2 * CONFLICT_PAUSE_S) <= polls <= 2 * (took_s / CONFLICT_PAUSE_S + 1)

            for number in range(5):
                bot.say(number + 1, f"m{number}")
            await until(lambda: not bot.waiting and all(each.is_quiet for each in both))
        bot.say(1, "alone")
        await until(lambda: not bot.waiting and stays.is_quiet)

        await until(lambda: stays.health().state is HealthState.OK)
        # What one had taken and the server had not heard of yet is told the other one as well; each takes it once.
        assert {*one, *other} == {"alone", *(f"m{number}" for number in range(5))}
        assert len(one) == len(set(one))
        assert len(other) == len(set(other))
        assert Counter(call.text for call in bot.sent()) == Counter([*one, *other])
