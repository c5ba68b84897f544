"""Every command in hostile hands: whatever stands for an argument, an option or the store, one line says why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from shardline.runtime.command.app import shardline
from tests.kits.operated import make_store, operate

WORDS: Final = ("\udcff", "9" * 400, "-1", "", "nan", "x" * 10_000, "[" * 5_000)
"""No UTF-8, a number past every machine, none at all, one that is none, and what nests without an end."""

NOT_HERE: Final = frozenset({"run", "demo", "telegram", "telegram-sim", "audit"})
"""They start a bot or another program; `test_run.py`, `test_demo.py` and `tests/audit` have them."""


def leaves(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if name not in NOT_HERE:
                found = command.get_command(context, name)
                assert found is not None
                yield from leaves(found, (*path, name))
    else:
        yield path, command


COMMANDS: Final = {" ".join(path): command for path, command in leaves(shardline)}


def lines_of(path: tuple[str, ...], command: click.Command, word: str) -> Iterator[tuple[str, ...]]:
    """The command with this word as its arguments, and as each of its options."""
    arguments = [word for parameter in command.params if isinstance(parameter, click.Argument)]
    yield (*path, "--", *arguments) if word.startswith("-") else (*path, *arguments)
    for option in command.params:
        takes_one = isinstance(option, click.Option) and not option.is_flag and not option.count
        if takes_one and option.name not in {"store", "watch"}:
            yield (*path, f"{option.opts[-1]}={word}", *["x" for _ in arguments])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_in_one_line_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Some options name a file to write.
    monkeypatch.chdir(tmp_path)
    command, path = COMMANDS[name], tuple(name.split(" "))
    stores = {"good": tmp_path / "bot.db", "folder": tmp_path}
    stores |= {name: tmp_path / f"{name}.db" for name in ("empty", "none")}
    make_store(stores["good"])
    stores["empty"].touch()
    takes_store = any(parameter.name == "store" for parameter in command.params)
    for word in WORDS:
        for line in lines_of(path, command, word):
            given = ["--store", str(stores["good"])] if takes_store else []
            ended = operate(*line[: len(path)], *given, *line[len(path) :])
            said_well(ended.exit_code, ended.stderr, line)
    for store in stores.values() if takes_store else ():
        arguments = ["x" for parameter in command.params if isinstance(parameter, click.Argument)]
        ended = operate(*path, "--store", store, *arguments)
        said_well(ended.exit_code, ended.stderr, (*path, str(store)))


def said_well(code: int, told: str, line: tuple[str, ...]) -> None:
    shown = " ".join(word[:20] for word in line)
    assert code in {0, 1, 2, 4}, shown
    assert "Traceback" not in told, shown
    if told.startswith("Usage: "):
        assert (code, told.splitlines()[-1].startswith("Error: ")) == (2, True), (shown, told[:200])
    elif code == 2:
        assert told.startswith("shardline: "), (shown, told[:200])
        assert told.count("\n") == 1, (shown, told[:200])
