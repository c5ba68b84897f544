"""A bot whose messages die until they are requeued, in this process or in one of its own, and what its store says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import apsw
import trio

from shardline import BusMessage, Context, Permanent, Runtime, Topology
from shardline.actors.failpoints import NO_FAILPOINTS, FailPoints
from shardline.adapters.base import Uncertain
from shardline.runtime.control.client import send_control
from shardline.runtime.control.execute import ControlResult
from shardline.runtime.control.verbs import Verb
from shardline.testing import FakeChannel
from tests.kits.forked import Running, Script, start_forked

OWNER = """
import sys, trio
from tests.kits.controlled import own
trio.run(own, *sys.argv[1:])
"""
SENDER = """
import sys
from shardline.runtime.control.client import send_control
from shardline.runtime.control.verbs import Requeue, RowRef
sys.stdin.readline()
result = send_control(sys.argv[1], Requeue((RowRef.parse(sys.argv[2]),)), actor="a process")
print(result.status, result.code)
"""


def mortal_bot() -> Topology:
    """Every message dies in its first generation and is answered in the next."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if ctx.generation == 0:
            raise Permanent("x.first", "not yet")
        ctx.reply(f"re {message.payload.text}")

    return topology


def make_dead(path: Path, count: int, *, uncertain: bool = False) -> None:
    """Make a store with so many dead messages, in-1 on; with `uncertain` one send, out-1, is uncertain."""

    async def main() -> None:
        channel = FakeChannel()
        async with Runtime.open(mortal_bot(), store=path, adapters=[channel]) as runtime:
            with trio.fail_after(30):
                for number in range(count):
                    await channel.say(f"chat-{number % 7}", f"text {number}")
                await runtime.wait_until(lambda: runtime.is_quiet)
                if uncertain:
                    channel.script(Uncertain("no answer"))
                    await runtime.dead_letters.requeue(1)
                    await runtime.wait_until(lambda: runtime.is_quiet)

    trio.run(main)


async def own(path: str, point: str = "") -> None:
    """Own the store until a line comes in, or until the fail point is reached; say `ready` first."""
    channel = FakeChannel()
    failpoints = FailPoints.parse(point) if point else NO_FAILPOINTS
    async with Runtime.open(mortal_bot(), store=path, adapters=[channel], failpoints=failpoints):
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)


@contextmanager
def owner_process(path: Path, point: str = "") -> Generator[Running]:
    """A process that owns the store while the block runs, unless the block, or a fail point, ends it."""
    with start_forked(Script(OWNER), str(path), point) as child:
        assert next((line for line in child.stdout if line == "ready\n"), "") == "ready\n"
        yield child
        if child.poll() is None:
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.wait(30) == 0


def stop_between_commits(path: Path, pid: int) -> None:
    """Stop an owner at a moment at which it holds no lock of the database."""
    database = apsw.Connection(str(path))
    try:
        for _ in range(1_000):
            os.kill(pid, signal.SIGSTOP)
            _wait_stopped(pid)
            try:
                database.execute("BEGIN IMMEDIATE; ROLLBACK")
            except apsw.BusyError:
                os.kill(pid, signal.SIGCONT)
                # It goes on until its transaction has ended, and is stopped somewhere behind that.
                database.set_busy_timeout(5_000)
                database.execute("BEGIN IMMEDIATE; ROLLBACK")
                database.set_busy_timeout(0)
            else:
                return
        raise AssertionError("the owner writes all the time")
    finally:
        database.close()


def _wait_stopped(pid: int) -> None:
    """It is no child of this process, whose stop could be waited for. A thread that waits for the disk stops late."""
    ends_s = time.monotonic() + 30
    while time.monotonic() < ends_s:
        if all(state.startswith("T") for state in _states(pid)):
            return
    raise AssertionError("it does not stop")


def _states(pid: int) -> list[str]:
    """What each of its threads is at; of the process as a whole where the system does not list them."""
    listed = list(Path(f"/proc/{pid}/task").glob("*/stat"))
    if listed:
        # The program's name, in brackets, may hold anything.
        return [path.read_text().rpartition(")")[2].strip() for path in listed]
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    return [subprocess.run(command, capture_output=True, check=True, text=True).stdout]


def decide(path: Path, verb: Verb, *, control_id: str | None = None, timeout_s: float = 20) -> ControlResult:
    """Send one decision."""
    return send_control(path, verb, actor="a test", control_id=control_id, timeout_s=timeout_s)


def query(path: Path, statement: str, *bindings: int | str) -> list[tuple[int | str | bytes | None, ...]]:
    """Look into the file itself."""
    database = apsw.Connection(str(path))
    try:
        return cast(
            "list[tuple[int | str | bytes | None, ...]]", database.execute(statement, bindings).fetchall()
        )
    finally:
        database.close()


def run_bot(path: Path) -> None:
    """Run the bot over the store until all is quiet."""

    async def main() -> None:
        channel = FakeChannel()
        async with Runtime.open(mortal_bot(), store=path, adapters=[channel]) as runtime:
            with trio.fail_after(30):
                await runtime.wait_until(lambda: runtime.is_quiet)

    trio.run(main)
