"""A bot whose timers start broadcasts: `python -m tests.crash.broadcast_bot FOLDER ROUNDS RECIPIENTS`.

It says `up`, then `sent` for each send, and runs until all of them are out. `sink` in the folder has a line for each
send that reached the platform, which asks for a pause of a chat now and then.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import attrs
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.errors import Code, Permanence
from shardline.adapters.base import ChannelCaps, Edge, Inbound, NotSent, Outbound, SendOutcome, Sent

PAUSE_S = 0.8
"""What the platform asks of every tenth chat at the first send to it."""


@attrs.define
class Platform:
    """It has what is in its file, and can look there."""

    folder: Path
    rounds: int
    name: str = "fake"
    prefix: str = "fake"
    caps: ChannelCaps = ChannelCaps(reconciles=True)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        # Again at every start, as of a platform that was never answered.
        for number in range(self.rounds):
            await edge.accept(Inbound(platform_message_id=str(number), address=f"boss-{number}", text="plan"))

    def _say(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(line)

    async def send(self, out: Outbound) -> SendOutcome:
        asked = self.folder / "asked"
        if out.address.endswith("0"):
            known = asked.read_text().splitlines() if asked.exists() else []
            if not any(line.startswith(f"{out.address} ") for line in known):
                self._say("asked", f"{out.address} {time.time()}\n")
                return NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=PAUSE_S, scope="chat")
        self._say("sink", f"{out.idempotency_key} {out.address} {out.text} {time.time()}\n")
        print("sent", flush=True)
        await trio.sleep(0.002)
        return Sent(None)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        sink = self.folder / "sink"
        if sink.exists() and f"{out.idempotency_key} " in sink.read_text():
            return Sent(None)
        return NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)


async def main(folder: Path, rounds: int, recipients: int) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        text = message.payload.text
        if text == "plan":
            ctx.schedule(f"blast {message.conversation_key}", after_s=0.1)
            return
        for number in range(recipients):
            ctx.send("fake", f"fake:{number}", text, bulk=True)

    async with Runtime.open(
        topology, store=folder / "bot.db", adapters=[Platform(folder, rounds)]
    ) as runtime:
        print("up", flush=True)
        with trio.fail_after(60):
            await runtime.wait_until(lambda: runtime.is_quiet and runtime.timers.next_due_us is None)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
