"""Steps and early sends while actors crash, disks fill and stores are opened again: once each, in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import apsw
import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Code, Context, Permanent, Runtime, Topology
from shardline.actors.errors import BusError
from shardline.runtime.shard_inbox import ShardInbox
from shardline.runtime.shard_outbox import ShardOutbox
from shardline.runtime.turn import Turn
from shardline.storage.journal import Journal
from shardline.storage.memory import open_memory
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import until_quiet
from tests.kits.controlled import query
from tests.kits.crashes import CONVERSATIONS, EACH, Crowd, Place, crash_in, work

Kind = Literal["memory", "relayed", "file", "thread"]


def calling_bot(ran: Counter[str]) -> Topology:
    """Says that it thinks, makes a call, and answers with the number of the call that it got."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        name = f"{message.conversation_key} {message.payload.text}"

        async def call() -> int:
            await trio.sleep(0.002)
            ran[name] += 1
            return ran[name]

        await ctx.send_now("note", f"{message.payload.text}: note of run {ctx.claim}")
        said = await ctx.step("model", call)
        await trio.sleep(0.002)
        ctx.reply(f"{message.payload.text}: {said}")

    return topology


@pytest.mark.parametrize("kind", ["memory", "relayed", "file"])
@pytest.mark.parametrize(
    ("owner", "method", "at", "after"),
    [
        pytest.param(ShardInbox, "turn_ended", [40, 90], False, id="a turn's end"),
        pytest.param(ShardInbox, "turn_ended", [40, 90], True, id="after a turn's end"),
        pytest.param(ShardOutbox, "plan", [31, 70], False, id="a send is planned"),
        pytest.param(ShardOutbox, "placed", [45, 100], False, id="placed sends"),
        pytest.param(ShardOutbox, "send_ended", [50, 120], True, id="after a send's end"),
        pytest.param(Turn, "ended", [70], True, id="turns"),
        pytest.param(Journal, "submit", range(200, 230), False, id="the way into the journal"),
    ],
)
async def test_crashes_of_actors_repeat_no_stored_step_and_no_note(
    owner: type,
    method: str,
    at: Sequence[int],
    after: bool,
    kind: Kind,
    tmp_path: Path,
    autojump_clock: MockClock,
) -> None:
    ran: Counter[str] = Counter()
    crowd = Crowd()
    with crash_in(owner, method, at=at, after=after) as failed:
        store = Place(kind, tmp_path).open()
        async with Runtime.open(calling_bot(ran), store=store, adapters=[crowd]) as runtime:
            await work(runtime)
            rows = runtime.messages.list(limit=10_000)
            assert failed == [*at]

    assert {row.record.status for row in rows} == {"done"}
    assert set(Counter(out.idempotency_key for out in crowd.sent).values()) == {1}
    said = defaultdict[str, list[str]](list)
    for out in crowd.sent:
        said[out.address].append(out.text)
    assert len(said) == CONVERSATIONS
    for address, texts in said.items():
        assert [text.split(":")[0] for text in texts] == [str(n // 2) for n in range(2 * EACH)]
        for number in range(EACH):
            note, reply = texts[2 * number : 2 * number + 2]
            assert "note of run" in note
            # The call whose result was stored was the last one ever made.
            assert reply == f"{number}: {ran[f'crowd:{address} {number}']}"


async def test_a_zombie_stores_nothing(autojump_clock: MockClock) -> None:
    """Its shard has started again: what it still tries is STALE_CLAIM, and the next run knows nothing of it."""
    codes: list[Code] = []
    found: list[str] = []
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "crash the shard":
            return
        if ctx.claim == 1:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                with trio.CancelScope(shield=True):
                    for late in (
                        lambda: ctx.step("model", lambda: "zombie"),
                        lambda: ctx.send_now("note", "zombie"),
                    ):
                        with pytest.raises(BusError) as caught:
                            await late()
                        codes.append(caught.value.code)
                raise
        found.append(await ctx.step("model", lambda: "alive"))
        await ctx.send_now("note", "alive")

    channel = FakeChannel()
    with crash_in(ShardInbox, "turn_ended", at=[1]) as failed:
        store = open_memory(shard_count=1)
        async with Runtime.open(topology, store=store, adapters=[channel]) as runtime:
            await channel.say("a", "hi")
            await channel.say("b", "crash the shard")
            await until_quiet(runtime)

            assert failed == [1]
            assert codes == [Code.STALE_CLAIM] * 2
            assert found == ["alive"]
            assert [out.text for out in channel.delivered] == ["alive"]
            assert {row.record.crashes for row in runtime.messages.list()} == {0}


async def test_a_full_disk_holds_a_turn_a_little_longer_than_its_time_and_loses_no_result(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    ran: list[int] = []
    cut_at_s: list[float] = []
    topology = Topology()

    @topology.on("chat.message", timeout_s=30)
    async def answer(ctx: Context, message: BusMessage) -> None:
        def call() -> bytes:
            ran.append(ctx.claim)
            return bytes(200_000)

        try:
            result = await ctx.step("model", call)
        except trio.Cancelled:
            cut_at_s.append(trio.current_time())
            raise
        ctx.reply(f"{len(result)}")

    connections: list[apsw.Connection] = []
    apsw.connection_hooks.append(connections.append)
    try:
        store = open_sqlite(tmp_path / "bot.db", mode="inline", durability="normal")
    finally:
        apsw.connection_hooks.remove(connections.append)
    writer = connections[0]
    ((pages,),) = writer.execute("PRAGMA page_count").fetchall()
    assert isinstance(pages, int)
    writer.execute(f"PRAGMA max_page_count = {pages + 20}").fetchall()
    channel = FakeChannel()
    async with Runtime.open(topology, store=store, adapters=[channel]) as runtime:
        await channel.say("a", "hi")
        began_s = trio.current_time()
        await trio.sleep(100)

        assert [round(at_s - began_s) for at_s in cut_at_s] == [35]
        assert query(tmp_path / "bot.db", "SELECT count(*) FROM step") == [(0,)]
        writer.execute(f"PRAGMA max_page_count = {2**30}").fetchall()
        await until_quiet(runtime)

        assert ran == [1]
        assert [out.text for out in channel.delivered] == ["200000"]


async def test_a_purge_takes_the_results_along(tmp_path: Path, autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        await ctx.step("model", lambda: "private")
        if message.payload.text == "die":
            raise Permanent("x.dead")

    path = tmp_path / "bot.db"
    channel = FakeChannel()
    store = open_sqlite(path, mode="inline", durability="normal")
    async with Runtime.open(topology, store=store, adapters=[channel]) as runtime:
        await channel.say("a", "die")
        await channel.say("b", "live")
        await until_quiet(runtime)
        rows = {row.message.payload.text: row.record.id for row in runtime.messages.list()}
        assert query(path, "SELECT count(*) FROM step") == [(2,)]

        assert await runtime.dead_letters.purge(2**62) == 1
        assert query(path, "SELECT inbox_id, name FROM step") == [(rows["live"], "model")]
