"""An asyncio program with a bot, in a process of its own: `python host_program.py STORE WHAT`.

Prints a line for whoever watches: `ready`, then what WHAT says. The handler notes each run in `STORE.runs`.
`finish` takes more stores behind it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import structlog

from shardline import BusError, BusMessage
from shardline.asyncio import AsyncioContext, AsyncioRuntime, open_runtime, runtime
from shardline.testing import FakeChannel
from tests.kits.bots import new_message
from tests.kits.hosts import host_bot

# Whoever only collects tests imports this without a program to run.
STORE, WHAT = (Path(sys.argv[1]), sys.argv[2]) if __name__ == "__main__" else (Path(), "")
HELD = asyncio.Event()


def say(text: str) -> None:
    print(text, flush=True)


def note(text: str) -> None:
    with Path(f"{STORE}.runs").open("a") as file:
        file.write(text + "\n")


async def answer(ctx: AsyncioContext, message: BusMessage) -> None:
    note(message.payload.text)
    match message.payload.text:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hold":
            HELD.set()
            await asyncio.sleep(3_600)
        case "exit":
            sys.exit(7)
        case "interrupt":
            raise KeyboardInterrupt
        case text:
            ctx.reply(text)


async def fill(bot: AsyncioRuntime, *, last: str) -> None:
    for number in range(20):
        await bot.publish(new_message(str(number), key=f"fake:{number}", idem=f"{number}"))
    await bot.publish(new_message(last, key="fake:last", idem="last"))


async def serve(last: str) -> None:
    async with runtime(host_bot(answer), store=STORE, adapters=[FakeChannel()], grace_s=0.3) as bot:
        await fill(bot, last=last)
        await HELD.wait()
        say("ready")
        try:
            await bot.serve()
        finally:
            say("leaving")
    say("closed")


async def serve_for(last: str) -> None:
    """Until the handler ends the program."""
    async with runtime(host_bot(answer), store=STORE, adapters=[FakeChannel()], grace_s=0.3) as bot:
        await fill(bot, last=last)
        await bot.serve()


def lose_the_loop(*, again: bool, elsewhere: bool = False) -> None:
    """Close the loop under an open runtime; then open again, in another thread, in this one, or not at all."""
    loop = asyncio.new_event_loop()

    async def begin() -> AsyncioRuntime:
        bot = await open_runtime(host_bot(answer), store=STORE, adapters=[FakeChannel()])
        await fill(bot, last="hold")
        await HELD.wait()
        return bot

    kept = loop.run_until_complete(begin())
    loop.close()
    say("lost")
    if elsewhere:
        other = threading.Thread(target=find_it_locked)
        other.start()
        other.join()
    if again:
        asyncio.run(finish())
    del kept


def find_it_locked() -> None:
    try:
        asyncio.run(finish())
    except BusError as error:
        say(error.code.value)
        say(error.message)


async def finish(store: Path = STORE) -> None:
    """The next start: everything that was accepted is handled."""

    async def quick(ctx: AsyncioContext, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    channel = FakeChannel()
    async with runtime(host_bot(quick), store=store, adapters=[channel]) as bot:
        await bot.wait_quiet()
        rows = bot.native.messages.list(limit=100)
        crashes = max(row.record.crashes for row in rows)
        failures = max(row.record.failures for row in rows)
        statuses = sorted({str(row.record.status) for row in rows})
        say(f"{len(rows)} {' '.join(statuses)} crashes={crashes} failures={failures}")


async def stop_the_loop() -> None:
    """`loop.stop` in the middle; the loop then goes on, as if nothing had been."""
    async with runtime(host_bot(answer), store=STORE, adapters=[FakeChannel()]) as bot:
        await fill(bot, last="20")
        loop = asyncio.get_running_loop()
        loop.call_later(0.05, loop.stop)
        await asyncio.sleep(0.1)
        await bot.wait_quiet()
        say(str(bot.status().inbox))


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    match WHAT:
        case "finish":
            for store in (STORE, *map(Path, sys.argv[3:])):
                asyncio.run(finish(store))
        case "lose" | "lose-again" | "lose-to-another-thread":
            lose_the_loop(again=WHAT != "lose", elsewhere=WHAT == "lose-to-another-thread")
        case "loop-stop":
            loop = asyncio.new_event_loop()
            task = loop.create_task(stop_the_loop())
            task.add_done_callback(lambda _: loop.stop())
            loop.run_forever()
            say("stopped" if not task.done() else "too late")
            loop.run_forever()
            task.result()
            loop.close()
            say("closed")
        case "plain-loop":
            # No handler of asyncio's for Ctrl-C: it comes out of `run_until_complete` wherever it hits.
            loop = asyncio.new_event_loop()
            task = loop.create_task(serve("hold"))
            try:
                loop.run_until_complete(task)
            except KeyboardInterrupt:
                say("interrupted")
                task.cancel()
                loop.run_until_complete(asyncio.wait({task}))
            loop.close()
        case "hold":
            asyncio.run(serve(WHAT))
        case _:
            asyncio.run(serve_for(WHAT))


if __name__ == "__main__":
    main()
