"""The write connection alone: what it does about errors of COMMIT that say nothing of the disk."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import apsw
import attrs
import pytest

from shardline.actors.errors import Code
from shardline.actors.failpoints import NO_FAILPOINTS
from shardline.storage.commands import Committed, Publish, Stored
from shardline.storage.memory import open_memory
from shardline.storage.sqlite.backend import Backend
from shardline.storage.sqlite.opening import OpenedFile, open_file
from shardline.storage.sqlite.settings import Settings
from tests.kits.store_checks import check_store
from tests.kits.store_rows import Hand, claim_row, fail_row, finish_row, kill_row, requeue_row
from tests.kits.words import refused


@attrs.frozen
class Writer:
    opened: OpenedFile
    backend: Backend
    hand: Hand

    def publish(self, number: int) -> Publish:
        return self.hand.publish(self.hand.new_inbox("tg:1", number))


def ignore(pages: int) -> None:
    pass


@pytest.fixture
def writer(tmp_path: Path) -> Generator[Writer]:
    opened = open_file(tmp_path / "bot.db", Settings(), 1)
    backend = Backend(
        opened.source, opened.connection, instance=opened.info.instance, atomic=True, failpoints=NO_FAILPOINTS
    )
    # A store in memory gives ids and shards to the hand.
    yield Writer(opened, backend, Hand(open_memory()))
    backend.close(closed_at_us=2)
    backend.close(closed_at_us=2)
    opened.lock.release()


def test_commit_that_is_there_although_it_failed_is_answered_as_stored(writer: Writer) -> None:
    def fail_once(pages: int) -> None:
        writer.opened.source.on_log = ignore
        raise apsw.IOError("after the commit")

    writer.backend.apply([writer.publish(1)])
    writer.opened.source.on_log = fail_once
    outcomes = writer.backend.apply([writer.publish(2), writer.publish(3)])
    after = writer.backend.apply([writer.publish(4)])

    assert [outcome.offset for outcome in outcomes if isinstance(outcome, Stored)] == [1, 2]
    assert [outcome.offset for outcome in after if isinstance(outcome, Stored)] == [3]
    writer.backend.close(closed_at_us=2)
    assert len(check_store(writer.opened.source.path)) == 4


def test_store_that_someone_else_wrote_ends_the_backend(writer: Writer) -> None:
    def intrude(pages: int) -> None:
        writer.opened.source.on_log = ignore
        other = apsw.Connection(str(writer.opened.source.path))
        other.execute("UPDATE store_commit SET commit_seq = commit_seq + 7")
        other.close()
        raise apsw.IOError("after the commit")

    writer.opened.source.on_log = intrude
    with refused(Code.STORE_CORRUPT):
        writer.backend.apply([writer.publish(1)])


def test_damage_ends_the_backend_at_once(writer: Writer) -> None:
    tries: list[int] = []

    def fail(pages: int) -> None:
        tries.append(pages)
        raise apsw.CorruptError("page 3")

    writer.opened.source.on_log = fail
    with refused(Code.STORE_CORRUPT):
        writer.backend.apply([writer.publish(1)])

    assert len(tries) == 1


def test_batch_without_changes_makes_no_commit(writer: Writer) -> None:
    first = writer.publish(1)
    writer.backend.apply([first])
    commits = writer.backend.numbers.commit_seq
    repeated = writer.backend.apply([writer.publish(1), writer.publish(1)])
    nothing = writer.backend.apply([])

    assert len(repeated) == 2
    assert nothing == []
    assert writer.backend.numbers.commit_seq == commits


def test_batch_is_one_commit_even_if_a_part_is_refused(writer: Writer) -> None:
    bad = attrs.evolve(writer.hand.new_inbox("tg:1", 2), dedupe_key="\ud800")
    commits = writer.backend.numbers.commit_seq
    outcomes = writer.backend.apply([writer.publish(1), writer.hand.publish(bad), writer.publish(3)])

    assert [type(outcome).__name__ for outcome in outcomes] == ["Stored", "Refused", "Stored"]
    assert writer.backend.numbers.commit_seq == commits + 1


def test_value_of_a_wrong_type_is_no_repeat(writer: Writer) -> None:
    """A STRICT table answers it with a constraint error too."""
    row = writer.hand.new_inbox("tg:1", 1)
    torn = attrs.evolve(row.record, accepted_at_us="noon")  # type: ignore[arg-type]  # as untyped code would
    (outcome,) = writer.backend.apply([writer.hand.publish(attrs.evolve(row, record=torn))])

    assert type(outcome).__name__ == "Refused"
    assert isinstance(writer.backend.apply([writer.publish(1)])[0], Stored)


def test_a_row_may_fail_and_go_on_inside_one_batch(writer: Writer) -> None:
    new = writer.hand.new_inbox("tg:1", 1)
    shard = new.record.shard
    accept = writer.hand.publish(new)
    claim = claim_row(new.record)
    fail = fail_row(claim.after)
    again = claim_row(fail.after)
    moves = (claim, fail, again, finish_row(again.after))
    commits = [writer.hand.commit(shard, inbox=(move,)) for move in moves]
    statements: list[str] = []

    def note(cursor: apsw.Cursor, statement: str, bindings: apsw.Bindings | None) -> bool:
        statements.append(statement)
        return True

    writer.opened.connection.exec_trace = note
    outcomes = writer.backend.apply([accept, *commits])
    writer.opened.connection.exec_trace = None
    found = writer.opened.connection.execute(
        "SELECT status, claim, failures, error_code, own_code, last_error, json_array_length(errors) FROM inbox"
    ).fetchall()

    assert [type(outcome) for outcome in outcomes] == [Stored, Committed, Committed, Committed, Committed]
    assert found == [("done", 2, 1, "HANDLER_FAILED", "x.own", "boom", 1)]
    assert "SAVEPOINT part" not in statements


def test_a_requeue_leaves_nothing_of_the_errors_before(writer: Writer) -> None:
    new = writer.hand.new_inbox("tg:1", 1)
    shard = new.record.shard
    claim = claim_row(new.record)
    dead = kill_row(fail_row(claim.after, text="first").after)
    fail = fail_row(claim.after, text="first")
    requeue = requeue_row(dead.after)
    claim_again = claim_row(attrs.evolve(requeue.after, seq=2))
    writer.backend.apply([writer.hand.publish(new)])
    for move in (claim, fail, dead, requeue, claim_again):
        (outcome,) = writer.backend.apply([writer.hand.commit(shard, inbox=(move,))])
        assert isinstance(outcome, Committed)
    found = writer.opened.connection.execute(
        "SELECT status, error_code, own_code, last_error, errors FROM inbox"
    ).fetchall()

    assert found == [("running", None, None, None, "[]")]
