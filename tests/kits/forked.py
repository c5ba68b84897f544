"""Programs of tests, each in a process of its own that is forked from one which has imported the product already.

A process like any other: it can be killed, and what it has open is its own. Only the half second of imports is saved.
Where the start itself is tested (`python -m shardline`, options of the interpreter), an interpreter is started instead.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import ModuleType
from typing import IO

import attrs
import structlog
import trio._core._run as trio_run

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "shardline.testing",
        "shardline.runtime.command.app",
        "shardline.runtime.control.client",
        "shardline.adapters.telegram",
        "tests.kits.forked",
    ]
)


@attrs.frozen
class Script:
    """A program's text, as `python -c` takes it."""

    text: str

    def __str__(self) -> str:
        return "-c"


@attrs.frozen(kw_only=True)
class _Program:
    """What to run as `__main__`: a file, a module by name, or a text."""

    what: Path | str | Script
    arguments: tuple[str, ...]
    folder: Path | None
    environment: Mapping[str, str]

    def become(self, *streams: Connection) -> None:
        """Run it in this process, with these as its standard streams."""
        for number, stream in enumerate(streams):
            os.dup2(stream.fileno(), number)
            stream.close()
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (as long as the process)
        sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115 (as long as the process)
        sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115 (as long as the process)
        os.environ.clear()
        os.environ.update(self.environment)
        if self.folder is not None:
            os.chdir(self.folder)
        # Trio's order of tasks is left to chance in every process, not once in the one that they come from.
        trio_run._r.seed()  # pyright: ignore[reportPrivateUsage]
        # Rich takes a second to draw each logged traceback.
        structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback
        sys.argv = [str(self.what), *self.arguments]
        if isinstance(self.what, Path):
            runpy.run_path(str(self.what), run_name="__main__")
        elif isinstance(self.what, Script):
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(self.what.text, "<string>", "exec"), main.__dict__)  # noqa: S102 (a test's own text)
        else:
            runpy.run_module(self.what, run_name="__main__", alter_sys=True)


@attrs.define
class Running:
    """A program that runs, as `subprocess.Popen` has it; how it ended can be asked behind its block too."""

    process: ForkServerProcess
    stdin: IO[str]
    stdout: IO[str]
    _stderr: IO[str]
    _code: int | None = None

    @property
    def pid(self) -> int:
        pid = self.process.pid
        assert pid is not None
        return pid

    @property
    def returncode(self) -> int:
        """Its exit code, `-signal` if it was killed."""
        code = self.poll()
        assert code is not None, "it runs"
        return code

    def poll(self) -> int | None:
        if self._code is None:
            self._code = self.process.exitcode
        return self._code

    def kill(self) -> None:
        self.process.kill()

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float) -> int:
        """Its exit code; TimeoutExpired if it runs on for so many seconds."""
        self.process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired(self.process.name, timeout)
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it says until its end, on stdout and on stderr; TimeoutExpired, and its end, after so many seconds."""
        self.stdin.close()
        late = threading.Event()

        def end() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(timeout, end)
        timer.start()
        try:
            out = self.stdout.read()
            self.wait(timeout)
        finally:
            timer.cancel()
            timer.join()
        if late.is_set():
            raise subprocess.TimeoutExpired(self.process.name, timeout, output=out)
        return out, self.complaints()

    def complaints(self) -> str:
        """What it has said on stderr until its end."""
        assert self.poll() is not None, "it runs and writes on"
        self._stderr.seek(0)
        return self._stderr.read()

    def end(self) -> None:
        """Kill it, if it runs, and wait until it is gone."""
        self.process.kill()
        self.process.join()
        self.poll()
        self.process.close()


def run_forked(
    what: Path | str | Script,
    *arguments: str,
    timeout: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a file, a module by name, or a text, to its end: `subprocess.run` with its output captured as text.

    Args:
        what: What is to run as `__main__`.
        timeout: Seconds until it is killed, and TimeoutExpired raised.
        folder: Where it runs; None: here.
        environment: Variables beside those of this process.
    """
    with start_forked(what, *arguments, folder=folder, environment=environment) as running:
        out, err = running.communicate(timeout)
        return subprocess.CompletedProcess((str(what), *arguments), running.returncode, out, err)


@contextmanager
def start_forked(
    what: Path | str | Script,
    *arguments: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Generator[Running]:
    """Start a file, a module by name, or a text; it does not outlive the block.

    What it says on stderr comes out here at the end of the block. For the arguments see `run_forked`.
    """
    program = _Program(
        what=what, arguments=arguments, folder=folder, environment={**os.environ, **(environment or {})}
    )
    its_stdin, our_stdin = os.pipe()
    our_stdout, its_stdout = os.pipe()
    # A kill may tear what is said in the midst of a character.
    with (
        open(our_stdin, "w", encoding="utf-8") as stdin,
        open(our_stdout, encoding="utf-8", errors="replace") as stdout,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr,
    ):
        # Connections are what multiprocessing takes along: the files behind them.
        with (
            Connection(its_stdin, writable=False) as first,
            Connection(its_stdout, readable=False) as second,
            Connection(os.dup(stderr.fileno()), readable=False) as third,
        ):
            process = _CONTEXT.Process(target=program.become, args=(first, second, third))
            process.start()
        running = Running(process, stdin, stdout, stderr)
        try:
            yield running
        finally:
            running.end()
            sys.stderr.write(running.complaints())
