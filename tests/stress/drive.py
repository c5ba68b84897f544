"""Runs a plan: starts the process, kills it where the plan says, starts it again, and compares what is left."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final, cast

import apsw
import attrs

from tests.kits.forked import Running, start_forked
from tests.stress.child import JOURNAL_FAILED, STORE
from tests.stress.compare import differences
from tests.stress.plan import Ending, EndKind, Plan, Sizes

_END_LIMIT_S: Final = 30.0
"""How long a process may take to go once it has closed its output."""
_MIB: Final = 1 << 20
MEMORY_GROWTH_BYTES: Final = 20 * _MIB
LOG_BYTES: Final = 64 * _MIB
MESSAGE_BYTES: Final = 4_096
"""Of the store's file, for each message with all that comes of it."""

# Between two looks the messages in flight differ, by the size of the windows at most.
OBJECT_GROWTH: Final = 20_000
LANE_OBJECTS: Final = 8
_IDLE_OBJECTS: Final = 10_000

Facts = Mapping[str, object]
NOTHING: Final[Facts] = {}


@attrs.frozen(kw_only=True)
class Report:
    """What a plan came to.

    Attributes:
        differences: What is not as it must be; empty if nothing.
        took_s: All runs together, without the comparison.
        samples: What the last run said of its memory.
        done: What it said at its end.
    """

    plan: Plan
    differences: list[str]
    took_s: float
    endings: list[str]
    samples: list[Facts]
    done: Facts
    file_bytes: int

    @property
    def repeat(self) -> str:
        """The command that does the same again."""
        sizes = self.plan.sizes
        return (
            f"script/soak --stress --minutes 0 --seed {self.plan.seed} --conversations {sizes.conversations}"
            f" --messages {sizes.messages} --kills {sizes.kills}"
        )


def drive(folder: Path, seed: int, sizes: Sizes, *, fault: str = "-") -> Report:
    """Run a plan to its end in an empty folder.

    Args:
        folder: Where everything is kept.
        seed: Of all that is left to chance.
        sizes: How much.
        fault: One of `faults.py` with its call, put into every run.
    """
    plan = Plan(seed, sizes)
    store = folder / STORE
    begun_s = time.monotonic()
    told: list[Facts] = []
    endings: list[str] = []
    wrong: list[str] = []
    stored = 0
    for number, ending in enumerate(plan.endings):
        told, code = _run(folder, plan, number, ending, fault)
        endings.append(f"{ending.kind} {code}")
        wrong += _wrong_end(ending, code, told, folder, number)
        now_stored = _stored(store)
        if now_stored <= stored and ending.kind is not EndKind.KILL_OPENING:
            wrong.append(f"run {number} ({ending.kind}) came no further")
        stored = max(stored, now_stored)
        if wrong:
            break
    took_s = time.monotonic() - begun_s
    samples = [facts for facts in told if facts["event"] == "sample"]
    done: Facts = next((facts for facts in told if facts["event"] == "done"), NOTHING)
    file_bytes = store.stat().st_size if store.exists() else 0
    if not wrong:
        wrong = [*_left_over(done), *_grown(plan, samples, file_bytes), *differences(plan, store)]
    return Report(
        plan=plan,
        differences=wrong,
        took_s=took_s,
        endings=endings,
        samples=samples,
        done=done,
        file_bytes=file_bytes,
    )


def _run(folder: Path, plan: Plan, number: int, ending: Ending, fault: str) -> tuple[list[Facts], int]:
    sizes = plan.sizes
    numbers = [plan.seed, sizes.conversations, sizes.messages, sizes.kills, number]
    told: list[Facts] = []
    with start_forked("tests.stress.child", str(folder), *map(str, numbers), fault) as child:
        for facts in _lines(child.stdout):
            told.append(facts)
            is_near = facts["event"] == ("opening" if ending.kind is EndKind.KILL_OPENING else "mark")
            # Whatever ends early is ended here; it is seen by what it told.
            if is_near or facts["event"] == "drained":
                _end(child, ending)
        child.wait(_END_LIMIT_S)
        (folder / f"run-{number}.log").write_text(child.complaints())
    return told, child.returncode


def _end(child: Running, ending: Ending) -> None:
    try:
        child.wait(ending.after_s)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGTERM if ending.kind is EndKind.STOP else signal.SIGKILL)


def _lines(stream: IO[str]) -> Iterator[Facts]:
    for line in stream:
        # A kill may cut the last one off.
        if line.endswith("\n"):
            yield cast("Facts", json.loads(line))


def _wrong_end(ending: Ending, code: int, told: list[Facts], folder: Path, number: int) -> Iterator[str]:
    wanted = {EndKind.DONE: 0, EndKind.STOP: 0, EndKind.JOURNAL: JOURNAL_FAILED}
    if code != wanted.get(ending.kind, -signal.SIGKILL):
        log = (folder / f"run-{number}.log").read_text()
        yield f"run {number} ({ending}) ended with {code} after {told[-1:]}:\n{log[-4000:]}"
    elif "drained" in {facts["event"] for facts in told}:
        yield f"run {number} ({ending}) came to the end of all work before its own"


def _stored(store: Path) -> int:
    """How far the history has come."""
    if not store.exists():
        return 0
    # It belongs to nobody now; to look is to undo what a kill has left half done, as the next start would.
    database = apsw.Connection(str(store))
    try:
        ((count,),) = cast(
            "list[tuple[int]]", database.execute("SELECT coalesce(max(id), 0) FROM history").fetchall()
        )
        return count
    except apsw.SQLError:
        return 0
    finally:
        database.close()


def _left_over(done: Facts) -> Iterator[str]:
    """What the process still held when it had nothing left to do."""
    if done["tokens_free"] != done["max_inflight"]:
        yield f"{done['tokens_free']} of {done['max_inflight']} tokens are back"
    if not done["is_quiet"] or not done["shards"]:
        yield "it is not quiet"
    for name in (
        "running",
        "pools_with_slots_taken",
        "tokens_held",
        "rows_held",
        "lane_tokens",
        "lanes_at_work",
    ):
        if done[name]:
            yield f"left over at the end: {name} = {done[name]}"


def _grown(plan: Plan, samples: list[Facts], file_bytes: int) -> Iterator[str]:
    """What grew with the number of messages and should not."""
    *steady, idle = samples
    if len(steady) != len(plan.marks):
        yield f"{len(steady)} looks at the memory, wanted {len(plan.marks)}"
        return
    memory = [cast("int", facts["memory_bytes"]) for facts in samples]
    if memory[-1] - memory[0] > MEMORY_GROWTH_BYTES:
        yield f"memory grew: {[size // _MIB for size in memory]} MiB"
    objects = [cast("int", facts["objects"]) for facts in steady]
    if objects[-1] - objects[0] > OBJECT_GROWTH:
        yield f"objects grew: {objects}"
    most = _IDLE_OBJECTS + LANE_OBJECTS * plan.sizes.conversations
    if cast("int", idle["objects"]) > most:
        yield f"{idle['objects']} objects with nothing to do, wanted {most} at most"
    log = max(cast("int", facts["log_bytes"]) for facts in samples)
    if log > LOG_BYTES:
        yield f"the write-ahead log has {log // _MIB} MiB"
    if file_bytes > _MIB + MESSAGE_BYTES * plan.sizes.messages:
        yield f"the store has {file_bytes // plan.sizes.messages} bytes a message"
