"""Telegram with a web hook is a channel as well: the server calls it, and a message that is not taken comes again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest

from shardline.adapters.telegram import Telegram, Webhook
from shardline.testing import KitCheck, adapter_kit
from tests.adapters.telegram.platform import FREE, TelegramPlatform, open_platform
from tests.adapters.telegram.samples import TOKEN
from tests.kits.ports import kept_port

HOOK = Webhook(secret="s3cret", url="http://127.0.0.1/telegram")
CAPS = Telegram(TOKEN, limits=FREE, webhook=HOOK).caps


@attrs.define
class HookPlatform(TelegramPlatform):
    """As it is, and the bot has told it where to call."""

    def open(self) -> Telegram:
        port = kept_port()
        hook = Webhook(secret="s3cret", url=f"http://127.0.0.1:{port}/telegram", port=port)
        adapter = Telegram(TOKEN, api_base=self.server.base, limits=FREE, start_wait_s=0, webhook=hook)
        self.opened.append(adapter)
        return adapter


@asynccontextmanager
async def hook_platform(folder: Path) -> AsyncGenerator[TelegramPlatform]:
    async with open_platform(kind=HookPlatform) as platform:
        yield platform


@pytest.mark.parametrize("check", adapter_kit(hook_platform, CAPS), ids=str)
async def test_telegram_with_a_web_hook_is_a_channel(check: KitCheck, tmp_path: Path) -> None:
    await check(tmp_path)
