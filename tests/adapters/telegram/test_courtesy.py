"""Calls of the start that get no answer: the bot reads on, health says what is missing, and the call is made again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import trio
from trio.testing import MockClock

from shardline import Runtime
from shardline.actors.errors import BusError, Code
from shardline.adapters.telegram import Webhook
from shardline.adapters.telegram.api import NeverSent, NoAnswer
from shardline.adapters.telegram.courtesy import Courtesy
from shardline.adapters.telegram.menu import Menu
from shardline.adapters.telegram.sim.script import Fault, FaultKind
from shardline.adapters.telegram.wire import Ok, Refusal
from tests.adapters.telegram.platform import echo_bot, open_platform
from tests.adapters.telegram.test_bot import LIMIT_S, quiet, store
from tests.adapters.telegram.test_poller import Server, Watched

MENU = [("/start", "Begin")]
FLOOD = Refusal(code=429, description="Too Many Requests: retry after 7", retry_after_s=7)


async def test_it_is_made_again_ever_later_and_never_sooner_than_asked_for(autojump_clock: MockClock) -> None:
    server = Server(NeverSent("no connection"), NoAnswer("cut"), FLOOD, Refusal(code=502), Ok(True))
    edge = Watched()
    menu = Menu(server, MENU, edge, lambda: 0.5)

    assert not await menu.set_once()
    await menu.set()

    pauses = [later - sooner for sooner, later in zip(server.times, server.times[1:], strict=False)]
    assert pauses == pytest.approx([0.75, 1.5, 7.0, 6.0])
    assert server.asked == [{"commands": [{"command": "start", "description": "Begin"}]}] * 5
    assert [state for _, state, _ in edge.said] == ["degraded"] * 4 + ["ok"]
    assert edge.said[2][2] == "the menu of commands is not set: refused with 429"


async def test_a_server_that_never_answers_holds_up_no_start(autojump_clock: MockClock) -> None:
    server, edge = Server(), Watched()
    began_s = trio.current_time()

    assert await Courtesy(lambda: server.call("getMe", {}), "it is not set", edge, lambda: 0.5).once() is None
    assert trio.current_time() - began_s == 5
    assert edge.said[0][1:] == ("degraded", "it is not set: no answer within 5 s")


async def test_a_refusal_that_stays_is_told_and_not_repeated(autojump_clock: MockClock) -> None:
    server, edge = Server(Refusal(code=404, description="Not Found"), Ok(True)), Watched()

    assert await Menu(server, MENU, edge, lambda: 0.5).set_once()
    assert len(server.asked) == 1
    assert edge.said[0][1:] == ("degraded", "the menu of commands is refused with 404")


LOST: list[tuple[FaultKind, int, Mapping[str, int] | None]] = [
    ("drop", 0, None),
    ("drop_after", 0, None),
    ("html", 502, None),
    ("refuse", 500, None),
    ("refuse", 429, {"retry_after": 1}),
]


@pytest.mark.parametrize(("kind", "code", "parameters"), LOST)
async def test_a_menu_that_is_not_set_at_the_start_is_set_while_the_bot_answers(
    kind: FaultKind, code: int, parameters: Mapping[str, int] | None
) -> None:
    async with open_platform() as platform:
        bot = platform.bot
        bot.add_fault(Fault(method="setMyCommands", kind=kind, code=code, parameters=parameters))
        bot.say(5, "hi")
        adapter = platform.adapter(commands=MENU)
        async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
            await quiet(runtime, lambda: len(bot.sent()) == 1)
            with trio.fail_after(LIMIT_S):
                while [one.fault for one in bot.calls if one.method == "setMyCommands"] != [kind, None]:
                    await bot.wait_called()

        assert bot.sent()[0].text == "hi"


async def test_a_menu_that_can_be_none_ends_the_start() -> None:
    async with open_platform() as platform:
        platform.bot.add_fault(
            Fault(method="setMyCommands", kind="refuse", code=400, description="Bad Request")
        )
        with pytest.raises(BusError) as caught:
            async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter(commands=MENU)]):
                pass

    assert caught.value.code is Code.INVALID_MESSAGE
    assert "the commands are refused" in str(caught.value)


async def test_what_the_platform_says_of_its_web_hook_may_be_lost() -> None:
    """Nobody knows whether there is one: polling begins, and a 409 would tell."""
    async with open_platform() as platform:
        platform.bot.add_fault(Fault(method="getWebhookInfo", kind="drop"))
        platform.bot.say(5, "hi")
        async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == 1)


async def test_a_web_hook_that_is_not_told_at_the_start_is_told_later() -> None:
    async with open_platform() as platform:
        bot = platform.bot
        bot.add_fault(Fault(method="setWebhook", kind="drop", times=2))
        bot.say(5, "hi")
        hook = Webhook(secret="a-secret_of-tests", url="http://127.0.0.1:9/none", port=0)
        async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter(webhook=hook)]):
            with trio.fail_after(LIMIT_S):
                while not bot.webhook_url:
                    await bot.wait_called()

        assert [one.fault for one in bot.calls if one.method == "setWebhook"] == ["drop", "drop", None]
