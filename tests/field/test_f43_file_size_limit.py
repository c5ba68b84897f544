"""Field entry 43, a limit on file sizes: SQLite calls it an I/O error, so the one line says where to look."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BOT = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
from shardline import Topology, run
from shardline.testing import FakeChannel
topology = Topology()
@topology.on("chat.message")
async def answer(ctx, message): ...
run(topology, store="bot.db", adapters=[FakeChannel()])
"""


def test_a_start_under_a_limit_on_file_sizes_says_where_to_look(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert done.returncode == 1
    line = (done.stdout + done.stderr).splitlines()[-1]
    assert line.startswith("shardline: STORE_IO: ")
    assert "`ulimit -f`" in line
