"""The changing commands: carried out beside an owner and without one, refused in one line, waiting with exit code 4."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import apsw
import click.testing
import pytest

from shardline.actors.wire import message_to_wire
from tests.kits.controlled import make_dead, owner_process, query, stop_between_commits
from tests.kits.forked import start_forked
from tests.kits.operated import HOSTILE, UNSAFE, make_store, operate
from tests.kits.words import make_message


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Message 2 is dead, send 1 uncertain, send 2 dead."""
    path = tmp_path / "bot.db"
    make_store(path)
    return path


def run(store: Path, *arguments: str) -> click.testing.Result:
    return operate(*arguments, "--store", store)


def test_one_dead_letter_is_requeued_and_the_second_call_refused(store: Path) -> None:
    first = run(store, "dlq", "requeue", "in-2")
    second = run(store, "dlq", "requeue", "in-2")

    assert (first.exit_code, first.stdout, first.stderr) == (0, "in-2 is on its way again\n", "")
    assert second.exit_code == 1
    assert second.stdout == ""
    assert second.stderr == "shardline: INVALID_TRANSITION: row 2 is queued, which does not allow requeue\n"


def test_dead_letters_are_requeued_by_filters_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 6)

    assert run(path, "dlq", "requeue", "own_code=x.first").exit_code == 2
    assert query(path, "SELECT count(*) FROM control") == [(0,)]
    ended = run(path, "dlq", "requeue", "own_code=x.first", "--limit", "4", "--yes", "--json")
    assert ended.exit_code == 0, ended.output
    told = json.loads(ended.stdout)
    assert (told["status"], told["requeued"], told["refused"]) == (
        "done",
        ["in-6", "in-5", "in-4", "in-3"],
        [],
    )
    assert run(path, "dlq", "requeue", "own_code=x.other", "--yes").exit_code == 1
    assert run(path, "dlq", "requeue", "in-1", "key=fake:1").exit_code == 2
    assert run(path, "dlq", "requeue", "colour=red").exit_code == 2
    mixed = run(path, "dlq", "requeue", "in-1", "in-6")
    assert (mixed.exit_code, mixed.stdout) == (1, "1 is on its way again\n")


def test_purge_counts_and_asks(store: Path) -> None:
    assert run(store, "dlq", "purge", "--older-than", "0s").exit_code == 2
    assert (
        run(store, "dlq", "purge", "--older-than", "1d", "--yes").stdout == "purged 0 messages and 0 sends\n"
    )
    ended = run(store, "dlq", "purge", "--older-than", "0s", "--yes")

    assert (ended.exit_code, ended.stdout) == (0, "purged 1 message and 1 send\n")
    assert run(store, "dlq", "list").stdout == ""
    assert run(store, "dlq", "purge", "--older-than", "yesterday", "--yes").exit_code == 2


@pytest.mark.parametrize(
    ("decision", "state"), [("--sent", "sent"), ("--dead", "dead"), ("--resend", "ready")]
)
def test_an_uncertain_send_is_settled(store: Path, decision: str, state: str) -> None:
    ended = run(store, "outbox", "resolve", "out-1", decision, "--yes")

    assert ended.exit_code == 0, ended.output
    assert json.loads(run(store, "outbox", "show", "out-1", "--json").stdout)["state"] == state
    again = run(store, "outbox", "resolve", "out-1", decision, "--yes")
    assert again.exit_code == 1
    assert again.stderr.startswith("shardline: INVALID_TRANSITION: ")


def test_a_send_is_named_by_its_key_and_a_key_of_several_is_not_guessed(store: Path) -> None:
    key = json.loads(run(store, "outbox", "show", "out-1", "--json").stdout)["idempotency_key"]
    assert run(store, "outbox", "resolve", key, "--sent", "--yes").stdout == "out-1 is settled as sent\n"
    database = apsw.Connection(str(store))
    database.execute("UPDATE outbox SET idempotency_key = 'same', part = id")
    database.close()
    ended = run(store, "outbox", "cancel", "same", "--yes")

    assert ended.exit_code == 2
    assert "out-1" in ended.stderr
    assert "out-2" in ended.stderr
    assert run(store, "outbox", "resolve", "unknown", "--sent", "--yes").exit_code == 1
    assert run(store, "outbox", "resolve", "out-1", "--yes").exit_code == 2


def test_a_message_is_published_once(store: Path) -> None:
    words = ("publish", "--key", "fake:9", "--text", "hello", "--channel", "fake", "--idempotency-key", "k1")
    first, second = run(store, *words), run(store, *words)

    assert (first.exit_code, first.stdout) == (0, "stored as in-4\n")
    assert second.stdout == "stored as in-4, it was there already\n"
    assert run(store, "inbox", "list", "key=fake:9", "--json").stdout.count("\n") == 1
    for wrong in (("--key", "9", "--text", "x"), ("--key", "fake:9"), ("--key", "fake:9", "--text", "")):
        ended = run(store, "publish", *wrong)
        assert ended.exit_code == 2
        assert ended.stderr.count("\n") == 1


def test_a_whole_message_may_come_as_json(store: Path, tmp_path: Path) -> None:
    wire = tmp_path / "message.json"
    wire.write_text(message_to_wire(make_message()))
    ended = run(store, "publish", "--message", str(wire), "--json")

    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["duplicate"] is False
    wire.write_text("{")
    assert run(store, "publish", "--message", str(wire)).exit_code == 2


def test_what_waits_is_exit_4_and_can_be_asked_for(store: Path) -> None:
    with store.with_name("bot.db.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = run(store, "dlq", "requeue", "in-2", "--timeout", "0")
        waiting = json.loads(run(store, "control", "list", "--waiting", "--json").stdout)
        asked = run(store, "control", "show", waiting["id"])

    assert ended.exit_code == 4
    assert f"shardline control show {waiting['id']}" in ended.stderr
    assert asked.exit_code == 4
    # Nobody holds it any more: the next decision carries out both.
    assert run(store, "dlq", "purge", "--older-than", "1d", "--yes").exit_code == 0
    assert run(store, "control", "show", waiting["id"]).exit_code == 0
    assert run(store, "control", "list", "--waiting", "--json").stdout == ""
    assert run(store, "control", "show", "unknown").exit_code == 1


def test_two_commands_requeue_the_same_row_at_once_and_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 3)
    with owner_process(path), ExitStack() as stack:
        both = [
            stack.enter_context(start_forked("shardline", "dlq", "requeue", "in-1", "--store", str(path)))
            for _ in "ab"
        ]
        ends = sorted(
            ((process.communicate(30), process.returncode) for process in both),
            key=lambda end: -end[1],
        )

    (refused_out, refused_err), (done_out, done_err) = (out for out, _ in ends)
    assert [code for _, code in ends] == [1, 0]
    assert (refused_out, done_out, done_err) == ("", "in-1 is on its way again\n", "")
    assert refused_err.startswith("shardline: INVALID_TRANSITION: ")
    assert query(path, "SELECT generation FROM inbox WHERE id = 1") == [(1,)]
    assert query(path, "SELECT status, count(*) FROM control GROUP BY status") == [
        ("done", 1),
        ("refused", 1),
    ]


def test_an_owner_that_stands_still_does_it_when_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 3)
    with owner_process(path) as owner:
        assert run(path, "dlq", "requeue", "in-2").exit_code == 0
        stop_between_commits(path, owner.pid)
        try:
            ended = run(path, "dlq", "requeue", "in-1", "--timeout", "0.2")
        finally:
            os.kill(owner.pid, signal.SIGCONT)
        assert ended.exit_code == 4
        # What comes later is carried out later.
        assert run(path, "dlq", "requeue", "in-3").exit_code == 0

    assert query(path, "SELECT DISTINCT generation FROM inbox") == [(1,)]


def test_names_and_reasons_of_strangers_are_harmless(store: Path) -> None:
    for text in HOSTILE:
        run(store, "outbox", "cancel", "out-1", "--reason", text, "--actor", text, "--yes")
    shown = run(store, "control", "list").output
    control_id = json.loads(run(store, "control", "list", "--json", "--limit", "1").stdout)["id"]
    shown += run(store, "control", "show", control_id).output

    assert not UNSAFE & (set(shown) - {"\n"})
