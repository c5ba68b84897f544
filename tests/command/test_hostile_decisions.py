"""The changing commands in hostile hands: what they say is true, what they are given is checked, nothing hides."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw
import attrs
import click.testing
import pytest

from shardline import BusError, Code
from shardline.actors.wire import message_to_wire
from shardline.runtime.command import requeue
from shardline.runtime.control.actor import ControlActor
from shardline.runtime.control.hands import StoreHands
from shardline.storage.commands import ControlDone
from shardline.storage.sqlite.control import ControlBox
from shardline.storage.sqlite.lock import OwnerLock
from tests.kits.controlled import make_dead, owner_process, query
from tests.kits.operated import make_store, operate
from tests.kits.words import make_message

NO_UTF8 = "\udcff"
"""What Python makes of the argument byte 0xff."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Message 2 is dead, send 1 uncertain, send 2 dead."""
    path = tmp_path / "bot.db"
    make_store(path)
    return path


def run(store: Path, *arguments: str, env: dict[str, str] | None = None) -> click.testing.Result:
    return operate(*arguments, "--store", store, env=env)


@contextmanager
def owned(store: Path) -> Generator[None]:
    """Somebody who does nothing owns the store while the block runs."""
    with store.with_name(f"{store.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def waiting(store: Path) -> list[str]:
    """Ids of the decisions that somebody will carry out some day."""
    return [str(row[0]) for row in query(store, "SELECT id FROM control WHERE status = 'waiting' ORDER BY n")]


def say_once(ended: click.testing.Result) -> None:
    """It ended badly in one line that does not blame the store."""
    assert ended.exit_code in {1, 2}
    assert ended.stdout == ""
    assert ended.stderr.startswith("shardline: ")
    assert ended.stderr.count("\n") == 1
    assert "STORE_CORRUPT" not in ended.stderr


# --- exit codes that do not lie ----------------------------------------------------------------------------------


def test_who_gives_up_waiting_is_told_that_the_decision_stands(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shardline.runtime.control.client.time.sleep", interrupt)
    with owned(store):
        ended = run(store, "dlq", "requeue", "in-2")

    assert waiting(store)
    assert ended.exit_code == 4
    assert waiting(store)[0] in ended.stderr


def test_who_gives_up_before_the_decision_stands_is_told_of_none(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_box: ControlBox, _controls: object, _ended_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ControlBox, "leave", interrupt)
    ended = run(store, "dlq", "requeue", "in-2")

    assert (ended.exit_code, ended.stderr) == (1, "shardline: ended by Ctrl-C\n")
    assert query(store, "SELECT count(*) FROM control") == [(0,)]


def test_a_decision_that_stands_is_never_reported_as_failed(store: Path) -> None:
    lock = store.with_name("bot.db.lock")
    lock.unlink(missing_ok=True)
    lock.mkdir()
    ended = run(store, "publish", "--key", "fake:9", "--text", "once", "--channel", "fake", "--timeout", "0")

    assert ended.stderr.startswith("shardline: ")
    assert (ended.exit_code == 4) is bool(waiting(store))


def test_a_damaged_index_is_one_line_and_an_honest_exit_code(store: Path) -> None:
    ((root,),) = query(store, "SELECT rootpage FROM sqlite_schema WHERE name = 'inbox_dead'")
    ((page_bytes,),) = query(store, "PRAGMA page_size")
    assert isinstance(root, int)
    assert isinstance(page_bytes, int)
    content = bytearray(store.read_bytes())
    content[(root - 1) * page_bytes : root * page_bytes] = b"\xa5" * page_bytes
    store.write_bytes(content)
    ended = run(store, "dlq", "requeue", "in-2", "--timeout", "0")

    assert ended.stderr.count("\n") == 1
    assert "STORE_CORRUPT" in ended.stderr
    assert (ended.exit_code == 4) is bool(waiting(store))


def test_of_many_rows_all_are_asked_for_before_the_command_says_that_they_will_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 5)
    monkeypatch.setattr(requeue, "MAX_ROWS", 2)
    with owned(path):
        ended = run(path, "dlq", "requeue", "kind=in", "--yes", "--timeout", "0")

    assert ended.exit_code == 4
    named = [
        row for (args,) in query(path, "SELECT args FROM control") for row in json.loads(str(args))["rows"]
    ]
    assert sorted(named) == ["in-1", "in-2", "in-3", "in-4", "in-5"]
    assert all(control_id in ended.stderr for control_id in waiting(path))


def test_a_wait_without_an_end_cannot_be_asked_for(store: Path) -> None:
    ended = run(store, "dlq", "requeue", "in-2", "--timeout", "nan")

    assert ended.exit_code == 2
    assert query(store, "SELECT count(*) FROM control") == [(0,)]


def test_another_text_under_a_known_key_is_not_taken_for_a_repeat(store: Path) -> None:
    words = ("publish", "--key", "fake:9", "--channel", "fake", "--idempotency-key", "k1", "--text")
    assert run(store, *words, "pay ann").exit_code == 0
    repeat = run(store, *words, "pay ann")
    other = run(store, *words, "pay bob")

    assert (other.exit_code, other.stdout) != (repeat.exit_code, repeat.stdout)


def test_a_row_that_never_was_is_not_said_to_live(store: Path) -> None:
    ended = run(store, "dlq", "requeue", "in-2", "in-999")

    assert ended.exit_code == 1
    assert "in-999" in ended.stderr
    assert "not dead any more" not in ended.stderr


# --- what programs read ------------------------------------------------------------------------------------------


def test_one_row_and_several_give_programs_the_same_fields(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 3)
    one = json.loads(run(path, "dlq", "requeue", "in-1", "--json").stdout)
    several = json.loads(run(path, "dlq", "requeue", "in-2", "in-3", "--json").stdout)

    assert set(several) >= set(one)


def test_a_program_reads_the_id_of_what_waits_also_for_several_rows(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 2)
    with owned(path):
        ended = run(path, "dlq", "requeue", "in-1", "in-2", "--json", "--timeout", "0")

    assert ended.exit_code == 4
    assert json.loads(ended.stdout)["id"] == waiting(path)[0]


def test_a_decision_is_shown_where_the_terminal_knows_ascii_alone(store: Path) -> None:
    run(store, "outbox", "cancel", "out-1", "--actor", "Jürgen", "--yes")
    ((control_id,),) = query(store, "SELECT id FROM control")
    ended = subprocess.run(
        [sys.executable, "-m", "shardline", "control", "show", str(control_id), "--store", str(store)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Traceback" not in ended.stderr
    assert "rgen" in ended.stdout


# --- what people type --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("control", "show", NO_UTF8),
        ("outbox", "resolve", NO_UTF8, "--sent", "--yes"),
        ("outbox", "cancel", NO_UTF8, "--yes"),
        ("outbox", "cancel", "out-1", "--reason", NO_UTF8, "--yes"),
        ("dlq", "requeue", "in-2", "--actor", NO_UTF8),
        ("dlq", "requeue", NO_UTF8),
        ("publish", "--key", f"fake:{NO_UTF8}", "--text", "hi"),
        ("publish", "--key", "fake:1", "--text", "hi", "--channel", NO_UTF8),
        ("publish", "--key", "fake:1", "--text", "hi", "--idempotency-key", NO_UTF8),
    ],
    ids=lambda words: " ".join(words).replace(NO_UTF8, "?"),
)
def test_arguments_that_are_no_utf8_are_refused_in_one_line(store: Path, words: tuple[str, ...]) -> None:
    say_once(run(store, *words))
    assert waiting(store) == []


def test_a_login_name_that_is_no_utf8_does_no_harm(store: Path) -> None:
    ended = run(store, "dlq", "requeue", "in-2", env={"LOGNAME": NO_UTF8})

    assert ended.exit_code == 0, ended.output


def test_an_offset_past_every_number_of_the_database_is_no_damage(store: Path) -> None:
    ended = run(store, "control", "list", "--offset", str(2**64))

    assert "STORE_CORRUPT" not in ended.output
    assert ended.exit_code in {0, 2}


def test_two_decisions_over_one_send_are_none(store: Path) -> None:
    ended = run(store, "outbox", "resolve", "out-1", "--sent", "--dead", "--yes")

    say_once(ended)
    assert query(store, "SELECT count(*) FROM control") == [(0,)]


def test_a_key_that_looks_like_an_id_is_not_guessed(store: Path) -> None:
    database = apsw.Connection(str(store))
    database.execute("UPDATE outbox SET idempotency_key = 'out-1' WHERE id = 2")
    database.close()
    ended = run(store, "outbox", "resolve", "out-1", "--sent", "--yes")

    assert ended.exit_code == 2
    assert "id=out-2" in ended.stderr
    assert query(store, "SELECT count(*) FROM control") == [(0,)]
    meant = run(store, "outbox", "resolve", "id=out-1", "--sent", "--yes")
    assert (meant.exit_code, meant.stdout) == (0, "out-1 is settled as sent\n")


@pytest.mark.parametrize("words", [("--key", "fake:8"), ("--idempotency-key", "k"), ("--outbound",)])
def test_what_a_whole_message_says_itself_cannot_be_said_beside_it(
    store: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    wire = tmp_path / "message.json"
    wire.write_text(message_to_wire(make_message()))
    say_once(run(store, "publish", "--message", str(wire), *words))


def test_a_message_file_that_is_no_text_is_refused_in_one_line(store: Path, tmp_path: Path) -> None:
    wire = tmp_path / "message.json"
    wire.write_bytes(b"\xff\xfe\x00{")
    say_once(run(store, "publish", "--message", str(wire)))


def test_a_message_without_an_end_is_not_read_to_it(store: Path) -> None:
    def little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))

    ended = subprocess.run(
        [sys.executable, "-m", "shardline", "publish", "--message", "/dev/zero", "--store", str(store)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=little_memory,
    )

    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_long_message_goes_through_as_it_would_inside_the_bot(store: Path, tmp_path: Path) -> None:
    message = make_message()
    long = attrs.evolve(message, payload=attrs.evolve(message.payload, text="x" * 900_000))
    wire = tmp_path / "message.json"
    wire.write_text(message_to_wire(long))
    ended = run(store, "publish", "--message", str(wire))

    assert ended.exit_code == 0, ended.output


def test_without_standard_input_nobody_is_asked_and_nothing_falls_over(store: Path) -> None:
    command = f'exec "{sys.executable}" -m shardline dlq purge --older-than 0s --store "{store}" <&-'
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert ended.stderr.startswith("shardline: ")
    assert ended.stderr.count("\n") == 1


# --- the store and its owner -------------------------------------------------------------------------------------


def test_a_decision_over_a_crashed_bot_does_not_hide_the_crash(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 1)
    with owner_process(path) as owner:
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait(30)
    assert _owner_outcome(path) == "warn"
    assert run(path, "dlq", "requeue", "in-1").exit_code == 0

    assert _owner_outcome(path) == "warn"


def _owner_outcome(path: Path) -> str:
    checks = json.loads(run(path, "doctor", "--json").stdout)["checks"]
    return str(next(check["outcome"] for check in checks if check["name"] == "owner"))


def test_a_decision_that_has_to_wait_does_not_open_the_store_again_and_again(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(_hands: StoreHands, _row_id: int, _control: ControlDone | None) -> None:
        raise BusError(Code.STORE_FULL, "no room")

    monkeypatch.setattr(StoreHands, "requeue_message", full)
    ((before,),) = query(store, "SELECT max(id) FROM instance")
    ended = run(store, "dlq", "requeue", "in-2", "--timeout", "1")
    ((after,),) = query(store, "SELECT max(id) FROM instance")

    assert ended.exit_code == 4
    assert isinstance(before, int)
    assert isinstance(after, int)
    assert after - before <= 2


def test_a_bug_on_the_way_does_not_deny_the_decision(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_actor: ControlActor) -> None:
        raise ZeroDivisionError("injected")

    monkeypatch.setattr(ControlActor, "work_off", fail)
    ended = run(store, "dlq", "requeue", "in-2")

    assert ended.exit_code == 4
    assert ended.stderr.count("\n") == 1
    assert "ZeroDivisionError" in ended.stderr
    assert waiting(store)[0] in ended.stderr


def test_who_waits_no_longer_does_not_keep_a_stuck_store(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardline.storage.sqlite.database.BUSY_TIMEOUT_MS", 1)
    monkeypatch.setattr("shardline.storage.drive.CLOSE_LIMIT_S", 0.1)
    monkeypatch.setattr("shardline.runtime.control.client._STUCK_S", 0.05)
    other = apsw.Connection(str(store))
    requeue_message = StoreHands.requeue_message

    async def busy(hands: StoreHands, row_id: int, control: ControlDone | None) -> None:
        if not other.in_transaction:
            other.execute("BEGIN IMMEDIATE")
        await requeue_message(hands, row_id, control)

    monkeypatch.setattr(StoreHands, "requeue_message", busy)
    ended = run(store, "dlq", "requeue", "in-2", "--timeout", "0.2")
    other.close(force=True)

    assert ended.exit_code == 4
    assert "STORE_BUSY" in ended.stderr
    assert waiting(store)[0] in ended.stderr
    OwnerLock.take(store).release()
