"""Field entry 43, a limit on file sizes: SQLite calls it an I/O error, so the one line says where to look.

A store that its user may not write looks the same to SQLite, and has an advice of its own.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest

import shardline
from tests.kits.forked import Script, run_forked

LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
"""

# Root may write whatever stands in a mode.
NOT_ROOT = """
import os, tempfile, trio
from shardline import Runtime
async def warm_up(path):
    async with Runtime.open(Topology(), store=path):
        pass
if os.geteuid() == 0:
    # Another user may not read what is imported late.
    with tempfile.TemporaryDirectory() as folder:
        trio.run(warm_up, folder + "/bot.db")
    os.setuid(65_534)
"""

BOT = """
topology = Topology()
@topology.on("chat.message")
async def answer(ctx, message): ...
run(topology, store="bot.db", adapters=[FakeChannel()])
"""


IMPORTS = """
from shardline import Topology, run
from shardline.testing import FakeChannel
"""


def is_readable_by_others(path: Path) -> bool:
    """Whether a user without rights of his own gets through to a folder."""
    return all(one.stat().st_mode & 0o001 for one in (path, *path.parents))


def last_line(folder: Path, program: str) -> str:
    """What a bot that cannot start says last."""
    done = run_forked(Script(IMPORTS + program), timeout=50, folder=folder)
    assert done.returncode == 1, done
    return (done.stdout + done.stderr).splitlines()[-1]


def test_a_start_under_a_limit_on_file_sizes_says_where_to_look(tmp_path: Path) -> None:
    line = last_line(tmp_path, LIMITED + BOT)

    assert line.startswith("shardline: STORE_IO: ")
    assert "`ulimit -f`" in line


@pytest.mark.parametrize("mode", [0o400, 0o000])
@pytest.mark.parametrize("what", ["bot.db", "bot.db.lock", "."])
def test_a_start_on_a_store_that_may_not_be_written_says_so(what: str, mode: int) -> None:
    if os.geteuid() == 0 and not is_readable_by_others(Path(shardline.__file__).resolve().parent):
        pytest.skip("the user that the bot becomes cannot read the package")
    # Another user gets through to no folder of pytest's.
    folder = Path(tempfile.mkdtemp())
    try:
        sqlite3.connect(folder / "bot.db").close()
        for name in ("bot.db", "bot.db.lock"):
            (folder / name).touch()
        for path in (*folder.iterdir(), folder):
            if os.geteuid() == 0:
                os.chown(path, 65_534, 65_534)
        if what == ".":
            (folder / "bot.db.lock").unlink()
        (folder / what).chmod(mode | 0o100 if what == "." else mode)
        line = last_line(folder, NOT_ROOT + BOT)
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)

    assert line.startswith("shardline: STORE_IO: ")
    assert "give its user the right to write" in line
    assert "ulimit" not in line
