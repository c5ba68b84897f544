"""`run` as a program meets it: exit codes, and what is on standard error."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.kits.reaped import reaped

BOT = """
import sys, trio
from shardline import Topology, run
from shardline.adapters.base import ChannelCaps
topology = Topology()
@topology.on("chat.message")
async def answer(ctx, message): ...
class Channel:
    name, prefix, caps = "far", "far", ChannelCaps()
    async def run(self, edge, *, task_status=trio.TASK_STATUS_IGNORED):
        print("begun", flush=True)
        if sys.argv[1] == "hang":
            await trio.sleep_forever()
        if sys.argv[1] == "refuse":
            raise ConnectionRefusedError("nobody there")
        if sys.argv[1] == "mistake":
            self.no_such_name
        task_status.started()
        await trio.sleep_forever()
    async def send(self, out): ...
run(topology, store="bot.db", adapters=[Channel()])
"""


@contextmanager
def bot(folder: Path, how: str) -> Generator[subprocess.Popen[str]]:
    """A bot in a process of its own, whose channel has begun to start."""
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", BOT, how],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with reaped(process):
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process


def events(stderr: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]


def test_an_adapter_that_cannot_start_ends_run_with_its_name_and_shows_a_traceback_only_of_a_mistake(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(bot(tmp_path / how, how)) for how in ("refuse", "mistake")]
        refused, mistaken = (process.communicate(timeout=30)[1] for process in processes)

    assert [process.returncode for process in processes] == [1, 1]
    assert (
        refused.splitlines()[-1]
        == "shardline: ADAPTER_FAILED: adapter far cannot start: ConnectionRefusedError: nobody there"
    )
    assert "Traceback" not in refused
    assert mistaken.splitlines()[-1].startswith(
        "shardline: ADAPTER_FAILED: adapter far cannot start: AttributeError: "
    )
    assert "Traceback" in mistaken
    assert 'File "<string>", line' in mistaken


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("how", ["hang", "well"])
def test_a_signal_at_any_time_is_a_clean_stop(tmp_path: Path, number: signal.Signals, how: str) -> None:
    """Also while the channel has not started, and as soon as it has."""
    with bot(tmp_path, how) as process:
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)

    assert process.returncode == 0
    assert [event["event"] for event in events(stderr)] == ["store.opened"]
    assert "Traceback" not in stderr
    with bot(tmp_path, how) as process:
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert [event["clean"] for event in events(stderr)] == [True]
