"""Field entry 42: somebody else holds the store's lock while updates arrive. None is lost, none confirmed early."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from shardline import Runtime
from shardline.adapters.base import ChannelCaps, Edge, Inbound, Outbound, SendOutcome, Sent
from shardline.storage.sqlite import database
from tests.kits.bots import counting_bot, until_quiet
from tests.kits.disks import beside
from tests.kits.store_checks import check_store

COUNT = 50
HOLDER = """
import sys
import apsw
held = apsw.Connection(sys.argv[1])
held.set_busy_timeout(5000)
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
held.execute("ROLLBACK")
"""


class Updates:
    """Fifty chats of which each says one thing when the lock is held; `confirmed` has the times."""

    name = prefix = "upd"
    caps = ChannelCaps()

    def __init__(self) -> None:
        self.may_begin = trio.Event()
        self.confirmed_s: list[float] = []
        self.sent: list[str] = []
        self.runs = 0

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.runs += 1
        task_status.started()
        await self.may_begin.wait()
        async with trio.open_nursery() as nursery:
            for number in range(COUNT):
                nursery.start_soon(self._say, edge, str(number))

    async def _say(self, edge: Edge, name: str) -> None:
        await edge.accept(Inbound(platform_message_id=name, address=name, text=name))
        self.confirmed_s.append(time.monotonic())

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        self.sent.append(out.address)
        return Sent(None)


@pytest.mark.parametrize(
    ("held_s", "busy_timeout_ms"),
    [(0.8, 50), pytest.param(8.0, 5_000, marks=pytest.mark.long)],
)
async def test_fifty_updates_under_a_foreign_lock_are_all_stored_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_s: float, busy_timeout_ms: int
) -> None:
    """In the short one the time-out passes several times, so that the channel's messages are refused and wait."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", busy_timeout_ms)
    path, updates = tmp_path / "bot.db", Updates()
    with trio.fail_after(50):
        async with Runtime.open(counting_bot(), store=path, adapters=[updates]) as runtime:
            with beside(HOLDER, path):
                updates.may_begin.set()
                await trio.sleep(held_s)
                assert updates.confirmed_s == []
                assert runtime.status().inbox == dict.fromkeys(runtime.status().inbox, 0)
                freed_s = time.monotonic()
            await runtime.wait_until(lambda: len(updates.confirmed_s) == COUNT)
            await until_quiet(runtime)

            assert min(updates.confirmed_s) >= freed_s
            assert sorted(updates.sent, key=int) == [str(number) for number in range(COUNT)]
            assert updates.runs == 1
    assert len(check_store(path)) == COUNT
