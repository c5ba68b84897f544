"""The kit can fail: for each of its checks there are wrong adapters, and it catches every one."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from trio.testing import MockClock

from shardline.actors.errors import BusError
from shardline.adapters.base import ChannelCaps
from shardline.testing import KitCheck, adapter_kit
from tests.kits.ram_channel import CAPS, RamChannel, ram_of
from tests.kits.wrong_readers import READERS
from tests.kits.wrong_senders import SENDERS

WRONG = READERS.found + SENDERS.found


def check_named(name: str, kind: type[RamChannel]) -> KitCheck:
    [found] = [check for check in adapter_kit(ram_of(kind), CAPS) if check.name == name]
    return found


@pytest.mark.parametrize("check", adapter_kit(ram_of(RamChannel), CAPS), ids=str)
async def test_a_right_adapter_passes(check: KitCheck, tmp_path: Path, autojump_clock: MockClock) -> None:
    await check(tmp_path)


@pytest.mark.parametrize(("name", "kind"), WRONG, ids=[f"{kind.__name__}-{name}" for name, kind in WRONG])
async def test_a_wrong_adapter_is_caught(
    name: str, kind: type[RamChannel], tmp_path: Path, autojump_clock: MockClock
) -> None:
    with pytest.raises((AssertionError, BusError)):
        await check_named(name, kind)(tmp_path)


def test_every_check_catches_something() -> None:
    assert {name for name, _ in WRONG} == {check.name for check in adapter_kit(ram_of(RamChannel), CAPS)}


@pytest.mark.parametrize(
    ("caps", "gone"),
    [
        (attrs.evolve(CAPS, reconciles=False), "a_lookup_agrees_with_what_was_sent"),
        (attrs.evolve(CAPS, deduplicates=False), "a_repeat_is_answered_as_deduped"),
        (attrs.evolve(CAPS, topics=()), "a_restart_loses_nothing"),
    ],
)
def test_what_is_not_declared_is_not_asked(caps: ChannelCaps, gone: str) -> None:
    names = [check.name for check in adapter_kit(ram_of(RamChannel), caps)]

    assert gone not in names
    assert "what_is_sent_is_delivered_once" in names
    assert len(names) == len(set(names))
