"""What is kept while a store takes nothing, what is refused, and in which order all of it is stored in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import pytest

from shardline.actors.errors import BusError, Code
from shardline.storage.commands import Commit, Committed, Leased, Outcome, Part, Publish, Refused, TakeLease
from shardline.storage.memory import open_memory
from shardline.storage.writing import BatchWriter, Entry, NotStoredError, OpenError, nothing
from tests.kits.store_rows import AT_US, Hand

FULL = BusError(Code.STORE_FULL, "full")


@attrs.define
class Disk:
    """A backend that is full for a while; `known` says whether it can tell that nothing is stored."""

    full: int = 0
    known: bool = True
    open_messages: int = 0
    batches: list[tuple[Part, ...]] = attrs.Factory(list[tuple[Part, ...]])

    def apply(self, parts: Sequence[Part], before_commit: Callable[[], None] = nothing) -> list[Outcome]:
        if self.full:
            self.full -= 1
            raise NotStoredError(FULL) if self.known else OpenError(FULL)
        self.batches.append(tuple(parts))
        return [Leased(part.shard, 2) if isinstance(part, TakeLease) else Committed() for part in parts]


@attrs.define
class Bench:
    """A writer over such a disk; `told` has (name, outcome) in order."""

    disk: Disk
    told: list[tuple[str, Outcome]] = attrs.Factory(list[tuple[str, Outcome]])
    troubles: list[Code | None] = attrs.Factory(list[Code | None])
    writer: BatchWriter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.writer = BatchWriter(self.disk, False, self.troubles.append)

    def entry(self, name: str, part: Part) -> Entry:
        return part, lambda outcome: self.told.append((name, outcome))

    def write(self, *entries: Entry) -> list[str]:
        """One step; the names told by it."""
        before = len(self.told)
        for settle, outcome in self.writer.write(list(entries)).settled:
            settle(outcome)
        return [name for name, _ in self.told[before:]]


def publish() -> Publish:
    hand = Hand(open_memory())
    return hand.publish(hand.new_inbox("tg:1", 1))


def commit(shard: int) -> Commit:
    return Commit(shard=shard, epoch=1, at_us=AT_US)


def test_full_store_refuses_publishes_and_keeps_the_rest_in_order() -> None:
    # Each time all at once, then one by one.
    bench = Bench(Disk(full=3 + 4))
    first = [bench.entry("a", commit(1)), bench.entry("p", publish()), bench.entry("b", TakeLease(2))]
    told = [
        bench.write(*first),
        bench.write(bench.entry("c", commit(3)), bench.entry("q", publish())),
        bench.write(bench.entry("r", publish())),
    ]

    assert told == [["p"], ["q"], ["a", "b", "c", "r"]]
    assert [outcome for name, outcome in bench.told if name in {"p", "q"}] == [Refused(FULL)] * 2
    assert [type(part) for part in bench.disk.batches[0]] == [Commit, TakeLease, Commit, Publish]
    assert bench.writer.held == []
    # Said when it begins and when it is over, not at every try.
    assert bench.troubles == [Code.STORE_FULL, None]


def test_what_fits_into_a_full_store_is_stored_past_other_shards_alone() -> None:
    bench = Bench(Disk(full=2))
    told = bench.write(
        bench.entry("big", commit(1)),
        bench.entry("behind", commit(1)),
        bench.entry("p", publish()),
        bench.entry("small", commit(2)),
    )

    assert told == ["p", "small"]
    assert bench.write() == ["big", "behind"]


def test_a_part_of_unknown_outcome_comes_first_afterwards() -> None:
    class Torn(Disk):
        def apply(self, parts: Sequence[Part], before_commit: Callable[[], None] = nothing) -> list[Outcome]:
            if self.full == 1:
                self.known = False
            return super().apply(parts, before_commit)

    bench = Bench(Torn(full=3))
    told = bench.write(
        bench.entry("a", commit(1)), bench.entry("b", commit(2)), bench.entry("c", commit(3)),
        bench.entry("p", publish()),
    )  # fmt: skip

    assert told == ["p"]
    assert bench.write() == ["b", "a", "c"]


def test_what_may_be_stored_all_the_same_is_not_given_up_as_not_stored() -> None:
    bench = Bench(Disk(full=1, known=False))
    bench.write(bench.entry("p", publish()))
    [(_, outcome)] = bench.writer.refuse().settled

    assert isinstance(outcome, Refused)
    assert outcome.error.code is Code.STORE_IO


def test_nothing_is_written_after_what_was_given_up() -> None:
    bench = Bench(Disk(full=1))
    bench.write(bench.entry("a", commit(1)))
    bench.writer.refuse()

    assert bench.write(bench.entry("b", commit(1))) == ["b"]
    assert bench.told == [("b", Refused(FULL))]
    assert bench.disk.batches == []


def test_batch_of_unknown_outcome_is_kept_whole() -> None:
    bench = Bench(Disk(full=1, known=False))
    told = [
        bench.write(bench.entry("a", commit(1)), bench.entry("p", publish())),
        bench.write(bench.entry("b", commit(2))),
    ]

    assert told == [[], ["a", "p", "b"]]
    assert len(bench.disk.batches) == 1


def test_wait_doubles_up_to_five_seconds_and_ends_with_success() -> None:
    bench = Bench(Disk(full=9))
    bench.write(bench.entry("a", commit(1)))
    waits = [bench.writer.wait_s]
    while bench.disk.full:
        bench.write()
        waits.append(bench.writer.wait_s)
    bench.write()

    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0])
    assert bench.writer.wait_s == 0.0


def test_refused_publishes_leave_nothing_to_wait_for() -> None:
    bench = Bench(Disk(full=1))
    bench.write(bench.entry("p", publish()))

    assert bench.writer.held == []
    assert bench.writer.wait_s == 0.0


def test_giving_up_tells_why() -> None:
    bench = Bench(Disk(full=1))
    bench.write(bench.entry("a", commit(1)))
    for settle, outcome in bench.writer.refuse().settled:
        settle(outcome)

    assert bench.told == [("a", Refused(FULL))]
    assert bench.writer.gave_up
    assert bench.writer.refuse().settled == []


def test_store_that_cannot_go_on_leaves_everything_open() -> None:
    class Broken(Disk):
        def apply(self, parts: Sequence[Part], before_commit: Callable[[], None] = nothing) -> list[Outcome]:
            raise BusError(Code.STORE_IO, "gone")

    bench = Bench(Broken())
    with pytest.raises(BusError):
        bench.write(bench.entry("a", commit(1)), bench.entry("p", publish()))

    assert len(bench.writer.held) == 2
    assert bench.told == []
