"""What goes out at the second call, where the first was refused for its form: texts with entities, and long ones."""

from __future__ import annotations

import pytest

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.plain import Plain
from shardline.adapters.telegram import message
from shardline.adapters.telegram.sim.bot import SimCall
from shardline.adapters.telegram.sim.script import Fault
from shardline.content import Action
from shardline.runtime.split import length_of
from shardline.storage.records import OutboxState
from tests.adapters.telegram.platform import TelegramPlatform, echo_bot, open_platform
from tests.adapters.telegram.test_bot import quiet, store
from tests.adapters.telegram.test_outcomes import call, out

BOLD: dict[str, Plain] = {"type": "bold", "offset": 0, "length": 2}
LINK: dict[str, Plain] = {"type": "text_link", "offset": 3, "length": 3, "url": "https://example.org/"}
LONG = 3_000


def sends(platform: TelegramPlatform) -> list[SimCall]:
    return [one for one in platform.bot.calls if one.method == "sendMessage"]


def formatted() -> Topology:
    """Answers with a text whose formatting is told as entities."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, said: BusMessage) -> None:
        ctx.reply(message("hi all", entities=[BOLD, LINK], silent=True))

    return topology


async def test_entities_go_along() -> None:
    async with open_platform() as platform:
        platform.bot.say(5, "hi")
        async with Runtime.open(formatted(), store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == 1)

        [sent] = sends(platform)
    assert sent.fields == {
        "chat_id": 5,
        "text": "hi all",
        "entities": [BOLD, LINK],
        "disable_notification": True,
    }


async def test_entities_that_cannot_be_parsed_are_left_out() -> None:
    async with open_platform() as platform:
        bot = platform.bot
        wrong = "Bad Request: can't parse entities: entity is beyond the text"
        bot.add_fault(Fault(method="sendMessage", kind="refuse", code=400, description=wrong))
        bot.say(5, "hi")
        async with Runtime.open(formatted(), store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(bot.sent()) == 1)
            [row] = [found.record for found in runtime.outbox.list()]
        refused, sent = sends(platform)

    assert refused.fields["entities"] == [BOLD, LINK]
    assert sent.fields == {"chat_id": 5, "text": "hi all", "disable_notification": True}
    assert (row.state, row.attempts, row.degraded) == (OutboxState.SENT, 1, "formatting")


def test_without_formatting_is_without_entities_of_the_caption_too() -> None:
    photo = Action("sendPhoto", {"photo": "F1", "caption": "look", "caption_entities": [BOLD]})
    whole = call(out("5", content=photo))
    bare = call(out("5", content=photo, degraded="formatting"))

    assert whole.fields["caption_entities"] == [BOLD]
    assert bare.fields == {"chat_id": 5, "photo": "F1", "caption": "look"}


@pytest.mark.parametrize(
    "refusal",
    [(400, "Bad Request: message is too long"), (413, "Request Entity Too Large")],
    ids=["too long", "too large"],
)
@pytest.mark.parametrize("word", ["word ", "\U0001f600"], ids=["words", "emoji"])
async def test_a_text_that_is_refused_once_as_too_long_goes_out_in_pieces(
    word: str, refusal: tuple[int, str]
) -> None:
    text = (word * LONG)[: LONG // length_of(word, "utf16") * len(word)]
    assert length_of(text, "utf16") == LONG
    code, description = refusal
    async with open_platform() as platform:
        bot = platform.bot
        bot.add_fault(
            Fault(method="sendMessage", kind="refuse", code=code, description=description, text=text)
        )
        bot.say(-1001557000001, text)
        bot.say(-1001557000001, "and then")
        async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: "and then" in [one.text for one in bot.sent()])
            rows = [found.record for found in runtime.outbox.list()]
        whole, *pieces, last = sends(platform)

    assert (whole.text, whole.message_id) == (text, None)
    assert len(pieces) > 1
    assert "".join(one.text or "" for one in pieces) == text
    assert all(length_of(one.text or "", "utf16") <= LONG / 2 for one in pieces)
    # The first piece answers; the others stand behind it.
    assert ["reply_parameters" in one.fields for one in pieces] == [True] + [False] * (len(pieces) - 1)
    assert last.text == "and then"
    assert [row.state for row in rows] == [OutboxState.SENT] * (len(pieces) + 1)
