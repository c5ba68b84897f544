"""An asyncio program that is interrupted between two callbacks of its loop: `python strike_program.py STORE LAST`.

For each number up to LAST, each with a store of its own: a bot with a turn under way gets Ctrl-C, and once it stops a
second one, right when the loop has taken the callback of that number and not begun it. Prints `struck NAME`, `ended`,
and after the next start `done failures=0`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from pathlib import Path

import structlog

from shardline import BusMessage
from shardline.asyncio import AsyncioContext, runtime
from shardline.testing import FakeChannel
from tests.kits.bots import new_message
from tests.kits.hosts import host_bot


class StrikingQueue(deque[asyncio.Handle]):
    """A loop's queue of callbacks that interrupts the program once it has taken a certain one."""

    to_go = 0

    def popleft(self) -> asyncio.Handle:
        taken = super().popleft()
        if self.to_go:
            self.to_go -= 1
            if not self.to_go:
                print("struck", repr(taken), flush=True)
                signal.raise_signal(signal.SIGINT)
        return taken


async def serve(store: Path, queue: StrikingQueue, number: int) -> None:
    held = asyncio.Event()

    async def hold(_: AsyncioContext, __: BusMessage) -> None:
        held.set()
        await asyncio.sleep(3_600)

    async with runtime(host_bot(hold), store=store, adapters=[FakeChannel()], grace_s=0.01) as bot:
        await bot.publish(new_message(str(number), key=f"fake:{number}", idem=str(number)))
        await held.wait()
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        try:
            await bot.serve()
        finally:
            queue.to_go = number


async def finish(store: Path) -> None:
    async def answer(ctx: AsyncioContext, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    async with runtime(host_bot(answer), store=store, adapters=[FakeChannel()]) as bot:
        await bot.wait_quiet()
        for row in bot.native.messages.list():
            print(row.record.status, f"failures={row.record.failures}", flush=True)


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    for number in range(1, int(sys.argv[2]) + 1):
        queue, store = StrikingQueue(), Path(f"{sys.argv[1]}.{number}")

        def striking_loop(queue: StrikingQueue = queue) -> asyncio.AbstractEventLoop:
            loop = asyncio.SelectorEventLoop()
            # There is no public way to be between two callbacks of a loop.
            setattr(loop, "_ready", queue)  # noqa: B010
            return loop

        try:
            with asyncio.Runner(loop_factory=striking_loop) as runner:
                runner.run(serve(store, queue, number))
        except KeyboardInterrupt:
            print("ended", flush=True)
        asyncio.run(finish(store))


if __name__ == "__main__":
    main()
