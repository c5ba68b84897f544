"""Field entry 40: no path opens a deferred transaction that writes, and a snapshot that is too old is a bug of ours."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import apsw
import pytest
import trio

from shardline import BusMessage, Context, Permanent, Runtime, Topology
from shardline.actors.clock import SystemClock
from shardline.runtime.control.client import send_control
from shardline.runtime.control.verbs import Purge
from shardline.storage.sqlite.faults import store_error
from shardline.testing import FakeChannel
from tests.kits.bots import until_quiet

WRITES = {"INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "ALTER", "DROP"}


class Trace:
    """The statements of one connection: what it wrote outside an immediate transaction.

    Attributes:
        writes: How many statements wrote.
        wrong: Those that should not be.
    """

    def __init__(self) -> None:
        self.writes = 0
        self.wrong: list[str] = []
        self._begin: str | None = None

    def enter(self, cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        words = sql.upper().split()
        if words[0] == "BEGIN":
            self._begin = " ".join(words[:2])
        elif words[0] in {"COMMIT", "END"} or words == ["ROLLBACK"]:
            self._begin = None
        elif words[0] in WRITES or (words[0] == "WITH" and WRITES & set(words)):
            self.writes += 1
            if self._begin not in {"BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"}:
                self.wrong.append(sql)
        return True


@contextmanager
def traced() -> Generator[list[Trace]]:
    """Every connection that is opened meanwhile."""
    traces: list[Trace] = []

    def hook(connection: apsw.Connection) -> None:
        trace = Trace()
        traces.append(trace)
        connection.exec_trace = trace.enter

    apsw.connection_hooks.append(hook)
    try:
        yield traces
    finally:
        apsw.connection_hooks.remove(hook)


async def purge(path: Path) -> None:
    """Decide from outside, as another process would."""
    decision = Purge(older_than_us=SystemClock().wall_us())
    done = await trio.to_thread.run_sync(partial(send_control, path, decision, actor="me"))
    assert done.status == "done"


async def test_every_write_of_a_whole_run_is_in_an_immediate_transaction(tmp_path: Path) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.state["turns"] = 1
        await ctx.step("model", lambda: "said")
        await ctx.send_now("note", "thinking")
        if message.payload.text == "die":
            raise Permanent("x.dead")
        ctx.schedule("later", after_s=0.01)
        ctx.reply(message.payload.text)

    path = tmp_path / "bot.db"
    with traced() as traces:
        for _ in range(2):
            channel = FakeChannel()
            async with Runtime.open(topology, store=path, adapters=[channel]) as runtime:
                for text in ("hi", "die", "again"):
                    await channel.say("a", text)
                await until_quiet(runtime)
                await purge(path)
        # Nobody owns the store: the one who decides does, for a moment.
        await purge(path)

    assert [sql for trace in traces for sql in trace.wrong] == []
    assert sum(trace.writes for trace in traces) > 100
    assert sum(trace.writes > 0 for trace in traces) > 3


def test_a_write_over_an_old_snapshot_fails_at_once_and_is_an_assertion_for_us(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    one, other = apsw.Connection(str(path)), apsw.Connection(str(path))
    one.execute("PRAGMA journal_mode = WAL").fetchall()
    one.execute("CREATE TABLE t (a)")
    other.set_busy_timeout(5_000)
    other.execute("BEGIN")
    other.execute("SELECT * FROM t").fetchall()
    one.execute("INSERT INTO t VALUES (1)")
    began_s = time.monotonic()
    with pytest.raises(apsw.BusyError) as caught:
        other.execute("INSERT INTO t VALUES (2)")

    assert time.monotonic() - began_s < 4, "the busy time-out of 5 s is not waited for"
    with pytest.raises(AssertionError, match="deferred"):
        store_error(caught.value, "it cannot be written")
    other.close(force=True)
    one.close()
