"""One run under chaos: `python -m tests.chaos.child FOLDER SEED NUMBER IS_LAST FAULT`; says what the health said."""

from __future__ import annotations

import math
import os
import random
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import structlog
import trio
from trio.testing import MockClock

from shardline import BusError, Code, Runtime
from shardline.actors.clock import FakeClock
from shardline.runtime.health import Health, HealthState
from shardline.runtime.health_watch import HealthWatch
from shardline.runtime.retention import Retention
from shardline.storage.records import OutboxState
from shardline.storage.sqlite import database, open_sqlite
from tests.chaos.bot import RETRY, Blind, Line, Weather, chaos_bot
from tests.chaos.plan import End, RunPlan, chance_of, plan_run
from tests.chaos.storms import MAX_BACKLOG, Storms
from tests.kits.faulty_vfs import Fault, FaultyFile, FaultyVfs
from tests.stress.faults import FAULTS, Once

if TYPE_CHECKING:
    from typing_extensions import Buffer

STORE = "bot.db"
SHARDS = 4
DISK_DIED = 5
"""Exit status where the runtime gave up, as it was told to."""

FOR_EVER = Retention(messages_s=math.inf, keys_s=math.inf, history_s=math.inf)


class ChaosVfs(FaultyVfs):
    """Files that fail on demand, and end the process at a call. Nothing is synced: SIGKILL takes no written byte."""

    calls_left = math.inf

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> ChaosFile:  # noqa: N802
        return ChaosFile(self, name, flags)

    def count(self) -> None:
        """One call."""
        self.calls_left -= 1
        if self.calls_left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


class ChaosFile(FaultyFile):
    """One of them."""

    def __init__(self, vfs: ChaosVfs, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(vfs, name, flags)
        self._chaos = vfs

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._chaos.count()
        self._meet("sync", late=False)

    def xWrite(self, data: Buffer, offset: int) -> None:  # noqa: N802
        self._chaos.count()
        super().xWrite(data, offset)


async def run(folder: Path, seed: int, plan: RunPlan) -> None:
    """Go through it."""
    chance = chance_of(seed, plan.number * 1_000 + 7)
    vfs, weather = ChaosVfs("chaos"), Weather()
    line, blind = Line(folder, seed, random.Random(seed + plan.number), weather), Blind(weather)
    clock = FakeClock(plan.wall_us)
    store = open_sqlite(
        folder / STORE,
        shard_count=SHARDS,
        mode="inline",
        vfs=vfs.name,
        clock=clock,
        emits="relayed" if seed & 1 else "atomic",
    )
    async with Runtime.open(
        chaos_bot(weather),
        store=store,
        adapters=[line, blind],
        clock=clock,
        seed=seed,
        send_retry=RETRY,
        retention=FOR_EVER,
        max_backlog=MAX_BACKLOG,
    ) as runtime:
        storms = Storms(runtime, folder / STORE, vfs, line, blind, weather, clock, chance)
        await begin(runtime, storms)
        for number, together in enumerate(plan.storms):
            if plan.end is End.KILL and number == plan.kill_storm:
                vfs.calls_left = plan.kill_calls
            async with trio.open_nursery() as nursery:
                for storm in together:
                    nursery.start_soon(storms.pass_through, storm)
            print(*storms.said, sep="\n", flush=True)
            storms.said.clear()
            if not weather.bad_token:
                await storms.until_well()
        if plan.end is End.KILL:
            # It goes on until its last call.
            await trio.sleep_forever()
        if plan.end is End.DISK_DIES:
            vfs.arm(Fault("write", count=None, error=apsw.IOError))
            await trio.sleep_forever()
        if plan.end is End.DONE:
            await end(runtime, storms)


async def begin(runtime: Runtime, storms: Storms) -> None:
    """What a crash left is named at once, and all is well when a person has decided."""
    with trio.fail_after(60):
        await runtime.wait_until(lambda: runtime.counters.get("handled", 0) >= 1)
    rows = runtime.outbox.list(state=OutboxState.UNCERTAIN, limit=1_000)
    unknown = any(row.record.channel == "blind" for row in rows)
    assert any(reason.word == "sends_uncertain" for reason in runtime.health().reasons) is unknown
    await storms.settle_doubts()
    await storms.until_well()


async def end(runtime: Runtime, storms: Storms) -> None:
    """Everybody says one thing more, and all is worked off."""
    storms.line.is_silent = True
    with trio.fail_after(3_600):
        await trio.sleep(30)
        await runtime.wait_until(lambda: runtime.is_quiet)
    assert runtime.health().state is HealthState.OK
    assert runtime.status().tokens_free == 1024


def always_ok(_: HealthWatch) -> Health:
    return Health(HealthState.OK, ())


def main(folder: Path, seed: int, number: int, is_last: bool, fault: str) -> int:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    # It blocks the loop, whose clock stands still meanwhile.
    setattr(database, "BUSY_TIMEOUT_MS", 1)  # noqa: B010 (a constant)
    name, _, at = fault.partition(":")
    if name == "lie":
        setattr(HealthWatch, "look", always_ok)  # noqa: B010 (a method)
    elif name != "-":
        FAULTS[name](Once(int(at or 1)))
    plan = plan_run(seed, number, is_last=is_last)
    try:
        trio.run(run, folder, seed, plan, clock=MockClock(autojump_threshold=0))
    except BusError as error:
        if error.code is not Code.STORE_IO or plan.end is not End.DISK_DIES:
            raise
        return DISK_DIED
    return 0


if __name__ == "__main__":
    _, where, *numbers, wrong = sys.argv
    given_seed, which, last = map(int, numbers)
    sys.exit(main(Path(where), given_seed, which, bool(last), wrong))
