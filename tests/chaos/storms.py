"""Brings each storm about, asks the health whether it says so, ends it, and asks whether all is well again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import apsw
import attrs
import trio

from shardline import Runtime
from shardline.actors.clock import FakeClock
from shardline.adapters.base import Inbound
from shardline.runtime.health import Health, HealthState
from shardline.storage.records import OutboxState
from tests.chaos.bot import Blind, Line, Weather
from tests.chaos.plan import HOUR_US, WORDS, Storm
from tests.kits.disks import held_by
from tests.kits.faulty_vfs import Fault, FaultyVfs

FLOODED = 30
EACH = 5
MAX_BACKLOG = 100
LIMIT_S = 400.0
"""Of trio's clock, which stands still while anything works."""

_LOOK_S = 0.02


@attrs.define
class Storms:
    """One runtime in the weather."""

    runtime: Runtime
    path: Path
    vfs: FaultyVfs
    line: Line
    blind: Blind
    weather: Weather
    clock: FakeClock
    chance: random.Random
    said: list[str] = attrs.field(factory=list[str])

    async def pass_through(self, storm: Storm) -> None:
        """Bring it about, see it named, end it."""
        match storm:
            case Storm.DISK_FULL:
                self.vfs.arm(Fault("write", count=None, error=apsw.FullError))
                try:
                    await self._is_said(storm, "STORE_FULL", stays=True)
                finally:
                    self.vfs.arm(None)
            case Storm.FOREIGN_LOCK:
                with held_by(self.path):
                    await self._is_said(storm, "STORE_BUSY", stays=True)
            case Storm.LOG_FAILS:
                await self._fail_once()
            case Storm.BACKEND_DOWN:
                self.weather.backend_down = True
                await self._is_said(storm, "fail one after another")
                self.weather.backend_down = False
            case Storm.HANDLERS_HANG:
                gate = self.weather.gate = trio.Event()
                await self._is_said(storm, "run longer than", stays=True)
                self.weather.gate = None
                gate.set()
            case Storm.FLOOD:
                await self._flood(storm)
            case Storm.LIMITED:
                self.weather.limited = True
                await self._is_said(storm, "pause", about="line")
                self.weather.limited = False
            case Storm.LOST_ANSWERS:
                self.weather.lost_answers = True
                await trio.sleep(self.chance.uniform(1, 10))
                self.weather.lost_answers = False
            case Storm.EDGE_CRASH:
                self.line.crash()
                await self._is_said(storm, "reads nothing", about="line")
            case Storm.EDGE_REPORT:
                await self._until(lambda: self.line.edge is not None)
                assert self.line.edge is not None
                self.line.edge.report("degraded", "another consumer uses this token")
                await self._is_said(storm, "another consumer", about="line")
                self.line.edge.report("ok")
            case Storm.DOUBT:
                await self._doubt(storm)
            case Storm.CLOCK_JUMP:
                await trio.sleep(self.chance.uniform(0, 2))
                self.clock.jump_wall(self.chance.choice([-26, -1, 1, 26]) * HOUR_US)
                await trio.sleep(self.chance.uniform(0, 2))
            case Storm.BAD_TOKEN:
                self.weather.bad_token = True
                await self._is_said(storm, "BAD_TOKEN", about="line", stays=True)

    async def until_well(self) -> None:
        """Until the health says ok; nothing that was wrong may be left in it."""
        await self._until(lambda: self.runtime.health().state is HealthState.OK)

    async def settle_doubts(self) -> int:
        """A person decides every send that nobody can be asked about; how many there were."""
        rows = self.runtime.outbox.list(state=OutboxState.UNCERTAIN, limit=1_000)
        mine = [row.record.id for row in rows if row.record.channel == "blind"]
        for row_id in mine:
            await self.runtime.outbox.resolve(row_id, self.chance.choice(["sent", "dead", "resend"]))
        return len(mine)

    async def _fail_once(self) -> None:
        met = self.vfs.met
        operation = self.chance.choice(["sync", "write"])
        self.vfs.arm(
            Fault(
                "sync" if operation == "sync" else "write", nth=self.chance.randint(1, 5), error=apsw.IOError
            )
        )
        await self._until(lambda: self.vfs.met > met)
        self.vfs.arm(None)

    async def _flood(self, storm: Storm) -> None:
        gate = self.weather.gate = trio.Event()

        async def say(number: int) -> None:
            for _ in range(EACH):
                assert self.line.edge is not None
                await self.line.say(self.line.edge, f"f{number}")

        async with trio.open_nursery() as nursery:
            for number in range(FLOODED):
                nursery.start_soon(say, number)
            await self._is_said(storm, "messages wait")
            self.weather.gate = None
            gate.set()

    async def _doubt(self, storm: Storm) -> None:
        self.weather.doubtful = True
        await self._until(lambda: self.blind.edge is not None)
        assert self.blind.edge is not None
        name = f"{self.runtime.info.instance}:{self.chance.random()}"
        await self.blind.edge.accept(Inbound(platform_message_id=name, address="z", text="hi"))
        await self._is_said(storm, "for a decision", stays=True)
        self.weather.doubtful = False
        assert await self.settle_doubts()

    async def _is_said(self, storm: Storm, text: str, *, about: str = "", stays: bool = False) -> None:
        """Wait until the health says it, and what is wrong in plain words; with `stays`, for as long as it is so."""
        await self._until(lambda: self._says(storm, text, about))
        if stays:
            await trio.sleep(self.chance.uniform(0.1, 30))
            assert self._says(storm, text, about), (storm, self.runtime.health())
        self.said.append(f"{storm}: {WORDS[storm]}")

    def _says(self, storm: Storm, text: str, about: str) -> bool:
        health: Health = self.runtime.health()
        found = [reason for reason in health.reasons if reason.word == WORDS[storm]]
        if not any(text in reason.text and about in reason.about for reason in found):
            return False
        assert health.state is not HealthState.OK
        assert all(reason.action for reason in health.reasons)
        return True

    async def _until(self, condition: Callable[[], bool]) -> None:
        with trio.move_on_after(LIMIT_S):
            while not condition():  # noqa: ASYNC110
                # Health is looked at, not told: nobody wakes who waits for it. This is trio's clock, not the machine's.
                await trio.sleep(_LOOK_S)
            return
        raise AssertionError(f"not within {LIMIT_S:.0f} s: {self.runtime.health()}")
