"""Decisions over a store that nobody owns: the caller carries them out by the same rules."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import apsw
import attrs
import pytest
import trio

from shardline import Direction, Runtime
from shardline.actors.errors import Code
from shardline.runtime.control.client import find_control, send_control
from shardline.runtime.control.verbs import Cancel, Decision, PublishMessage, Purge, Requeue, Resolve, RowRef
from shardline.storage.port import HistoryRow
from shardline.storage.records import StoredInbox
from shardline.storage.sqlite.chain import find_break
from shardline.storage.sqlite.look import Look
from shardline.storage.sqlite.reader import SqliteReader
from shardline.testing import FakeChannel
from tests.kits.controlled import decide, make_dead, mortal_bot, owner_process, query, run_bot
from tests.kits.words import make_message, refused

FIRST = Requeue((RowRef("in", 1),))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    make_dead(path, 5)
    return path


def row(path: Path, number: int) -> tuple[object, ...]:
    return query(path, "SELECT status, generation FROM inbox WHERE id = ?", number)[0]


def chain_of(shard: int, reader: SqliteReader) -> list[HistoryRow]:
    return reader.history(shard, 0, 10_000)


def check_chains(path: Path) -> None:
    with Look(path) as look:
        for shard in range(look.shard_count):
            assert find_break(look.ask(partial(chain_of, shard))) is None


def test_a_dead_message_is_requeued_and_handled_by_the_next_run(store: Path) -> None:
    result = decide(store, FIRST)

    assert (result.status, result.code) == ("done", None)
    assert result.values == {"requeued": ["in-1"], "refused": []}
    assert row(store, 1) == ("queued", 1)
    run_bot(store)
    assert row(store, 1) == ("done", 1)
    assert row(store, 2) == ("dead", 0)
    check_chains(store)


def test_the_second_requeue_is_refused(store: Path) -> None:
    decide(store, FIRST)
    again = decide(store, FIRST)

    assert (again.status, again.code) == ("refused", "INVALID_TRANSITION")
    assert row(store, 1) == ("queued", 1)


def test_the_same_id_gives_the_stored_result(store: Path) -> None:
    first = decide(store, FIRST)
    again = decide(store, FIRST, control_id=first.id)

    assert again == first == find_control(store, first.id)
    assert row(store, 1) == ("queued", 1)
    with refused(Code.IDENTITY_MISMATCH):
        decide(store, Requeue((RowRef("in", 2),)), control_id=first.id)
    with refused(Code.NOT_FOUND):
        find_control(store, "another")


def test_of_several_rows_each_has_its_own_end(store: Path) -> None:
    decide(store, FIRST)
    result = decide(store, Requeue(tuple(RowRef("in", number) for number in (1, 2, 99, 3))))

    assert result.status == "done"
    assert result.values == {
        "requeued": ["in-2", "in-3"],
        "refused": [
            {"row": "in-1", "code": "INVALID_TRANSITION"},
            {"row": "in-99", "code": "NOT_FOUND"},
        ],
    }


@pytest.mark.parametrize(
    ("decision", "state"),
    [("sent", ("sent", None, None)), ("dead", ("failed", None, 1)), ("resend", ("pending", None, None))],
)
def test_an_uncertain_send_is_decided(tmp_path: Path, decision: Decision, state: tuple[object, ...]) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 1, uncertain=True)
    result = decide(path, Resolve(RowRef("out", 1), decision))

    assert result.status == "done"
    found = query(path, "SELECT status, uncertain_since, dead_at IS NOT NULL FROM outbox WHERE id = 1")[0]
    assert (found[0], found[1], found[2] or None) == state
    run_bot(path)
    assert query(path, "SELECT count(*) FROM outbox WHERE status = 'pending'") == [(0,)]


def test_what_is_not_uncertain_cannot_be_resolved_or_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 1, uncertain=True)
    decide(path, Resolve(RowRef("out", 1), "sent"))

    for verb in (Resolve(RowRef("out", 1), "resend"), Cancel(RowRef("out", 1))):
        assert decide(path, verb).code == "INVALID_TRANSITION"
    assert decide(path, Cancel(RowRef("out", 77))).code == "NOT_FOUND"


def test_purged_rows_are_empty_keep_their_keys_and_are_no_dead_letters(store: Path) -> None:
    ((last,),) = query(store, "SELECT max(dead_at) FROM inbox")
    ((middle,),) = query(store, "SELECT dead_at FROM inbox ORDER BY dead_at LIMIT 1 OFFSET 2")
    assert isinstance(last, int)
    assert isinstance(middle, int)
    before = query(store, "SELECT dedupe_key FROM inbox ORDER BY id")
    ((older,),) = query(store, "SELECT count(*) FROM inbox WHERE dead_at <= ?", middle)

    assert isinstance(older, int)

    assert decide(store, Purge(middle)).values == {"purged": older, "messages": older, "sends": 0}
    assert decide(store, Purge(last)).values["purged"] == 5 - older
    assert decide(store, Purge(last)).values["purged"] == 0
    assert query(store, "SELECT DISTINCT status, raw, errors FROM inbox") == [("purged", None, "[]")]
    assert query(store, "SELECT dedupe_key FROM inbox ORDER BY id") == before
    with Look(store) as look:
        assert look.ask(lambda reader: reader.dead_messages(2**62, 10)) == []
        assert {stored.message.payload.text for stored in look.ask(all_of)} == {""}
    assert decide(store, FIRST).code == "INVALID_TRANSITION"
    run_bot(store)
    check_chains(store)


def all_of(reader: SqliteReader) -> list[StoredInbox]:
    return reader.list_inbox(status=None, key=None, offset=0, limit=99)


def test_a_repeat_of_a_purged_message_is_still_a_repeat(store: Path) -> None:
    message = attrs.evolve(
        make_message(),
        channel="fake",
        conversation_key="fake:x",
        participant_key=None,
        idempotency_key="once",
    )
    assert decide(store, PublishMessage(message)).values["duplicate"] is False
    run_bot(store)
    decide(store, Purge(2**62))

    again = decide(store, PublishMessage(message))
    assert again.values["duplicate"] is True
    assert again.values["conflict"] is False


def test_a_published_message_is_handled_by_the_next_run(store: Path) -> None:
    message = attrs.evolve(
        make_message(), channel="fake", conversation_key="fake:x", participant_key=None, idempotency_key="new"
    )
    result = decide(store, PublishMessage(message))

    assert result.status == "done"
    run_bot(store)
    assert query(store, "SELECT status FROM inbox WHERE idempotency_key = 'new'") == [("dead",)]


def test_a_published_send_goes_out_with_the_next_run(store: Path) -> None:
    message = attrs.evolve(
        make_message(), direction=Direction.OUTBOUND, channel="fake", conversation_key="fake:x",
        participant_key=None, idempotency_key="out",
    )  # fmt: skip
    assert decide(store, PublishMessage(message)).status == "done"

    run_bot(store)
    assert query(store, "SELECT status FROM outbox WHERE idempotency_key = 'out'") == [("sent",)]


def test_deciding_counts_no_crash_and_hides_none(store: Path) -> None:
    database = apsw.Connection(str(store))
    database.execute("UPDATE inbox SET status = 'running', claim = 1, dead_at = NULL WHERE id = 2")
    database.close()

    decide(store, FIRST)
    assert query(store, "SELECT status, crashes FROM inbox WHERE id = 2") == [("running", 0)]
    run_bot(store)
    assert query(store, "SELECT crashes, blames FROM inbox WHERE id = 2") == [(1, 1)]


@pytest.mark.parametrize("is_killed", [True, False])
def test_the_next_run_learns_how_the_last_run_ended(store: Path, is_killed: bool) -> None:
    with owner_process(store) as owner:
        if is_killed:
            owner.kill()
            owner.wait(60)
    decide(store, FIRST)
    decide(store, Purge(0))

    async def main() -> bool:
        async with Runtime.open(mortal_bot(), store=store, adapters=[FakeChannel()]) as runtime:
            return runtime.info.clean

    assert trio.run(main) is not is_killed
    # That run has recovered; its own proper end counts again.
    assert trio.run(main)


@pytest.mark.parametrize("wrong", ["", " c1", "\ud800"])
def test_an_id_or_actor_that_cannot_be_stored_is_refused(store: Path, wrong: str) -> None:
    with refused(Code.INVALID_MESSAGE):
        decide(store, FIRST, control_id=wrong)
    with refused(Code.INVALID_MESSAGE):
        send_control(store, FIRST, actor=wrong)

    assert query(store, "SELECT count(*) FROM control") == [(0,)]


def test_a_store_that_is_none_takes_no_decision(tmp_path: Path) -> None:
    missing = tmp_path / "missing.db"
    with refused(Code.NOT_FOUND):
        decide(missing, FIRST)
    assert not missing.exists()
    other = tmp_path / "other.db"
    database = apsw.Connection(str(other))
    database.execute("CREATE TABLE t (x)")
    database.close()
    with refused(Code.STORE_MISMATCH):
        decide(other, FIRST)
    text = tmp_path / "text.db"
    text.write_text("hello " * 1000)
    with refused(Code.STORE_CORRUPT):
        decide(text, FIRST)


def test_an_older_or_newer_store_takes_no_decision(store: Path) -> None:
    database = apsw.Connection(str(store))
    for schema, code in ((99, Code.SCHEMA_TOO_NEW), (1, Code.STORE_MISMATCH)):
        database.execute("UPDATE store_meta SET schema = ?", (schema,))
        with refused(code):
            decide(store, FIRST)
    database.close()
