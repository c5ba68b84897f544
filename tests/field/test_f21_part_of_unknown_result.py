"""F21: one part of a long text is uncertain: the parts behind it wait for a decision, nothing is sent twice."""

import pytest
import trio

from shardline import BusMessage, Code, Context, Permanence, Topology
from shardline.adapters.base import ChannelCaps, NotSent, Sent, Uncertain
from shardline.testing import FakeChannel, Harness

KEY = "fake:1"
GONE = NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT)


def four_parts() -> Topology:
    """Answers `go` with a text of four parts, all else with itself."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("aaaabbbbccccdddd" if message.payload.text == "go" else message.payload.text)

    return topology


def channel(*, block: bool = False) -> FakeChannel:
    return FakeChannel("fake", ChannelCaps(max_text=4, block_on_uncertain=block))


def states(bot: Harness) -> list[str]:
    """By part: its state, or `held`."""
    desk = bot.runtime.outbox
    rows = sorted(desk.list(key=KEY), key=lambda row: row.record.part)
    return [
        "held" if desk.is_held(row.record) else row.record.state.value
        for row in rows
        if row.content.parts > 1
    ]


def attempts(bot: Harness) -> list[str]:
    return [out.text for out in bot.channel("fake").attempts]


async def test_the_operator_marks_part_two_delivered_and_three_and_four_go_out(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with Harness(four_parts(), channels=[channel()]) as bot:
        bot.channel("fake").script(Sent("1"), Uncertain("no answer"))
        await bot.say(KEY, "go")
        await bot.settle()

        assert states(bot) == ["sent", "uncertain", "held", "held"]
        assert attempts(bot) == ["aaaa", "bbbb"]

        await bot.resolve(bot.outbox(KEY)[1], "sent")
        await bot.settle()

        assert states(bot) == ["sent"] * 4
        assert attempts(bot) == ["aaaa", "bbbb", "cccc", "dddd"]


async def test_others_go_on_meanwhile_and_released_parts_come_behind_them(
    autojump_clock: trio.abc.Clock,
) -> None:
    async with Harness(four_parts(), channels=[channel()]) as bot:
        bot.channel("fake").script(Sent("1"), Uncertain("no answer"))
        await bot.say(KEY, "go")
        await bot.say(KEY, "x")
        await bot.settle()

        assert attempts(bot) == ["aaaa", "bbbb", "x"]

        await bot.resolve(next(row for row in bot.outbox(KEY) if row.uncertain_since), "sent")
        await bot.say(KEY, "y")
        await bot.settle()

        assert attempts(bot) == ["aaaa", "bbbb", "x", "cccc", "dddd", "y"]


@pytest.mark.parametrize("crashes", [1, 3])
async def test_a_restart_holds_the_same_parts(autojump_clock: trio.abc.Clock, crashes: int) -> None:
    async with Harness(four_parts(), channels=[channel()], store="sqlite-inline") as bot:
        bot.channel("fake").script(Sent("1"), Uncertain("no answer"))
        await bot.say(KEY, "go")
        await bot.settle()
        for number in range(crashes):
            await bot.crash()
            await bot.say(KEY, f"x{number}")
            await bot.settle()

        assert states(bot) == ["sent", "uncertain", "held", "held"]

        await bot.resolve(next(row for row in bot.outbox(KEY) if row.uncertain_since), "sent")
        await bot.crash()
        await bot.settle()

        assert states(bot) == ["sent"] * 4
        said = [f"x{number}" for number in range(crashes)]
        assert attempts(bot) == ["aaaa", "bbbb", *said, "cccc", "dddd"]


async def test_a_crash_while_a_part_is_under_way_makes_it_uncertain_and_holds_the_rest(
    autojump_clock: trio.abc.Clock,
) -> None:
    class Hanging(FakeChannel):
        async def send(self, out):  # type: ignore[no-untyped-def]  # only the wait matters
            if out.text == "bbbb":
                self.attempts.append(out)
                await trio.sleep_forever()
            return await FakeChannel.send(self, out)

    hanging = Hanging("fake", ChannelCaps(max_text=4, send_timeout_s=1e6))
    async with Harness(four_parts(), channels=[hanging], store="sqlite-inline") as bot:
        await bot.say(KEY, "go")
        await bot.runtime.wait_until(lambda: attempts(bot) == ["aaaa", "bbbb"])
        await bot.crash()
        await bot.settle()

        assert states(bot) == ["sent", "uncertain", "held", "held"]
        assert attempts(bot) == ["aaaa", "bbbb"]


async def test_sent_again_by_a_person_the_rest_follows_it(autojump_clock: trio.abc.Clock) -> None:
    async with Harness(four_parts(), channels=[channel()]) as bot:
        bot.channel("fake").script(Sent("1"), Uncertain("no answer"))
        await bot.say(KEY, "go")
        await bot.settle()
        await bot.resolve(bot.outbox(KEY)[1], "resend")
        await bot.say(KEY, "x")
        await bot.settle()

        assert attempts(bot) == ["aaaa", "bbbb", "bbbb", "cccc", "dddd", "x"]


async def test_given_up_it_ends_the_rest_with_its_code(autojump_clock: trio.abc.Clock) -> None:
    async with Harness(four_parts(), channels=[channel()]) as bot:
        bot.channel("fake").script(Sent("1"), Uncertain("no answer"))
        await bot.say(KEY, "go")
        await bot.settle()
        await bot.resolve(bot.outbox(KEY)[1], "dead")
        await bot.settle()

        assert states(bot) == ["sent", "dead", "dead", "dead"]
        assert {row.errors[-1].code for row in bot.outbox(KEY)[1:]} == {Code.DELIVERY_UNCERTAIN}
        assert attempts(bot) == ["aaaa", "bbbb"]


async def test_a_dead_part_holds_the_rest_until_it_is_requeued(autojump_clock: trio.abc.Clock) -> None:
    async with Harness(four_parts(), channels=[channel()]) as bot:
        bot.channel("fake").script(Sent("1"), GONE)
        await bot.say(KEY, "go")
        await bot.say(KEY, "x")
        await bot.settle()

        assert states(bot) == ["sent", "dead", "held", "held"]
        assert attempts(bot) == ["aaaa", "bbbb", "x"]

        await bot.runtime.outbox.requeue(next(row.id for row in bot.outbox(KEY) if row.dead_at_us))
        await bot.settle()

        assert states(bot) == ["sent"] * 4
        assert attempts(bot) == ["aaaa", "bbbb", "x", "bbbb", "cccc", "dddd"]


async def test_a_dead_part_is_given_up_with_the_rest(autojump_clock: trio.abc.Clock) -> None:
    async with Harness(four_parts(), channels=[channel()]) as bot:
        bot.channel("fake").script(Sent("1"), GONE)
        await bot.say(KEY, "go")
        await bot.settle()
        await bot.resolve(bot.outbox(KEY)[1], "dead")
        await bot.settle()

        assert states(bot) == ["sent", "dead", "dead", "dead"]
        assert {row.errors[-1].code for row in bot.outbox(KEY)[1:]} == {Code.CONTENT_REFUSED}


async def test_dropped_by_policy_it_takes_the_rest_along(autojump_clock: trio.abc.Clock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("aaaabbbbccccdddd", on_uncertain="drop")
        ctx.reply("x")

    async with Harness(topology, channels=[channel()]) as bot:
        bot.channel("fake").script(Sent("1"), Uncertain("no answer"))
        await bot.say(KEY, "go")
        await bot.settle()

        assert states(bot) == ["sent", "dead", "dead", "dead"]
        assert attempts(bot) == ["aaaa", "bbbb", "x"]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("decision", ["sent", "dead", "resend"])
async def test_a_channel_may_hold_the_whole_conversation(
    autojump_clock: trio.abc.Clock, decision: str, restart: bool
) -> None:
    async with Harness(four_parts(), channels=[channel(block=True)], store="sqlite-inline") as bot:
        bot.channel("fake").script(Uncertain("no answer"))
        await bot.say(KEY, "a")
        await bot.say(KEY, "b")
        await bot.settle()
        if restart:
            await bot.crash()
        await bot.say(KEY, "c")
        await bot.say("fake:2", "oth")
        await bot.settle()

        assert attempts(bot) == ["a", "oth"]

        await bot.resolve(bot.outbox(KEY)[0], decision)  # type: ignore[arg-type]  # one of the three
        await bot.say(KEY, "d")
        await bot.settle()

        again = ["a"] if decision == "resend" else []
        assert attempts(bot)[2:] == ["b", "c", *again, "d"]
