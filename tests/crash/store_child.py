"""A process that writes to a store until it is killed: `python -m tests.crash.store_child PATH MODE PLAN AT`.

PLAN `steps` takes messages through their stations one by one and dies at the fail point AT, or, for `write:N` and
`sync:N`, at the N-th such call on the log. PLAN `flood` publishes from many tasks until its parent kills it.
Says on stdout, unbuffered: `try NAME ROWS` before each step, ROWS is how many history rows it makes, `did NAME` after.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable

import apsw
import attrs
import trio

from shardline.actors.failpoints import NO_FAILPOINTS, FailPoints
from shardline.storage.commands import Emit, EmitNumber
from shardline.storage.sqlite import open_sqlite
from tests.kits.faulty_vfs import Fault, FaultyVfs
from tests.kits.store_rows import (
    Hand,
    claim_row,
    fail_row,
    finish_row,
    finish_send,
    kill_row,
    requeue_row,
)

FLOOD_TASKS = 16


class DeadlyVfs(FaultyVfs):
    """Its fault is the end of the process."""

    def error(self) -> apsw.Error:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def step(name: str, rows: int, done: Awaitable[object]) -> None:
    say("try", name, rows)
    await done
    say("did", name)


async def run_steps(hand: Hand, messages: int) -> None:
    for number in range(messages):
        key = f"tg:{number % 3}"
        new = hand.new_inbox(key, number)
        await step(f"accept-{number}", 1, hand.store.publish(hand.publish(new, claim=True)))
        record = hand.inbox(new.record.id)
        failed = fail_row(record)
        await step(f"fail-{number}", 1, hand.move(failed))
        await step(f"claim-{number}", 1, hand.move(claim := claim_row(failed.after)))
        await step(f"dead-{number}", 1, hand.move(dead := kill_row(claim.after)))
        await step(f"requeue-{number}", 1, hand.move(requeue := requeue_row(dead.after)))
        tail = attrs.evolve(requeue.after, seq=hand.inbox(record.id).seq)
        await step(f"reclaim-{number}", 1, hand.move(again := claim_row(tail)))
        send = hand.new_outbox(key, f"reply-{number}", started=True)
        emit = Emit(EmitNumber(record.shard, tail.seq, 0), hand.new_inbox("tg:9", number))
        finish = hand.commit(
            record.shard, inbox=(finish_row(again.after),), new_outbox=(send,), emits=(emit,)
        )
        await step(f"done-{number}", 3, hand.store.commit(finish))
        await step(f"sent-{number}", 1, hand.move(finish_send(hand.outbox(send.record.id))))


async def run_flood(hand: Hand) -> None:
    async def publish(task: int) -> None:
        number = hand.store.info.instance * 1_000_000 + task
        while True:
            row = hand.new_inbox(f"tg:{task}", number)
            await hand.store.publish(hand.publish(row, claim=True))
            say("did", row.dedupe_key)
            number += FLOOD_TASKS

    async with trio.open_nursery() as nursery:
        for task in range(FLOOD_TASKS):
            nursery.start_soon(publish, task)


async def main(path: str, mode: str, plan: str, at: str) -> None:
    vfs = DeadlyVfs("deadly")
    points = NO_FAILPOINTS
    operation, _, nth = at.partition(":")
    if operation not in {"write", "sync"} and at:
        points = FailPoints.parse(at)
    store = open_sqlite(
        path, mode="inline" if mode == "inline" else "thread", failpoints=points, vfs=vfs.name
    )
    if operation in {"write", "sync"}:
        vfs.arm(Fault("write" if operation == "write" else "sync", nth=int(nth)))
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        hand = Hand(store)
        if plan == "flood":
            await run_flood(hand)
        await run_steps(hand, 3)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    path, mode, plan, at = sys.argv[1:]
    trio.run(main, path, mode, plan, at)
