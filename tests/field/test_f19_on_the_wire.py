"""Field entry 19 with Telegram's edge, in processes of their own: no answer, in three ways, as an operator sees it.

The fourth way, nobody listens, is `tests/adapters/telegram/test_lost_words.py`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.telegram.test_command import LIMIT_S, ask, bot, sim, wait_settled

FAULTS = {2: "drop_after", 3: "hang", 4: "html"}
REASONS = {
    "tg:2": "no complete answer: the connection was closed",
    "tg:3": "no complete answer: TooSlowError",
    "tg:4": "HTTP 502 and no answer of the API",
}


@pytest.mark.long
def test_each_is_uncertain_with_its_reason_and_sent_no_second_time(tmp_path: Path) -> None:
    """A silent server is given up after 25 s; the chat without a fault is answered at once."""
    script = {
        "messages": [{"chat": chat, "text": "hi"} for chat in (1, *FAULTS)],
        "faults": [
            {"method": "sendMessage", "kind": kind, "chat": chat, "times": -1}
            for chat, kind in FAULTS.items()
        ],
    }
    with sim(tmp_path, script) as base, bot(tmp_path, base) as process:
        ask(base, "wait", {"sent": 3})
        wait_settled(tmp_path, 4)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0, (tmp_path / "log").read_text()
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    store = str(tmp_path / "bot.db")
    shown = subprocess.run(
        [sys.executable, "-m", "shardline", "outbox", "list", "--store", store, "state=uncertain"],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
        env={"COLUMNS": "200", "PATH": ""},
    ).stdout

    lines = [line for line in shown.splitlines() if "tg:" in line]
    assert {key for key in REASONS for line in lines if key in line and REASONS[key] in line} == set(REASONS)
    assert len(lines) == len(REASONS)
    sends = [call["fields"]["chat_id"] for call in calls if call["method"] == "sendMessage"]
    assert sorted(sends) == [1, 2, 3, 4]
