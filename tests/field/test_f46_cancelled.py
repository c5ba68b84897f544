"""Field entry 46: cancelled at every checkpoint, a thousand times over; each outcome is known."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

import pytest
import trio

from shardline import Runtime
from shardline.storage.records import InboxStatus
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import check_all_done, counting_bot, new_message, until_quiet
from tests.kits.cuts import CancelAt, run_cut
from tests.kits.store_checks import check_store

TIMES = 1_000
CHECKPOINTS = 8
"""More than a publish has, so that some of them are never cut."""


@pytest.mark.parametrize("mode", ["thread", "inline"])
async def test_a_thousand_cancelled_publishes_leave_no_transaction_open(
    tmp_path: Path, mode: Literal["thread", "inline"]
) -> None:
    path = tmp_path / "bot.db"
    cut_off = 0
    with trio.fail_after(60):
        async with Runtime.open(
            counting_bot(), store=open_sqlite(path, mode=mode, durability="normal"), adapters=[FakeChannel()]
        ) as runtime:
            for number in range(TIMES):
                cut = CancelAt(number % CHECKPOINTS)
                message = new_message(str(number), key=f"fake:{number % 50}", idem=f"{number}")
                ended = await run_cut(cut, partial(runtime.publish, message))
                cut_off += cut.scope.cancelled_caught
                repeated = await runtime.publish(message)
                assert repeated.duplicate is ended
            await until_quiet(runtime)
            check_all_done(runtime)
            assert runtime.status().inbox[InboxStatus.DONE] == TIMES
    assert cut_off == TIMES // CHECKPOINTS
    assert len(check_store(path)) == TIMES
