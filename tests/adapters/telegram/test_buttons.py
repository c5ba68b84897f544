"""A button's waiting sign ends once the press is on disk, by the handler or without it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.errors import BusError, Code
from shardline.actors.extensions import Extensions, Kind
from shardline.actors.plain import Plain
from shardline.adapters.base import Inbound
from shardline.adapters.telegram import Telegram, answer_callback
from shardline.adapters.telegram.api import NoAnswer
from shardline.adapters.telegram.buttons import Buttons
from shardline.adapters.telegram.limits import BUTTONS
from shardline.adapters.telegram.sim.script import Fault
from shardline.adapters.telegram.wire import Ok, Refusal
from shardline.testing import KitCheck, adapter_kit
from tests.adapters.telegram import samples
from tests.adapters.telegram.platform import FREE, TelegramPlatform, echo_bot, open_platform
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_bot import LIMIT_S, quiet, store
from tests.adapters.telegram.test_poller import Server

QUERY = "44000000000000001"


def press(query: str = QUERY, kind: Kind = Kind.CALLBACK) -> Inbound:
    extensions = Extensions(kind=kind, event_id=query)
    return Inbound(platform_message_id=f"callback:{query}", address="5", text="ok:1", extensions=extensions)


@asynccontextmanager
async def open_buttons(server: Server, wait_s: float | None = 2.0) -> AsyncGenerator[Buttons]:
    buttons = Buttons(server, wait_s)
    async with trio.open_nursery() as nursery:
        await nursery.start(buttons.run)
        yield buttons
        nursery.cancel_scope.cancel()


async def test_a_press_that_nobody_answers_is_answered(autojump_clock: MockClock) -> None:
    server = Server(Ok(True))
    async with open_buttons(server) as buttons:
        assert buttons.expect(press()) == QUERY
        await trio.sleep(60)
        assert server.asked == [], "it is not on disk yet"

        began_s = trio.current_time()
        buttons.begin(QUERY)
        await trio.sleep(60)

        assert server.asked == [{"callback_query_id": QUERY}]
        assert server.times == [began_s + 2]
        assert (buttons.answered, buttons.lost) == (1, 0)


@pytest.mark.parametrize("is_quick", [True, False])
async def test_what_the_handler_answers_is_left_alone(is_quick: bool, autojump_clock: MockClock) -> None:
    """It may do so before the channel has heard that the press is on disk."""
    server = Server()
    async with open_buttons(server) as buttons:
        assert buttons.expect(press()) == QUERY
        if is_quick:
            buttons.forget(QUERY)
        buttons.begin(QUERY)
        await trio.sleep(1)
        buttons.forget(QUERY)
        await trio.sleep(60)

        assert server.asked == []
        assert (buttons.answered, buttons.lost) == (0, 0)


@pytest.mark.parametrize(
    "answer", [Refusal(code=429, retry_after_s=30), Refusal(code=400), NoAnswer("cut"), "none"]
)
async def test_there_is_one_call_and_no_second(
    answer: Refusal | NoAnswer | str, autojump_clock: MockClock
) -> None:
    server = Server() if isinstance(answer, str) else Server(answer)
    async with open_buttons(server) as buttons:
        buttons.expect(press())
        buttons.begin(QUERY)
        await trio.sleep(600)

        assert len(server.asked) == 1
        assert (buttons.answered, buttons.lost) == (0, 1)


async def test_what_is_no_press_and_what_is_the_handlers_is_left_alone(autojump_clock: MockClock) -> None:
    async with open_buttons(Server()) as buttons:
        assert buttons.expect(press(kind=Kind.NEW)) is None
    async with open_buttons(Server(), None) as buttons:
        assert buttons.expect(press()) is None


async def test_no_more_than_so_many_wait(autojump_clock: MockClock) -> None:
    server = Server(*[Ok(True)] * BUTTONS)
    async with open_buttons(server) as buttons:
        for number in range(BUTTONS + 3):
            query = buttons.expect(press(str(number)))
            if query is not None:
                buttons.begin(query)
        await trio.sleep(60)

        assert (buttons.answered, buttons.lost) == (BUTTONS, 3)
        assert buttons.expect(press()) == QUERY


@pytest.mark.parametrize("wait_s", [-1.0, 121.0, float("nan"), float("inf")])
def test_a_wait_that_can_be_none_is_refused(wait_s: float) -> None:
    with pytest.raises(BusError) as caught:
        Telegram(TOKEN, answer_buttons_s=wait_s)

    assert caught.value.code is Code.INVALID_MESSAGE


def bot_with_buttons(*, answers: bool) -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def pressed(ctx: Context, message: BusMessage) -> None:
        query = message.extensions.event_id
        if answers and query is not None:
            ctx.ephemeral(answer_callback(query, "thanks"))
        ctx.reply(message.payload.text)

    return topology


@pytest.mark.parametrize("answers", [False, True])
async def test_a_bot_answers_a_press_once(answers: bool) -> None:
    """Where the handler does it, with its text; else without. The answer to the chat does not wait for it."""
    async with open_platform() as platform:
        bot = platform.bot
        bot.push({"callback_query": samples.body_of(samples.CALLBACK, "callback_query")})
        adapter = Telegram(
            TOKEN, api_base=platform.server.base, limits=FREE, answer_buttons_s=120.0 if answers else 0.2
        )
        platform.opened.append(adapter)
        topology = bot_with_buttons(answers=answers)
        async with Runtime.open(topology, store=store(), adapters=[adapter]) as runtime:
            await quiet(runtime, lambda: len(bot.sent()) == 1)
            with trio.fail_after(LIMIT_S):
                while "answerCallbackQuery" not in [one.method for one in bot.calls]:
                    await bot.wait_called()
            assert adapter.buttons.waiting == 0
            bot.say(5, "and on")
            await quiet(runtime, lambda: len(bot.sent()) == 2)

        found = [one.fields for one in bot.calls if one.method == "answerCallbackQuery"]
        wanted = {"callback_query_id": QUERY}
        assert found == [wanted | {"text": "thanks", "show_alert": False} if answers else wanted]


async def test_a_platform_that_takes_no_answers_holds_up_nothing() -> None:
    async with open_platform() as platform:
        bot = platform.bot
        bot.add_fault(Fault(method="answerCallbackQuery", kind="hang", times=-1))
        bot.push({"callback_query": samples.body_of(samples.CALLBACK, "callback_query")})
        adapter = Telegram(TOKEN, api_base=platform.server.base, limits=FREE, answer_buttons_s=0.0)
        platform.opened.append(adapter)
        async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
            with trio.fail_after(LIMIT_S):
                while "answerCallbackQuery" not in [one.method for one in bot.calls]:
                    await bot.wait_called()
            bot.say(5, "and on")
            await quiet(runtime, lambda: len(bot.sent()) == 2 and bot.waiting == 0)


@attrs.define
class PressPlatform(TelegramPlatform):
    """People who press buttons."""

    addresses: Sequence[str] = ("7001", "7002")
    pressed: int = 0

    async def say(self, address: str, text: str) -> None:
        self.pressed += 1
        query: dict[str, Plain] = {
            "id": str(self.pressed),
            "from": {"id": int(address), "is_bot": False, "first_name": "Ada"},
            "message": {"message_id": 1, "chat": {"id": int(address)}, "date": 1_760_000_000},
            "chat_instance": "-90001",
            "data": text,
        }
        self.bot.push({"callback_query": query})

    def open(self) -> Telegram:
        adapter = Telegram(
            TOKEN, api_base=self.server.base, limits=FREE, start_wait_s=0, answer_buttons_s=0.0
        )
        self.opened.append(adapter)
        return adapter


@asynccontextmanager
async def press_platform(folder: Path) -> AsyncGenerator[PressPlatform]:
    async with open_platform() as platform:
        pressed = PressPlatform(platform.server, opened=platform.opened)
        yield pressed


@pytest.mark.parametrize("check", adapter_kit(press_platform, Telegram(TOKEN, limits=FREE).caps), ids=str)
async def test_presses_that_are_answered_keep_the_contract(check: KitCheck, tmp_path: Path) -> None:
    await check(tmp_path)
