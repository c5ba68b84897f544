"""A channel as a plug-in: `in.txt` of a folder is read, a line `chat: text` a message; answers go to `out.txt`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
import trio

from shardline import BusError, Code, Permanence
from shardline.adapters.base import ChannelCaps, Edge, Inbound, NotSent, Outbound, Sent, Uncertain


@attrs.frozen
class Lines:
    folder: Path
    name, prefix, caps = "lines", "lines", ChannelCaps(reconciles=True)

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Lines:
        """Make it from SHARDLINE_LINES_FOLDER; the entry point names this."""
        folder = Path(settings.get("folder", ""))
        if not (folder / "in.txt").is_file():
            raise BusError(Code.INVALID_MESSAGE, "SHARDLINE_LINES_FOLDER names no folder with an in.txt")
        return cls(folder)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        lines = list(enumerate((self.folder / "in.txt").read_text().splitlines()))
        for number, line in lines[int(edge.fact("next") or 0) :]:
            chat, _, text = line.partition(": ")
            inbound = Inbound(platform_message_id=str(number), address=chat, text=text)
            await edge.accept(inbound, facts={"next": str(number + 1)})  # returns after the commit of both

    async def send(self, out: Outbound) -> Sent | Uncertain:
        try:
            with (self.folder / "out.txt").open("a") as file:
                file.write(f"{out.idempotency_key} {out.address}: {out.text}\n")
            return Sent(None)
        except OSError as error:
            return Uncertain(type(error).__name__)

    async def reconcile(self, out: Outbound) -> Sent | NotSent:
        sink = self.folder / "out.txt"
        is_there = sink.exists() and f"\n{out.idempotency_key} " in "\n" + sink.read_text()
        return Sent(None) if is_there else NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)
