"""One run under stress: `python -m tests.stress.child FOLDER SEED CONVERSATIONS MESSAGES KILLS RUN FAULT`.

Says what it is at, one JSON object a line: `opening`, `mark` (its end is near), `sample` (memory), `done`. With a mark
or without an end of its own it goes on until it is killed. FAULT is `-`, or a fault of the product with its call:
`lose-token:3`.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import structlog
import trio

from shardline import BusError, BusMessage, Code, Direction, MessageEnvelope, Runtime
from shardline.actors.failpoints import NO_FAILPOINTS, FailPointError, FailPoints
from shardline.actors.identifiers import new_uuid7
from shardline.runtime.collector import calm_collector
from shardline.runtime.pool import WorkerPool
from shardline.runtime.shard import ShardActor
from shardline.storage.records import InboxStatus
from shardline.storage.sqlite import open_sqlite
from tests.kits.crashes import Injected
from tests.stress.bot import SEND_RETRY, StressChannel, stress_topology
from tests.stress.faults import FAULTS, Once
from tests.stress.plan import PROGRAMS, EndKind, Item, Plan, Sizes
from tests.stress.saboteur import Saboteur
from tests.stress.script import CHANNELS, REVIVED_CODE

STORE = "bot.db"
JOURNAL_FAILED = 7
"""Exit status where the journal gave up, as it was told to."""

_REPEATED = 2
_AT_MOST = 1_000_000


def tell(event: str, **facts: object) -> None:
    """A line for who started this."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


def memory_bytes() -> int:
    """What this process has in memory; where the system does not say, the most it ever had."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Run:
    """One run of a plan."""

    def __init__(self, folder: Path, plan: Plan, number: int) -> None:
        self._folder = folder
        self._plan = plan
        self._ending = plan.endings[number]
        self._is_last = number == len(plan.endings) - 1
        self._saboteur = Saboteur(plan.seed * 31 + number, relayed=plan.relayed)
        self._saboteur.install()
        self._limit_s = 120 + plan.sizes.messages / 50

    async def go(self) -> None:
        tell("opening")
        folder, plan, point = self._folder, self._plan, self._ending.point
        store = open_sqlite(
            folder / STORE,
            durability="normal",
            emits="relayed" if plan.relayed else "atomic",
            failpoints=NO_FAILPOINTS if point is None else FailPoints.parse(point),
        )
        channels = [StressChannel(name, plan, folder) for name in CHANNELS]
        with trio.open_signal_receiver(signal.SIGTERM) as signals, trio.fail_after(self._limit_s):
            async with Runtime.open(
                stress_topology(),
                store=store,
                adapters=channels,
                send_retry=SEND_RETRY,
                seed=plan.seed,
                signals=signals,
                grace_s=10,
            ) as runtime:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._stop_when_asked, runtime, nursery.cancel_scope)
                    await self._work(runtime)
                    nursery.cancel_scope.cancel()
        for channel in channels:
            channel.close()

    async def _stop_when_asked(self, runtime: Runtime, scope: trio.CancelScope) -> None:
        await runtime.serve()
        tell("stopping")
        scope.cancel()

    async def _work(self, runtime: Runtime) -> None:
        before = runtime.status().inbox[InboxStatus.DONE]

        def handled() -> int:
            return before + runtime.counters.get("handled", 0)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell_mark, runtime, handled)
            nursery.start_soon(self._saboteur.run, runtime, handled, self._strikes(before))
            nursery.start_soon(self._watch, runtime, handled)
            async with trio.open_nursery() as programs:
                for program in range(PROGRAMS):
                    programs.start_soon(self._publish, runtime, program)
            await runtime.wait_drained()
            nursery.cancel_scope.cancel()
        if not self._is_last:
            # It came to the end before its own: let it be seen.
            tell("drained")
            await trio.sleep_forever()
        requeued = await runtime.dead_letters.requeue_where(own_code=REVIVED_CODE, limit=_AT_MOST)
        await runtime.wait_drained()
        self._tell_done(runtime, requeued)

    def _strikes(self, before: int) -> list[int]:
        """The part of the strikes that is this run's."""
        until = self._plan.sizes.messages if self._is_last else self._ending.mark
        step = self._plan.sizes.messages / self._plan.strikes
        marks = (int((n + 0.5) * step) for n in range(self._plan.strikes))
        return [mark for mark in marks if before <= mark < until]

    async def _tell_mark(self, runtime: Runtime, handled: Callable[[], int]) -> None:
        if self._ending.kind not in {EndKind.KILL, EndKind.STOP}:
            return
        await runtime.wait_until(lambda: handled() >= self._ending.mark)
        tell("mark", handled=handled())

    async def _watch(self, runtime: Runtime, handled: Callable[[], int]) -> None:
        """Look at the memory where the plan says."""
        if not self._is_last:
            return
        for mark in self._plan.marks:

            def is_reached(mark: int = mark) -> bool:
                return handled() >= mark

            await runtime.wait_until(is_reached)
            self._sample(handled())

    def _sample(self, handled: int) -> None:
        gc.collect()
        log = self._folder / f"{STORE}-wal"
        tell(
            "sample",
            handled=handled,
            memory_bytes=memory_bytes(),
            objects=len(gc.get_objects()),
            log_bytes=log.stat().st_size if log.exists() else 0,
        )

    async def _publish(self, runtime: Runtime, program: int) -> None:
        """A program: it knows how far it came, roughly, and says the last things again."""
        numbers = self._plan.published_by(program)
        note = self._folder / f"program-{program}"
        begun = int(note.read_text() or 0) if note.exists() else 0
        for place in range(max(0, begun - _REPEATED), len(numbers)):
            message = _message(self._plan.item(numbers[place]))
            while True:
                try:
                    await runtime.publish_validated(message)
                except Injected:
                    continue
                except BusError as error:
                    if error.code is not Code.BUS_CLOSED:
                        raise
                    return
                break
            note.write_text(str(max(begun, place + 1)))

    def _tell_done(self, runtime: Runtime, requeued: int) -> None:
        self._sample(-1)
        status = runtime.status()
        found = gc.get_objects()
        shards = [one for one in found if isinstance(one, ShardActor)]
        tell(
            "done",
            requeued=requeued,
            struck=self._saboteur.struck,
            max_inflight=1024,
            tokens_free=status.tokens_free,
            running=status.running_turns + status.running_sends,
            is_quiet=runtime.is_quiet,
            pools_with_slots_taken=sum(not one.is_idle for one in found if isinstance(one, WorkerPool)),
            shards=len(shards),
            tokens_held=sum(shard.inbox.tokens_held for shard in shards),
            rows_held=sum(shard.inbox.lanes.held_rows + shard.outbox.lanes.held_rows for shard in shards),
            lane_tokens=sum(lane.tokens for shard in shards for lane in shard.inbox.lanes.values()),
            lanes_at_work=sum(
                sum(not lane.is_idle for lane in shard.inbox.lanes.values())
                + sum(not lane.is_idle for lane in shard.outbox.lanes.values())
                for shard in shards
            ),
        )


def _message(item: Item) -> BusMessage:
    message_id = new_uuid7()
    return BusMessage(
        id=message_id,
        direction=Direction.INBOUND,
        channel=item.channel,
        topic=item.topic,
        conversation_key=item.key,
        idempotency_key=item.script.name,
        correlation_id=message_id,
        payload=MessageEnvelope(
            message_id=item.script.name,
            text=item.script.text,
            sent_at="2026-01-01T00:00:00Z",
            session_id=message_id,
        ),
        created_at_us=1_767_225_600_000_000,
    )


def main(folder: Path, seed: int, sizes: Sizes, number: int, fault: str) -> int:
    """Run it; the result is the exit status."""
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    if fault != "-":
        name, _, at = fault.partition(":")
        FAULTS[name](Once(int(at or 1)))
    calm_collector()
    try:
        trio.run(Run(folder, Plan(seed, sizes), number).go)
    except FailPointError:
        return JOURNAL_FAILED
    except BusError as error:
        # While it opens, the error is told with the name of the actor.
        if not isinstance(error.__cause__, FailPointError):
            raise
        return JOURNAL_FAILED
    except BaseExceptionGroup as group:
        # What this program was about to ask of the runtime may fail with it.
        if group.subgroup(FailPointError) is None:
            raise
        return JOURNAL_FAILED
    return 0


if __name__ == "__main__":
    _, where, *numbers, wrong = sys.argv
    given_seed, conversations, messages, kills, which = map(int, numbers)
    of = Sizes(conversations=conversations, messages=messages, kills=kills)
    sys.exit(main(Path(where), given_seed, of, which, wrong))
