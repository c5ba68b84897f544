"""The actor that fires timers: it holds the next due time and one batch, however many are set.

It wakes for the next due time and reads the wall clock again every so often, for clocks are set. What is due is fired
in batches, one Commit for each shard that a batch concerns: the arrival is stored and the timer leaves its time, or
neither. A kill between two of them leaves timers that are due, which the next start finds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from ..actors.errors import BusError, Code, Permanence
from ..storage.commands import (
    Commit,
    Committed,
    NewEvent,
    NewInbox,
    NewTimer,
    Outcome,
    Refused,
    TimerMove,
    TimerWrite,
)
from ..storage.records import StoredTimer
from .defaults import TIMER_BATCH, TIMER_CHECK_S
from .emits import tell_arrival
from .schedules import declared_timer, is_same
from .timer_arrival import timer_arrival
from .timer_rules import SLACK_US, begin_again, fire, wait_on

if TYPE_CHECKING:
    from .services import Services

_MIN_PAUSE_S = 0.001
_AGAIN_S = 0.05
_PUT_OFF_S = 1.0


class _Batch:
    """Commits under way, and what became of them."""

    def __init__(self, commits: int) -> None:
        self._open = commits
        self.done = trio.Event()
        self.refusals: list[BusError] = []

    def settled(self, outcome: Outcome) -> None:
        if isinstance(outcome, Refused):
            self.refusals.append(outcome.error)
        self._open -= 1
        if not self._open:
            self.done.set()


class TimerActor:
    """Fires the timers of all shards, each under its shard's lease.

    Args:
        services: The runtime's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._wake = trio.Event()
        self._next_us: int | None = None
        self._is_busy = True

    @property
    def is_quiet(self) -> bool:
        """No timer is due or being fired."""
        return not self._is_busy and not self.has_due(self._services.clock.wall_us())

    @property
    def next_due_us(self) -> int | None:
        """When the next timer fires; None where none is set."""
        return self._next_us

    def has_due(self, until_us: int) -> bool:
        """Whether a timer is set for this time or before."""
        return self._next_us is not None and self._next_us <= until_us

    def told(self, writes: Sequence[TimerWrite]) -> None:
        """These are on disk."""
        for write in writes:
            if isinstance(write, NewTimer) and not self.has_due(write.record.due_at_us):
                self._next_us = write.record.due_at_us
                self._wake.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fire until cancelled. It begins by setting what the topology declares."""
        self._is_busy = True
        await self._declare()
        self._look_ahead()
        self._tell_start()
        task_status.started()
        while True:
            self._wake = trio.Event()
            pause_s = await self._work()
            with trio.move_on_after(pause_s):
                await self._wake.wait()

    # --- inside ----------------------------------------------------------------------------------------------

    async def _work(self) -> float:
        """Fire all that is due.

        Returns:
            Seconds until there may be more to do.
        """
        services = self._services
        self._is_busy = True
        try:
            while not services.draining:
                now_us = services.clock.wall_us()
                future = services.store.reader.future_timers(now_us + SLACK_US, TIMER_BATCH)
                due = services.store.reader.due_timers(now_us, TIMER_BATCH)
                if not future and not due:
                    return self._look_ahead()
                refusals = await self._commit(self._again(future, now_us) + self._fired(due, now_us))
                if refusals:
                    return self._put_off(refusals)
            return TIMER_CHECK_S
        finally:
            self._is_busy = False
            services.activity.changed()

    def _look_ahead(self) -> float:
        """Find the next due time, and how long to wait for it."""
        self._next_us = next_us = self._services.store.reader.next_timer_us()
        if next_us is None:
            return TIMER_CHECK_S
        rest_us = next_us - self._services.clock.wall_us()
        return min(max(rest_us / 1_000_000, _MIN_PAUSE_S), TIMER_CHECK_S)

    def _fired(self, due: Sequence[StoredTimer], now_us: int) -> list[Commit]:
        moves: defaultdict[int, list[TimerMove]] = defaultdict(list)
        arrivals: defaultdict[int, list[NewInbox | NewEvent]] = defaultdict(list)
        for timer in due:
            record = timer.record
            moves[record.shard].append(self._move(timer, now_us))
            arrivals[record.shard].append(timer_arrival(timer, self._services, now_us=now_us))
        return [
            self._new_commit(shard, now_us, tuple(of), tuple(arrivals[shard])) for shard, of in moves.items()
        ]

    def _move(self, timer: StoredTimer, now_us: int) -> TimerMove:
        try:
            return fire(timer.record, now_us)
        except BusError as error:
            # Its zone was known where it was set. It fires this once more, and a person learns of it.
            self._services.log.error(
                "timer.ended", timer_id=timer.record.id, zone=timer.record.zone, bus_error_code=error.code
            )
            return TimerMove(timer.record, None)

    def _again(self, future: Sequence[StoredTimer], now_us: int) -> list[Commit]:
        moves: defaultdict[int, list[TimerMove]] = defaultdict(list)
        for timer in future:
            moves[timer.record.shard].append(_begin_again(timer, now_us))
        if future:
            self._services.log.warning("timers.begun_again", count=len(future))
        return [self._new_commit(shard, now_us, tuple(of)) for shard, of in moves.items()]

    def _new_commit(
        self,
        shard: int,
        now_us: int,
        timers: tuple[TimerWrite, ...],
        arrivals: tuple[NewInbox | NewEvent, ...] = (),
    ) -> Commit:
        epoch = self._services.shards[shard].epoch
        return Commit(shard=shard, epoch=epoch, at_us=now_us, timers=timers, arrivals=arrivals)

    async def _commit(self, commits: list[Commit]) -> list[BusError]:
        """Hand all over at once and wait for the last.

        Returns:
            The refusals.
        """
        batch = _Batch(len(commits))
        for commit in commits:

            def settle(outcome: Outcome, commit: Commit = commit) -> None:
                # In the journal's order: a lane takes what it is told in the order of seq.
                try:
                    if isinstance(outcome, Committed):
                        for row, stored in zip(commit.arrivals, outcome.arrivals, strict=True):
                            tell_arrival(row, stored, self._services)
                        self._services.count("timers_fired", len(commit.arrivals))
                finally:
                    batch.settled(outcome)

            self._services.store.submit(commit, settle)
        await batch.done.wait()
        return batch.refusals

    def _put_off(self, refusals: Sequence[BusError]) -> float:
        """Decide when what was refused is looked at again.

        Raises:
            BusError: a refusal that no waiting mends.
        """
        pause_s = _AGAIN_S
        for error in refusals:
            # A timer was taken back meanwhile, or its shard begins anew.
            if error.code in {Code.STALE_CLAIM, Code.FENCED}:
                continue
            if error.code.permanence is not Permanence.TRANSIENT and error.code is not Code.BUS_CLOSED:
                raise error
            self._services.log.warning("timers.put_off", bus_error_code=str(error.code))
            pause_s = _PUT_OFF_S
        return pause_s

    async def _declare(self) -> None:
        """Set, change and take back what the topology declares; all else is left as it is."""
        services = self._services
        topology, store = services.topology, services.store
        now_us = services.clock.wall_us()
        stored = {timer.record.id: timer for timer in store.reader.declared_timers()}
        gone = {timer_id: timer.record for timer_id, timer in stored.items()}
        removals: defaultdict[int, list[TimerWrite]] = defaultdict(list)
        settings: defaultdict[int, list[TimerWrite]] = defaultdict(list)
        for schedule in topology.schedules.values():
            new = declared_timer(schedule, topology, shard_count=store.info.shard_count, now_us=now_us)
            old = stored.get(new.record.id)
            if old is not None and old.record.shard == new.record.shard:
                del gone[new.record.id]
            if old is None or not is_same(old, new):
                settings[new.record.shard].append(new)
        for record in gone.values():
            removals[record.shard].append(TimerMove(record, None))
        # Removals first: one that moves to another home is set there once the old one has let it go.
        for writes in (removals, settings):
            for shard, of in writes.items():
                await store.commit(self._new_commit(shard, now_us, tuple(of)))
        if removals or settings:
            names = sorted(
                one.record.id for of in settings.values() for one in of if isinstance(one, NewTimer)
            )
            services.log.info("schedules.changed", set=names, removed=sorted(gone.keys() - set(names)))

    def _tell_start(self) -> None:
        count = self._services.store.reader.count_timers()
        if count:
            late = self.has_due(self._services.clock.wall_us())
            self._services.log.info("timers.loaded", count=count, next_at_us=self._next_us, late=late)


def _begin_again(timer: StoredTimer, now_us: int) -> TimerMove:
    try:
        return begin_again(timer.record, now_us)
    except BusError:
        # It is told of when it fires.
        return wait_on(timer.record)
