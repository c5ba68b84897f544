"""Stores that are wrong in one thing about timers."""

from __future__ import annotations

from itertools import count

import attrs

from shardline.storage.commands import Commit, DropTimer, NewInbox, NewTimer, Part, TimerMove
from shardline.storage.journal import Journal
from shardline.storage.records import StoredTimer
from tests.kits.memory_mutants import WallStore, Wrong

TIMERS = Wrong()


@TIMERS.caught_by("timers_are_found_by_due_time")
class FindsByName(WallStore):
    def read_due_timers(self, until_us: int, limit: int) -> list[StoredTimer]:
        return sorted(self.real.due_timers(until_us, limit), key=lambda timer: timer.record.id)


@TIMERS.caught_by("every_field_of_a_timer_is_kept")
class ForgetsZones(WallStore):
    def read_declared_timers(self) -> list[StoredTimer]:
        return [
            attrs.evolve(timer, record=attrs.evolve(timer.record, zone=None))
            for timer in self.real.declared_timers()
        ]


@TIMERS.caught_by("timer_that_is_set_stays_unless_replaced")
class AlwaysReplaces(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit):
            return part
        return attrs.evolve(
            part,
            timers=tuple(
                attrs.evolve(write, replaces=True) if isinstance(write, NewTimer) else write
                for write in part.timers
            ),
        )


@TIMERS.caught_by("timer_is_taken_back", "emitted_timers_reach_their_home")
class TakesNothingBack(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit):
            return part
        return attrs.evolve(
            part,
            timers=tuple(write for write in part.timers if not isinstance(write, DropTimer)),
            emits=tuple(emit for emit in part.emits if not isinstance(emit.row, DropTimer)),
        )


@TIMERS.caught_by("timer_leaves_in_the_commit_of_its_arrival")
class EndsWhatRepeats(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit):
            return part
        return attrs.evolve(
            part,
            timers=tuple(
                TimerMove(write.before, None) if isinstance(write, TimerMove) else write
                for write in part.timers
            ),
        )


@TIMERS.caught_by("timer_that_left_its_time_refuses_the_whole_commit")
class EndsWhatIsNotThere(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit):
            return part
        return attrs.evolve(
            part,
            timers=tuple(
                DropTimer(write.before.id, write.before.shard) if isinstance(write, TimerMove) else write
                for write in part.timers
            ),
        )


@TIMERS.caught_by("arrival_comes_once")
class ArrivesTwice(WallStore):
    def __init__(self, store: Journal) -> None:
        super().__init__(store)
        self.numbers = count()

    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit):
            return part
        return attrs.evolve(
            part,
            arrivals=tuple(
                attrs.evolve(row, dedupe_key=f"{row.dedupe_key}/{next(self.numbers)}")
                if isinstance(row, NewInbox)
                else row
                for row in part.arrivals
            ),
        )


@TIMERS.caught_by("timer_of_another_shard_is_refused")
class TakesTimersOfOthers(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit):
            return part
        return attrs.evolve(
            part,
            timers=tuple(
                attrs.evolve(write, record=attrs.evolve(write.record, shard=part.shard))
                if isinstance(write, NewTimer)
                else write
                for write in part.timers
            ),
        )


@TIMERS.caught_by("pauses_of_the_future_are_found")
class FindsTheDueOnes(WallStore):
    def read_future_timers(self, now_us: int, limit: int) -> list[StoredTimer]:
        return self.real.due_timers(now_us + 100, limit)
