"""Field entries 8, 12 and 17 with Telegram's edge over a socket: repeats, conflicts, echoes."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from shardline import Runtime
from shardline.adapters.telegram.sim.bot import CONFLICT
from shardline.adapters.telegram.sim.script import Fault, message_update
from shardline.storage.memory import open_memory
from shardline.storage.records import InboxStatus
from tests.adapters.telegram.platform import echo_bot, open_platform
from tests.adapters.telegram.test_bot import quiet
from tests.adapters.telegram.test_command import LIMIT_S, ask, bot, sim, status, wait_settled

UPDATES, LIVES = 20, 10


@pytest.mark.long
def test_f08_the_platform_repeats_all_at_every_start_and_the_bot_is_killed(tmp_path: Path) -> None:
    """Whatever was confirmed comes again; each update is handled once, and answered at most once."""
    script = {
        "keeps": True,
        "messages": [{"chat": chat, "text": "{n}", "times": UPDATES // 4} for chat in (1, 2, 3, 4)],
    }
    with sim(tmp_path, script) as base:
        for _ in range(LIVES):
            with bot(tmp_path, base) as process:
                ask(base, "wait", {"sent": 1})
                ask(base, "wait", {"confirmed": True})
                process.kill()
                assert process.wait(LIMIT_S) == -signal.SIGKILL
        with bot(tmp_path, base) as process:
            wait_settled(tmp_path, UPDATES)
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT_S) == 0
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    sent = Counter((one["fields"]["chat_id"], one["fields"]["text"]) for one in calls if one["message_id"])
    found = status(tmp_path)

    assert found["inbox"] == {**found["inbox"], "done": UPDATES}
    assert set(sent.values()) == {1}
    assert found["outbox"]["sent"] <= len(sent) <= UPDATES


async def test_f12_a_conflict_that_ends_loses_nothing() -> None:
    async with open_platform() as platform:
        platform.bot.add_fault(Fault(method="getUpdates", kind="refuse", code=409, description=CONFLICT))
        for number in (1, 2, 3):
            platform.bot.say(5, f"m{number}")
        async with Runtime.open(echo_bot(), store=open_memory(), adapters=[platform.adapter()]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == 3)

        polls = [call for call in platform.bot.calls if call.method == "getUpdates"]
        assert [call.fault for call in polls] == ["refuse"]
        assert [call.text for call in platform.bot.sent()] == ["m1", "m2", "m3"]


async def test_f17_what_the_bot_wrote_is_dropped_and_another_bot_too() -> None:
    async with open_platform() as platform:
        bot = platform.bot
        for number, author in enumerate((4200, 4300), 1):
            said = message_update(-1001557000001, f"of a bot {number}", number, sender=author)["message"]
            assert isinstance(said, dict)
            said["from"] = {"id": author, "is_bot": True, "first_name": "Bot"}
            bot.push({"message": said})
        bot.say(-1001557000001, "of a person", sender=7)
        adapter = platform.adapter()
        async with Runtime.open(echo_bot(), store=open_memory(), adapters=[adapter]) as runtime:
            await quiet(runtime, lambda: len(bot.sent()) == 1 and bot.waiting == 0)
            inbox = runtime.status().inbox

        assert [call.text for call in bot.sent()] == ["of a person"]
        assert sum(inbox.values()) == inbox[InboxStatus.DONE] == 1
        assert (adapter.tally.own, adapter.tally.bots) == (1, 1)
