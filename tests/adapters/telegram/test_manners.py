"""How the channel behaves on its own: default rates, a server of one's own, health of its two sides."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import Chat
from shardline.adapters.telegram import Telegram
from shardline.adapters.telegram.api import HttpApi
from shardline.adapters.telegram.calls import Upload
from shardline.adapters.telegram.sim.bot import WEBHOOK_ACTIVE
from shardline.adapters.telegram.sim.script import Fault
from shardline.testing import Harness
from tests.adapters.telegram.platform import echo_bot, open_platform
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_bot import LIMIT_S, store
from tests.adapters.telegram.test_hostile import OK, answer
from tests.kits.timed_channel import TimedChannel

DEFAULT = Telegram(TOKEN)


class Posing(TimedChannel):
    """Has the caps and the chats of the real one."""

    def chat_of(self, address: str) -> Chat:
        return DEFAULT.chat_of(address)


def many() -> Topology:
    """Answers with as many texts as it is told."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer_often(ctx: Context, message: BusMessage) -> None:
        for number in range(int(message.payload.text)):
            ctx.reply(f"text {number}")

    return topology


async def test_a_chat_gets_one_a_second_after_three_at_once(autojump_clock: MockClock) -> None:
    channel = Posing("telegram", DEFAULT.caps)
    async with Harness(many(), channels=[channel]) as bot:
        await bot.say("tg:5", "8")
        await bot.settle()

    assert channel.at("5") == pytest.approx([0, 0, 0, 1, 2, 3, 4, 5], abs=0.1)


async def test_a_group_gets_twenty_a_minute_whatever_the_topic(autojump_clock: MockClock) -> None:
    channel = Posing("telegram", DEFAULT.caps)
    async with Harness(many(), channels=[channel]) as bot:
        await bot.say("tg:-1001557000001:t2", "6")
        await bot.say("tg:-1001557000001:t3", "6")
        await bot.settle()

    times = [at for at, _, _ in channel.wire]
    assert times == pytest.approx([0, 0, 0, 0, 0, 3, 6, 9, 12, 15, 18, 21], abs=0.2)


async def test_all_chats_together_get_thirty_a_second(autojump_clock: MockClock) -> None:
    channel = Posing("telegram", DEFAULT.caps)
    async with Harness(many(), channels=[channel]) as bot:
        for chat in range(1, 101):
            await bot.say(f"tg:{chat}", "1")
        await bot.settle()

    times = [at for at, _, _ in channel.wire]
    assert len(times) == 100
    assert max(sum(begin <= at < begin + 1 for at in times) for begin in times) <= 31
    assert times[-1] == pytest.approx(99 / 30, abs=0.3)
    assert all(sooner <= later for sooner, later in pairwise(times))


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize("end", ["", "/"])
async def test_a_server_of_ones_own_may_have_a_path(is_file: bool, end: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    lines: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            lines.append(bytes(await stream.receive_some()).partition(b"\r\n")[0])
            await stream.send_all(answer(OK))

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        port = int(listener.socket.getsockname()[1])
        api = HttpApi(TOKEN, base=f"http://127.0.0.1:{port}/own/api{end}")
        upload = Upload("document", str(tmp_path / "a")) if is_file else None
        with trio.fail_after(LIMIT_S):
            await api.call("sendDocument", {"chat_id": 5}, upload=upload)
        await api.aclose()
        nursery.cancel_scope.cancel()

    assert lines == [f"POST /own/api/bot{TOKEN}/sendDocument HTTP/1.1".encode()]


async def test_health_tells_reading_from_sending() -> None:
    """Reading is in trouble and says why; sends go on. Then sending is, by another word."""
    async with open_platform() as platform:
        bot = platform.bot
        blocked = Fault(method="getUpdates", kind="refuse", code=409, description=WEBHOOK_ACTIVE, times=-1)
        bot.add_fault(blocked)
        async with Runtime.open(echo_bot(), store=store(), adapters=[platform.adapter()]) as runtime:

            def words() -> list[tuple[str, str]]:
                return [(reason.word, reason.text) for reason in runtime.health().reasons]

            with trio.fail_after(LIMIT_S):
                await runtime.wait_until(lambda: bool(words()))
            assert [word for word, _ in words()] == ["channel_reports"]
            assert "a web hook is set" in words()[0][1]
            with trio.fail_after(LIMIT_S):
                sent = await runtime.sender.send("telegram", "tg:5", "out it goes", "k1")
            assert sent.status == "sent"

            bot.add_fault(Fault(method="sendMessage", kind="refuse", code=401, description="Unauthorized"))
            with trio.fail_after(LIMIT_S):
                pending = await runtime.sender.send("telegram", "tg:5", "not this one", "k2", timeout_s=0.1)
                assert pending.status == "pending"
                await runtime.wait_until(lambda: "channel_stopped" in [word for word, _ in words()])

        assert [call.text for call in bot.sent()] == ["out it goes"]
