"""Fifty conversations in flight while an actor crashes, and what must hold afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Literal

import attrs
import pytest
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.child import ChildState, ChildStatistics
from shardline.actors.errors import Code
from shardline.actors.failpoints import NO_FAILPOINTS, FailPoints
from shardline.adapters.base import ChannelCaps, Edge, Inbound, NotSent, Outbound, SendOutcome, Sent
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.port import Store
from shardline.storage.records import InboxStatus, OutboxState
from shardline.storage.sqlite import open_sqlite

CONVERSATIONS = 50
EACH = 6
SHARDS = 4
TOTAL = CONVERSATIONS * EACH


class Injected(Exception):
    """What a test makes an actor crash with."""


@attrs.define
class Place:
    """Where a store is kept from one opening to the next."""

    kind: Literal["memory", "relayed", "file", "thread"]
    folder: Path
    database: MemoryDatabase = attrs.field(factory=MemoryDatabase)

    def open(self, failpoints: FailPoints = NO_FAILPOINTS) -> Store:
        if self.kind in {"memory", "relayed"}:
            return open_memory(
                shard_count=SHARDS,
                database=self.database,
                emits="relayed" if self.kind == "relayed" else "atomic",
                failpoints=failpoints,
            )
        return open_sqlite(
            self.folder / "bot.db",
            shard_count=SHARDS,
            durability="normal",
            mode="thread" if self.kind == "thread" else "inline",
            failpoints=failpoints,
        )


def busy_bot(*, emits: bool = False) -> Topology:
    """Counts the turns of a conversation in its state, and answers; with `emits` it pokes another one each time."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        await trio.sleep(0.004)
        text = message.payload.text
        if emits and not text.startswith("poke"):
            ctx.publish("chat.message", f"poke {message.conversation_key} {text}", key="crowd:poked")
        ctx.reply(f"{turns + 1}: {text}")

    return topology


class Crowd:
    """A channel with fifty people who each say a few things; the platform repeats what was not acknowledged.

    It knows what it sent, and can be asked (`reconciles`), or cannot.

    Attributes:
        said: What the platform still repeats: of each conversation, in order.
        sent: Every send that went out, in order.
    """

    name = prefix = "crowd"

    def __init__(self, *, reconciles: bool = True, each: int = EACH) -> None:
        self.caps = ChannelCaps(reconciles=reconciles)
        self.waiting = {f"c{n}": [str(number) for number in range(each)] for n in range(CONVERSATIONS)}
        self.sent: list[Outbound] = []

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read all conversations side by side, each in its order."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            for address in self.waiting:
                nursery.start_soon(self.read, edge, address)

    async def read(self, edge: Edge, address: str) -> None:
        texts = self.waiting[address]
        while texts:
            await trio.sleep(0.003)
            await edge.accept(
                Inbound(platform_message_id=f"{address}:{texts[0]}", address=address, text=texts[0])
            )
            texts.pop(0)

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.sleep(0.005)
        self.sent.append(out)
        await trio.sleep(0.005)
        return Sent(str(len(self.sent)))

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        if any(sent.idempotency_key == out.idempotency_key for sent in self.sent):
            return Sent(None)
        return NotSent(Code.NOT_FOUND, Code.NOT_FOUND.permanence)


@contextmanager
def crash_in(
    owner: type | ModuleType, method: str, *, at: Sequence[int], after: bool = False
) -> Generator[list[int]]:
    """Let calls of a method fail, by their number from 1, before or after it has done its work.

    Returns:
        The numbers of the calls that failed so far.
    """
    real: Callable[..., object] = getattr(owner, method)
    calls = 0
    failed: list[int] = []

    def failing(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        number = calls
        if number in at and not after:
            failed.append(number)
            raise Injected
        result = real(*args, **kwargs)
        if number in at:
            failed.append(number)
            raise Injected
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, method, failing)
        yield failed


async def work(runtime: Runtime, limit_s: float = 300) -> None:
    """Until everybody has said all and everything has ended."""
    with trio.fail_after(limit_s):
        await runtime.wait_drained()


def check_nothing_lost(runtime: Runtime, crowd: Crowd, *, each: int = EACH, uncertain: bool = False) -> None:
    """Every message is handled once and in order, answered once, and everything taken is given back.

    Args:
        uncertain: Sends may wait as uncertain, since nobody can look them up.
    """
    rows = runtime.messages.list(limit=10_000)
    own = [
        row for row in rows if row.record.channel == "crowd" and row.record.conversation_key != "crowd:poked"
    ]
    assert len(own) == CONVERSATIONS * each
    assert {row.record.status for row in rows} == {InboxStatus.DONE}
    assert {(row.record.failures, row.record.crashes) for row in rows} == {(0, 0)}
    sends = runtime.outbox.list(limit=10_000)
    states = Counter(row.record.state for row in sends)
    assert set(states) <= {OutboxState.SENT, *([OutboxState.UNCERTAIN] if uncertain else [])}
    assert len(sends) == len(rows)
    assert set(Counter(out.idempotency_key for out in crowd.sent).values()) == {1}
    doubtful = {row.record.idempotency_key for row in sends if row.record.state is OutboxState.UNCERTAIN}
    by_address: dict[str, list[str]] = {f"c{n}": [] for n in range(CONVERSATIONS)}
    for out in crowd.sent:
        if out.address in by_address:
            by_address[out.address].append(out.text)
    for texts in by_address.values():
        wanted = [f"{n + 1}: {n}" for n in range(each)]
        if uncertain:
            # Nobody knows of some whether they went out; the others kept their order.
            assert texts == [text for text in wanted if text in texts]
        else:
            assert texts == wanted
    missing = len(sends) - len({out.idempotency_key for out in crowd.sent})
    assert missing <= len(doubtful)
    status = runtime.status()
    assert (status.tokens_free, status.running_turns, status.running_sends) == (1024, 0, 0)


def actors_of(runtime: Runtime) -> Mapping[str, ChildStatistics]:
    """All actors of the tree by name."""
    found: dict[str, ChildStatistics] = {}

    def enter(children: Sequence[ChildStatistics]) -> None:
        for child in children:
            found[child.name] = child
            enter(child.children)

    enter(runtime.status().actors)
    return found


async def check_all_up(runtime: Runtime) -> None:
    """Whoever is meant to run runs; only the adapter has ended, by itself.

    The last crash may have come with the last work: on the tests' clock everybody gets the time to start again.
    """
    await trio.sleep(60)
    resting = {name for name, actor in actors_of(runtime).items() if actor.state is not ChildState.RUNNING}
    assert resting == {"recovery", "edge-crowd"}


@contextmanager
def no_task_left() -> Generator[None]:
    """As many tasks afterwards as before."""
    before = trio.lowlevel.current_statistics().tasks_living
    yield
    assert trio.lowlevel.current_statistics().tasks_living == before
