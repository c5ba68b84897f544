"""Asyncio programs in processes of their own: killed, interrupted, their loops closed early."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kits.forked import Script, run_forked

PYTHON = [sys.executable, "-W", "error::ResourceWarning", "-m"]
ROOT = Path(__file__).parents[2]
ENDS_BY_INTERRUPT = {"interrupt"}
"""What an interrupt makes of a process is the interpreter's: these have one of their own."""
STRICT = """
import runpy, sys, warnings
warnings.simplefilter("error", ResourceWarning)
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@contextmanager
def started(
    store: Path, what: str, program: str = "tests.kits.host_program", more: Sequence[Path] = ()
) -> Generator[subprocess.Popen[str]]:
    """A program under way; one that has not ended by the end of the block is killed."""
    with subprocess.Popen(
        [*PYTHON, program, str(store), what, *map(str, more)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def run(
    store: Path, what: str, program: str = "tests.kits.host_program", more: Sequence[Path] = ()
) -> tuple[int, list[str], str]:
    if what in ENDS_BY_INTERRUPT:
        with started(store, what, program, more) as process:
            said, errors = process.communicate(timeout=40)
        return process.returncode, said.splitlines(), errors
    ended = run_forked(Script(STRICT), program, str(store), what, *map(str, more), timeout=40, folder=ROOT)
    return ended.returncode, ended.stdout.splitlines(), ended.stderr


def interrupted(store: Path, what: str, *signals: tuple[str, signal.Signals]) -> tuple[int, list[str], str]:
    """Run a program and send it signals, each once it has said a word."""
    heard: list[str] = []
    with started(store, what) as program:
        assert program.stdout is not None
        for word, number in signals:
            while not heard or heard[-1] != word:
                line = program.stdout.readline()
                assert line, program.communicate()
                heard.append(line.strip())
            program.send_signal(number)
        rest, errors = program.communicate(timeout=40)
    return program.returncode, heard + rest.splitlines(), errors


def test_killed_it_loses_nothing(tmp_path: Path) -> None:
    code, _, errors = run(tmp_path / "bot.db", "kill")
    assert code == -signal.SIGKILL, errors
    code, said, errors = run(tmp_path / "bot.db", "finish")
    assert (code, said) == (0, ["21 done crashes=0 failures=0"]), errors
    # The kill is the last one's turn; on a busy machine others are under way with it.
    assert re.search(r"\brequeued=[1-9]", errors), errors
    runs = (tmp_path / "bot.db.runs").read_text().split()
    assert runs.count("kill") == 1


def test_a_loop_closed_early_is_a_crash_and_the_next_process_recovers(tmp_path: Path) -> None:
    code, said, errors = run(tmp_path / "bot.db", "lose")
    assert (code, said) == (0, ["lost"]), errors
    code, said, errors = run(tmp_path / "bot.db", "finish")
    assert (code, said[0][:7]) == (0, "21 done"), errors


def test_a_loop_closed_early_does_not_keep_the_thread_from_the_next_one(tmp_path: Path) -> None:
    code, said, errors = run(tmp_path / "bot.db", "lose-again")
    assert (code, said) == (0, ["lost", "21 done crashes=0 failures=0"]), errors
    assert "host.loop_lost" in errors


def test_a_loop_closed_early_tells_other_threads_what_to_do(tmp_path: Path) -> None:
    code, said, errors = run(tmp_path / "bot.db", "lose-to-another-thread")
    assert (code, said[:2]) == (0, ["lost", "STORE_LOCKED"]), errors
    assert "in this very process" in said[2]
    assert said[3:] == ["21 done crashes=0 failures=0"]


def test_the_first_ctrl_c_stops_in_good_order(tmp_path: Path) -> None:
    code, said, errors = interrupted(tmp_path / "bot.db", "hold", ("ready", signal.SIGINT))
    assert said == ["ready", "leaving"], errors
    assert code == -signal.SIGINT, errors
    assert run(tmp_path / "bot.db", "finish")[1] == ["21 done crashes=0 failures=0"]


def test_ctrl_c_in_a_loop_without_a_handler_for_it(tmp_path: Path) -> None:
    code, said, errors = interrupted(tmp_path / "bot.db", "plain-loop", ("ready", signal.SIGINT))
    assert said[0] == "ready", errors
    assert said[1:] in (["interrupted", "leaving"], ["leaving", "interrupted"]), errors
    assert code == 0, errors
    assert run(tmp_path / "bot.db", "finish")[1] == ["21 done crashes=0 failures=0"]


def interrupt_twice(folder: Path, times: int) -> None:
    """So many programs; one that follows them finishes what they have left."""
    stores = [folder / f"{number}.db" for number in range(times)]
    for store in stores:
        code, _, errors = interrupted(store, "hold", ("ready", signal.SIGINT), ("leaving", signal.SIGINT))
        assert code != 0, errors
        assert "Exception in callback" not in errors
    first, *others = stores
    code, said, errors = run(first, "finish", more=others)
    assert (code, [line[:7] for line in said]) == (0, ["21 done"] * times), errors


def test_a_second_ctrl_c_while_it_stops_loses_nothing(tmp_path: Path) -> None:
    interrupt_twice(tmp_path, 1)


@pytest.mark.long
def test_a_second_ctrl_c_may_hit_anywhere(tmp_path: Path) -> None:
    """Also in the middle of one of trio's steps, where a KeyboardInterrupt would end the run on the spot."""
    interrupt_twice(tmp_path, 8)


def test_a_second_ctrl_c_between_two_callbacks_loses_none_of_them(tmp_path: Path) -> None:
    """The loop has taken the next callback and not begun it: were it lost, the trio run would stand still."""
    code, said, errors = run(tmp_path / "bot.db", "12", "tests.kits.strike_program")
    assert code == 0, errors
    struck = [line for line in said if line.startswith("struck")]
    assert (len(struck), said.count("ended"), said.count("done failures=0")) == (12, 12, 12), (said, errors)
    assert any("Guest._step" in line for line in struck), said
    assert "host.loop_lost" not in errors


@pytest.mark.parametrize(
    ("what", "code", "says"),
    [("exit", 7, ""), ("interrupt", -signal.SIGINT, "KeyboardInterrupt")],
)
def test_what_ends_a_program_ends_it_after_a_clean_stop(
    what: str, code: int, says: str, tmp_path: Path
) -> None:
    ended, _, errors = run(tmp_path / "bot.db", what)
    assert ended == code, errors
    assert says in errors
    assert run(tmp_path / "bot.db", "finish")[1][0].startswith("21 done"), errors


def test_a_loop_that_is_stopped_for_a_while_goes_on(tmp_path: Path) -> None:
    code, said, errors = run(tmp_path / "bot.db", "loop-stop")
    assert code == 0, errors
    assert said[0] == "stopped"
    assert said[-1] == "closed"
    assert "'done'" in said[1]
