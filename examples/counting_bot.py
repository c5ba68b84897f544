"""A bot over a small chat log: it answers each message with its number in the conversation."""

import json
import logging
import tempfile
from pathlib import Path

import structlog
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.transcript import Transcript, open_sink, read_sink
from shardline.storage.records import InboxStatus, OutboxState

CHAT = [
    ("kitchen", "Mira", "who ate the last plum?"),
    ("train", "Priya", "is this still the train to the sea?"),
    ("kitchen", "Jonas", "it was very ripe. it had no future"),
]

topology = Topology()


@topology.on("chat.message")
async def count(ctx: Context, message: BusMessage) -> None:
    before = ctx.state.get("turn", 0)
    assert isinstance(before, int)
    ctx.state["turn"] = before + 1
    ctx.reply(f"{before + 1}: {message.payload.text}")


async def main(folder: Path) -> None:
    log, sink_path = folder / "chat.jsonl", folder / "answers.jsonl"
    lines = [
        {"conversation": chat, "seq": seq, "sender": sender, "at": "08:00", "text": text}
        for seq, (chat, sender, text) in enumerate(CHAT)
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with open_sink(sink_path) as sink:
        async with Runtime.open(
            topology, store=folder / "bot.db", adapters=[Transcript(log, sink)]
        ) as runtime:
            await runtime.wait_drained()
            status = runtime.status()
    for answer in sorted(read_sink(sink_path), key=lambda answer: (answer.conversation, answer.text)):
        print(f"{answer.conversation}: {answer.text}")
    print("done:", status.inbox[InboxStatus.DONE], "sent:", status.outbox[OutboxState.SENT])


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory() as name:
        trio.run(main, Path(name))
