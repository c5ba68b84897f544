"""Runs a seed: process after process, until the last has worked everything off; then compares what is left."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw
import attrs

from shardline.storage.sqlite.look import Look
from shardline.storage.sqlite.verify import verify
from tests.chaos.bot import POKED, lines
from tests.chaos.child import DISK_DIED, SHARDS, STORE
from tests.chaos.plan import End, RunPlan, plan_run, text_of
from tests.kits.forked import run_forked
from tests.kits.store_checks import check_store

_RUN_LIMIT_S: Final = 300


@attrs.frozen(kw_only=True)
class Report:
    """What a seed came to.

    Attributes:
        differences: What is not as it must be; empty if nothing.
        said: How often the health said what, and for which storm.
    """

    seed: int
    runs: int
    differences: list[str]
    ends: Counter[str]
    said: Counter[str]
    messages: int

    @property
    def repeat(self) -> str:
        """The command that does the same again."""
        return f"script/soak --chaos --minutes 0 --seed {self.seed} --runs {self.runs}"


def drive(
    folder: Path,
    seed: int,
    runs: int,
    *,
    limit_s: float = 3_600,
    least_kills: int = 0,
    least_said: int = 0,
    fault: str = "-",
) -> Report:
    """Go through so many runs in an empty folder, or as many as there is time for, and one more that ends in peace.

    Args:
        folder: Where everything is kept.
        seed: Of all that is left to chance.
        runs: How many.
        limit_s: No run begins later than so many seconds after the first, if there was enough of what follows.
        least_kills: So many runs end with a kill.
        least_said: So often the health says something.
        fault: Of the product, put into every run: one of `tests/stress/faults.py` with its call, or `lie`.
    """
    ends: Counter[str] = Counter()
    said: Counter[str] = Counter()
    wrong: list[str] = []
    begun_s = time.monotonic()
    number = 0
    while not wrong:
        is_late = time.monotonic() - begun_s > limit_s
        is_enough = ends[End.KILL] >= least_kills and said.total() >= least_said
        is_last = number == runs or (is_late and is_enough)
        plan = plan_run(seed, number, is_last=is_last)
        wrong = _run(folder, seed, plan, fault, said)
        ends[plan.end] += 1
        if is_last:
            break
        number += 1
    if not wrong:
        wrong = list(differences(folder, seed))
    return Report(
        seed=seed,
        runs=number,
        differences=wrong,
        ends=ends,
        said=said,
        messages=len(lines(folder / "confirmed.jsonl")),
    )


def _run(folder: Path, seed: int, plan: RunPlan, fault: str, said: Counter[str]) -> list[str]:
    numbers = map(str, (seed, plan.number, int(plan.end is End.DONE)))
    done = run_forked("tests.chaos.child", str(folder), *numbers, fault, timeout=_RUN_LIMIT_S)
    said.update(line for line in done.stdout.splitlines() if line)
    wanted = {End.KILL: -signal.SIGKILL, End.DISK_DIES: DISK_DIED}.get(plan.end, 0)
    if done.returncode == wanted:
        return []
    return [f"{plan} ended with {done.returncode}, wanted {wanted}:\n{done.stderr[-4_000:]}"]


def differences(folder: Path, seed: int) -> Iterator[str]:
    """What was lost, came twice, or came out of order."""
    store = folder / STORE
    stored = check_store(store, shard_count=SHARDS)
    with Look(store) as look:
        yield from (f"history, {found.fault}: {found.text}" for found in verify(look).findings)
    confirmed = Counter(line["address"] for line in lines(folder / "confirmed.jsonl"))
    sink = lines(folder / "sink.jsonl")
    for name, count in Counter(line["id"] for line in sink).items():
        if count > 1:
            yield f"{name} went out {count} times"
    pokes = 0
    for address, count in confirmed.items():
        said = [text_of(seed, address, number) for number in range(count)]
        pokes += sum(text.startswith("poke") for text in said)
        for number in range(count):
            if f"in:line:{address}:{number}" not in stored:
                yield f"{address}:{number}: confirmed and not stored"
        sent = [line["text"] for line in sink if line["key"] == f"line:{address}"]
        yield from _out_of_order(address, sent)
        texts = [text.partition(": ")[2] for text in sent]
        if [text for text in texts if not text.startswith("at last")] != said:
            yield f"{address}: said {said}, answered {texts}"
        later = sorted(text for text in texts if text.startswith("at last"))
        if later != sorted(f"at last {text}" for text in said if text.startswith("later")):
            yield f"{address}: scheduled texts came as {later}"
    poked = [line["text"] for line in sink if line["key"] == POKED]
    yield from _out_of_order("poked", poked)
    if len(poked) != pokes:
        yield f"poked {len(poked)} times, wanted {pokes}"
    yield from _open_rows(store)


def _out_of_order(address: str, sent: list[str]) -> Iterator[str]:
    turns = [int(text.partition(":")[0]) for text in sent]
    if turns != list(range(1, len(turns) + 1)):
        yield f"{address}: answers {turns}"


def _open_rows(store: Path) -> Iterator[str]:
    database = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        for what, query in {
            "messages not done": "SELECT count(*) FROM inbox WHERE status <> 'done'",
            "messages done with crashes": "SELECT count(*) FROM inbox WHERE crashes > 0",
            "sends not sent": "SELECT count(*) FROM outbox WHERE status <> 'sent' AND channel = 'line'",
            "sends without an end": "SELECT count(*) FROM outbox WHERE status <> 'sent' AND dead_at IS NULL",
            "timers": "SELECT count(*) FROM timer",
            "emits": "SELECT count(*) FROM emit",
        }.items():
            ((count,),) = database.execute(query).fetchall()
            if count:
                yield f"{count} {what}"
    finally:
        database.close()
