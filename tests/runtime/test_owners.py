"""One owner of a store; many runtimes in a process."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.testing import FakeChannel


def echo() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


SECOND = """
import sys, trio
from shardline import BusError, Runtime, Topology
async def main():
    try:
        async with Runtime.open(Topology(), store=sys.argv[1]):
            print("open")
    except BusError as error:
        print(error.code)
trio.run(main)
"""


async def test_a_second_owner_is_refused_within_a_second_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field entry 18."""
    path = tmp_path / "bot.db"
    # What the first one notes of itself while the others try would be a change too.
    monkeypatch.setattr("shardline.runtime.control.pulse.PULSE_S", 3_600.0)
    channel = FakeChannel("fake")
    async with Runtime.open(echo(), store=path, adapters=[channel]) as runtime:
        await channel.say("a", "hi")
        await runtime.wait_until(lambda: runtime.is_quiet)
        before = _digest(path)

        took_s: list[float] = []
        for _ in range(3):  # any of them may have waited for the processor
            begun_s = time.monotonic()
            with pytest.raises(BusError) as inside:
                async with Runtime.open(echo(), store=path):
                    pass
            took_s.append(time.monotonic() - begun_s)
            assert inside.value.code is Code.STORE_LOCKED
        assert min(took_s) < 1
        second = await trio.run_process(
            [sys.executable, "-c", SECOND, str(path)], capture_stdout=True, stderr=subprocess.DEVNULL
        )
        assert second.stdout.split() == [b"STORE_LOCKED"]

        assert _digest(path) == before
        await channel.say("a", "still here")
        await runtime.wait_until(lambda: runtime.is_quiet)
        assert [out.text for out in channel.delivered] == ["hi", "still here"]

    async with Runtime.open(echo(), store=path, adapters=[channel]) as runtime:
        assert runtime.info.clean


async def test_two_runtimes_in_one_process_do_not_meet(tmp_path: Path) -> None:
    left, right = FakeChannel("fake"), FakeChannel("fake")
    async with (
        Runtime.open(echo(), store=tmp_path / "left.db", adapters=[left]) as one,
        Runtime.open(echo(), store=tmp_path / "right.db", adapters=[right]) as two,
    ):
        for number in range(20):
            await left.say(str(number % 3), f"left {number}", platform_message_id=str(number))
            await right.say(str(number % 3), f"right {number}", platform_message_id=str(number))
        await one.wait_until(lambda: one.is_quiet)
        await two.wait_until(lambda: two.is_quiet)

        assert sorted(out.text for out in left.delivered) == sorted(f"left {n}" for n in range(20))
        assert sorted(out.text for out in right.delivered) == sorted(f"right {n}" for n in range(20))
        assert one.info.uuid != two.info.uuid


def _digest(path: Path) -> tuple[str, str]:
    files = (path, path.with_name(path.name + "-wal"))
    first, second = (hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    return first, second
