"""`shardline run`, in a process of its own as people do."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tests.adapters.telegram.samples import TOKEN
from tests.kits.forked import run_forked
from tests.kits.operated import operate

BOT = """
from shardline import Topology
from shardline.adapters.base import ChannelCaps, Inbound, Sent
import os, signal, trio
topology, other = Topology(), Topology()
number = 3
@topology.on("chat.message")
async def answer(ctx, message):
    if "bad" in message.payload.text:
        raise ValueError("private")
    ctx.reply("re " + message.payload.text)
class Once:
    caps = ChannelCaps()
    def __init__(self, name, text="hello"):
        self.name = self.prefix = name
        self.text = text
        self.sent = trio.Event()
    async def run(self, edge, *, task_status=trio.TASK_STATUS_IGNORED):
        task_status.started()
        await edge.accept(Inbound(platform_message_id="1", address="ann", text=self.text))
        if self.text == "hello":
            await self.sent.wait()
        else:
            await trio.testing.wait_all_tasks_blocked()
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()
    async def send(self, out):
        self.sent.set()
        return Sent("1")
"""


@attrs.frozen
class Ended:
    code: int
    out: str
    err: str


def run_bot(folder: Path, *arguments: str, source: str = "adapters = [Once('one')]") -> Ended:
    (folder / "bot.py").write_text(f"{BOT}{source}\nimport trio.testing\n")
    done = run_forked("shardline", "run", *arguments, "--store", "bot.db", timeout=50, folder=folder)
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("target", ["bot:topology", "bot", "bot.py:topology", "./bot.py"])
def test_a_bot_runs_until_it_is_told_to_stop(target: str, tmp_path: Path) -> None:
    ended = run_bot(tmp_path, target)

    assert (ended.code, ended.out) == (0, ""), ended.err
    assert 'info    store.opened path="bot.db"' in ended.err
    assert (
        operate("outbox", "list", "state=sent", "--store", tmp_path / "bot.db", "--json").stdout.count("\n")
        == 1
    )


def test_adapters_may_come_from_a_callable_and_be_chosen_by_name(tmp_path: Path) -> None:
    source = "def adapters(): return (Once('one'), Once('two'))"
    ended = run_bot(tmp_path, "bot", "--adapter", "two", source=source)

    assert ended.code == 0, ended.err
    listed = operate("inbox", "list", "--store", tmp_path / "bot.db", "--json").stdout
    assert [json.loads(line)["channel"] for line in listed.splitlines()] == ["two"]


@pytest.mark.parametrize("is_json", [False, True])
def test_logs_are_lines_or_objects_without_private_texts(is_json: bool, tmp_path: Path) -> None:
    ended = run_bot(
        tmp_path, "bot", "--log-level", "warning", *(("--json-logs",) if is_json else ()),
        source="adapters = [Once('one', 'bad \\x1b[2J')]",
    )  # fmt: skip
    lines = ended.err.splitlines()

    assert ended.code == 0
    assert lines
    assert "private" not in ended.err
    assert "\x1b" not in ended.err
    if is_json:
        assert {json.loads(line)["event"] for line in lines} == {"turn.failed"}
    else:
        assert all(" warning turn.failed message_id=" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "source", "code", "words"),
    [
        (("none:topology",), "", 2, "there is no module none"),
        (("bot.none:topology",), "", 2, "there is no module bot.none"),
        (("none.py",), "", 2, "there is no file none.py"),
        (("bot:",), "", 2, "'bot:' names no topology"),
        (("..bot",), "", 2, "..bot is no full name of a module"),
        (("bot:nothing",), "", 2, "bot has no nothing; it has other, topology"),
        (("bot:number",), "", 2, "bot:number is no Topology but int"),
        (("bot:other",), "adapters = [Once('one')]", 2, "bot:other handles nothing"),
        (("bot",), "", 2, "bot has no channel"),
        (("bot", "--adapter", "two"), "adapters = [Once('one')]", 2, "bot has no adapter two: it has one"),
        (("bot",), "adapters = 3", 2, "bot.adapters is no sequence of adapters but int"),
        (("bot",), "adapters = [3]", 2, "bot.adapters holds a int, which is no adapter"),
        (("bot",), "def adapters(): return 1 / 0", 1, "bot.adapters() raised bot.py:30: ZeroDivisionError: "),
        (("bot",), "1 / 0", 1, "bot cannot be imported: bot.py:30: ZeroDivisionError: division by zero"),
        (("bot",), "Topology().on('chat.message')(print)", 1, "bot.py:30: BusError: INVALID_MESSAGE"),
        (("bot",), "import nowhere", 1, "bot.py:30: ModuleNotFoundError: No module named 'nowhere'"),
        (("bot.py",), "def (", 1, "bot.py cannot be imported: bot.py:30: SyntaxError"),
        (("bot",), "raise SystemExit(0)", 1, "bot cannot be imported: bot.py:30: SystemExit: 0"),
        (("bot",), "raise ValueError('\\x1b[2J')", 1, "ValueError: \u241b[2J"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_one_line_with_a_code(
    arguments: tuple[str, ...],
    source: str,
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "bot.py").write_text(f"{BOT}{source}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "bot", raising=False)
    ended = operate("run", *arguments, "--store", "bot.db")

    assert (ended.exit_code, ended.stdout) == (code, ""), ended.stderr
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "bot.db").exists()


@pytest.mark.parametrize("command", [["run", "slow"], ["telegram", "--app", "slow"]])
def test_a_ctrl_c_while_the_bot_is_imported_is_one_line_with_a_code(
    command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(
        "print('importing', flush=True)\nimport threading\nthreading.Event().wait(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "shardline", *command, "--store", "bot.db"],
        cwd=tmp_path,
        env={**os.environ, "SHARDLINE_TELEGRAM_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=50)

    said = "shardline: ended by Ctrl-C while slow was imported: nothing has begun\n"
    assert (process.returncode, out, err) == (1, "", said)
    assert not (tmp_path / "bot.db").exists()


def test_the_traceback_is_shown_on_demand(tmp_path: Path) -> None:
    ended = run_bot(tmp_path, "bot", "--traceback", source="1 / 0")

    assert ended.code == 1
    assert "Traceback (most recent call last)" in ended.err
    assert 'bot.py", line 30' in ended.err


def test_a_store_that_has_an_owner_is_exit_1(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(f"{BOT}adapters = [Once('one')]\n")
    with (tmp_path / "bot.db.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = run_bot(tmp_path, "bot")

    assert ended.code == 1
    assert ended.err.startswith("shardline: STORE_LOCKED: ")


def test_a_store_that_is_a_device_is_exit_2(tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(BOT)

    assert operate("run", str(tmp_path / "bot.py"), "--store", "/dev/null").exit_code == 2
