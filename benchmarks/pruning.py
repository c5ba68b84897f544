"""The chat path while a large store is pruned without a pause between passes, as a ratio to the same store unpruned."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path

import apsw
import trio

from benchmarks.comparison import Goal, run_goals
from benchmarks.product import product_chat_over
from benchmarks.raw import Rate
from benchmarks.raw_store import Sync
from shardline.runtime import retention as pruning
from shardline.runtime.retention import Retention
from shardline.storage.commands import Outcome, Part, Refused
from shardline.storage.kit.opened import submit_all
from shardline.storage.kit.rows import Hand, claim_row, finish_row, finish_send
from shardline.storage.sqlite import open_sqlite

OLD_MESSAGES = 6_000
"""With one send each, and four rows of history; all of them ended long ago."""

BAR = 0.85
"""Pruning takes a tenth of the writer's time at most."""

FOR_EVER = Retention(messages_s=inf, keys_s=inf, history_s=inf)


async def fill(path: Path, messages: int) -> None:
    """So many messages that are done, each with its answer that is sent."""
    store = open_sqlite(path, mode="inline", durability="normal")
    hand = Hand(store)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        for start in range(0, messages, 500):
            accepts: list[Part] = []
            ends: list[Part] = []
            sends: list[Part] = []
            for number in range(start, start + 500):
                key = f"tg:{1 + number % 1_000}"
                row, answer = hand.new_inbox(key, number), hand.new_outbox(key, f"a-{number}", started=True)
                accepts.append(hand.publish(row, claim=True))
                done = finish_row(claim_row(row.record).after)
                ends.append(hand.commit(hand.shard(key), inbox=(done,), new_outbox=(answer,)))
                sends.append(hand.commit(hand.shard(key), outbox=(finish_send(answer.record),)))
            outcomes: list[Outcome] = await submit_all(hand, *accepts, *ends, *sends)
            assert not any(isinstance(outcome, Refused) for outcome in outcomes)
        nursery.cancel_scope.cancel()


@contextmanager
def without_pauses() -> Generator[None]:
    """Let the next pass begin when one has ended; what a commit of a pass may take of the time stays as it is."""
    real = pruning.PRUNE_EVERY_S
    setattr(pruning, "PRUNE_EVERY_S", 0.05)  # noqa: B010 (a constant)
    try:
        yield
    finally:
        setattr(pruning, "PRUNE_EVERY_S", real)  # noqa: B010


def pruned_chat(path: Path, sync: Sync, seconds: float) -> Rate:
    """Chat while what is old goes."""
    trio.run(fill, path, OLD_MESSAGES)
    with without_pauses():
        rate = product_chat_over(path, sync, 256, 2_000, seconds, retention=Retention())
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    left = int(database.execute("SELECT count(*) FROM outbox WHERE channel = 'telegram'").get)
    assert left < OLD_MESSAGES
    database.close()
    return rate


def unpruned_chat(path: Path, sync: Sync, seconds: float) -> Rate:
    """Chat beside what is old."""
    trio.run(fill, path, OLD_MESSAGES)
    return product_chat_over(path, sync, 256, 2_000, seconds, retention=FOR_EVER)


def pruning_goals() -> list[Goal]:
    """Both syncs, 256 messages in flight."""
    syncs: tuple[Sync, ...] = ("FULL", "NORMAL")
    return [
        Goal(
            name="chat, a pass of pruning under way, to without",
            sync=sync,
            bar=BAR,
            product=partial(pruned_chat, sync=sync),
            raw=partial(unpruned_chat, sync=sync),
        )
        for sync in syncs
    ]


if __name__ == "__main__":
    sys.exit(run_goals("pruning", __doc__ or "", pruning_goals()))
