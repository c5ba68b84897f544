"""A SIGKILL at each border of a text in parts: the first start, each result, a cut, a decision of a person.

Whatever was cut off, each part goes out once, in order, and the rest waits for a decision alone.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from subprocess import CompletedProcess

import apsw
import pytest

from tests.kits.forked import run_forked
from tests.kits.operated import operate

CHILD = "tests.crash.parts_bot"
BORDERS = ("before_commit", "after_commit", "before_wake")
PARTS = ["aaaa", "bxby", "cccc", "dddd"]


def run(folder: Path, point: str, mode: str) -> CompletedProcess[str]:
    return run_forked(CHILD, str(folder), point, mode, timeout=40)


def states(store: Path) -> list[str]:
    """Where each part stands, by part."""
    shown = operate("outbox", "list", "--store", store, "--json")
    rows = sorted((json.loads(line) for line in shown.stdout.splitlines()), key=lambda row: row["part"])
    return ["held" if row["held"] else row["state"] for row in rows]


def sink(folder: Path) -> list[str]:
    """What the channel has, in order."""
    return [json.loads(line) for line in (folder / "sink.jsonl").read_text().splitlines()]


@pytest.mark.long
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize(
    ("mode", "point", "wanted"),
    [
        ("plain", "send-start.{}:1", PARTS),
        ("plain", "send-result.{}:2", PARTS),
        ("plain", "send-result.{}:4", PARTS),
        ("split", "send-result.{}:2", ["aaaa", "bx", "by", "cccc", "dddd"]),
        ("split", "send-result.{}:3", ["aaaa", "bx", "by", "cccc", "dddd"]),
        ("ask", "control.{}:1", PARTS),
    ],
)
def test_each_part_goes_out_once_and_in_order(
    tmp_path: Path, mode: str, point: str, wanted: list[str], border: str
) -> None:
    killed = run(tmp_path, point.format(border) + ":kill", mode)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    database = apsw.Connection(str(tmp_path / "bot.db"))
    assert database.pragma("integrity_check") == "ok"
    database.close()

    ended = run(tmp_path, "-", mode)

    assert ended.returncode == 0, ended.stderr
    assert set(states(tmp_path / "bot.db")) == {"sent"}
    assert sink(tmp_path) == wanted
    assert operate("outbox", "verify", "--store", tmp_path / "bot.db").exit_code == 0


def test_a_decision_at_rest_over_one_part_takes_the_others_along(tmp_path: Path) -> None:
    """Killed with the second part under way; nobody runs the store when a person decides: the rest follows later."""
    store = tmp_path / "bot.db"
    assert run(tmp_path, "send-result.before_commit:2:kill", "plain").returncode == -signal.SIGKILL
    assert run(tmp_path, "-", "leave").returncode == 0
    assert states(store) == ["sent", "uncertain", "held", "held"]

    [uncertain] = operate("outbox", "list", "state=uncertain", "--store", store, "--json").stdout.splitlines()
    row = json.loads(uncertain)["id"]
    decided = operate("outbox", "resolve", row, "--sent", "--yes", "--store", store)
    assert decided.exit_code == 0, decided.output
    assert states(store) == ["sent", "sent", "ready", "ready"]

    assert run(tmp_path, "-", "plain").returncode == 0
    assert states(store) == ["sent"] * 4
    assert sink(tmp_path) == PARTS
