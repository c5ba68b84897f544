"""F29: a channel counts in its own unit; a long text leaves as parts that are the text again, no character cut."""

import trio

from shardline import BusMessage, Context, Topology
from shardline.adapters.base import ChannelCaps
from shardline.testing import FakeChannel, Harness

EMOJI = "\U0001f600"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


async def parts_of(text: str) -> list[str]:
    """What the wire gets of one text, on a channel that counts as Telegram does."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(text)
        ctx.reply("after it")

    channel = FakeChannel("fake", ChannelCaps(max_text=4096, unit="utf16"))
    async with Harness(topology, channels=[channel]) as bot:
        await bot.say("fake:1", "go")
        await bot.settle()
        rows = bot.outbox("fake:1")
        *parts, last = bot.sent("fake:1")

    assert last == "after it"
    assert [row.part for row in rows[:-1]] == [1_000 * index for index in range(len(parts))]
    assert len({(row.seq, row.idempotency_key) for row in rows[:-1]}) == 1
    assert "".join(parts) == text
    return parts


async def test_4095_letters_and_an_emoji_are_two_parts(autojump_clock: trio.abc.Clock) -> None:
    assert await parts_of("a" * 4095 + EMOJI) == ["a" * 4095, EMOJI]


async def test_5000_emoji_are_parts_of_at_most_2048(autojump_clock: trio.abc.Clock) -> None:
    assert [len(part) for part in await parts_of(EMOJI * 5000)] == [2048, 2048, 904]


async def test_a_family_at_the_border_stays_whole(autojump_clock: trio.abc.Clock) -> None:
    for room in range(1, 9):
        parts = await parts_of("a" * (4096 - room) + FAMILY + "b")

        assert parts == (["a" * (4096 - room), FAMILY + "b"] if room < 8 else ["a" * 4088 + FAMILY, "b"])
