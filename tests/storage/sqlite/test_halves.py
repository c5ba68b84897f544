"""The two halves of a full batch on a disk that fails: each outcome once, in order, and none before it is on disk."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import apsw
import pytest
import structlog.testing
import trio

from shardline.actors.errors import BusError, Code
from shardline.storage.commands import Commit, NewInbox, Outcome, Publish, Stored
from shardline.storage.sqlite import open_sqlite
from tests.kits.faulty_vfs import Fault, FaultyVfs
from tests.kits.store_checks import check_store
from tests.kits.store_rows import Hand
from tests.kits.stores import refusal_code, running

FULL_HOUSE = 300
"""Enough for two halves, the second of which is full too."""


@pytest.fixture
def vfs() -> Generator[FaultyVfs]:
    vfs = FaultyVfs("halved")
    yield vfs
    vfs.unregister()


class Told:
    """Notes outcomes, and looks with a connection of its own whether what is told is on disk."""

    def __init__(self, path: Path, wanted: int) -> None:
        self.outcomes: list[tuple[int, Outcome]] = []
        self.early: list[int] = []
        self.all = trio.Event()
        self.some = trio.Event()
        self._disk = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self._wanted = wanted

    def note(self, number: int, key: str | None, outcome: Outcome) -> None:
        self.outcomes.append((number, outcome))
        if isinstance(outcome, Stored) and key is not None:
            found = self._disk.execute("SELECT 1 FROM inbox WHERE dedupe_key = ?", (key,)).fetchall()
            if not found:
                self.early.append(number)
        self.some.set()
        if len(self.outcomes) == self._wanted:
            self.all.set()

    def close(self) -> None:
        self._disk.close()


def key_of(part: Publish | Commit) -> str | None:
    return part.row.dedupe_key if isinstance(part, Publish) and isinstance(part.row, NewInbox) else None


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("nth", "count"), [(1, 1), (2, 1), (1, 2), (2, 2)])
async def test_a_commit_of_either_half_that_fails_is_told_once_and_not_before_its_time(
    tmp_path: Path, vfs: FaultyVfs, nth: int, count: int, late: bool
) -> None:
    """In the midst of the first half stands a part that is refused alone: its lease has ended."""
    path = tmp_path / "bot.db"
    with structlog.testing.capture_logs():
        async with running(open_sqlite(path, vfs=vfs.name, mode="thread")) as hand:
            stale = Commit(shard=0, epoch=-1, at_us=1)
            parts: list[Publish | Commit] = [
                hand.publish(hand.new_inbox(f"tg:{number % 7}", number)) for number in range(FULL_HOUSE)
            ]
            parts[FULL_HOUSE // 4] = stale
            told = Told(path, FULL_HOUSE)
            vfs.arm(Fault("sync", nth=nth, count=count, late=late))
            for number, part in enumerate(parts):

                def settle(outcome: Outcome, number: int = number, key: str | None = key_of(part)) -> None:
                    told.note(number, key, outcome)

                hand.store.submit(part, settle)
            await told.all.wait()
            met = vfs.met
            vfs.arm(None)
            told.close()
    assert met == count, "the fault was met"
    assert [number for number, _ in told.outcomes] == list(range(FULL_HOUSE))
    assert told.early == []
    refusals = [number for number, outcome in told.outcomes if not isinstance(outcome, Stored)]
    assert refusals == [FULL_HOUSE // 4]
    assert refusal_code(told.outcomes[FULL_HOUSE // 4][1]) is Code.FENCED
    assert len(check_store(path)) == FULL_HOUSE - 1


@pytest.mark.parametrize("nth", [1, 2])
async def test_a_half_that_fails_for_good_leaves_no_outcome_untold_and_none_told_twice(
    tmp_path: Path, vfs: FaultyVfs, nth: int
) -> None:
    path = tmp_path / "bot.db"
    told: Told | None = None
    with structlog.testing.capture_logs(), pytest.RaisesGroup(BusError):
        async with running(open_sqlite(path, vfs=vfs.name, mode="thread")) as hand:
            told = Told(path, FULL_HOUSE)
            vfs.arm(Fault("sync", nth=nth, count=None))
            for number in range(FULL_HOUSE):
                part = hand.publish(hand.new_inbox(f"tg:{number % 7}", number))

                def settle(outcome: Outcome, number: int = number, key: str | None = key_of(part)) -> None:
                    assert told is not None
                    told.note(number, key, outcome)

                hand.store.submit(part, settle)
            await trio.sleep_forever()
    vfs.arm(None)
    assert told is not None
    told.close()

    assert sorted(number for number, _ in told.outcomes) == list(range(FULL_HOUSE))
    assert told.early == []
    stored = {number for number, outcome in told.outcomes if isinstance(outcome, Stored)}
    others = {refusal_code(outcome) for number, outcome in told.outcomes if number not in stored}
    assert others == {Code.STORE_IO}, "nobody knows"
    assert len(stored) == 0 if nth == 1 else 0 < len(stored) < FULL_HOUSE
    async with running(open_sqlite(path, vfs=vfs.name)):
        pass
    # What was told to be stored is there; of the rest nobody has said that it is not.
    assert len(check_store(path)) >= len(stored)


async def test_a_stop_between_the_halves_tells_both(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            store = open_sqlite(path, mode="thread")
            await nursery.start(store.run)
            told = Told(path, FULL_HOUSE)
            hand = Hand(store)
            for number in range(FULL_HOUSE):
                part = hand.publish(hand.new_inbox(f"tg:{number % 7}", number))

                def settle(outcome: Outcome, number: int = number, key: str | None = key_of(part)) -> None:
                    told.note(number, key, outcome)

                store.submit(part, settle)
            await told.some.wait()
            nursery.cancel_scope.cancel()
    told.close()

    assert [number for number, _ in told.outcomes] == list(range(FULL_HOUSE))
    assert told.early == []
    assert all(isinstance(outcome, Stored) for _, outcome in told.outcomes)
    assert len(check_store(path)) == FULL_HOUSE
