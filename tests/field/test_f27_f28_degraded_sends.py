"""F27, F28: a thread, a reply or a formatting that the platform refuses is left out once, in the same attempt."""

import attrs
import pytest
import trio

from shardline import BusError, BusMessage, Code, Context, Permanence, Topology
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, SendOutcome, Sent, Uncertain
from shardline.testing import FakeChannel, Harness

KEY = "fake:1"
ALL = ChannelCaps(degradations=("thread", "reply", "formatting"), send_timeout_s=5)


def refused(text: str, degrade: str | None = None) -> NotSent:
    return NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT, text=text, degrade=degrade)  # type: ignore[arg-type]


def echo() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


async def test_a_thread_that_is_gone_is_left_out_and_that_is_recorded(
    autojump_clock: trio.abc.Clock,
) -> None:
    channel = FakeChannel("fake", ALL)
    channel.script(refused("Bad Request: message thread not found", "thread"), Sent("7"))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say(KEY, "hi")
        await bot.settle()
        (row,) = bot.outbox(KEY)

    assert (row.status, row.attempts, row.degraded, row.platform_message_id) == ("sent", 1, "thread", "7")
    assert [(out.text, out.degraded) for out in channel.attempts] == [("hi", None), ("hi", "thread")]


async def test_refused_both_times_it_is_dead_with_the_first_error(autojump_clock: trio.abc.Clock) -> None:
    channel = FakeChannel("fake", ALL)
    channel.script(refused("message thread not found", "thread"), refused("chat not found", "reply"))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say(KEY, "hi")
        await bot.settle()
        (row,) = bot.outbox(KEY)

    assert (row.state.value, row.attempts) == ("dead", 1)
    assert [error.text for error in row.errors] == ["message thread not found"]
    assert len(channel.attempts) == 2


async def test_markdown_that_cannot_be_parsed_goes_out_plain(autojump_clock: trio.abc.Clock) -> None:
    @attrs.define
    class Markdown(FakeChannel):
        parse_modes: list[str | None] = attrs.field(factory=list)

        async def send(self, out: Outbound) -> SendOutcome:
            parse_mode = None if out.degraded == "formatting" else "Markdown"
            self.parse_modes.append(parse_mode)
            if parse_mode:
                await trio.lowlevel.checkpoint()
                self.attempts.append(out)
                return refused("Bad Request: can't parse entities", "formatting")
            return await FakeChannel.send(self, out)

    channel = Markdown("fake", ALL)
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say(KEY, "a_b [c")
        await bot.settle()
        (row,) = bot.outbox(KEY)

    assert channel.parse_modes == ["Markdown", None]
    assert [out.text for out in channel.attempts] == ["a_b [c", "a_b [c"]
    assert (row.status, row.attempts, row.degraded) == ("sent", 1, "formatting")


async def test_white_space_alone_is_refused_at_enqueue(autojump_clock: trio.abc.Clock) -> None:
    topology = Topology()
    refusals: list[BusError] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        with pytest.raises(BusError) as caught:
            ctx.reply("  \n")
        refusals.append(caught.value)

    async with Harness(topology) as bot:
        await bot.say(KEY, "hi")
        await bot.settle()

        assert [error.code for error in refusals] == [Code.INVALID_MESSAGE]
        assert bot.outbox(KEY) == []


async def test_what_the_caps_do_not_declare_is_not_tried(autojump_clock: trio.abc.Clock) -> None:
    channel = FakeChannel("fake", ChannelCaps(degradations=("reply",)))
    channel.script(refused("no", "thread"))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say(KEY, "hi")
        await bot.settle()
        (row,) = bot.outbox(KEY)

    assert row.dead_at_us is not None
    assert len(channel.attempts) == 1


async def test_a_second_call_without_an_answer_is_uncertain(autojump_clock: trio.abc.Clock) -> None:
    @attrs.define
    class Silent(FakeChannel):
        async def send(self, out: Outbound) -> SendOutcome:
            if out.degraded:
                self.attempts.append(out)
                await trio.sleep_forever()
            return await FakeChannel.send(self, out)

    channel = Silent("fake", ALL)
    channel.script(refused("no thread", "thread"))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say(KEY, "hi")
        await bot.settle()
        (row,) = bot.outbox(KEY)

    assert row.uncertain_since is not None
    assert row.attempts == 1


@pytest.mark.parametrize(
    "second",
    [
        NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=1),
        NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT, text="503"),
    ],
)
async def test_a_second_call_that_may_not_happen_now_is_tried_again_later(
    autojump_clock: trio.abc.Clock, second: SendOutcome
) -> None:
    channel = FakeChannel("fake", ALL)
    gone = refused("no thread", "thread")
    channel.script(gone, second, gone, Sent("9"))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say(KEY, "hi")
        await bot.settle()
        (row,) = bot.outbox(KEY)

    assert (row.status, row.degraded) == ("sent", "thread")
    assert [out.degraded for out in channel.attempts] == [None, "thread", None, "thread"]


async def test_an_uncertain_second_call_stays_uncertain(autojump_clock: trio.abc.Clock) -> None:
    channel = FakeChannel("fake", ALL)
    channel.script(refused("no thread", "thread"), Uncertain("reset"))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say(KEY, "hi")
        await bot.settle()
        (row,) = bot.outbox(KEY)

    assert (row.uncertain_since is not None, row.errors[-1].text) == (True, "reset")
