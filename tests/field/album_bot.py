"""A bot in a process of its own: `python -m tests.field.album_bot FOLDER first|both`.

Reads the first page of an album, or both; says when it is stored, and what each turn saw.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import attrs
import structlog
import trio

from shardline import Runtime
from shardline.adapters.base import ChannelCaps, Edge, Outbound, SendOutcome, Sent
from tests.kits.albums import album_bot, part

ALBUM_S = 10.0


@attrs.define
class Chat:
    """Says the pages at every start, as a platform that was never answered does."""

    pages: str
    name: str = "telegram"
    prefix: str = "tg"
    caps: ChannelCaps = ChannelCaps()

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        for number in (0, 1):
            await edge.accept(part(number))
        print("page stored", flush=True)
        if self.pages == "both":
            await trio.sleep(0.3)
            await edge.accept(part(2))

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        return Sent(None)


async def main(folder: Path, pages: str) -> None:
    topology, turns = album_bot(ALBUM_S)
    async with Runtime.open(topology, store=folder / "bot.db", adapters=[Chat(pages)]) as runtime:
        with trio.fail_after(40):
            await runtime.wait_drained()
    for texts in turns:
        print(json.dumps(texts))


if __name__ == "__main__":
    # Its output is what it saw, and no log.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    trio.run(main, Path(sys.argv[1]), sys.argv[2])
