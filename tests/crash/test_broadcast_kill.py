"""Broadcasts that timers start, killed anywhere: each recipient has one send of each, and no pause is cut short."""

from __future__ import annotations

import random
import threading
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tests.crash.broadcast_bot import PAUSE_S
from tests.kits.controlled import query
from tests.kits.forked import run_forked, start_forked
from tests.kits.store_checks import check_store

ROUNDS, RECIPIENTS = 3, 120
CHILD = "tests.crash.broadcast_bot"


@pytest.mark.long
def test_each_recipient_has_one_send_of_each_broadcast_however_often_it_is_killed(tmp_path: Path) -> None:
    dice = random.Random(17)
    words = (str(tmp_path), str(ROUNDS), str(RECIPIENTS))
    sent: list[int] = []
    for number in range(8):
        with start_forked(CHILD, *words) as child:
            assert "up\n" in child.stdout
            if number % 2:
                killer = threading.Timer(dice.uniform(0.0, 0.5), child.kill)
                killer.start()
                killer.join()
            else:
                # On whatever machine: in the midst of a broadcast.
                for _ in islice(child.stdout, dice.randint(30, 80)):
                    pass
                child.kill()
            child.wait(60)
        [(count,)] = query(tmp_path / "bot.db", "SELECT count(*) FROM outbox WHERE status = 'sent'")
        assert isinstance(count, int)
        sent.append(count)
    ended = run_forked(CHILD, *words, timeout=100)
    assert ended.returncode == 0, ended.stderr

    store, total = tmp_path / "bot.db", ROUNDS * RECIPIENTS
    assert any(0 < count < total for count in sent), "no kill fell into a broadcast"
    assert query(store, "SELECT status, count(*) FROM inbox GROUP BY 1") == [("done", 2 * ROUNDS)]
    assert query(
        store, "SELECT status, count(*), count(DISTINCT idempotency_key) FROM outbox GROUP BY 1"
    ) == [("sent", total, total)]
    assert query(store, "SELECT count(*) FROM timer") == [(0,)]
    lines = [line.split(" ") for line in (tmp_path / "sink").read_text().splitlines()]
    reached = Counter((address, boss) for _, address, _, boss, _ in lines)
    assert (len(reached), set(reached.values())) == (total, {1})
    asked = dict(line.split() for line in (tmp_path / "asked").read_text().splitlines())
    assert len(asked) == RECIPIENTS // 10
    # Asked for, but killed before that was on disk: nobody knows of the pause.
    told = query(
        store,
        "SELECT DISTINCT conversation_key FROM history JOIN outbox ON outbox.id = identity"
        " WHERE history.kind = 'out' AND event = 'defer'",
    )
    assert told
    for _, address, _, _, at in lines:
        if (f"fake:{address}",) in told:
            assert float(at) >= float(asked[address]) + PAUSE_S - 0.05
    check_store(store)
