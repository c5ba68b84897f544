from __future__ import annotations

import attrs
import pytest

from shardline.actors.errors import BusError, Code
from shardline.runtime.defaults import MAX_BLAMES
from shardline.runtime.inbox_rules import Claim, Done, next_inbox_record
from shardline.runtime.suspects import Recovery, is_suspect, recover
from shardline.storage.records import InboxRecord, InboxStatus


def _row(
    row_id: int, *, crashes: int = 0, blames: int = 0, status: InboxStatus = InboxStatus.RUNNING
) -> InboxRecord:
    return InboxRecord(
        id=row_id,
        shard=row_id % 4,
        seq=row_id,
        topic="chat.message",
        partition=row_id % 4,
        offset=row_id,
        channel="fake",
        conversation_key=f"fk:{row_id}",
        status=status,
        claim=1 if status is InboxStatus.RUNNING else 0,
        crashes=crashes,
        blames=blames,
    )


def test_a_clean_start_has_nothing_to_do() -> None:
    recovery = recover([], now_us=1)

    assert recovery.moves == ()
    assert recovery.suspects == ()
    assert recovery.at_once == 1


def test_the_first_crash_makes_no_suspects() -> None:
    recovery = recover([_row(1), _row(2), _row(3)], now_us=1)

    assert [move.after.crashes for move in recovery.moves] == [1, 1, 1]
    assert {move.after.status for move in recovery.moves} == {InboxStatus.QUEUED}
    assert recovery.suspects == ()


def test_the_second_crash_makes_suspects_half_of_them_at_once() -> None:
    found = [_row(n, crashes=1 if n < 5 else 0) for n in range(9)]
    recovery = recover(found, now_us=1)

    assert {row.id for row in recovery.suspects} == {0, 1, 2, 3, 4}
    assert all(row.crashes == 2 and row.status is InboxStatus.QUEUED for row in recovery.suspects)
    assert recovery.at_once == 4


def test_suspects_of_an_earlier_crash_stay_suspects() -> None:
    waiting = [
        _row(9, crashes=2, status=InboxStatus.QUEUED),
        _row(8, crashes=2, status=InboxStatus.FAILED),
        _row(7, crashes=1, status=InboxStatus.QUEUED),
        _row(6, crashes=4, status=InboxStatus.DEAD),
    ]
    recovery = recover([_row(1, crashes=2), _row(2)], waiting=waiting, now_us=1)

    assert [row.id for row in recovery.suspects] == [8, 1, 9]
    assert [move.before.id for move in recovery.moves] == [1, 2]


def test_a_suspect_that_waits_for_its_next_try_keeps_nobody_waiting() -> None:
    waiting = [
        attrs.evolve(_row(n, crashes=2, status=InboxStatus.FAILED), next_at_us=100 + n, wait_us=3_600)
        for n in (0, 1)
    ]
    recovery = recover([], waiting=waiting, now_us=100)

    assert [row.id for row in recovery.suspects] == [0]


def test_of_a_conversation_the_first_suspect_alone_runs_first() -> None:
    """Parts of an album that now run one by one: those behind it cannot run before it has ended."""
    rows = [attrs.evolve(_row(n), conversation_key="fk:0", crashes=1) for n in (4, 8)]
    together = recover([*rows, _row(1, crashes=1)], now_us=1)
    waiting = [
        attrs.evolve(rows[0], crashes=2, status=InboxStatus.FAILED, next_at_us=100, wait_us=3_600),
        attrs.evolve(rows[1], crashes=2, status=InboxStatus.QUEUED),
    ]

    assert [row.id for row in together.suspects] == [4, 1]
    assert recover([], waiting=waiting, now_us=1).suspects == ()


def test_a_row_both_found_and_listed_counts_once() -> None:
    row = _row(1, crashes=2, blames=MAX_BLAMES - 2)
    blamed = recover([row], waiting=[row], now_us=1)
    last = recover([attrs.evolve(row, blames=MAX_BLAMES - 1)], waiting=[row], now_us=1)

    assert [(suspect.id, suspect.crashes) for suspect in blamed.suspects] == [(1, 3)]
    assert last.suspects == ()


def test_only_a_row_found_alone_is_blamed() -> None:
    together = recover([_row(1, crashes=3), _row(2, crashes=3)], now_us=1)
    alone = recover([_row(1, crashes=3)], waiting=[_row(2, crashes=3, status=InboxStatus.QUEUED)], now_us=1)

    assert [move.after.blames for move in together.moves] == [0, 0]
    assert [move.after.blames for move in alone.moves] == [1]
    assert [move.event for move in alone.moves] == ["blame"]
    assert alone.at_once == 1


def test_the_fifth_blame_is_dead_and_no_suspect() -> None:
    recovery = recover([_row(1, crashes=8, blames=MAX_BLAMES - 1)], now_us=77)

    assert recovery.suspects == ()
    assert [row.errors[-1].code for row in recovery.crash_looped] == [Code.CRASH_LOOP]
    assert recovery.crash_looped[0].dead_at_us == 77


@pytest.mark.parametrize("status", InboxStatus)
def test_a_row_that_has_ended_is_no_suspect(status: InboxStatus) -> None:
    is_open = status in {InboxStatus.QUEUED, InboxStatus.RUNNING, InboxStatus.FAILED}

    assert is_suspect(_row(1, crashes=9, status=status)) == is_open


def test_a_row_that_is_not_running_is_not_recovered() -> None:
    with pytest.raises(BusError) as caught:
        recover([_row(1, status=InboxStatus.QUEUED)], now_us=1)

    assert caught.value.code is Code.INVALID_TRANSITION


def _is_open(row: InboxRecord) -> bool:
    return row.status in {InboxStatus.QUEUED, InboxStatus.FAILED}


def _run(rows: dict[int, InboxRecord], recovery: Recovery, *, poison: int, slots: int) -> list[InboxRecord]:
    """One life of the process, which dies when the poison runs; returns what is claimed then."""
    suspects = [row.id for row in recovery.suspects]
    while True:
        open_ids = [n for n in suspects if _is_open(rows[n])][: recovery.at_once]
        batch = open_ids or [n for n in rows if _is_open(rows[n])][:slots]
        for n in batch:
            rows[n] = next_inbox_record(rows[n], Claim(1), now_us=1, claim=None)
        if poison in batch or not batch:
            return [rows[n] for n in batch]
        for n in batch:
            rows[n] = next_inbox_record(rows[n], Done(), now_us=1, claim=rows[n].claim)


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("poison", [0, 1, 40, 99])
def test_one_poison_message_dies_and_no_innocent_one_with_it(slots: int, poison: int) -> None:
    rows = {n: _row(n, status=InboxStatus.QUEUED) for n in range(100)}
    found: list[InboxRecord] = []
    starts = 0
    while found or not starts:
        starts += 1
        waiting = [row for row in rows.values() if _is_open(row)]
        recovery = recover(found, waiting=waiting, now_us=starts)
        rows |= {move.after.id: move.after for move in recovery.moves}
        found = _run(rows, recovery, poison=poison, slots=slots)
        # Twice to be suspected, then half as many each time until it is alone, then the blames, then a clean run.
        assert starts <= 2 + slots.bit_length() + MAX_BLAMES + 1

    assert rows.pop(poison).status is InboxStatus.DEAD
    assert {row.status for row in rows.values()} == {InboxStatus.DONE}
