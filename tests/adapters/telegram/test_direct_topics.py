"""Direct messages to a channel: one chat, and in it a topic for each person who writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from shardline import Runtime
from shardline.actors.plain import Plain
from shardline.adapters.telegram.address import Lanes
from tests.adapters.telegram.platform import echo_bot, open_platform
from tests.adapters.telegram.test_bot import quiet, store

GOLDEN = Path(__file__).with_name("golden") / "direct_topic.json"
CHAT = -1001557000005


def written(person: int, message: int) -> dict[str, Plain]:
    update = json.loads(GOLDEN.read_text())["update"]
    told = cast("dict[str, Plain]", update["message"])
    told |= {"direct_messages_topic": {"topic_id": person}, "message_id": message, "text": f"of {person}"}
    return {"message": told}


@pytest.mark.parametrize("lanes", ["topic", "chat"])
async def test_each_person_is_a_conversation_and_is_answered_there(lanes: Lanes) -> None:
    async with open_platform() as platform:
        for message, person in enumerate((71, 72, 71), start=60):
            platform.bot.push(written(person, message))
        adapter = platform.adapter(lanes=lanes)
        async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == 3)

        fields = [call.fields for call in platform.bot.sent()]

    assert sorted((one["direct_messages_topic_id"], one["text"], one["chat_id"]) for one in fields) == [
        (71, "of 71", CHAT),
        (71, "of 71", CHAT),
        (72, "of 72", CHAT),
    ]
    assert all("message_thread_id" not in one for one in fields)
    quoted = [cast("dict[str, Plain]", one["reply_parameters"])["message_id"] for one in fields]
    assert sorted(cast("list[int]", quoted)) == [60, 61, 62]
