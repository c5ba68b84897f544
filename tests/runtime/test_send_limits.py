"""Rate limits, pauses and priority, on the wire of a fake channel and by fake time."""

import itertools

import pytest
import trio

from shardline import BusMessage, Code, Context, Permanence, Topology
from shardline.adapters.base import ChannelCaps, NotSent, Rate, RateLimits, Sent
from shardline.runtime.alarms import Alarms
from shardline.runtime.pool import Job, WorkerPool
from shardline.runtime.rates import NO_LIMITS, Chat
from shardline.runtime.send_line import SendLine
from shardline.testing import Harness
from tests.kits.timed_channel import TimedChannel

FLOOD = NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=2, scope="chat")


def limited(*, concurrency: int = 16, **limits: Rate) -> ChannelCaps:
    return ChannelCaps(limits=RateLimits(**limits), concurrency=concurrency)


def echo() -> Topology:
    """Says each word of a message in a send of its own; `all:n:text` sends a text in bulk to n conversations."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        text = message.payload.text
        if text.startswith("all:"):
            _, count, said = text.split(":")
            for number in range(int(count)):
                ctx.send("fake", f"fake:b{number}", said, bulk=True)
            return
        for word in text.split():
            ctx.reply(word)

    return topology


async def test_one_chat_gets_one_a_second_and_others_do_not_wait(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(caps=limited(chat=Rate(1.0)))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:1", "a b c")
        await bot.say("fake:2", "x")
        await bot.settle()

    assert channel.at("1") == pytest.approx([0, 1, 2], abs=0.01)
    assert channel.at("2") == pytest.approx([0], abs=0.01)
    assert bot.sent("fake:1") == ["a", "b", "c"]


async def test_a_burst_goes_out_at_once_and_groups_have_a_rate_of_their_own(
    autojump_clock: trio.abc.Clock,
) -> None:
    channel = TimedChannel(caps=limited(chat=Rate(1.0, burst=2), group=Rate(0.5)), groups=frozenset({"g"}))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:1", "a b c")
        await bot.say("fake:g", "a b")
        await bot.settle()

    assert channel.at("1") == pytest.approx([0, 0, 1], abs=0.01)
    assert channel.at("g") == pytest.approx([0, 2], abs=0.01)


async def test_topics_of_one_chat_share_its_rate(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(caps=limited(group=Rate(1.0)), groups=frozenset({"g"}))
    async with Harness(echo(), channels=[channel]) as bot:
        for topic in range(4):
            await bot.say(f"fake:g/{topic}", "hi")
        await bot.settle()

    assert sorted(at for at, _, _ in channel.wire) == pytest.approx([0, 1, 2, 3], abs=0.01)


async def test_the_bots_rate_holds_for_all_chats_and_is_shared_in_turn(
    autojump_clock: trio.abc.Clock,
) -> None:
    channel = TimedChannel(caps=limited(bot=Rate(10.0)))
    async with Harness(echo(), channels=[channel]) as bot:
        for number in range(30):
            await bot.say(f"fake:{number}", "one two")
        await bot.settle()

    times = [at for at, _, _ in channel.wire]
    assert times == pytest.approx([number / 10 for number in range(60)], abs=0.01)
    # Nobody gets a second send before all who stand in line have had a first one; the first found no line.
    assert len({address for _, address, _ in channel.wire[:30]}) >= 29


async def test_what_a_platform_asks_for_is_kept_for_its_chat_alone(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(answers={"a": [FLOOD]})
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:1", "a b")
        await bot.settle(until_s=0.5)
        await bot.say("fake:2", "x y")
        await bot.settle()

    assert channel.at("1")[0] == pytest.approx(0, abs=0.01)
    assert 2 <= channel.at("1")[1] <= 2.3
    assert channel.at("2") == pytest.approx([0.5, 0.5], abs=0.01)
    assert bot.sent("fake:1") == ["a", "b"]


async def test_a_pause_of_the_bot_holds_everybody_and_costs_nobody_an_attempt(
    autojump_clock: trio.abc.Clock,
) -> None:
    channel = TimedChannel(
        answers={"a": [NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=5, scope="bot")]}
    )
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:1", "a")
        await bot.settle(until_s=0.1)
        for number in range(2, 40):
            await bot.say(f"fake:{number}", "x")
        await bot.settle(until_s=4)
        assert len(channel.wire) == 1
        await bot.settle()
        rows = bot.outbox("fake:1")

    assert len(channel.wire) == 40
    assert min(at for at, _, _ in channel.wire[1:]) >= 5
    assert [(row.attempts, row.status) for row in rows] == [(1, "sent")]


async def test_a_pause_survives_a_crash(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(
        answers={"a": [NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=60, scope="bot")]}
    )
    async with Harness(echo(), channels=[channel], store="sqlite-inline") as bot:
        await bot.say("fake:1", "a")
        await bot.settle(until_s=1)
        await bot.crash()
        await bot.say("fake:2", "x")
        await bot.settle(until_s=30)
        assert [text for _, _, text in channel.wire] == ["a"]
        assert bot.runtime.status().channels["fake"].paused_s > 0
        await bot.settle()
        assert sorted(text for _, _, text in channel.wire) == ["a", "a", "x"]
        # It is over, and forgotten on disk.
        await bot.say("fake:2", "y")
        await bot.settle()
        await bot.crash()
        assert bot.runtime.status().channels["fake"].paused_s == 0


async def test_a_pause_without_end_is_a_day(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(
        answers={"a": [NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=1e9)]}
    )
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:1", "a")
        await bot.settle()

    assert channel.at("1")[1] == pytest.approx(86_400, abs=0.5)


async def test_answers_pass_a_broadcast(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(caps=limited(bot=Rate(10.0)))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:1", "all:500:news")
        await bot.settle(until_s=2)
        await bot.say("fake:2", "hello")
        await bot.settle(until_s=1)
        assert channel.at("2") == pytest.approx([2.05], abs=0.2)
        await bot.settle()

    assert sum(text == "news" for _, _, text in channel.wire) == 500
    assert channel.wire[-1][0] == pytest.approx(50, abs=1)


async def test_inside_a_conversation_an_answer_passes_nothing(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(caps=limited(bot=Rate(1.0)))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:1", "all:3:news")
        await bot.settle(until_s=0.1)
        await bot.say("fake:b2", "late")
        await bot.settle()

    assert bot.sent("fake:b2") == ["news", "late"]


async def test_refused_credentials_stop_the_channel_and_lose_nothing(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(answers={"a": [NotSent(Code.BAD_TOKEN, Permanence.TRANSIENT)]})
    other = TimedChannel(name="other")
    topology = echo()
    async with Harness(topology, channels=[channel, other], store="sqlite-inline") as bot:
        await bot.say("fake:1", "a b")
        await bot.settle()
        await bot.say("other:1", "x")
        await bot.settle()
        assert [text for _, _, text in channel.wire] == ["a"]
        assert [text for _, _, text in other.wire] == ["x"]
        assert [(row.status, row.attempts) for row in bot.outbox("fake:1")] == [("pending", 0)] * 2
        stopped = bot.runtime.status().channels["fake"]
        assert stopped.is_stopped
        assert stopped.code is Code.BAD_TOKEN

        # The next start has a new token.
        await bot.crash()
        await bot.settle()
        assert bot.sent("fake:1") == ["a", "b"]


async def test_chats_cost_memory_only_while_their_bucket_fills(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(caps=limited(chat=Rate(1.0), concurrency=64))
    async with Harness(echo(), channels=[channel]) as bot:
        for number in range(300):
            await bot.say(f"fake:{number}", "hi")
        await bot.settle()
        assert bot.runtime.status().channels["fake"].limited_chats == 300
        await bot.advance(120)
        assert bot.runtime.status().channels["fake"].limited_chats == 0


async def test_a_long_pause_of_one_chat_keeps_no_other_in_memory(autojump_clock: trio.abc.Clock) -> None:
    """A start with an hour's pause of one chat: until its end the buckets of all others were kept too."""
    flood = NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=3_600, scope="chat")
    channel = TimedChannel(caps=limited(chat=Rate(1.0), concurrency=64), answers={"flood": [flood]})
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:0", "flood")
        await bot.settle(until_s=1)
        await bot.crash()
        for number in range(1, 101):
            await bot.say(f"fake:{number}", "hi")
        await bot.settle(until_s=5)
        await bot.advance(120)
        assert bot.runtime.status().channels["fake"].limited_chats == 1


async def test_a_send_that_waits_for_its_rate_can_be_cancelled(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(caps=limited(chat=Rate(0.1)))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:1", "a b c")
        await bot.settle(until_s=1)
        await bot.runtime.outbox.cancel(bot.outbox("fake:1")[1].id)
        await bot.settle()

    assert [text for _, _, text in channel.wire] == ["a", "c"]
    assert channel.at("1") == pytest.approx([0, 10], abs=0.01)


async def test_permits_that_were_not_used_go_to_the_next(autojump_clock: trio.abc.Clock) -> None:
    """A stop in the middle takes its starts back; the next run is not held up by them."""
    channel = TimedChannel(caps=limited(bot=Rate(1.0)), answers={"a": [Sent("1")]})
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:1", "a b")
        await bot.settle(until_s=0.5)
        await bot.crash()
        await bot.settle()

    assert [text for _, _, text in channel.wire] == ["a", "b"]


async def _no_work(_: Job) -> None:
    raise AssertionError("no job runs here")


async def test_once_a_pause_of_the_bot_is_over_the_way_is_short_again(autojump_clock: trio.abc.Clock) -> None:
    """An unlimited channel looks at no clock: one pause long ago must not cost every later send."""
    alarms = Alarms()
    pool: WorkerPool[Job] = WorkerPool(1, _no_work)
    line = SendLine(pool, NO_LIMITS, Chat, alarms)
    async with trio.open_nursery() as nursery:
        await nursery.start(alarms.run)
        line.pause(None, 45)
        was_free = [line.is_free]
        await trio.sleep(44)
        assert not line.try_take("fake:1", is_bulk=False)
        await trio.sleep(60)
        was_free.append(line.is_free)
        assert was_free == [False, True]
        assert line.try_take("fake:1", is_bulk=False)
        nursery.cancel_scope.cancel()


async def test_people_who_never_stop_writing_do_not_starve_a_broadcast(
    autojump_clock: trio.abc.Clock,
) -> None:
    """60 chats write twice what the bot may send, for a minute: a broadcast of 30 gets its sixteenth part and ends."""
    channel = TimedChannel(caps=limited(bot=Rate(10.0)))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:0", "all:30:news")
        for number in range(600):
            for chat in (number % 60 + 1, (number + 30) % 60 + 1):
                await bot.say(f"fake:{chat}", "hi")
            await bot.advance(0.1)
        texts = [text for _, _, text in channel.wire]
        answered = {address for _, address, text in channel.wire if text == "hi"}
        await bot.settle()

    assert texts.count("news") == 30
    behind = [index for index, text in enumerate(texts) if text == "news"][1:]
    assert min(later - earlier for earlier, later in itertools.pairwise(behind)) == 16
    assert len(answered) == 60, "and the answers go on"
