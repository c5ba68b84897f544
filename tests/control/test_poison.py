"""A decision that ends the actor it is given to must not end the runtime, now or at any later start."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog.testing
import trio

from shardline import Runtime
from shardline.runtime.control.verbs import Purge, Requeue, RowRef
from shardline.runtime.shard_desk import ShardDesk
from shardline.runtime.shard_messages import Requeue as RequeueMessage
from shardline.testing import FakeChannel
from tests.kits.controlled import decide, make_dead, mortal_bot, query

POISON = RowRef("in", 1)


def test_a_record_that_crashes_its_shard_is_refused_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, 3)
    real = ShardDesk.requeue

    def crash(self: ShardDesk, message: RequeueMessage) -> None:
        if message.row_id == POISON.id:
            raise ZeroDivisionError("injected")
        real(self, message)

    monkeypatch.setattr(ShardDesk, "requeue", crash)

    async def main() -> None:
        async with Runtime.open(mortal_bot(), store=path, adapters=[FakeChannel()]) as runtime:
            with trio.fail_after(40):
                poison = await trio.to_thread.run_sync(decide, path, Requeue((POISON,)))
                assert (poison.status, poison.code) == ("refused", "HANDLER_FAILED")
                several = await trio.to_thread.run_sync(decide, path, Requeue((RowRef("in", 2), POISON)))
                assert (several.status, several.code) == ("refused", "HANDLER_FAILED")
                good = await trio.to_thread.run_sync(decide, path, Requeue((RowRef("in", 3),)))
                assert good.status == "done"
                assert (await trio.to_thread.run_sync(decide, path, Purge(0))).status == "done"
                await runtime.wait_until(lambda: runtime.is_quiet)

    with structlog.testing.capture_logs() as logs:
        trio.run(main)

    crashes = [line for line in logs if line["event"] == "actor.crashed"]
    assert len(crashes) == 4
    # A record that waits is told of once, not with every look.
    put_off = [line["control_id"] for line in logs if line["event"] == "control.put_off"]
    assert len(put_off) == len(set(put_off)) == 2
    found = query(path, "SELECT id, status, generation FROM inbox ORDER BY id")
    assert found == [(1, "dead", 0), (2, "done", 1), (3, "done", 1)]
