"""Field entry 2: the durable insert fixes a message's place; what is slow comes after it, inside the turn."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Topology
from shardline.actors.extensions import Attachment, Extensions
from shardline.adapters.base import Inbound
from shardline.testing import FakeChannel, Harness

DOWNLOAD_S = 2.0


async def test_a_text_never_overtakes_the_photo_before_it(autojump_clock: MockClock) -> None:
    topology = Topology()
    handled: list[tuple[str, float]] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        for _ in message.extensions.attachments:
            await trio.sleep(DOWNLOAD_S)
        handled.append((str(message.extensions.platform_message_id), trio.current_time()))
        ctx.reply(f"re {message.extensions.platform_message_id}")

    photo = Inbound(
        platform_message_id="10",
        address="4201",
        text="",
        extensions=Extensions(attachments=(Attachment(kind="photo", ref="file-1"),)),
    )
    question = Inbound(platform_message_id="11", address="4201", text="what is this?")
    channel = FakeChannel("telegram")
    async with Harness(topology, channels=[channel]) as bot:
        began = trio.current_time()
        assert await channel.read(photo)
        assert await channel.read(question)
        accepted_s = trio.current_time() - began
        await bot.settle()

        stored = sorted(bot.runtime.messages.list(), key=lambda row: row.record.seq)
        assert [row.message.extensions.platform_message_id for row in stored] == ["10", "11"]
        assert stored[0].record.seq < stored[1].record.seq
        assert bot.sent("tg:4201") == ["re 10", "re 11"]
    assert accepted_s < DOWNLOAD_S
    assert [platform_id for platform_id, _ in handled] == ["10", "11"]
    assert handled[0][1] - began >= DOWNLOAD_S
