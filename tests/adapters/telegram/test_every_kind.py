"""Every kind of content, and messages from everywhere, all the way: from a turn over its row to the server's calls."""

from __future__ import annotations

from pathlib import Path

from shardline import BusMessage, Context, Runtime, Topology
from shardline.content import Action, Delete, Edit, Media
from tests.adapters.telegram import samples
from tests.adapters.telegram.platform import echo_bot, open_platform
from tests.adapters.telegram.test_bot import quiet, store


async def test_each_kind_of_content_is_its_own_call(tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    picture.write_bytes(b"no real picture")
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.ephemeral(Action("typing"))
        first = ctx.reply("one")
        ctx.reply(Media("photo", file_id="AgAC", caption="known"))
        ctx.reply(Media("photo", path=str(picture), caption="new"))
        ctx.reply(Media("document", path=str(picture)))
        ctx.reply(Edit(first, "two"))
        ctx.reply(Delete(first))

    async with open_platform() as platform:
        platform.bot.say(5, "hi")
        adapter = platform.adapter()
        async with Runtime.open(topology, store=store(), adapters=[adapter]) as runtime:
            await quiet(runtime, lambda: "deleteMessage" in [call.method for call in platform.bot.calls])
        calls = [call for call in platform.bot.calls if call.chat == 5]

    assert [call.method for call in calls if call.method != "sendChatAction"] == [
        *("sendMessage", "sendPhoto", "sendPhoto", "sendDocument", "editMessageText", "deleteMessage"),
    ]
    [typing] = [call for call in calls if call.method == "sendChatAction"]
    assert typing.fields["action"] == "typing"
    text, known, new, _, edit, delete = (call for call in calls if call.method != "sendChatAction")
    assert (known.fields["photo"], known.text, new.text) == ("AgAC", "known", "new")
    assert edit.fields["message_id"] == delete.fields["message_id"] == text.message_id
    assert edit.text == "two"


async def test_a_business_message_and_a_post_are_answered_where_they_came_from() -> None:
    async with open_platform() as platform:
        platform.bot.push(samples.BUSINESS)
        platform.bot.push(samples.POST)
        adapter = platform.adapter()
        async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == 2)
        answers = {call.chat: call.fields for call in platform.bot.sent()}

    business, post = answers[7000000003], answers[-1001557000009]
    assert (business["text"], business["business_connection_id"]) == ("price?", "bc-fake-1")
    assert post["text"] == "v1 out"
    assert "business_connection_id" not in post
