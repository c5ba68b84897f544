"""A flood with faults of every kind: `shardline telegram-sim` and `shardline telegram` side by side, then `status`."""

from __future__ import annotations

import json
import signal
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.adapters.telegram.test_command import LIMIT_S, ask, bot, sim, status, wait_settled

CHATS, EACH = 40, 25
UNKNOWN = ("drop_after", "half", "html", "drop")
"""Kinds of faults after which nobody knows; each comes three times."""


def flood() -> dict[str, object]:
    slow_down = {"code": 429, "parameters": {"retry_after": 1}}
    return {
        "messages": [{"chat": chat, "text": "{n}", "times": EACH} for chat in range(1, CHATS + 1)],
        "faults": [
            *[
                {"method": "sendMessage", "kind": kind, "times": 3, "after": 50 + 100 * at}
                for at, kind in enumerate(UNKNOWN)
            ],
            {"method": "sendMessage", "kind": "refuse", "times": 5, "after": 600, **slow_down},
            {"method": "sendMessage", "kind": "refuse", "times": 5, "after": 700, "code": 502},
            {"method": "getUpdates", "kind": "half", "times": 2, "after": 1},
            {"method": "getUpdates", "kind": "drop", "times": 2, "after": 2},
            {"method": "getUpdates", "kind": "html", "times": 1, "after": 3},
            {"method": "getUpdates", "kind": "refuse", "times": 1, "after": 4, **slow_down},
        ],
    }


@pytest.mark.long
def test_after_the_flood_status_shows_no_loss(tmp_path: Path) -> None:
    """Every text is answered once and in its chat's order, but for those that are reported uncertain."""
    total, unknown = CHATS * EACH, 3 * len(UNKNOWN)
    with sim(tmp_path, flood()) as base, bot(tmp_path, base) as process:
        ask(base, "wait", {"confirmed": True})
        # From beside the running bot.
        wait_settled(tmp_path, total)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0, (tmp_path / "log").read_text()
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    sent = [call["fields"] for call in calls if call["message_id"] is not None]
    found = status(tmp_path)

    assert found["inbox"] == {**found["inbox"], "done": total}
    assert (found["outbox"]["sent"], found["outbox"]["uncertain"]) == (total - unknown, unknown)
    assert max(Counter((one["chat_id"], one["text"]) for one in sent).values()) == 1
    # Of the four kinds two have done the call.
    assert len(sent) == total - unknown // 2
    assert {call["fault"] for call in calls} >= {*UNKNOWN, "refuse"}
    for chat in range(1, CHATS + 1):
        numbers = [int(str(one["text"]).partition(":")[0]) for one in sent if one["chat_id"] == chat]
        assert all(sooner < later for sooner, later in pairwise(numbers))
