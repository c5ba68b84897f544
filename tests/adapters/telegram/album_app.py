"""A bot that takes an album as one turn, for `shardline telegram --app`."""

from __future__ import annotations

from shardline import BusMessage, Context, Topology

ALBUM_S = 20.0
"""Long enough for a slow machine to be up again after a kill."""
topology = Topology()


@topology.on("chat.message", album_s=ALBUM_S)
async def answer(ctx: Context, message: BusMessage) -> None:
    ctx.reply(",".join(member.payload.text for member in ctx.messages))
