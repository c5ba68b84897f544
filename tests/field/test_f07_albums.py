"""Field entry 7: the parts of an album are rows of their own at once, handled in order, none lost.

Taking them in one turn is not part of the runtime yet; a handler sees `media_group_id` and each caption where it stood.
"""

from __future__ import annotations

from trio.testing import MockClock

from shardline import BusMessage, Context, Topology
from shardline.actors.extensions import Attachment, Extensions
from shardline.adapters.base import Inbound
from shardline.storage.records import InboxStatus
from shardline.testing import Harness

CAPTIONS = ("before", "", "after")


def part(number: int) -> Inbound:
    return Inbound(
        platform_message_id=f"1:{number}",
        address="1",
        text=CAPTIONS[number],
        sender="somebody",
        extensions=Extensions(
            platform_message_id=f"1:{number}",
            media_group_id="g1",
            attachments=(Attachment(kind="photo", ref=f"photo-{number}"),),
        ),
    )


def album_bot() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        seen = ctx.state.setdefault("seen", [])
        assert isinstance(seen, list)
        seen.append([message.extensions.media_group_id, message.payload.text])
        ctx.reply(f"{len(seen)}: {seen}")

    return topology


async def test_three_parts_in_two_pages_are_three_turns_in_order_with_a_crash_between(
    autojump_clock: MockClock,
) -> None:
    async with Harness(album_bot(), store="sqlite-inline") as bot:
        for number in (0, 1):
            await bot.channel("fake").read(part(number))
        await bot.crash()
        await bot.advance(0.3)
        # The platform has not heard that the first page arrived: it sends all of it again.
        for number in (0, 1, 2):
            await bot.channel("fake").read(part(number))
        await bot.settle()

        assert bot.sent("fake:1")[-1] == "3: [['g1', 'before'], ['g1', ''], ['g1', 'after']]"
        assert bot.runtime.status().inbox[InboxStatus.DONE] == 3
