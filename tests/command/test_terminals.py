"""Every list at a real terminal: narrow, without colour, and with a reader that has gone away."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import click
import pytest

from shardline.runtime.command.app import shardline
from tests.kits.operated import make_store, operate

COLUMNS = 60
GROUPS = ((), ("inbox",), ("outbox",), ("dlq",), ("timers",), ("control",), ("audit",))
LISTS = (
    ("inbox", "list"),
    ("outbox", "list"),
    ("outbox", "unreachable"),
    ("outbox", "aliases"),
    ("dlq", "list"),
    ("timers", "list"),
    ("control", "list"),
    ("status",),
    ("doctor",),
)
COLOUR = re.compile(r"\x1b\[[0-9;]*[34][0-9][0-9;]*m")
STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "bot.db"
    make_store(path)
    return path


def at_terminal(*words: str) -> tuple[int, str]:
    """Run a command whose streams are a terminal of few columns; its exit code, and what stands there."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    with subprocess.Popen(
        [sys.executable, "-m", "shardline", *words],
        stdin=its,
        stdout=its,
        stderr=its,
        env={**env, "NO_COLOR": "1", "TERM": "xterm-256color"},
    ) as running:
        os.close(its)
        said = b""
        try:
            while chunk := os.read(ours, 65_536):
                said += chunk
        except OSError:
            # Its end of the terminal is closed.
            pass
        os.close(ours)
        return running.wait(60), said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_list_keeps_to_a_narrow_terminal_and_to_no_color(store: Path, words: tuple[str, ...]) -> None:
    code, said = at_terminal(*words, "--store", str(store))

    assert code == 0, said
    assert "Traceback" not in said
    assert not COLOUR.search(said)
    if len(words) == 2:
        assert max(len(line) for line in STYLE.sub("", said).splitlines()) <= COLUMNS


def test_the_demo_shows_how_far_it_is_and_its_summary(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [
        {"conversation": f"c{n % 3}", "seq": n, "sender": "a", "at": "10:00", "text": "hi"} for n in range(60)
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    code, said = at_terminal("demo", "--input", str(log))

    assert code == 0, said
    assert "Traceback" not in said
    assert re.search(r"\d+/60 read, \d+ answered", said)
    assert re.search(r"accepted +│ +60 │ +60", said)


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_reader_that_has_gone_away_ends_a_list_without_a_word(store: Path, words: tuple[str, ...]) -> None:
    """`| head -1` that has read its line: whatever is written then finds nobody."""
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as nobody:
        ended = subprocess.run(
            [sys.executable, "-m", "shardline", *words, "--store", str(store)],
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )

    assert ended.returncode in {0, 1}
    # Where the list is empty, that is all there is to say.
    assert ended.stderr.count("\n") <= 1
    assert "Traceback" not in ended.stderr
    assert "Broken pipe" not in ended.stderr


@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_the_list_of_commands_is_whole_on_a_narrow_terminal(group: tuple[str, ...]) -> None:
    command: click.Command = shardline
    for name in group:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    said = command.get_help(click.Context(command, info_name="shardline", terminal_width=COLUMNS))

    assert "..." not in said.partition("Commands:")[2]
    assert max(map(len, said.splitlines())) <= COLUMNS


def test_help_at_a_real_terminal_is_whole() -> None:
    code, said = at_terminal("--help")

    assert code == 0
    assert "..." not in said.partition("Commands:")[2]
    assert max(map(len, said.splitlines())) <= COLUMNS


def test_what_is_not_so_is_not_shown(store: Path) -> None:
    shown = operate("outbox", "show", "out-1", "--store", store)

    assert shown.exit_code == 0
    assert not re.search(r"\b(True|False|None)\b", shown.stdout)
    assert "\nheld " not in shown.stdout
