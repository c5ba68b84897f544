"""A replay keeps the rules: one winner, and a second send never."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import trio

from shardline import Runtime
from shardline.storage.records import OutboxState
from shardline.testing import FakeChannel
from tests.kits.controlled import make_dead, mortal_bot, query
from tests.kits.reaped import reaped


def test_two_commands_requeue_row_9_at_the_same_time(tmp_path: Path) -> None:
    """One says that it is on its way, the other that it is not dead; one send."""
    path = tmp_path / "bot.db"
    make_dead(path, 10)
    sent: list[str] = []

    async def main() -> None:
        channel = FakeChannel()
        async with Runtime.open(mortal_bot(), store=path, adapters=[channel]) as runtime:
            with trio.fail_after(40):
                await trio.to_thread.run_sync(requeue_twice)
                await runtime.wait_until(
                    lambda: runtime.is_quiet and runtime.status().outbox[OutboxState.SENT] == 1
                )
            sent.extend(out.text for out in channel.delivered)

    def requeue_twice() -> None:
        command = [sys.executable, "-m", "shardline", "dlq", "requeue", "in-9", "--store", str(path)]
        with ExitStack() as stack:
            both = [
                stack.enter_context(
                    reaped(
                        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    )
                )
                for _ in range(2)
            ]
            said = [process.communicate(timeout=30) for process in both]
        assert sorted(process.returncode for process in both) == [0, 1]
        (won,) = [out for out, _ in said if out]
        (lost,) = [error for _, error in said if error]
        assert "in-9 is on its way again" in won
        assert "INVALID_TRANSITION" in lost

    trio.run(main)
    assert sent == ["re text 8"]
    assert query(path, "SELECT status, generation, failures FROM inbox WHERE id = 9") == [("done", 1, 0)]
    assert query(path, "SELECT count(*) FROM outbox") == [(1,)]
    # What happened before stays in the history.
    words = query(path, "SELECT event FROM history WHERE kind = 'in' AND identity = '9' ORDER BY id")
    assert [word for (word,) in words] == ["accept+claim", "dead", "requeue", "claim", "done"]
