"""Programs of tests, each in a process of its own that is forked from one which has imported the product already.

A process like any other: it can be killed, and what it has open is its own. Only the half second of imports is saved.
Where the start itself is tested (`python -m shardline`, options of the interpreter), an interpreter is started instead.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
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
        "tests.kits.forked",
    ]
)


@attrs.frozen(kw_only=True)
class _Program:
    """What to run as `__main__`: a file, or a module by name."""

    what: Path | str
    arguments: tuple[str, ...]
    folder: Path | None
    environment: Mapping[str, str]

    def become(self, stdout: Connection, stderr: Connection) -> None:
        """Run it in this process."""
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stdout.fileno(), 1)
        os.dup2(stderr.fileno(), 2)
        stdout.close()
        stderr.close()
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
        else:
            runpy.run_module(self.what, run_name="__main__", alter_sys=True)


@attrs.frozen
class Running:
    """A program that runs; what it says on `stdout` can be read while it does."""

    process: ForkServerProcess
    stdout: IO[str]

    def kill(self) -> None:
        self.process.kill()

    def wait(self, timeout: float) -> int:
        """Its exit code, `-signal` if it was killed; TimeoutExpired if it runs on for so many seconds."""
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(self.process.name, timeout)
        return self.process.exitcode


def run_forked(
    what: Path | str,
    *arguments: str,
    timeout: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a file, or a module by name, to its end: `subprocess.run` with its output captured as text.

    Args:
        what: What is to run as `__main__`.
        timeout: Seconds until it is killed, and TimeoutExpired raised.
        folder: Where it runs; None: here.
        environment: Variables beside those of this process.
    """
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        with _started(what, arguments, stdout.fileno(), stderr.fileno(), folder, environment) as process:
            code = Running(process, stdout).wait(timeout)
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess((what, *arguments), code, stdout.read(), stderr.read())


@contextmanager
def start_forked(what: Path | str, *arguments: str, folder: Path | None = None) -> Generator[Running]:
    """Start a file, or a module by name; it does not outlive the block. What it says on stderr comes out here."""
    reads, writes = os.pipe()
    with (
        open(reads, encoding="utf-8") as stdout,
        open(writes, "w") as writer,
        _started(what, arguments, writer.fileno(), 2, folder, None) as process,
    ):
        # The program has its own copy; with this one open there would be no end to read.
        writer.close()
        yield Running(process, stdout)


@contextmanager
def _started(
    what: Path | str,
    arguments: tuple[str, ...],
    stdout: int,
    stderr: int,
    folder: Path | None,
    environment: Mapping[str, str] | None,
) -> Generator[ForkServerProcess]:
    program = _Program(
        what=what,
        arguments=arguments,
        folder=folder,
        environment={**os.environ, **(environment or {})},
    )
    # Connections are what multiprocessing takes along: the files behind them.
    files = (Connection(os.dup(stdout), readable=False), Connection(os.dup(stderr), readable=False))
    process = _CONTEXT.Process(target=program.become, args=files)
    with files[0], files[1]:
        process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()
        process.close()
