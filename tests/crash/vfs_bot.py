"""A bot over a disk that fails: `python -m tests.crash.vfs_bot FOLDER OPERATION FAULT END FIRST STRIDE`.

Each run has a folder of its own, named by its number N, and a process of its own, forked from this one: the N-th call
of OPERATION on the log fails with FAULT (`io`, `full`); with END `die` the process is gone at the call after that one.
A run that died is followed by one over a healthy disk. Ends with the first run that had no N-th call; prints for each
run how often the fault was met (two: it died).

In the folder: `answers.jsonl`, what the platform was told of each message (`stored`, `refused`), and `sink.jsonl`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import apsw
import attrs
import structlog
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, RetryPolicy, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Edge, Inbound, NotSent, Outbound, SendOutcome, Sent
from shardline.storage.sqlite import open_sqlite
from tests.kits.faulty_vfs import Fault, FaultyVfs, Operation

ADDRESSES = ("a", "b", "c")
TEXTS = ("hi", "retry", "poke")
SHARDS = 4

topology = Topology()


@topology.on("chat.message", retry=RetryPolicy(max_retries=2, base_delay_s=1, jitter="none"))
async def answer(ctx: Context, message: BusMessage) -> None:
    text = message.payload.text
    turns = ctx.state.get("turns", 0)
    assert isinstance(turns, int)
    ctx.state["turns"] = turns + 1
    if text == "retry" and ctx.failures == 0:
        raise ValueError("once")
    if text == "poke":
        ctx.publish("chat.message", f"poked by {message.conversation_key}", key="line:poked")
    ctx.reply(f"{turns + 1}: {text}")


def append(path: Path, **facts: object) -> None:
    with path.open("a") as file:
        file.write(json.dumps(facts) + "\n")


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@attrs.define
class Lines:
    """A platform: it repeats at each start whatever it was not told to be stored or refused."""

    folder: Path
    name: str = "line"
    prefix: str = "line"
    caps: ChannelCaps = ChannelCaps(reconciles=True)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        answered = {line["id"] for line in lines(self.folder / "answers.jsonl")}
        async with trio.open_nursery() as nursery:
            for address in ADDRESSES:
                nursery.start_soon(self._say, edge, address, answered)

    async def _say(self, edge: Edge, address: str, answered: set[str]) -> None:
        for text in TEXTS:
            name = f"{address}:{text}"
            if name in answered:
                continue
            try:
                await edge.accept(Inbound(platform_message_id=name, address=address, text=text))
            except BusError as error:
                if error.code is not Code.STORE_FULL:
                    raise
                append(self.folder / "answers.jsonl", id=name, end="refused")
            else:
                append(self.folder / "answers.jsonl", id=name, end="stored")

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        append(self.folder / "sink.jsonl", key=out.conversation_key, id=out.idempotency_key, text=out.text)
        return Sent(None)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        if any(line["id"] == out.idempotency_key for line in lines(self.folder / "sink.jsonl")):
            return Sent(None)
        return NotSent(Code.NOT_FOUND, Code.NOT_FOUND.permanence)


class DyingVfs(FaultyVfs):
    """Its first fault is an error, a second one the end of the process."""

    def error(self) -> apsw.Error:
        if self.met > 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().error()


async def run_bot(folder: Path, fault: Fault | None) -> int:
    """Run until everything has ended; how often the fault was met."""
    vfs = DyingVfs("dying")
    store = open_sqlite(folder / "bot.db", shard_count=SHARDS, mode="inline", vfs=vfs.name)
    vfs.arm(fault)
    async with Runtime.open(topology, store=store, adapters=[Lines(folder)]) as runtime:
        with trio.fail_after(300):
            await runtime.wait_drained()
        vfs.arm(None)
    return vfs.met


def fork_bot(folder: Path, fault: Fault | None) -> int:
    """Run a bot in a process of its own; its wait status. The exit code is how often the fault was met, or 99."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    code = 99
    try:
        code = trio.run(run_bot, folder, fault, clock=MockClock(autojump_threshold=0))
    finally:
        os._exit(code)


def main(root: Path, operation: Operation, fault: str, end: str, first: int, stride: int) -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    error = apsw.FullError if fault == "full" else apsw.IOError
    nth = first
    while True:
        folder = root / str(nth)
        folder.mkdir()
        status = fork_bot(folder, Fault(operation, nth=nth, count=1 if end == "go-on" else 2, error=error))
        met = 2 if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)
        print(nth, met, flush=True)
        if met == 0:
            return
        nth += stride


def restart(root: Path) -> None:
    """Run the bots of all folders once more, over a healthy disk."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    for folder in sorted(root.iterdir()):
        print(folder.name, os.waitstatus_to_exitcode(fork_bot(folder, None)), flush=True)


if __name__ == "__main__":
    if sys.argv[2] == "restart":
        restart(Path(sys.argv[1]))
    else:
        chosen: Operation = "sync" if sys.argv[2] == "sync" else "write"
        main(Path(sys.argv[1]), chosen, sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6]))
