"""One store under several versions of the code, for tests of the conversations' state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import apsw
import msgpack
import trio

from shardline import BusMessage, Context, RetryPolicy, Runtime, Topology
from shardline.actors.clock import FakeClock
from shardline.actors.plain import Plain
from shardline.runtime.state import Upgrade
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.testing import FakeChannel
from tests.kits.bots import until_quiet

START_US = 1_767_225_600_000_000
Say = Callable[[Context], None]


def bot_of(say: Say, *, version: int | None = None, upgrade: Upgrade | None = None) -> Topology:
    """Does `say` in each turn and answers `ok`."""
    topology = Topology()
    if version is not None:
        topology.state(version=version, upgrade=upgrade)

    @topology.on("chat.message", retry=RetryPolicy(max_retries=2, base_delay_s=1, jitter="none"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.lowlevel.checkpoint()
        say(ctx)
        ctx.reply("ok")

    return topology


def idle(ctx: Context) -> None:
    """Does nothing with the state."""


class Bench:
    """One store in memory under one version of the code after the other."""

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        self.channel = FakeChannel("fake")
        self.said = 0

    async def turn(
        self, topology: Topology, *addresses: str, then: Callable[[Runtime], Awaitable[None]] | None = None
    ) -> Runtime:
        """Open with this code, let each conversation say something, and wait until all is done."""
        clock = FakeClock(start_us=START_US)
        async with Runtime.open(
            topology,
            store=open_memory(database=self.database, clock=clock),
            adapters=[self.channel],
            clock=clock,
        ) as runtime:
            for address in addresses:
                self.said += 1
                await self.channel.say(address, "go", platform_message_id=f"m{self.said}")
            await until_quiet(runtime)
            if then is not None:
                await then(runtime)
        return runtime

    def stored(self, address: str = "a") -> tuple[Plain, int] | None:
        """The state on disk and its version."""
        store = open_memory(database=self.database.copy())
        found = store.reader.state(f"fake:{address}")
        store.close()
        return None if found is None else (cast("Plain", msgpack.unpackb(found.value)), found.version)

    def query(self, statement: str) -> Sequence[tuple[object, ...]]:
        """Rows of the database as it was left."""
        database = apsw.Connection(":memory:")
        database.deserialize("main", self.database.source.content())
        return database.execute(statement).fetchall()

    def change(self, statement: str, value: bytes) -> None:
        """Change the database behind everybody's back."""
        database = apsw.Connection(":memory:")
        database.deserialize("main", self.database.source.content())
        database.execute(statement, (value,))
        self.database = MemoryDatabase(database.serialize("main"))

    async def dead(self) -> list[tuple[str, str | None, str]]:
        """(code, own code, text) of the newest failure of each dead message."""
        found: list[tuple[str, str | None, str]] = []

        async def look(runtime: Runtime) -> None:
            for row in runtime.dead_letters.list():
                last = row.record.errors[-1]
                found.append((last.code, last.own_code, last.text))

        await self.turn(bot_of(idle), then=look)
        return found


def put(ctx: Context, value: object) -> None:
    """Set the state's `x`, whatever type checkers say of it."""
    cast("dict[str, object]", ctx.state)["x"] = value


def split_name(state: dict[str, Plain], version: int) -> dict[str, Plain]:
    """Version 2 has `visits` for `n`, version 3 its names apart."""
    if version < 2:
        state["visits"] = state.pop("n", 0)
    if version < 3:
        first, _, last = str(state.pop("name", "")).partition(" ")
        state |= {"first": first, "last": last}
    return state


def visit(ctx: Context) -> None:
    """What version 1 does."""
    ctx.state["n"] = cast("int", ctx.state.get("n", 0)) + 1
    ctx.state["name"] = "Ann Lee"
