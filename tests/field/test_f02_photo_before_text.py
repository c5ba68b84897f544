"""Field entry 2: the durable insert fixes a message's place; what is slow comes after it, inside the turn."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.extensions import Attachment, Extensions
from shardline.adapters.base import Inbound
from shardline.adapters.telegram.sim.script import message_update
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel, Harness
from tests.adapters.telegram.platform import open_platform

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


async def test_an_update_with_a_text_never_overtakes_the_one_with_the_photo() -> None:
    """As updates 10 and 11 of the platform, and with a download over a socket."""
    topology, are_stored = Topology(), trio.Event()
    seen: list[tuple[str, bytes]] = []

    async def serve_file(stream: trio.SocketStream) -> None:
        """It takes its time: longer than the edge does."""
        async with stream:
            await are_stored.wait()
            await stream.send_all(b"photo")

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        file = b""
        for _ in message.extensions.attachments:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                file = await stream.receive_some()
        seen.append((message.payload.text, file))
        ctx.reply(message.payload.text or "a photo")

    async with open_platform() as platform, trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, serve_file, listeners)
        photo = message_update(4201, "", 1)["message"]
        assert isinstance(photo, dict)
        del photo["text"]
        photo["photo"] = [{"file_id": "file-1", "file_unique_id": "u1", "width": 9, "height": 9}]
        platform.bot.push({"update_id": 10, "message": photo})
        platform.bot.push({"update_id": 11, **message_update(4201, "what is this?", 2)})
        adapter = platform.adapter()
        with trio.fail_after(20):
            async with Runtime.open(topology, store=open_memory(), adapters=[adapter]) as runtime:
                await runtime.wait_until(lambda: sum(runtime.status().inbox.values()) == 2)
                are_stored.set()
                await platform.bot.wait_sent(2)
                rows = sorted(runtime.messages.list(), key=lambda row: row.record.seq)
        nursery.cancel_scope.cancel()

        assert [row.message.extensions.platform_message_id for row in rows] == ["4201:1", "4201:2"]
        assert seen == [("", b"photo"), ("what is this?", b"")]
        assert [call.text for call in platform.bot.sent(4201)] == ["a photo", "what is this?"]
