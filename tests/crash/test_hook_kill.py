"""A web hook killed in the midst of posts: what was answered 200 is on disk, and each message is answered once.

Every kill is at a border of a commit, so that it falls where it hurts whatever the machine's pace: before and behind
the commit that a post waits for, behind a turn, between the start of a send and its call, and behind a call whose
result is not on disk yet. What was not answered is posted again, as the platform does.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Final

import pytest
import trio

from shardline.adapters.telegram.sim.script import message_update
from tests.adapters.telegram.test_command import sim
from tests.crash.hook_bot import SECRET
from tests.kits.controlled import query
from tests.kits.forked import start_forked
from tests.kits.ports import kept_port
from tests.kits.store_checks import check_store
from tests.runtime.test_watch_server import talk

UPDATES, AT_ONCE, CHATS = 300, 8, 6
LIMIT_S = 60
HEAD: Final = (
    "POST /telegram HTTP/1.1\r\nhost: here\r\nconnection: close\r\n"
    f"x-telegram-bot-api-secret-token: {SECRET}\r\n"
)
BEHIND_COMMIT: Final = "accept.after_commit:4:kill"
POINTS: Final = (
    "accept.before_commit:3:kill",
    BEHIND_COMMIT,
    "accept.before_wake:2:kill",
    "done.after_commit:3:kill",
    "send-start.after_commit:3:kill",
    "send-result.before_commit:2:kill",
    "send-result.after_commit:3:kill",
)


async def post(port: int, numbers: Collection[int]) -> set[int]:
    """Post these updates, several at once, until all are answered or nobody is there; those answered 200."""
    waiting, taken = iter(numbers), set[int]()

    async def work() -> None:
        for number in waiting:
            update = {"update_id": number, **message_update(1 + number % CHATS, f"m{number}", number)}
            body = json.dumps(update)
            try:
                status, _ = await talk(port, f"{HEAD}content-length: {len(body)}\r\n\r\n{body}".encode())
            except (OSError, trio.BrokenResourceError):
                return
            if not status:
                return
            assert status == 200
            taken.add(number)

    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(work)
    return taken


def stored(store: Path) -> set[int]:
    """The numbers of the messages on disk."""
    return {
        int(str(name).rpartition(":")[2]) for (name,) in query(store, "SELECT platform_message_id FROM inbox")
    }


@pytest.mark.long
def test_what_a_killed_web_hook_has_answered_is_never_lost_and_is_answered_once(tmp_path: Path) -> None:
    store, port = tmp_path / "bot.db", kept_port()
    taken, unanswered_yet_stored = set[int](), set[int]()
    with sim(tmp_path, {}) as base:
        for point in POINTS:
            with start_forked("tests.crash.hook_bot", str(tmp_path), base, str(port), point) as bot:
                # One that dies in its recovery never says so.
                if "ready\n" in bot.stdout:
                    taken |= trio.run(post, port, [n for n in range(1, UPDATES + 1) if n not in taken])
                assert bot.wait(LIMIT_S) == -signal.SIGKILL, point
            found = stored(store)
            assert taken <= found, point
            if point == BEHIND_COMMIT:
                unanswered_yet_stored = found - taken
        assert len(taken) < UPDATES, "no kill fell into the posts"
        assert unanswered_yet_stored
        with start_forked("tests.crash.hook_bot", str(tmp_path), base, str(port), "-") as bot:
            assert "ready\n" in bot.stdout
            rest = {n for n in range(1, UPDATES + 1) if n not in taken}
            assert trio.run(post, port, rest) == rest
            bot.communicate(LIMIT_S)
            assert bot.returncode == 0

    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    answered = Counter(call["fields"]["text"] for call in calls if call["message_id"] is not None)
    uncertain = {
        f"m{str(name).rpartition(':')[2]}"
        for (name,) in query(
            store,
            "SELECT inbox.platform_message_id FROM outbox JOIN inbox ON inbox.id = outbox.inbox_id"
            " WHERE uncertain_since IS NOT NULL",
        )
    }

    assert stored(store) == set(range(1, UPDATES + 1))
    assert query(store, "SELECT status, count(*) FROM inbox GROUP BY 1") == [("done", UPDATES)]
    assert set(answered.values()) == {1}
    # Killed behind the call, before its result was on disk: sent, and reported uncertain.
    assert uncertain
    assert {f"m{n}" for n in range(1, UPDATES + 1)} - answered.keys() <= uncertain
    assert query(store, "SELECT count(*), count(DISTINCT inbox_id) FROM outbox") == [(UPDATES, UPDATES)]
    check_store(store)
