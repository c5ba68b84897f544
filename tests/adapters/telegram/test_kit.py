"""Telegram is a channel: proved by the kit that any other is proved with, over real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardline.adapters.telegram import Telegram
from shardline.testing import KitCheck, adapter_kit
from tests.adapters.telegram.platform import FREE, telegram_platform
from tests.adapters.telegram.samples import TOKEN

CAPS = Telegram(TOKEN, limits=FREE).caps


@pytest.mark.parametrize("check", adapter_kit(telegram_platform, CAPS), ids=str)
async def test_telegram_is_a_channel(check: KitCheck, tmp_path: Path) -> None:
    await check(tmp_path)
