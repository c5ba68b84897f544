"""`inbox show` tells what steps left: names and sizes, never what they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from shardline import BusMessage, Context, Permanent, Runtime, Topology
from shardline.testing import FakeChannel
from tests.kits.operated import HOSTILE, UNSAFE, operate


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        await ctx.step(f"model {HOSTILE[0]}", lambda: "secret" * 100)
        await ctx.step("other", lambda: None)
        raise Permanent("x.dead")

    async def main() -> None:
        channel = FakeChannel()
        async with Runtime.open(topology, store=path, adapters=[channel]) as runtime:
            with trio.fail_after(30):
                await channel.say("a", "hi")
                await runtime.wait_until(lambda: runtime.is_quiet)

    trio.run(main)
    return path


@pytest.mark.parametrize("listing", ["inbox", "dlq"])
def test_names_and_sizes_are_shown_and_no_results(listing: str, store: Path) -> None:
    ended = operate(listing, "show", "in-1", "--store", store, "--json")
    shown = operate(listing, "show", "in-1", "--store", store)

    assert ended.exit_code == shown.exit_code == 0
    steps = {(step["bytes"], step["claim"]) for step in json.loads(ended.stdout)["steps"]}
    assert steps == {(603, 1), (1, 1)}
    assert "603" in shown.stdout
    assert "other" in shown.stdout
    assert "secret" not in ended.stdout + shown.stdout
    assert not UNSAFE & set(shown.stdout.replace("\n", ""))
