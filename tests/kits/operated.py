"""A store with a bit of everything, the command over it, and an owner in a process of its own."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click.testing
import trio

from shardline import BusMessage, Code, Context, Permanence, Permanent, Runtime, Topology
from shardline.adapters.base import NotSent, Uncertain
from shardline.runtime.command.app import shardline
from shardline.testing import FakeChannel
from tests.kits.forked import Script, start_forked

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07",
    "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "abc\u202edesrever\u2066 \u200f",
    "two\nlines\rand\ttabs\x7f\x9b31m",
    "[red]markup[/red] [link=http://evil.example]here[/link]",
)
"""Texts that a terminal or a table's markup would obey."""

UNSAFE = frozenset(
    map(chr, [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
)
"""Characters that no output may hold, beside the line end."""

OWNER = """
import sys, trio
from shardline import Topology, run
from shardline.testing import FakeChannel
from shardline import Runtime
topology = Topology()
@topology.on("chat.message")
async def answer(ctx, message):
    ctx.reply("later")
async def main():
    channel = FakeChannel()
    async with Runtime.open(topology, store=sys.argv[1], adapters=[channel]) as runtime:
        await channel.say("owned", "hello")
        await runtime.wait_until(lambda: runtime.is_quiet)
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
trio.run(main)
"""


def operate(*arguments: str | Path, env: dict[str, str] | None = None) -> click.testing.Result:
    """Run the command in this process; what it raises beside an exit is raised here."""
    return click.testing.CliRunner().invoke(
        shardline, [str(argument) for argument in arguments], env=env, catch_exceptions=False
    )


def make_store(path: Path, *, texts: tuple[str, ...] = ("good", "bad", "good")) -> None:
    """Make a store: of each text one message and its end; the first two sends are uncertain and dead.

    `bad` in a text makes its message die; the reasons are hostile texts.
    """

    async def main() -> None:
        topology = Topology()

        @topology.on("chat.message")
        async def answer(ctx: Context, message: BusMessage) -> None:
            if "bad" in message.payload.text:
                raise Permanent("x.bad", f"cannot {HOSTILE[0]}")
            ctx.reply(f"re {message.payload.text}")

        channel = FakeChannel()
        async with Runtime.open(topology, store=path, adapters=[channel]) as runtime:
            channel.script(
                Uncertain(f"no answer {HOSTILE[1]}"), NotSent(Code.RECIPIENT_BLOCKED, Permanence.PERMANENT)
            )
            with trio.fail_after(30):
                for number, text in enumerate(texts):
                    await channel.say(f"chat-{number}", text)
                    await runtime.wait_until(lambda: runtime.is_quiet)

    trio.run(main)


@contextmanager
def owner_of(path: Path) -> Generator[int]:
    """Have a process of its own own the store while the block runs; its pid."""
    with start_forked(Script(OWNER), str(path)) as child:
        assert next((line for line in child.stdout if line == "ready\n"), "") == "ready\n"
        yield child.pid
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.wait(30) == 0


def snapshot(folder: Path) -> dict[str, bytes]:
    """Names and bytes of all files but the shared memory of an owner, which readers mark themselves in."""
    return {path.name: b"" if path.name.endswith("-shm") else path.read_bytes() for path in folder.iterdir()}
