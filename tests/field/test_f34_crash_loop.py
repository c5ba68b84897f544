"""A message that ends the process each time it runs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kits.forked import run_forked

CHILD = """
import json, os, sys, trio
from shardline import Runtime, Topology
from shardline.testing import FakeChannel
topology = Topology()
@topology.on("chat.message")
async def answer(ctx, message):
    if message.payload.text == "boom":
        os._exit(137)
    ctx.reply(message.payload.text)
async def main():
    channel = FakeChannel()
    async with Runtime.open(topology, store=sys.argv[1], adapters=[channel]) as runtime:
        await channel.say("chat", "boom", platform_message_id="1")
        await channel.say("chat", "next", platform_message_id="2")
        await channel.say("other", "fine", platform_message_id="3")
        with trio.fail_after(30):
            await runtime.wait_until(lambda: runtime.is_quiet)
        (dead,) = runtime.dead_letters.list()
        print(json.dumps({
            "dead": [dead.message.payload.text, dead.record.errors[-1].code, dead.record.claim, dead.record.failures],
            "sent": sorted(out.text for out in channel.delivered),
        }))
trio.run(main)
"""


def test_after_five_starts_boom_is_dead_and_the_next_of_its_chat_is_handled(tmp_path: Path) -> None:
    """The handler does os._exit(137) for the text "boom"; a supervisor starts the process again."""
    bot = tmp_path / "bot.py"
    bot.write_text(CHILD)
    starts = [run_forked(bot, str(tmp_path / "bot.db"), timeout=50) for _ in range(6)]

    assert [start.returncode for start in starts] == [137] * 5 + [0], starts[-1].stderr
    said = json.loads(starts[-1].stdout.splitlines()[-1])
    assert said == {"dead": ["boom", "CRASH_LOOP", 5, 0], "sent": ["fine", "next"]}
