"""The album of field entry 7, a bot that takes it, and what its turns have seen."""

from __future__ import annotations

from shardline import BusMessage, Context, RetryPolicy, Topology
from shardline.actors.extensions import Attachment, Extensions
from shardline.adapters.base import Inbound

CAPTIONS = ("before", "", "after")


def part(number: int, *, album: str | None = "g1", text: str | None = None, chat: str = "1") -> Inbound:
    """One update; without an album a message by itself."""
    return Inbound(
        platform_message_id=f"{chat}:{number}",
        address=chat,
        text=CAPTIONS[number] if text is None else text,
        sender="somebody",
        extensions=Extensions(
            platform_message_id=f"{chat}:{number}",
            media_group_id=album,
            attachments=(Attachment(kind="photo", ref=f"photo-{number}"),),
        ),
    )


def album_bot(album_s: float | None, *, fails: int = 0) -> tuple[Topology, list[list[str]]]:
    """A bot, and the texts that each of its turns saw. Its first turns fail."""
    topology = Topology()
    turns: list[list[str]] = []

    @topology.on("chat.message", album_s=album_s, retry=RetryPolicy(max_retries=2, jitter="none"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        assert message is ctx.messages[0]
        turns.append([member.payload.text for member in ctx.messages])
        if len(turns) <= fails:
            raise ValueError("not yet")
        ctx.reply(f"{len(ctx.messages)} parts")

    return topology, turns
