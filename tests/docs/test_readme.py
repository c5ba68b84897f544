"""Who reads only the README can write, run, test and kill a bot."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.kits.pages import ROOT, code_blocks, with_pages

pytestmark = with_pages

README = ROOT / "README.md"
SAID = ["ann: hello", "bob: hi", "ann: are you there?", "ann: well?"]
LATER = "bob: back again?"

# Opens the bot of a file as `run` would, and ends when nothing is left to do.
UNTIL_ANSWERED = """
import runpy, sys, trio
from shardline import Runtime
from shardline.storage.records import OutboxState
bot = runpy.run_path("bot.py")
async def main():
    async with Runtime.open(bot["topology"], store="bot.db", adapters=[bot["Lines"]()]) as runtime:
        with trio.fail_after(30):
            await runtime.wait_until(lambda: runtime.status().outbox[OutboxState.SENT] == int(sys.argv[1]))
trio.run(main)
"""
UNTIL_READ = """
import runpy, trio
from pathlib import Path
from shardline import Runtime
from shardline.adapters.transcript import Transcript, open_sink
bot = runpy.run_path("bot.py")
async def main():
    with open_sink(Path("answers.jsonl")) as sink:
        adapter = Transcript(Path("chat.jsonl"), sink)
        async with Runtime.open(bot["topology"], store="log.db", adapters=[adapter]) as runtime:
            with trio.fail_after(30):
                await runtime.wait_drained()
            print([row.message.payload.text for row in runtime.dead_letters.list()])
trio.run(main)
"""


def python(*arguments: str, cwd: Path) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_bot(folder: Path) -> None:
    """Write the second program of the README, which has its own channel, and its test."""
    bot, test = code_blocks(README, "python")[1:3]
    (folder / "bot.py").write_text(bot)
    (folder / "test_bot.py").write_text(test)


def test_two_commands_come_first() -> None:
    first = re.findall(r"^```\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)[0]
    commands = [line.split()[0] for line in first.splitlines()]

    assert commands == ["script/demo", "script/test"]
    assert all((ROOT / command).stat().st_mode & 0o100 for command in commands)


def test_the_first_bot_has_20_lines_and_answers(tmp_path: Path) -> None:
    bot = code_blocks(README, "python")[0]
    (tmp_path / "bot.py").write_text(bot)
    [line] = [line for line in re.findall(r"`(\{.+?\})`", README.read_text()) if "conversation" in line]
    later = line.replace('"seq": 0', '"seq": 1').replace('"hello"', '"stop"')
    (tmp_path / "chat.jsonl").write_text(f"{line}\n{later}\n")
    out = python("-c", UNTIL_READ, cwd=tmp_path)

    assert len(bot.splitlines()) <= 20
    assert out.splitlines()[-1] == "['stop']"
    assert '"text": "you said hello"' in (tmp_path / "answers.jsonl").read_text()


@pytest.mark.parametrize("seconds", [0.3, 0.9, 1.5])
def test_a_bot_that_is_killed_answers_everything_once_and_in_order(seconds: float, tmp_path: Path) -> None:
    write_bot(tmp_path)
    (tmp_path / "in.txt").write_text("".join(line + "\n" for line in SAID))
    with pytest.raises(subprocess.TimeoutExpired):
        # What runs out of time here is killed with SIGKILL.
        subprocess.run(
            [sys.executable, "bot.py"], cwd=tmp_path, capture_output=True, timeout=seconds, check=False
        )
    with (tmp_path / "in.txt").open("a") as file:
        file.write(LATER + "\n")
    python("-c", UNTIL_ANSWERED, str(len(SAID) + 1), cwd=tmp_path)

    answers: dict[str, list[str]] = defaultdict(list)
    for line in (tmp_path / "out.txt").read_text().splitlines():
        name, _, answer = line.rpartition(" (")[0].partition(" ")
        answers[name].append(answer)
    assert answers == {
        "ann": ["1: hello", "2: are you there?", "3: well?"],
        "bob": ["1: hi", "2: back again?"],
    }


def test_the_bot_has_under_40_lines_and_its_test_passes(tmp_path: Path) -> None:
    write_bot(tmp_path)
    python("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_bot.py", cwd=tmp_path)

    assert len((tmp_path / "bot.py").read_text().splitlines()) < 40


def test_the_test_of_the_bot_can_fail(tmp_path: Path) -> None:
    write_bot(tmp_path)
    bot = tmp_path / "bot.py"
    bot.write_text(bot.read_text().replace("+ 1", "+ 2"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_bot.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)

    assert done.returncode == 1
    assert "2: hello" in done.stdout
