"""The channels that come along, proved by the kit that any other is proved with."""

from pathlib import Path

import pytest

from shardline.adapters.base import ChannelCaps
from shardline.adapters.transcript import Transcript
from shardline.testing import KitCheck, adapter_kit
from tests.kits.platforms import LINE_CHANNEL, fake_platform, lines_platform, transcript_platform


@pytest.mark.parametrize("check", adapter_kit(fake_platform, ChannelCaps()), ids=str)
async def test_the_fake_is_a_channel(check: KitCheck, tmp_path: Path) -> None:
    await check(tmp_path)


@pytest.mark.parametrize("check", adapter_kit(transcript_platform, Transcript.caps), ids=str)
async def test_the_transcript_is_a_channel(check: KitCheck, tmp_path: Path) -> None:
    await check(tmp_path)


@pytest.mark.skipif(not LINE_CHANNEL.is_file(), reason="the examples are not here")
@pytest.mark.parametrize("check", adapter_kit(lines_platform, ChannelCaps(reconciles=True)), ids=str)
async def test_the_example_is_a_channel(check: KitCheck, tmp_path: Path) -> None:
    await check(tmp_path)
