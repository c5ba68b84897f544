"""Stores that are wrong in what they forget, or in what they say of themselves."""

from __future__ import annotations

import attrs

from shardline.actors.errors import BusError, Code
from shardline.storage.commands import Commit, Outcome, Part, Refused, Stored
from shardline.storage.condition import LogState, StoreCondition
from shardline.storage.journal import Journal
from shardline.storage.port import HistoryRow, Settle
from shardline.storage.pruning import Ages, Past, Prune, PruneKind
from shardline.storage.records import StoredInbox
from tests.kits.memory_mutants import WallStore, Wrong

UPKEEP = Wrong()


# What is past its time.


@UPKEEP.caught_by(
    "past_is_what_ended_by_then", "past_is_read_in_pages", "key_is_known_for_a_time_of_its_own",
    "history_is_cut_and_its_chain_goes_on", "past_of_an_event_is_by_its_topic",
)  # fmt: skip
class NothingIsEverPast(WallStore):
    def read_past(self, kind: PruneKind, ages: Ages, after: int, limit: int) -> Past:
        return Past(prune=Prune(kind=kind), count=0, after=None)


@UPKEEP.caught_by("past_is_what_ended_by_then", "past_leaves_what_something_open_needs")
class NamesWhateverIsThere(WallStore):
    def read_past(self, kind: PruneKind, ages: Ages, after: int, limit: int) -> Past:
        if kind == "messages":
            found = self.real.list_inbox(status=None, key=None, offset=0, limit=limit)
            rows = tuple(sorted(row.record.id for row in found))
        elif kind == "sends":
            sends = self.real.list_outbox(state=None, key=None, offset=0, limit=limit)
            rows = tuple(sorted(row.record.id for row in sends))
        else:
            return self.real.past(kind, ages, after, limit)
        return Past(prune=Prune(kind=kind, rows=rows), count=len(rows), after=None)


@UPKEEP.caught_by("past_is_what_ended_by_then")
class TakesEveryAgeForPast(WallStore):
    def read_past(self, kind: PruneKind, ages: Ages, after: int, limit: int) -> Past:
        later = attrs.evolve(ages, content_us=ages.content_us + 1, keys_us=ages.keys_us + 1)
        return self.real.past(kind, later, after, limit)


@UPKEEP.caught_by("past_is_read_in_pages")
class BeginsEachPageAnew(WallStore):
    def read_past(self, kind: PruneKind, ages: Ages, after: int, limit: int) -> Past:
        return self.real.past(kind, ages, 0, limit)


@UPKEEP.caught_by("past_is_read_in_pages")
class SeesOnePageAlone(WallStore):
    def read_past(self, kind: PruneKind, ages: Ages, after: int, limit: int) -> Past:
        return attrs.evolve(self.real.past(kind, ages, after, limit), after=None)


@UPKEEP.caught_by("past_of_an_event_is_by_its_topic")
class OneTimeForAllTopics(WallStore):
    def read_past(self, kind: PruneKind, ages: Ages, after: int, limit: int) -> Past:
        newest_us = max([ages.content_us, *(at_us for _, at_us in ages.topics)])
        return self.real.past(kind, attrs.evolve(ages, content_us=newest_us, topics=()), after, limit)


# Taking it away.


@UPKEEP.caught_by("key_is_known_for_a_time_of_its_own")
class ForgetsTheKeyToo(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit) or part.prune is None:
            return part
        pruned = part.prune
        return attrs.evolve(
            part, prune=Prune(kind=pruned.kind, rows=pruned.rows + pruned.emptied, emptied=())
        )


@UPKEEP.caught_by("key_is_known_for_a_time_of_its_own")
class EmptiesNothing(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit) or part.prune is None:
            return part
        return attrs.evolve(part, prune=Prune(kind=part.prune.kind, rows=part.prune.rows))


@UPKEEP.caught_by("prune_passes_over_what_has_not_ended")
class TakesWhateverItIsTold(WallStore):
    def __init__(self, store: Journal) -> None:
        super().__init__(store)
        self.gone: set[int] = set()

    def part(self, part: Part) -> Part:
        if isinstance(part, Commit) and part.prune is not None and part.prune.kind == "messages":
            self.gone.update(part.prune.rows)
        return part

    def read_inbox(self, row_id: int) -> StoredInbox | None:
        return None if row_id in self.gone else self.real.inbox(row_id)


@UPKEEP.caught_by(
    "key_is_known_for_a_time_of_its_own", "prune_passes_over_what_has_not_ended",
    "history_is_cut_and_its_chain_goes_on",
)  # fmt: skip
class PrunesNothing(WallStore):
    def part(self, part: Part) -> Part:
        return attrs.evolve(part, prune=None) if isinstance(part, Commit) else part


@UPKEEP.caught_by("prune_takes_no_offset_and_no_id_twice")
class CountsWhatIsThere(WallStore):
    """Opened anew, offsets begin where the rows that are left end."""

    def outcome(self, part: Part, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Stored) and self.info.instance > 1:
            return attrs.evolve(outcome, offset=outcome.offset - 1)
        return outcome


@UPKEEP.caught_by("history_is_cut_and_its_chain_goes_on")
class CountsTheHistoryAnew(WallStore):
    def read_history(self, shard: int, after_hseq: int, limit: int) -> list[HistoryRow]:
        rows = self.real.history(shard, after_hseq, limit)
        return [attrs.evolve(row, hseq=number) for number, row in enumerate(rows, after_hseq + 1)]


# How the store is.


@UPKEEP.caught_by("condition_says_what_keeps_commits_waiting")
class SaysAllIsWell(WallStore):
    @property
    def condition(self) -> StoreCondition:
        return StoreCondition()


@UPKEEP.caught_by("condition_of_a_store_that_writes_is_well", "condition_says_what_keeps_commits_waiting")
class NeverGetsWell(WallStore):
    @property
    def condition(self) -> StoreCondition:
        return StoreCondition(code=Code.STORE_FULL, waiting=1)


@UPKEEP.caught_by("condition_of_a_store_that_writes_is_well")
class SeesReadersThatAreNotThere(WallStore):
    @property
    def condition(self) -> StoreCondition:
        return attrs.evolve(self.store.condition, log=LogState(4_096, 1.0))


@UPKEEP.caught_by("wind_down_stores_on_where_the_store_can_write")
class WindsDownAtOnce(WallStore):
    def __init__(self, store: Journal) -> None:
        super().__init__(store)
        self.is_down = False

    def wind_down(self) -> None:
        self.is_down = True

    def submit(self, part: Part, settle: Settle) -> None:
        if self.is_down:
            settle(Refused(BusError(Code.STORE_BUSY, "the end is near")))
        else:
            super().submit(part, settle)


@UPKEEP.caught_by("wind_down_refuses_what_the_store_does_not_take")
class WaitsForEver(WallStore):
    def wind_down(self) -> None:
        pass


@UPKEEP.caught_by("condition_says_what_keeps_commits_waiting")
class DropsWhatDoesNotFit(WallStore):
    def part(self, part: Part) -> Part:
        return attrs.evolve(part, state=(), inbox=()) if isinstance(part, Commit) and part.state else part
