"""Every command in hostile surroundings: names that are no UTF-8, terminals of few characters, no room to print."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from shardline.runtime.command.app import shardline
from tests.kits.operated import make_store, operate

NO_UTF8 = "\udcff"
"""What Python makes of the byte 0xff in a name."""
LOOKS = (
    ("status",),
    ("inbox", "list"),
    ("inbox", "show", "in-2"),
    ("outbox", "show", "out-1", "--history"),
    ("dlq", "list"),
    ("control", "list"),
    ("doctor",),
    ("migrate",),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "bot.db"
    make_store(path)
    return path


def shell(
    command: tuple[str, ...], store: Path, rest: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell, with redirections."""
    line = f'exec "{sys.executable}" -m shardline {" ".join(command)} --store "{store}" {rest}'
    return subprocess.run(
        ["/bin/sh", "-c", line],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def every_command(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from every_command(command, click.Context(command, info_name=name, parent=context))
        else:
            yield f"{context.command_path} {name}", command


def test_no_command_takes_a_text_that_nobody_has_checked() -> None:
    commands = dict(every_command(shardline, click.Context(shardline, info_name="shardline")))
    unchecked = [
        (name, parameter.name)
        for name, command in commands.items()
        for parameter in command.params
        if isinstance(parameter.type, click.types.StringParamType)
    ]

    assert len(commands) > 15
    assert unchecked == []


@pytest.mark.parametrize(
    "words",
    [
        *LOOKS,
        ("dlq", "requeue", "in-2"),
        ("dlq", "purge", "--older-than", "0s", "--yes"),
        ("publish", "--key", "fake:1", "--text", "hi"),
        ("demo",),
    ],
    ids=" ".join,
)
def test_a_store_whose_name_is_no_utf8_is_no_damage(
    store: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    path = tmp_path / f"bot{NO_UTF8}.db"
    path.write_bytes(store.read_bytes())
    ended = operate(*words, "--store", path)

    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("shardline: ")
    assert ended.stderr.count("\n") == 1
    assert "UTF-8" in ended.stderr
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_a_terminal_that_knows_few_characters_is_shown_escapes(store: Path, words: tuple[str, ...]) -> None:
    ended = shell(words, store, env={"PYTHONIOENCODING": "latin-1"})

    assert (ended.returncode, ended.stderr.replace("no such decision\n", "")) == (0, "")


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_a_closed_standard_output_is_no_failure(store: Path, words: tuple[str, ...]) -> None:
    ended = shell(words, store, ">&-")

    assert (ended.returncode, ended.stderr.replace("no such decision\n", "")) == (0, "")


@pytest.mark.parametrize("words", [("status",), ("doctor", "--json")], ids=" ".join)
def test_an_output_without_room_is_one_line(store: Path, words: tuple[str, ...]) -> None:
    ended = shell(words, store, ">/dev/full")

    assert ended.returncode == 1
    assert ended.stderr.startswith("shardline: ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_words_of_the_root_without_room_are_one_line(word: str) -> None:
    line = f'exec "{sys.executable}" -m shardline {word} >/dev/full'
    ended = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False, timeout=60)

    assert ended.returncode == 1
    assert ended.stderr.startswith("shardline: ")
    assert ended.stderr.count("\n") == 1


def test_a_decision_whose_answer_finds_no_room_is_not_denied(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_store(path)
    ended = shell(("dlq", "requeue", "in-2"), path, ">/dev/full")

    assert ended.returncode == 1
    assert "may be done" in ended.stderr


def test_a_ctrl_c_while_the_command_is_loaded_is_one_line_with_a_code(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(
        "print('loading', flush=True)\nimport threading\nthreading.Event().wait(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "shardline", "demo"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=50)

    assert (process.returncode, out, err) == (1, "", "shardline: ended by Ctrl-C\n")
