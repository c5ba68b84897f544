"""F30: a platform takes less than it says: the row is cut smaller once, in order; nothing relies on truncation."""

import attrs
import pytest
import trio

from shardline import BusMessage, Code, Context, Permanence, Runtime, Topology
from shardline.actors.clock import FakeClock
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, SendOutcome
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel, Harness

KEY = "slack:T1:C1:1700000000.000100"
"""A thread of a Slack channel."""


@attrs.define
class Slack(FakeChannel):
    """Takes `takes` characters, whatever its caps say, and says so or not."""

    takes: int = 3_000
    says: int | None = None
    stalls_at: str = ""

    async def send(self, out: Outbound) -> SendOutcome:
        if self.stalls_at and out.text.startswith(self.stalls_at):
            await trio.sleep_forever()
        if len(out.text) > self.takes:
            await trio.lowlevel.checkpoint()
            self.attempts.append(out)
            return NotSent(Code.TOO_LARGE, Permanence.PERMANENT, text="msg_too_long", max_text=self.says)
        return await FakeChannel.send(self, out)


def bot_that_says(text: str) -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(text)
        ctx.reply("after it")

    return topology


def slack(**settings: object) -> Slack:
    return Slack("slack", ChannelCaps(max_text=3_500, send_timeout_s=1e6), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("says", [None, 3_000])
async def test_9000_letters_are_three_parts_and_each_too_long_one_is_cut_once(
    autojump_clock: trio.abc.Clock, says: int | None
) -> None:
    channel = slack(says=says)
    async with Harness(bot_that_says("é" * 9_000), channels=[channel]) as bot:
        await bot.say(KEY, "go")
        await bot.settle()
        rows = bot.outbox(KEY)

        refused = [(out.part, len(out.text)) for out in channel.attempts if len(out.text) > 3_000]
        assert refused == [(0, 3_500), (1_000, 3_500)]
        cut = [1_750, 1_750] if says is None else [3_000, 500]
        assert [len(text) for text in bot.sent(KEY)] == [*cut, *cut, 2_000, 8]
        assert "".join(bot.sent(KEY)) == "é" * 9_000 + "after it"
        assert {out.address for out in channel.attempts} == {KEY.removeprefix("slack:")}, "all in one thread"
        assert [row.part for row in rows] == [0, 1, 1_000, 1_001, 2_000, 0]
        assert len({row.seq for row in rows[:5]}) == 1
        assert {(row.status, row.attempts) for row in rows} == {("sent", 1)}


async def test_a_piece_that_is_too_long_again_is_dead_and_holds_the_rest(
    autojump_clock: trio.abc.Clock,
) -> None:
    channel = slack(takes=1_000)
    async with Harness(bot_that_says("é" * 9_000), channels=[channel]) as bot:
        await bot.say(KEY, "go")
        await bot.settle()
        rows = bot.outbox(KEY)
        held = [bot.runtime.outbox.is_held(row) for row in rows]

        assert [len(out.text) for out in channel.attempts] == [3_500, 1_750, 8]
        assert rows[0].dead_at_us is not None
        assert rows[0].errors[-1].code == Code.TOO_LARGE
        assert held == [False, True, True, True, False]


async def test_a_crash_around_the_cut_loses_and_repeats_nothing(autojump_clock: trio.abc.Clock) -> None:
    text = "a" * 3_000 + "b" * 3_000
    channel = slack(says=3_000, stalls_at="b")
    async with Harness(bot_that_says(text[:3_400]), channels=[channel], store="sqlite-inline") as bot:
        await bot.say(KEY, "go")
        await bot.runtime.wait_until(lambda: len(channel.delivered) == 1)
        await bot.advance(1)
        await bot.crash()
        channel.stalls_at = ""
        await bot.settle()

        states = [row.record.state.value for row in reversed(bot.runtime.outbox.list(key=KEY))]
        assert sorted(states) == ["sent", "sent", "uncertain"]
        assert bot.sent(KEY) == ["a" * 3_000, "after it"]

        await bot.resolve(next(row for row in bot.outbox(KEY) if row.uncertain_since), "resend")
        await bot.settle()

        assert bot.sent(KEY) == ["a" * 3_000, "after it", "b" * 400]


async def test_the_history_says_what_happened(autojump_clock: trio.abc.Clock) -> None:
    store, channel = open_memory(clock=FakeClock()), slack()
    async with Runtime.open(bot_that_says("é" * 3_200), store=store, adapters=[channel]) as runtime:
        await channel.say(KEY.removeprefix("slack:"), "go")
        await runtime.wait_until(lambda: runtime.is_quiet)
        row = next(
            one.record for one in runtime.outbox.list() if one.record.part == 0 and one.content.is_piece
        )
        chain = store.reader.history(row.shard, 0, 1_000)

    events = [
        (one.event, one.before, one.after) for one in chain if (one.kind, one.identity) == ("out", row.id)
    ]
    assert events == [
        ("enqueue+start", "", "flying"),
        ("resplit", "flying", "ready"),
        ("start", "ready", "flying"),
        ("sent", "flying", "sent"),
    ]
