"""A SIGKILL at every border of every kind of commit: what it leaves on disk, and how the next start ends it.

Each case is one line of the table "A message's life, and what a crash leaves".
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import apsw
import attrs
import pytest

from tests.kits.forked import run_forked

CHILD = "tests.crash.echo_bot"
BORDERS = ("before_commit", "after_commit", "before_wake")


@attrs.frozen
class Case:
    """One kind of commit: the text that leads to it, and what is on disk before and after that commit.

    A row is shown as `status claim failures generation`; a send as its state; `emits` counts stored emits, `calls` what
    the step did, `steps` what is kept of it.
    """

    text: str
    before: Sequence[str]
    after: Sequence[str]
    emits: str = "atomic"
    point: str | None = None
    """Of the fail point, where it is not the case's name; `hit` is how often it is come to."""
    hit: int = 1


CASES = {
    "accept": Case("hello", before=[], after=["in running 1 0 0"]),
    "step": Case(
        "step", before=["in running 1 0 0", "calls 1"], after=["in running 1 0 0", "calls 1", "steps 1"]
    ),
    "send-now": Case("note", before=["in running 1 0 0"], after=["in running 1 0 0", "out flying 1 1"]),
    "done": Case("hello", before=["in running 1 0 0"], after=["in done 1 0 0", "out flying 1 1", "state"]),
    "send-start": Case(
        "hello", before=["in running 1 0 0"], after=["in done 1 0 0", "out flying 1 1", "state"]
    ),
    "send-result": Case(
        "hello",
        before=["in done 1 0 0", "out flying 1 1", "sink 1", "state"],
        after=["in done 1 0 0", "out sent 1 1", "sink 1", "state"],
    ),
    "send-refused": Case(
        "refuse",
        before=["in done 1 0 0", "out flying 1 1", "state"],
        after=["in done 1 0 0", "out failed 1 1", "state"],
        point="send-result",
    ),
    "send-again": Case(
        "refuse",
        before=["in done 1 0 0", "out failed 1 1", "state"],
        after=["in done 1 0 0", "out flying 2 2", "state"],
        point="send-start",
        hit=2,
    ),
    "retry": Case("retry", before=["in running 1 0 0"], after=["in failed 1 1 0"]),
    "dead": Case("dead", before=["in running 1 0 0"], after=["in dead 1 1 0"]),
    "requeue": Case("dead", before=["in dead 1 1 0"], after=["in queued 1 0 1"]),
    "control": Case("dead", before=["in dead 1 1 0"], after=["in queued 1 0 1"]),
    "emit": Case(
        "emit", before=["in running 1 0 0"], after=["in done 1 0 0", "out flying 1 1", "pokes 4", "state"]
    ),
    "relay": Case(
        "emit",
        before=["in done 1 0 0", "out", "emits 4", "state"],
        after=["in done 1 0 0", "out", "emits 4", "pokes 1", "state"],
        emits="relayed",
    ),
    "timer": Case(
        "timer",
        before=["in done 1 0 0", "out", "state", "timers 1"],
        after=["in done 1 0 0", "out", "pokes 1", "state"],
    ),
}
EXPECTED = {
    "hello": ["1: hello", "2: after"],
    "step": ["1: step 1", "2: after"],
    "note": ["note first", "1: note", "2: after"],
    "refuse": ["1: refuse", "2: after"],
    "retry": ["1: retry", "2: after"],
    "dead": ["1: after", "2: dead"],
    "emit": ["1: emit", "2: after"],
    "timer": ["1: timer", "2: after"],
}


def write_inbox(folder: Path, texts: Sequence[str]) -> None:
    lines = [json.dumps({"key": "c", "id": f"m{n}", "text": text}) for n, text in enumerate(texts)]
    (folder / "inbox.jsonl").write_text("\n".join(lines) + "\n")


def run(folder: Path, point: str, *more: str) -> CompletedProcess[str]:
    return run_forked(CHILD, str(folder), point, *more, timeout=40)


def sink(folder: Path) -> list[dict[str, str]]:
    path = folder / "sink.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def on_disk(folder: Path) -> set[str]:
    """The first message of conversation c and all that came of it, in the words of `Case`."""
    database = apsw.Connection(str(folder / "bot.db"))
    try:
        assert database.pragma("integrity_check") == "ok"
        shown: set[str] = set()
        for status, claim, failures, generation in database.execute(
            "SELECT status, claim, failures, generation FROM inbox WHERE dedupe_key = 'in:line:m0'"
        ):
            shown.add(f"in {status} {claim} {failures} {generation}")
        for status, in_flight, uncertain, claim, attempts in database.execute(
            "SELECT status, in_flight, uncertain_since, claim, attempts FROM outbox WHERE conversation_key = 'line:c'"
        ):
            state = "flying" if in_flight else "uncertain" if uncertain else status
            shown.add(f"out {state} {claim} {attempts}")
        counts = {
            "pokes": "SELECT count(*) FROM inbox WHERE conversation_key LIKE 'line:other-%'",
            "emits": "SELECT count(*) FROM emit",
            "steps": "SELECT count(*) FROM step",
            "timers": "SELECT count(*) FROM timer",
        }
        for name, query in counts.items():
            ((count,),) = database.execute(query).fetchall()
            if count:
                shown.add(f"{name} {count}")
        if database.execute("SELECT 1 FROM conversation WHERE key = 'line:c'").fetchall():
            shown.add("state")
    finally:
        database.close()
    calls = folder / "calls"
    if calls.exists():
        shown.add(f"calls {calls.stat().st_size}")
    if sink(folder):
        shown.add(f"sink {len(sink(folder))}")
    return shown


def check_end(folder: Path, text: str, wanted: Sequence[str]) -> None:
    """Every message answered exactly once, each conversation in order, and the history whole."""
    lines = sink(folder)
    assert set(Counter(line["id"] for line in lines).values()) == {1}
    assert [line["text"] for line in lines if line["key"] == "line:c"] == wanted
    others = sorted(line["text"] for line in lines if line["key"] != "line:c")
    if text == "emit":
        assert others == [f"1: poke {n}" for n in range(4)]
    if text == "timer":
        assert others == ["1: fired"]
    database = apsw.Connection(str(folder / "bot.db"))
    try:
        assert database.pragma("integrity_check") == "ok"
        assert {status for (status,) in database.execute("SELECT status FROM inbox")} == {"done"}
        assert {status for (status,) in database.execute("SELECT status FROM outbox")} == {"sent"}
        assert database.execute("SELECT count(*) FROM emit").fetchall() == [(0,)]
        assert database.execute("SELECT count(*) FROM timer").fetchall() == [(0,)]
    finally:
        database.close()


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("kind", CASES)
def test_a_kill_leaves_what_the_table_says_and_the_next_start_ends_it(
    tmp_path: Path, kind: str, border: str
) -> None:
    case = CASES[kind]
    write_inbox(tmp_path, [case.text])
    killed = run(tmp_path, f"{case.point or kind}.{border}:{case.hit}:kill", case.emits)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    wanted = case.before if border == "before_commit" else case.after
    found = on_disk(tmp_path)
    if "out" in wanted:
        # The relay and the timers race the first send: its state is not the point of these cases.
        found = {"out" if line.startswith("out ") else line for line in found if not line.startswith("sink ")}
    assert found == set(wanted)

    write_inbox(tmp_path, [case.text, "after"])
    ended = run(tmp_path, "-", case.emits)

    assert ended.returncode == 0, ended.stderr
    # Once the requeue is on disk, the message is in line before the one that comes after the restart.
    # A control record is on disk before it is carried out.
    is_requeued = kind == "requeue" and border != "before_commit"
    is_requeued = is_requeued or kind == "control"
    wanted = ["1: dead", "2: after"] if is_requeued else EXPECTED[case.text]
    if kind == "step" and border == "before_commit":
        # The call was made, and nothing is kept of it: the next run makes it again. Later it never does.
        wanted = ["1: step 2", "2: after"]
    if kind == "control" and border == "before_commit" and sink(tmp_path)[0]["text"] == "1: after":
        # The record is carried out beside the channel's first reading: either may come first.
        wanted = EXPECTED[case.text]
    check_end(tmp_path, case.text, wanted)


def test_a_send_that_was_under_way_at_a_kill_is_left_to_a_person_where_nobody_can_ask(tmp_path: Path) -> None:
    write_inbox(tmp_path, ["hello"])
    killed = run(tmp_path, "send-result.before_commit:1:kill", "atomic", "blind")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert on_disk(tmp_path) == {"in done 1 0 0", "out flying 1 1", "sink 1", "state"}

    write_inbox(tmp_path, ["hello", "after"])
    ended = run(tmp_path, "-", "atomic", "blind")

    assert ended.returncode == 0, ended.stderr
    outbox = json.loads(ended.stdout.splitlines()[-1])["outbox"]
    assert {state: count for state, count in outbox.items() if count} == {"uncertain": 1, "sent": 1}
    assert [line["text"] for line in sink(tmp_path)] == ["1: hello", "2: after"]
