"""A SIGKILL at every border while a Telegram group becomes a supergroup: one conversation, in order, at the new id.

The group has moved already when the bot reads of it: m1 and m2 stand before the service messages, m3 behind them.
"""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest
import trio

from shardline.actors.plain import Plain
from shardline.adapters.telegram.sim.bot import SimBot
from shardline.adapters.telegram.sim.script import Fault
from tests.adapters.telegram.platform import open_platform
from tests.kits.controlled import query
from tests.kits.forked import run_forked
from tests.kits.store_checks import check_store

OLD, NEW = -4001, -1001557000001
CHILD = "tests.crash.moved_child"
WORDS = ("1: m1", "2: m2", "3: m3")
BORDERS = ("before_commit", "after_commit", "before_wake")
POINTS = [
    *(f"accept.{border}:{number}:kill" for number in range(1, 6) for border in BORDERS),
    *(
        f"{kind}.{border}:{number}:kill"
        for kind in ("done", "send-result")
        for number in (1, 2, 3)
        for border in BORDERS
    ),
]


def move(bot: SimBot) -> None:
    """What the platform tells of the group: each side has a service message."""
    who: dict[str, Plain] = {"id": 7, "is_bot": False, "first_name": "Ada"}
    left: dict[str, Plain] = {"id": OLD, "type": "group", "title": "Lab"}
    new: dict[str, Plain] = {"id": NEW, "type": "supergroup", "title": "Lab"}
    bot.say(OLD, "m1", sender=7)
    bot.say(OLD, "m2", sender=7)
    said: dict[str, Plain] = {"from": who, "date": 1_760_000_012}
    bot.push({"message": {**said, "message_id": 9, "chat": left, "migrate_to_chat_id": NEW}})
    bot.push({"message": {**said, "message_id": 1, "chat": new, "migrate_from_chat_id": OLD}})
    bot.say(NEW, "m3", sender=7)


async def live(folder: Path, base: str, point: str, wanted: int = 5) -> None:
    """One process of the bot, to its end or until it is killed."""
    run = partial(run_forked, CHILD, str(folder), base, point, str(wanted), timeout=50)
    done = await trio.to_thread.run_sync(run)
    assert done.returncode == (-signal.SIGKILL if ":" in point else 0), (point, done.stderr)


async def check_kill(folder: Path, point: str) -> None:
    """Kill at a point, run to the end, and once more: a person has what is uncertain sent again, and m4 comes."""
    store = folder / "bot.db"
    async with open_platform() as platform:
        bot, base = platform.bot, platform.server.base
        text, there = "Bad Request: group chat was upgraded to a supergroup chat", {"migrate_to_chat_id": NEW}
        bot.add_fault(
            Fault(
                method="sendMessage",
                kind="refuse",
                times=-1,
                chat=OLD,
                code=400,
                description=text,
                parameters=there,
            )
        )
        move(bot)
        await live(folder, base, point)
        await live(folder, base, "-")
        sent = [call.text for call in bot.sent(NEW)]
        rows = query(store, "SELECT status, uncertain_since IS NOT NULL FROM outbox ORDER BY seq, part")
        ends = dict(zip(WORDS, rows, strict=True))
        assert sent == [word for word in WORDS if word in sent], "each at most once, in order"
        assert {*ends.values()} <= {("sent", 0), ("pending", 1)}, ends
        assert sum(bool(is_uncertain) for _, is_uncertain in rows) <= 1, (
            "of one conversation one send is under way"
        )
        assert {word for word, end in ends.items() if end == ("sent", 0)} <= {*sent}
        assert {word for word in WORDS if word not in sent} == {
            word for word, end in ends.items() if end == ("pending", 1) and word not in sent
        }

        calls = len(bot.calls)
        bot.say(NEW, "m4", sender=7)
        await live(folder, base, "resend", 6)
        late = [call for call in bot.calls[calls:] if call.method == "sendMessage"]
        again = [word for word, end in ends.items() if end == ("pending", 1)]
        assert {call.chat for call in late} == {NEW}, "the move is on disk"
        assert sorted(call.text or "" for call in late) == sorted([*again, "4: m4"])
        assert bot.sent(OLD) == []

    assert query(store, "SELECT DISTINCT status, conversation_key FROM inbox") == [("done", f"tg:{OLD}")]
    assert query(store, "SELECT DISTINCT conversation_key FROM outbox") == [(f"tg:{OLD}",)]
    stored = [key for (key,) in query(store, "SELECT dedupe_key FROM inbox ORDER BY seq")]
    assert stored[:5] == [
        f"in:telegram:{name}" for name in (f"{OLD}:1", f"{OLD}:2", f"{OLD}:9", f"{NEW}:1", f"{NEW}:2")
    ]
    assert len(stored) == 6
    check_store(store, shard_count=4)


@pytest.mark.parametrize("point", ["accept.after_commit:3:kill", "send-result.before_commit:1:kill"])
async def test_a_kill_while_a_group_moves_loses_and_repeats_nothing(tmp_path: Path, point: str) -> None:
    await check_kill(tmp_path, point)


@pytest.mark.long
async def test_a_kill_at_any_border_while_a_group_moves_loses_and_repeats_nothing(tmp_path: Path) -> None:
    limit = trio.CapacityLimiter(4)

    async def check(folder: Path, point: str) -> None:
        async with limit:
            await check_kill(folder, point)

    folders = [tmp_path / str(number) for number in range(len(POINTS))]
    for folder in folders:
        await trio.Path(folder).mkdir()

    async with trio.open_nursery() as nursery:
        for folder, point in zip(folders, POINTS, strict=True):
            nursery.start_soon(check, folder, point)
