"""Who follows the tutorial of the Telegram bot, command by command, finds what it says."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.kits.pages import ROOT, code_blocks, with_pages
from tests.kits.reaped import reaped

pytestmark = with_pages

PAGE = ROOT / "docs/tutorials/telegram-bot.md"
ADDRESS = "http://127.0.0.1:8081"
"""As the page shows it; the test takes a free port."""
LIMIT_S = 200
MESSAGES = 45


def commands() -> list[list[str]]:
    """What the page has behind its prompts, with the words of `export` first."""
    lines = [line for block in code_blocks(PAGE, "console") for line in block.splitlines()]
    return [shlex.split(line.removeprefix("$ ")) for line in lines if line.startswith("$ ")]


def program(words: list[str], base: str = ADDRESS) -> list[str]:
    assert words[0] == "shardline"
    return [sys.executable, "-m", "shardline", *[base if word == ADDRESS else word for word in words[1:]]]


@pytest.mark.long
def test_the_tutorial_runs_as_it_is_written(tmp_path: Path) -> None:
    _, play, export, run, status, uncertain, _ = commands()
    (tmp_path / "flood.json").write_text(code_blocks(PAGE, "json")[0])
    (tmp_path / "bot.py").write_text(code_blocks(PAGE, "python")[0])
    name, _, token = export[1].partition("=")
    environ = {**os.environ, name: token, "NO_PROXY": "127.0.0.1"}

    def ask(*words: str) -> str:
        done = subprocess.run(
            program([*words]), cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with reaped(
        subprocess.Popen([*program(play), "--port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    ) as platform:
        assert platform.stdout is not None
        base = platform.stdout.readline().strip()
        with (
            open(tmp_path / "log", "wb") as log,
            reaped(
                subprocess.Popen(program(run, base), cwd=tmp_path, env=environ, stderr=log, stdout=log)
            ) as bot,
        ):
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            told = json.dumps({"sent": MESSAGES}).encode()
            with opener.open(f"{base}/sim/{token}/wait", told, timeout=LIMIT_S):
                bot.send_signal(signal.SIGTERM)
            assert bot.wait(LIMIT_S) == 0, (tmp_path / "log").read_text()
        platform.send_signal(signal.SIGINT)
        assert platform.wait(LIMIT_S) == 0
    found = json.loads(ask(*status, "--json"))
    rows = ask(*uncertain, "--json")
    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]

    assert ask(*status)
    assert found["inbox"]["done"] == MESSAGES
    assert (found["outbox"]["sent"], found["outbox"]["uncertain"]) == (MESSAGES - 1, 1)
    assert "tg:2" in rows
    assert "tg:1" not in rows
    assert [call["fault"] for call in calls if call["fault"] is not None].count("refuse") == 2
