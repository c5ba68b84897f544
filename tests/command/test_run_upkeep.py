"""The options of `shardline run` for retention and metrics."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from shardline.runtime.command import runner
from shardline.runtime.command.app import shardline
from tests.kits.forked import run_forked
from tests.kits.ports import kept_port

BOT = """
import os, signal, sys
import trio
from shardline import Topology
from shardline.adapters.base import ChannelCaps, Sent
topology = Topology()
@topology.on("chat.message")
async def answer(ctx, message): ...
class Reader:
    name = prefix = "reader"
    caps = ChannelCaps()
    async def run(self, edge, *, task_status=trio.TASK_STATUS_IGNORED):
        task_status.started()
        await trio.testing.wait_all_tasks_blocked(0.05)
        async with await trio.open_tcp_stream("127.0.0.1", int(sys.argv[-1])) as stream:
            await stream.send_all(
                b"GET /health HTTP/1.1\\r\\nHost: a\\r\\nAuthorization: Bearer a-long-secret\\r\\n\\r\\n"
            )
            print((await stream.receive_some(4096)).split(b"\\r\\n")[0].decode(), flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()
    async def send(self, out):
        return Sent("1")
import trio.testing
adapters = [Reader()]
"""
SECRET = "a-long-secret"


def run_bot(folder: Path, port: int, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    (folder / "bot.py").write_text(BOT)
    command = ["run", "bot.py", "--store", "bot.db", *arguments, "--metrics-port", str(port)]
    return run_forked("shardline", *command, timeout=50, folder=folder, environment=environ)


def test_metrics_are_served_under_the_token_of_the_named_variable(tmp_path: Path) -> None:
    done = run_bot(tmp_path, kept_port(), "--metrics-token-env", "BOT_TOKEN", BOT_TOKEN=SECRET)

    assert (done.returncode, done.stdout) == (0, "HTTP/1.1 200 \n"), done.stderr
    assert SECRET not in done.stderr


def test_a_missing_token_names_its_variable(tmp_path: Path) -> None:
    done = run_bot(
        tmp_path, kept_port(), "--metrics-token-env", "BOT_TOKEN", SHARDLINE_METRICS_TOKEN="another-one"
    )

    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("shardline: NOT_AUTHORIZED")
    assert "BOT_TOKEN" in last
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_one_line_and_the_store_is_left_clean(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
        done = run_bot(tmp_path, port, "--metrics-access", "open")
    again = run_bot(tmp_path, kept_port(), SHARDLINE_METRICS_TOKEN=SECRET)

    assert done.returncode == 1
    assert f"port {port}" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert again.returncode == 0, again.stderr
    assert "recovered" not in again.stderr


def no_logs(**_: object) -> None:
    """The runner's own output is not this test's."""


def test_times_are_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    def note(topology: object, **arguments: object) -> None:
        given.update(arguments)

    monkeypatch.setattr(runner, "run", note)
    monkeypatch.setattr(runner, "set_up_logs", no_logs)
    (tmp_path / "upkeep_bot.py").write_text(BOT)
    times = ["--retention-s", "60", "--dedupe-horizon-s", "70", "--history-s", "80"]
    target = [str(tmp_path / "upkeep_bot.py"), "--store", str(tmp_path / "bot.db")]
    ended = CliRunner().invoke(shardline, ["run", *target, *times])

    assert ended.exit_code == 0, ended.output
    assert [given[name] for name in ("retention_s", "dedupe_horizon_s", "history_s")] == [60, 70, 80]
    assert given["metrics_port"] is None
    assert given["metrics_token_env"] == "SHARDLINE_METRICS_TOKEN"


@pytest.mark.parametrize(
    "wrong",
    [
        ("--retention-s", "0"),
        ("--history-s", "nan"),
        ("--metrics-port", "65536"),
        ("--metrics-access", "all"),
    ],
)
def test_what_is_not_allowed_is_exit_code_2(wrong: tuple[str, str], tmp_path: Path) -> None:
    ended = CliRunner().invoke(shardline, ["run", "bot.py", "--store", str(tmp_path / "bot.db"), *wrong])

    assert ended.exit_code == 2
    assert not (tmp_path / "bot.db").exists()
