"""Which kinds of updates the platform is asked for: it remembers them, and leaves out what is not named."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from shardline import Runtime
from shardline.adapters.telegram import Telegram, Webhook
from shardline.adapters.telegram.sim.script import Fault
from tests.adapters.telegram.platform import FREE, TelegramPlatform, echo_bot, open_platform
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_bot import LIMIT_S, store

HOOK = Webhook(secret="a-secret_of-tests", url="http://127.0.0.1:9/none", port=0)
DEFAULT = [
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "business_message",
    "edited_business_message",
    "deleted_business_messages",
    "callback_query",
]


async def first_fields(platform: TelegramPlatform, adapter: Telegram, method: str) -> dict[str, object]:
    """What the first call of a method says."""
    platform.opened.append(adapter)
    bot = platform.bot
    # The server of the tests notes a poll only where it goes wrong.
    bot.add_fault(Fault(method="getUpdates", kind="drop"))
    async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]):
        with trio.fail_after(LIMIT_S):
            while method not in [call.method for call in bot.calls]:
                await bot.wait_called()
    return dict(next(call.fields for call in bot.calls if call.method == method))


@pytest.mark.parametrize("hook", [None, HOOK], ids=["poll", "web hook"])
async def test_by_default_all_is_asked_for_that_becomes_a_message(hook: Webhook | None) -> None:
    async with open_platform() as platform:
        adapter = Telegram(TOKEN, api_base=platform.server.base, limits=FREE, webhook=hook)
        fields = await first_fields(platform, adapter, "setWebhook" if hook else "getUpdates")

    assert fields["allowed_updates"] == DEFAULT


@pytest.mark.parametrize("hook", [None, HOOK], ids=["poll", "web hook"])
@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (["message", "chat_member"], {"allowed_updates": ["message", "chat_member"]}),
        (("message_reaction",), {"allowed_updates": ["message_reaction"]}),
        # To the platform an empty list says something else than none.
        ([], {"allowed_updates": []}),
        (None, {}),
    ],
    ids=str,
)
async def test_what_the_settings_say_is_asked_for(
    allowed: Sequence[str] | None, expected: dict[str, object], hook: Webhook | None
) -> None:
    async with open_platform() as platform:
        adapter = Telegram(
            TOKEN, api_base=platform.server.base, limits=FREE, webhook=hook, allowed_updates=allowed
        )
        fields = await first_fields(platform, adapter, "setWebhook" if hook else "getUpdates")

    assert {name: value for name, value in fields.items() if name == "allowed_updates"} == expected
