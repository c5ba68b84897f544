"""The channel has one line of health: no part's "ok" hides what another part has to say."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from shardline import Runtime
from shardline.adapters.telegram.health import Health
from shardline.adapters.telegram.sim.script import Fault
from shardline.runtime.health import Reason
from tests.adapters.telegram.platform import echo_bot, open_platform
from tests.adapters.telegram.test_bot import LIMIT_S, quiet, store
from tests.adapters.telegram.test_poller import Watched


async def test_the_worst_is_told_and_the_next_one_when_it_is_over(autojump_clock: MockClock) -> None:
    edge = Watched()
    health = Health(edge)
    reading, menu = health.part(), health.part()

    menu.report("degraded", "no menu")
    reading.report("failing", "nothing to read")
    menu.report("degraded", "still no menu")
    reading.report("degraded", "another one reads")
    reading.report("ok")
    menu.report("ok")

    assert [(state, text) for _, state, text in edge.said] == [
        ("degraded", "no menu"),
        ("failing", "nothing to read"),
        ("failing", "nothing to read"),
        ("degraded", "another one reads"),
        ("degraded", "still no menu"),
        ("ok", ""),
    ]


def reasons(runtime: Runtime) -> list[Reason]:
    return [reason for reason in runtime.health().reasons if reason.word == "channel_reports"]


async def test_a_menu_that_is_refused_is_still_told_when_reading_has_recovered() -> None:
    menu = "the menu of commands is refused with 404"
    hook = (
        "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete it first"
    )
    async with open_platform() as platform:
        bot = platform.bot
        bot.add_fault(Fault(method="setMyCommands", kind="refuse", code=404, description="Not Found"))
        bot.add_fault(Fault(method="getUpdates", kind="refuse", code=409, description=hook))
        adapter = platform.adapter(commands=[("/start", "Begin")])
        async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
            with trio.fail_after(LIMIT_S):
                await runtime.wait_until(lambda: [one.state.value for one in reasons(runtime)] == ["failing"])
            bot.say(5, "hi")
            await quiet(runtime, lambda: len(bot.sent()) == 1)
            with trio.fail_after(LIMIT_S):
                await runtime.wait_until(lambda: [one.text for one in reasons(runtime)] == [menu])
