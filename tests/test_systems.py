"""One module knows what systems differ in: nothing else asks for what one of them lacks, and the main path runs
without it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_packaging import FOLDERS, ROOT, in_checkout, python_files

ONE_PLACE = Path("actors/system.py")
MODULES = frozenset(
    {
        "_winapi", "fcntl", "grp", "msvcrt", "nt", "posix", "pty", "pwd", "resource", "spwd", "syslog", "termios",
        "tty", "winreg",
    }
)  # fmt: skip
NAMES = {
    "os": frozenset(
        {
            "O_BINARY", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "chown", "fchmod", "fchown", "fork",
            "forkpty", "getegid", "geteuid", "getgid", "getpgid", "getuid", "kill", "killpg", "mkfifo", "nice", "pread",
            "pwrite", "register_at_fork", "setsid", "statvfs", "sysconf", "uname", "wait", "wait4", "waitpid",
        }
    ),
    "signal": frozenset(
        {"SIGALRM", "SIGBREAK", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2", "alarm"}
    ),
}  # fmt: skip
"""What one of Linux, macOS and Windows lacks, or does something else for. (`os.kill(pid, 0)` is Ctrl+C on Windows.)"""


def uses_of(source: str) -> Iterator[tuple[int, str]]:
    """Where a text asks for one of these: its line, and what."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names if alias.name in MODULES]
            case ast.ImportFrom(module=module, level=0, names=names):
                found = [str(module)] if module in MODULES else []
                found += [alias.name for alias in names if alias.name in NAMES.get(module or "", ())]
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                found = [f"{name}.{attribute}"] if attribute in NAMES.get(name, ()) else []
            case _:
                continue
        for what in found:
            yield node.lineno, what


@in_checkout
def test_nothing_but_one_module_asks_for_what_a_system_may_lack() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in python_files(*FOLDERS, "src/shardline", "examples")
        for line, what in uses_of(path.read_text())
        if path.relative_to(ROOT) != ONE_PLACE
    ]

    assert found == []


@pytest.mark.parametrize(
    "source",
    ["import fcntl", "from os import fork", "import signal\nsignal.SIGHUP", "os.geteuid()", "os.kill(7, 0)"],
)
def test_the_guard_sees_it(source: str) -> None:
    assert list(uses_of(source))


# As on Windows: none of the modules, calls, flags and signals, and its own locks, made of the ones this machine has.
ELSEWHERE = """
import errno, fcntl, importlib, os, signal, sys, types
import apsw, attrs, click, h11, msgpack, rich.progress, rich.table, structlog, trio, trio.testing, tzdata

flock, LOCK, UNLOCK = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN
locks = types.ModuleType("msvcrt")
locks.LK_NBLCK, locks.LK_UNLCK = 2, 0
taken = []
def locking(fd, mode, count):
    assert count == 1
    assert os.lseek(fd, 0, os.SEEK_CUR) > 1 << 32
    taken.append(mode)
    try:
        flock(fd, LOCK if mode == locks.LK_NBLCK else UNLOCK)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None
locks.locking = locking
blocked = sys.argv[2].split()
for name in blocked:
    sys.modules[name] = None
if sys.argv[3] == "msvcrt":
    sys.modules["msvcrt"] = locks
for name in sys.argv[4].split():
    module, _, attribute = name.partition(".")
    if hasattr(sys.modules[module], attribute):
        delattr(sys.modules[module], attribute)
"""

MAIN_PATH = """
from pathlib import Path
from shardline import BusError, Runtime, Topology
from shardline.runtime.command.demo import DemoOptions, demo
from shardline.runtime.stop_signals import stop_signals
from shardline.runtime.watch_server import watch_server
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel

structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
folder = Path(sys.argv[1])
topology = Topology()
@topology.on("chat.message")
async def answer(ctx, message):
    ctx.reply("re " + message.payload.text)

async def talk(text):
    channel = FakeChannel()
    with stop_signals(exit_code=3), trio.fail_after(20):
        async with Runtime.open(topology, store=folder / "bot.db", adapters=[channel]) as runtime:
            async with watch_server(runtime, token="a-long-secret", port=0):
                try:
                    open_sqlite(folder / "bot.db").close()
                except BusError as error:
                    print(error.code)
                await channel.say("a", text, platform_message_id=text)
                await runtime.wait_until(lambda: runtime.is_quiet)
                print(*[out.text for out in channel.delivered], runtime.health().state)

trio.run(talk, "one")
trio.run(talk, "two")
print(int(demo(DemoOptions(store=folder / "demo.db", sink=folder / "demo.out"))))
print(len((folder / "demo.out").read_bytes().splitlines()) > 5, (folder / "link").is_symlink())
(folder / "link").symlink_to(folder / "bot.db")
try:
    from shardline.actors.system import open_regular
    open_regular(folder / "link", os.O_RDWR, 0o600)
except OSError as error:
    print(errno.errorcode[error.errno])
print(len(taken) >= 4)
"""


def elsewhere(folder: Path, program: str, *, locks: str) -> subprocess.CompletedProcess[str]:
    gone = [f"{module}.{name}" for module, names in NAMES.items() for name in names]
    # trio itself sends signals, and waits for what it starts.
    gone = [name for name in gone if name not in {"os.kill", "os.waitpid"}]
    command = [sys.executable, "-c", ELSEWHERE + program, str(folder)]
    return subprocess.run(
        [*command, " ".join(MODULES - {"posix"}), locks, " ".join(gone)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_the_main_path_runs_where_none_of_it_is_there(tmp_path: Path) -> None:
    done = elsewhere(tmp_path, MAIN_PATH, locks="msvcrt")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == ["STORE_LOCKED", "re one ok", "STORE_LOCKED", "re two ok"]
    assert lines[-4:] == ["0", "True False", "ELOOP", "True"]


def test_a_system_without_any_locks_gets_no_store_and_is_told_so(tmp_path: Path) -> None:
    program = """
from shardline import BusError
from shardline.storage.sqlite import open_sqlite
async def main():
    try:
        open_sqlite("bot.db")
    except BusError as error:
        print(error)
trio.run(main)
"""
    done = elsewhere(tmp_path, program, locks="-")

    assert done.returncode == 0, done.stderr
    assert "this system has no file locks" in done.stdout
    assert not (tmp_path / "bot.db").exists()
