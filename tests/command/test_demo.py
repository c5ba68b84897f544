import fcntl
import gzip
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import apsw
import attrs
import pytest

from shardline.adapters.transcript import open_sink
from shardline.runtime.command.summary import Summary
from tests.kits.chat_log import write_log
from tests.kits.demo import (
    DEMO,
    Ended,
    answers_in,
    count_of,
    expected_answers,
    integrity,
    run_demo,
    sent_more_than_once,
)
from tests.kits.reaped import reaped

ARGUMENTS = ("--input", "log", "--store", "t.db", "--sink", "s.jsonl")


def is_one_line(ended: Ended, code: int, words: str) -> bool:
    """Ended with this code and one line of these words, without a result or a traceback."""
    return (
        ended.code == code
        and ended.out == ""
        and ended.err.startswith("shardline: ")
        and ended.err.count("\n") == 1
        and words in ended.err
    )


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(("conversations", "messages"), [(24, 1200), (2000, 2400)])
def test_every_message_is_answered_once_and_in_order(
    tmp_path: Path, conversations: int, messages: int
) -> None:
    write_log(tmp_path / "log", conversations=conversations, messages=messages, seed=3)
    ended = run_demo(*ARGUMENTS, "--json", cwd=tmp_path)

    assert ended.code == 0, ended.err
    assert answers_in(tmp_path / "s.jsonl") == expected_answers(tmp_path / "log")
    assert sent_more_than_once(tmp_path / "s.jsonl") == []
    assert integrity(tmp_path / "t.db") == "ok"
    assert count_of(tmp_path / "t.db", "inbox", "done") == messages


def test_the_summary_is_one_object_with_exactly_these_keys(tmp_path: Path) -> None:
    write_log(tmp_path / "log", conversations=5, messages=50)
    summary = run_demo(*ARGUMENTS, "--json", cwd=tmp_path).summary

    assert list(summary) == [field.name for field in attrs.fields(Summary)]
    for name in ("accepted", "handled", "sent"):
        assert summary[name] == summary[f"run_{name}"] == 50
    for name in ("duplicates", "refused", "retried", "uncertain", "dead", "order_violations"):
        assert summary[name] == summary[f"run_{name}"] == 0
    assert summary["run_seconds"] > 0
    assert summary["messages_per_s"] == pytest.approx(50 / summary["run_seconds"], rel=0.05)


@pytest.mark.parametrize("kept", [0, 100])
def test_a_sink_that_lost_answers_is_told(tmp_path: Path, kept: int) -> None:
    """The store is right, and sends nothing twice; whoever looks at the sink must know."""
    write_log(tmp_path / "log", conversations=10, messages=300, seed=3)
    whole = run_demo(*ARGUMENTS, "--json", cwd=tmp_path)
    sink = tmp_path / "s.jsonl"
    lines = sink.read_bytes().splitlines(keepends=True)
    sink.unlink()
    if kept:
        sink.write_bytes(b"".join(lines[:kept]))
    ended = run_demo(*ARGUMENTS, "--json", cwd=tmp_path)

    assert "the sink holds" not in whole.err
    assert f"the sink holds {kept} of the 300 answers" in ended.err
    assert json.loads(ended.out)["run_sent"] == 0


def test_the_same_command_again_adds_nothing_and_a_longer_log_goes_on(tmp_path: Path) -> None:
    write_log(tmp_path / "whole", conversations=12, messages=900)
    lines = (tmp_path / "whole").read_bytes().splitlines(keepends=True)
    (tmp_path / "log").write_bytes(b"".join(lines[:700]))
    run_demo(*ARGUMENTS, "--json", cwd=tmp_path)
    said = (tmp_path / "s.jsonl").read_bytes()
    again = run_demo(*ARGUMENTS, "--json", cwd=tmp_path)

    assert again.code == 0
    assert (tmp_path / "s.jsonl").read_bytes() == said
    assert (again.summary["accepted"], again.summary["run_accepted"], again.summary["run_sent"]) == (
        700,
        0,
        0,
    )
    assert again.summary["run_duplicates"] == 700

    (tmp_path / "log").write_bytes(b"".join(lines))
    longer = run_demo(*ARGUMENTS, "--json", cwd=tmp_path)

    assert (longer.summary["accepted"], longer.summary["run_accepted"]) == (900, 200)
    assert answers_in(tmp_path / "s.jsonl") == expected_answers(tmp_path / "log")


def test_gzip_as_is_and_normal_give_the_same_answers(tmp_path: Path) -> None:
    write_log(tmp_path / "plain", conversations=6, messages=120, seed=4)
    write_log(tmp_path / "log", conversations=6, messages=120, seed=4)
    (tmp_path / "log").write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    ended = run_demo(*ARGUMENTS, "--as-is", "--durability", "normal", "--json", cwd=tmp_path)

    assert ended.code == 0
    assert answers_in(tmp_path / "s.jsonl") == expected_answers(tmp_path / "plain")


def test_bad_lines_are_refused_with_their_number(tmp_path: Path) -> None:
    write_log(tmp_path / "log", conversations=3, messages=40)
    lines = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    lines[6:6] = [b"broken\n"]
    lines[20:20] = [b'{"conversation": 1, "seq": "x", "sender": "u", "at": "09:00", "text": "\\u001b[31m"}\n']
    (tmp_path / "log").write_bytes(b"".join(lines))
    first = run_demo(*ARGUMENTS, "--json", cwd=tmp_path)
    second = run_demo(*ARGUMENTS, "--json", cwd=tmp_path)

    assert first.code == second.code == 0
    assert re.search(r"^line 7 refused: not JSON", first.err, re.MULTILINE)
    assert re.search(r"^line 21 refused: seq must be an integer", first.err, re.MULTILINE)
    assert "\x1b" not in first.err
    assert (first.summary["accepted"], first.summary["refused"], first.summary["run_refused"]) == (40, 2, 2)
    assert (second.summary["accepted"], second.summary["refused"], second.summary["run_accepted"]) == (
        40,
        2,
        0,
    )


def test_without_arguments_it_shows_a_chat_and_a_table(tmp_path: Path) -> None:
    ended = run_demo(cwd=tmp_path)

    assert ended.code == 0, ended.err
    assert "kitchen" in ended.out
    assert re.search(r"Mira +who ate the last plum\?\n +bot +1: who ate the last plum\?", ended.out)
    assert re.search(r"accepted .* 14 .* 14 ", ended.out)
    assert "temporary store and sink" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_as_json_nothing_but_the_object_is_on_standard_output(tmp_path: Path) -> None:
    ended = run_demo("--json", cwd=tmp_path)

    assert json.loads(ended.out)["sent"] == 14


def test_files_that_cannot_be_used_end_with_2_before_anything_is_touched(tmp_path: Path) -> None:
    write_log(tmp_path / "log", conversations=1, messages=3)
    os.link(tmp_path / "log", tmp_path / "hard")
    (tmp_path / "foreign").write_bytes(b"my notes\n")
    (tmp_path / "old").touch()
    before = files(tmp_path)
    for arguments, words in (
        (("--input", "none", "--store", "t.db", "--sink", "s.jsonl"), "does not exist"),
        (("--input", "log", "--store", "t.db", "--sink", "hard"), "is the input itself"),
        (("--input", "log", "--store", "log", "--sink", "s.jsonl"), "would overwrite the input"),
        (("--input", "log", "--store", "none/t.db", "--sink", "s.jsonl"), "there is no folder"),
        (("--input", "log", "--store", "/proc/t.db", "--sink", "s.jsonl"), "--store"),
        (("--input", "log", "--store", "t.db", "--sink", "/proc/s.jsonl"), "sink"),
        (("--input", "log", "--store", "old", "--sink", "foreign"), "line 1 of foreign is no line of a sink"),
    ):
        ended = run_demo(*arguments, cwd=tmp_path)

        assert is_one_line(ended, 2, words), ended
        assert files(tmp_path) == before


def test_an_unknown_option_ends_with_2(tmp_path: Path) -> None:
    assert run_demo("--speed", "9", cwd=tmp_path).code == 2


def test_a_store_or_sink_in_use_ends_with_1_and_its_code(tmp_path: Path) -> None:
    write_log(tmp_path / "log", conversations=1, messages=3)
    with (tmp_path / "t.db.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = run_demo(*ARGUMENTS, cwd=tmp_path, timeout_s=20)

        assert is_one_line(ended, 1, "shardline: STORE_LOCKED: "), ended
        assert sorted(files(tmp_path)) == ["log", "t.db.lock"]
    with open_sink(tmp_path / "s.jsonl"):
        ended = run_demo(*ARGUMENTS, cwd=tmp_path)

        assert is_one_line(ended, 1, "shardline: STORE_LOCKED: "), ended


def test_a_store_that_is_none_ends_with_1_and_is_left_as_it_was(tmp_path: Path) -> None:
    write_log(tmp_path / "log", conversations=1, messages=3)
    (tmp_path / "t.db").write_bytes(b"no database at all" * 1000)
    before = (tmp_path / "t.db").read_bytes()
    ended = run_demo(*ARGUMENTS, cwd=tmp_path)

    assert ended.code == 1
    assert "shardline: STORE_CORRUPT: " in ended.err
    assert "Traceback" not in ended.err
    assert (tmp_path / "t.db").read_bytes() == before
    assert not (tmp_path / "s.jsonl").exists()


def test_a_dead_message_ends_with_1(tmp_path: Path) -> None:
    write_log(tmp_path / "log", conversations=1, messages=3)
    run_demo(*ARGUMENTS, cwd=tmp_path)
    db = apsw.Connection(str(tmp_path / "t.db"))
    db.execute(
        "UPDATE inbox SET status = 'dead', dead_at = done_at, done_at = NULL WHERE id = (SELECT max(id) FROM inbox)"
    )
    db.close()
    ended = run_demo(*ARGUMENTS, "--json", cwd=tmp_path)

    assert ended.code == 1
    assert (ended.summary["dead"], ended.summary["run_dead"]) == (1, 0)


def test_an_answer_below_an_earlier_one_is_counted(tmp_path: Path) -> None:
    write_log(tmp_path / "log", conversations=1, messages=3)
    run_demo(*ARGUMENTS, cwd=tmp_path)
    lines = (tmp_path / "s.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "s.jsonl").write_bytes(b"".join([lines[1], lines[0], lines[2]]))
    ended = run_demo(*ARGUMENTS, "--json", cwd=tmp_path)

    assert (ended.summary["order_violations"], ended.summary["run_order_violations"]) == (1, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_in_good_order_and_the_same_command_goes_on(tmp_path: Path, number: int) -> None:
    write_log(tmp_path / "log", conversations=50, messages=3000)
    with reaped(
        subprocess.Popen(
            [*DEMO, *ARGUMENTS, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
    ) as running:
        assert running.stderr is not None
        first = running.stderr.readline()
        running.send_signal(number)
        out, err = running.communicate(timeout=50)
    stopped = Ended(running.returncode, out, first + err)

    assert stopped.code == 4, stopped.err
    assert "reading 3000 lines" in first
    assert "the same command goes on from here" in stopped.err
    assert 0 < stopped.summary["accepted"] < 3000
    assert stopped.summary["uncertain"] == stopped.summary["dead"] == 0
    rest = run_demo(*ARGUMENTS, "--json", cwd=tmp_path)

    assert rest.code == 0
    assert rest.summary["run_accepted"] == 3000 - stopped.summary["accepted"]
    assert answers_in(tmp_path / "s.jsonl") == expected_answers(tmp_path / "log")
    assert sent_more_than_once(tmp_path / "s.jsonl") == []


def test_start_up_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """A subcommand's modules are loaded when it runs, and what draws when there is something to draw."""
    command = (
        "import atexit, sys, shardline.__main__ as command; atexit.register(lambda: print(*sys.modules));"
        " command.main()"
    )
    done = subprocess.run(
        [DEMO[0], "-c", command, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    loaded = set(done.stdout.split())

    assert "shardline.runtime.command.app" in loaded
    assert loaded.isdisjoint(
        {"shardline.adapters.transcript", "shardline.runtime.command.demo", "rich.progress"}
    )


def test_the_version_is_told(tmp_path: Path) -> None:
    done = subprocess.run([*DEMO[:3], "--version"], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert re.fullmatch(r"shardline, version \d+\.\d+\.\d+\n", done.stdout)
