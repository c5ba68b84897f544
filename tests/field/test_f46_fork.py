"""Field entry 46: a fork in a handler.

Cancelled: `test_f46_cancelled.py`, and at each step of a whole bot `tests/runtime/test_cancel.py`. The ways into a
store one by one are in `tests/storage/sqlite/test_fork.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.kits.store_checks import check_store

BOT = """
import os, trio
from shardline import BusError, Runtime, Topology
from shardline.testing import FakeChannel
from tests.kits.bots import new_message
topology = Topology()
read_end, write_end = os.pipe()
@topology.on("chat.message")
async def answer(ctx, message):
    if message.payload.text == "fork":
        child = os.fork()
        if not child:
            codes = []
            for call in (lambda: runtime.messages.list(), lambda: runtime.status(), publish):
                try:
                    call()
                    codes.append("none")
                except BusError as error:
                    codes.append(error.code)
            os.write(write_end, " ".join(codes).encode())
            os._exit(0)
        os.waitpid(child, 0)
    ctx.reply("re " + message.payload.text)
def publish():
    # As far as it comes without a loop: the child's copy of trio's is of no use.
    call = runtime.publish(new_message("from the child"))
    try:
        call.send(None)
    except StopIteration:
        pass
async def main():
    global runtime
    channel = FakeChannel()
    async with Runtime.open(topology, store="bot.db", adapters=[channel]) as runtime:
        with trio.fail_after(20):
            for text in ("before", "fork", "after"):
                await channel.say("a", text)
            await runtime.wait_until(lambda: runtime.is_quiet)
    print([out.text for out in channel.delivered], os.read(read_end, 200).decode())
trio.run(main)
"""


def test_the_child_of_a_handler_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", BOT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['re before', 're fork', 're after'] FORKED FORKED FORKED"
    assert len(check_store(tmp_path / "bot.db")) >= 3
