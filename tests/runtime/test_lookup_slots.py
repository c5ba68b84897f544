"""A shard crashes while it asks whether a send went out: the slot of the question comes back, however it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import structlog
import trio
from trio.testing import MockClock

from shardline import Code, Runtime
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, Sent, Uncertain
from shardline.runtime.shard_inbox import ShardInbox
from shardline.runtime.shard_outbox import ShardOutbox
from shardline.testing import FakeChannel
from tests.kits.bots import check_all_done, counting_bot, until_quiet
from tests.kits.crashes import Place, crash_in


class SlowToTell(FakeChannel):
    """Takes its time to say that a send did not go out."""

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.sleep(1)
        self.lookups.append(out)
        return NotSent(Code.NOT_FOUND, Code.NOT_FOUND.permanence)


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize(
    ("owner", "method", "after"),
    [
        # The word that the question is answered is what the crash takes along.
        (ShardOutbox, "looked_up", False),
        (ShardOutbox, "looked_up", True),
        # The question is on its way.
        (ShardInbox, "turn_ended", False),
    ],
)
async def test_a_crash_beside_a_look_up_costs_no_slot(
    autojump_clock: MockClock,
    tmp_path: Path,
    owner: type,
    method: str,
    after: bool,
    kind: Literal["memory", "file"],
) -> None:
    """With one slot, one that is lost would be the end of all sending."""
    channel = SlowToTell("fake", ChannelCaps(reconciles=True, concurrency=1))
    channel.script(Uncertain("no answer"))
    with structlog.testing.capture_logs():
        async with Runtime.open(
            counting_bot(), store=Place(kind, tmp_path).open(), adapters=[channel]
        ) as runtime:
            await channel.say("a", "one")
            await runtime.wait_until(lambda: len(channel.attempts) == 1)
            # Until the question is asked, and not answered.
            await trio.sleep(0.5)
            with crash_in(owner, method, at=[1], after=after) as failed:
                await channel.say("a", "two")
                await until_quiet(runtime)

            assert failed == [1]
            await channel.say("b", "three")
            await until_quiet(runtime)
            check_all_done(runtime)
    assert [out.text for out in channel.attempts] == ["1: one", "1: one", "2: two", "1: three"]
