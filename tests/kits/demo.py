"""Runs `shardline demo` as people do, in a process of its own, and checks what it left."""

import json
import sys
from collections import Counter
from pathlib import Path

import apsw
import attrs

from tests.kits.forked import run_forked

DEMO = (sys.executable, "-m", "shardline", "demo")


@attrs.frozen
class Ended:
    """A run that is over."""

    code: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, float]:
        """The one JSON object on standard output."""
        value: dict[str, float] = json.loads(self.out)
        return value


def run_demo(*arguments: str | Path, cwd: Path, timeout_s: float = 50) -> Ended:
    """Run the demo to its end."""
    done = run_forked("shardline", "demo", *map(str, arguments), folder=cwd, timeout=timeout_s)
    return Ended(done.returncode, done.stdout, done.stderr)


def expected_answers(log: Path) -> dict[str, list[str]]:
    """What the counting bot says to a plain log without bad lines, by conversation."""
    answers: dict[str, list[str]] = {}
    for line in log.read_bytes().splitlines():
        record = json.loads(line)
        said = answers.setdefault(str(record["conversation"]), [])
        said.append(f"{len(said) + 1}: {record['text']}")
    return answers


def answers_in(sink: Path) -> dict[str, list[str]]:
    """What a sink holds, by conversation; every line must be whole."""
    answers: dict[str, list[str]] = {}
    for line in sink.read_bytes().splitlines():
        record = json.loads(line)
        assert sorted(record) == ["claim", "conversation", "idempotency_key", "text"]
        answers.setdefault(record["conversation"], []).append(record["text"])
    return answers


def sent_more_than_once(sink: Path) -> list[str]:
    """Idempotency keys that stand in more than one whole line; a torn last line is passed over."""
    whole = sink.read_bytes().rpartition(b"\n")[0]
    keys = Counter(json.loads(line)["idempotency_key"] for line in whole.splitlines())
    return [key for key, count in keys.items() if count > 1]


def integrity(store: Path) -> str:
    """What SQLite itself says of the file, with what stands in its log."""
    connection = apsw.Connection(str(store))
    try:
        found: str = connection.execute("PRAGMA integrity_check").get
        return found
    finally:
        connection.close()


def count_of(store: Path, table: str, status: str | None = None) -> int:
    """Rows of a table, all or in one status; 0 before the table is made."""
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        where = "" if status is None else " WHERE status = ?1"
        found: int = connection.execute(
            f"SELECT count(*) FROM {table}{where}", () if status is None else (status,)
        ).get
        return found
    except apsw.SQLError:
        return 0
    finally:
        connection.close()
