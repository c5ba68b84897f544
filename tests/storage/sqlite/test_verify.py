"""What the check of a history finds: whatever was changed, taken away or moved by hand, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import cast

import apsw
import pytest
import trio

from shardline import Runtime
from shardline.runtime.command.demo import counting_bot
from shardline.storage.sqlite.chain import FIRST_HEAD, Linker
from shardline.storage.sqlite.look import Look
from shardline.storage.sqlite.verify import Head, Verdict, verify
from shardline.testing import FakeChannel
from tests.kits.operated import make_store

COLUMNS = (
    "shard",
    "hseq",
    "kind",
    "identity",
    '"from"',
    '"to"',
    "event",
    "claim",
    "at",
    "code",
    "instance",
    "h",
)
Rows = list[tuple[int, int, int]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "bot.db"
    make_store(path, texts=("good", "bad", "good", "good") * 4)
    return path


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "bot.db"))


def judge(store: Path, kept: dict[int, Head] | None = None) -> Verdict:
    with Look(store) as look:
        return verify(look, kept)


def edit(store: Path, *statements: str) -> None:
    database = apsw.Connection(str(store))
    for statement in statements:
        database.execute(statement)
    database.close()


def rows_of(store: Path) -> Rows:
    """(id, shard, hseq) of every history row."""
    database = apsw.Connection(str(store))
    found = cast("Rows", database.execute("SELECT id, shard, hseq FROM history ORDER BY id").fetchall())
    database.close()
    return found


def places(verdict: Verdict) -> list[tuple[str, int, int]]:
    return [(one.fault, one.shard, one.hseq) for one in verdict.findings if one.fault != "row"]


def longest(rows: Rows) -> list[tuple[int, int, int]]:
    """The rows of the shard with the longest chain."""
    shards = [shard for _, shard, _ in rows]
    busiest = max(set(shards), key=shards.count)
    return [row for row in rows if row[1] == busiest]


def test_a_store_that_a_runtime_wrote_is_whole(store: Path) -> None:
    verdict = judge(store)

    assert verdict.findings == ()
    assert verdict.rows == len(rows_of(store)) > 10
    assert len(verdict.heads) == 16


def other(column: str) -> str:
    """An expression for a value that is not the column's own."""
    match column:
        case "h":
            return "zeroblob(32)"
        case "code":
            return "iif(code IS NULL, 'X', NULL)"
        case "kind" | '"from"' | '"to"' | "event":
            return f"{column} || 'x'"
        case _:
            return f"{column} + 1"


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_of_every_row_is_guarded(store: Path, tmp_path: Path, column: str) -> None:
    for row_id, shard, hseq in rows_of(store):
        copy = Path(shutil.copy(store, tmp_path / "copy.db"))
        edit(copy, f"UPDATE history SET {column} = {other(column)} WHERE id = {row_id}")
        found = places(judge(copy))

        assert found, (column, shard, hseq)
        if column not in {"shard", "hseq"}:
            assert ("changed", shard, hseq) in found


def test_every_row_that_is_taken_away_is_named(store: Path, tmp_path: Path) -> None:
    rows = rows_of(store)
    last = {shard: hseq for _, shard, hseq in rows}
    for row_id, shard, hseq in rows:
        copy = Path(shutil.copy(store, tmp_path / "copy.db"))
        edit(copy, f"DELETE FROM history WHERE id = {row_id}")

        fault = "cut_off" if hseq == last[shard] else "missing"
        assert places(judge(copy)) == [(fault, shard, hseq)]


def test_rows_that_changed_places_are_told_from_missing_ones(store: Path) -> None:
    (one, shard, first), (other_id, _, second) = longest(rows_of(store))[1:3]
    edit(
        store,
        f"UPDATE history SET id = -1 WHERE id = {one}",
        f"UPDATE history SET id = {one} WHERE id = {other_id}",
        f"UPDATE history SET id = {other_id} WHERE id = -1",
    )
    assert ("reordered", shard, first) in places(judge(store))
    assert not any(fault == "missing" for fault, _, _ in places(judge(store)))
    assert second == first + 1


@pytest.mark.parametrize(
    ("statement", "row", "words"),
    [
        (
            "UPDATE outbox SET status = 'sent', uncertain_since = NULL WHERE id = 1",
            "out-1",
            "left it uncertain",
        ),
        ("UPDATE outbox SET claim = claim + 1 WHERE id = 1", "out-1", "claim 2"),
        ("UPDATE inbox SET status = 'done' WHERE status = 'dead'", "in-2", "left it dead"),
        ("DELETE FROM inbox WHERE status = 'dead'", "in-2", "is not there"),
        ("UPDATE inbox SET id = 77 WHERE id = 1", "in-77", "has no history"),
        ("UPDATE outbox SET shard = shard + 1 WHERE id = 1", "out-1", "in shard"),
    ],
)
def test_a_row_that_is_not_as_its_history_left_it_is_named(
    store: Path, statement: str, row: str, words: str
) -> None:
    edit(store, statement)
    found = [one for one in judge(store).findings if one.row == row]

    assert len(found) == 1
    assert words in found[0].text


def rewritten(store: Path) -> None:
    """A whole new history over the one that was: every hash is right again."""
    database = apsw.Connection(str(store))
    database.execute("UPDATE history SET at = at + 1")
    heads = dict.fromkeys(range(16), FIRST_HEAD)
    linker = Linker()
    columns = ", ".join(COLUMNS[:-1])
    for row_id, *links in database.execute(f"SELECT id, {columns} FROM history ORDER BY id").fetchall():
        shard = cast("int", links[0])
        heads[shard] = linker.link(
            heads[shard],
            cast("tuple[int, int, str, int, str, str, str, int, int, str | None, int]", tuple(links)),
        )
        database.execute("UPDATE history SET h = ? WHERE id = ?", (heads[shard], row_id))
    for shard, h in heads.items():
        database.execute("UPDATE shard SET h = ? WHERE shard = ?", (h, shard))
    database.close()


def test_only_heads_kept_elsewhere_prove_a_history_that_was_written_anew(store: Path) -> None:
    kept = dict(judge(store).heads)
    rewritten(store)

    assert judge(store).findings == ()
    found = places(judge(store, kept))
    assert found == [("kept_head", shard, head.hseq) for shard, head in sorted(kept.items()) if head.hseq]


def test_a_tail_cut_off_with_its_head_is_found_by_the_kept_head_alone(store: Path) -> None:
    kept = dict(judge(store).heads)
    (*_, (_, shard, before), (last_id, _, hseq)) = longest(rows_of(store))
    edit(
        store,
        f"UPDATE shard SET hseq = {before}, h = (SELECT h FROM history WHERE shard = {shard} AND hseq = {before})"
        f" WHERE shard = {shard}",
        f"DELETE FROM history WHERE id = {last_id}",
    )
    assert places(judge(store)) == []
    assert places(judge(store, kept)) == [("kept_head", shard, hseq)]


def prune(store: Path, shard: int, upto: int) -> None:
    """Take the oldest rows of a shard away below an anchor, as retention does."""
    edit(
        store,
        f"INSERT INTO anchor SELECT shard, hseq, h, at FROM history WHERE shard = {shard} AND hseq = {upto}",
        f"DELETE FROM history WHERE shard = {shard} AND hseq <= {upto}",
    )


def test_what_was_pruned_below_an_anchor_is_no_fault(store: Path) -> None:
    rows = longest(rows_of(store))
    shard = rows[0][1]
    prune(store, shard, 2)
    verdict = judge(store)

    assert verdict.findings == ()
    assert verdict.pruned == 2

    prune(store, shard, rows[-1][2])
    assert judge(store).findings == ()
    assert judge(store).pruned == rows[-1][2]


def test_rows_taken_away_without_an_anchor_or_past_a_wrong_one_are_found(store: Path) -> None:
    rows = longest(rows_of(store))
    shard = rows[0][1]
    edit(store, f"DELETE FROM history WHERE shard = {shard} AND hseq <= 2")
    assert places(judge(store)) == [("missing", shard, 1)]

    edit(store, f"INSERT INTO anchor VALUES ({shard}, 2, zeroblob(32), 0)")
    assert places(judge(store)) == [("changed", shard, 3)]


def test_an_anchor_that_names_another_row_is_found(store: Path) -> None:
    _, shard, hseq = longest(rows_of(store))[1]
    edit(store, f"INSERT INTO anchor VALUES ({shard}, {hseq}, zeroblob(32), 0)")

    assert places(judge(store)) == [("anchor", shard, hseq)]


def test_an_anchor_that_names_a_row_behind_the_head_is_found(store: Path) -> None:
    """The end of a chain was cut off together with its head; the anchor of a row in it is still there."""
    *_, (_, shard, before), (_, _, hseq) = longest(rows_of(store))
    edit(
        store,
        f"INSERT INTO anchor SELECT shard, hseq, h, at FROM history WHERE shard = {shard} AND hseq = {hseq}",
        f"UPDATE shard SET hseq = {before}, h = (SELECT h FROM history WHERE shard = {shard} AND hseq = {before})"
        f" WHERE shard = {shard}",
        f"DELETE FROM history WHERE shard = {shard} AND hseq = {hseq}",
    )

    assert places(judge(store)) == [("anchor", shard, hseq)]


async def test_beside_an_owner_at_work_nothing_is_made_up(tmp_path: Path) -> None:
    """The history grows and its rows move on while it is read."""
    channel = FakeChannel()
    store = tmp_path / "bot.db"
    passes = 0
    async with (
        Runtime.open(counting_bot(), store=store, adapters=[channel], durability="normal") as runtime,
        trio.open_nursery() as nursery,
    ):

        async def say() -> None:
            for number in range(100_000):
                await channel.say(str(number % 20), "hello")

        nursery.start_soon(say)
        await runtime.wait_until(lambda: runtime.counters.get("sent", 0) > 50)
        for _ in range(20):
            verdict = await trio.to_thread.run_sync(judge, store)
            assert verdict.findings == ()
            passes += verdict.rows > 0
        nursery.cancel_scope.cancel()
    assert passes == 20
    assert judge(store).findings == ()


def test_a_long_list_of_findings_is_cut_and_counted(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardline.storage.sqlite.verify._MOST_FINDINGS", 3)
    edit(store, "UPDATE history SET at = at + 1")
    verdict = judge(store)

    assert len(verdict.findings) == 3
    assert verdict.more == verdict.rows - 3


def test_progress_is_told_up_to_the_last_row(store: Path) -> None:
    told: list[tuple[int, int]] = []
    with Look(store) as look:
        verify(look, progress=lambda done, of: told.append((done, of)))

    assert told[-1][0] == told[-1][1]
