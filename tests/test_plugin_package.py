"""The example plug-in: built, installed, found by its entry point, proved by the kit, and killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.reaped import reaped

PACKAGE = Path(__file__).parents[1] / "examples/lines_plugin"
LINES = [f"{('ann', 'bob', 'cho')[n % 3]}: line {n}" for n in range(60)]
BOT = """
import os, sys
import trio
from shardline import Runtime, Topology
from shardline.plugins import known_adapters, load_adapter, settings_of

topology = Topology()

@topology.on("chat.message")
async def answer(ctx, message):
    print(message.payload.text, flush=True)
    await trio.sleep(0.002)
    ctx.reply(message.payload.text.upper())

async def main():
    assert "lines" in known_adapters()
    adapter = load_adapter("lines", settings_of("lines", os.environ))
    async with Runtime.open(topology, store=sys.argv[1], adapters=[adapter]) as runtime:
        await runtime.wait_drained()

if __name__ == "__main__":
    trio.run(main)
"""

pytestmark = pytest.mark.skipif(not PACKAGE.is_dir(), reason="the examples are not here")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the plug-in is installed into, without a network."""
    folder = tmp_path_factory.mktemp("site")
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "shardline_lines.py"):
        (copy / name).write_bytes((PACKAGE / name).read_bytes())
    command = [
        sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps",
        "--no-build-isolation", "--target", str(folder), str(copy),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    return folder


def environment(site: Path, folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "SHARDLINE_LINES_FOLDER": str(folder)}


def answers(folder: Path) -> list[tuple[str, str]]:
    """(key, `chat: text`) of each line of out.txt."""
    lines = (folder / "out.txt").read_text().splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def test_it_is_killed_and_loses_nothing(site: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "bot.py").write_text(BOT)
    command = [sys.executable, str(tmp_path / "bot.py"), str(tmp_path / "bot.db")]
    for handled in (3, 20):
        with reaped(
            subprocess.Popen(
                command,
                env=environment(site, tmp_path),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        ) as bot:
            assert bot.stdout is not None
            for _ in range(handled):
                assert bot.stdout.readline()
            bot.kill()
    done = subprocess.run(
        command, env=environment(site, tmp_path), capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    found = answers(tmp_path)
    assert len({key for key, _ in found}) == len(found) == len(LINES)
    for chat in ("ann", "bob", "cho"):
        wanted = [f"{chat}: {line.partition(': ')[2].upper()}" for line in LINES if line.startswith(chat)]
        assert [said for _, said in found if said.startswith(chat)] == wanted


def test_the_command_runs_it_by_name(site: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("ann: hello\n")
    (tmp_path / "bot.py").write_text(BOT)
    command = [
        sys.executable, "-m", "shardline", "run", "bot:topology", "--adapter", "lines", "--store", "bot.db",
    ]  # fmt: skip
    with reaped(subprocess.Popen(
        command, env=environment(site, tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )) as bot:  # fmt: skip
        assert bot.stdout is not None
        assert bot.stdout.readline() == "hello\n"
        bot.send_signal(signal.SIGTERM)
        _, logs = bot.communicate(timeout=30)

    assert bot.returncode == 0, logs
    assert answers(tmp_path)[0][1] == "ann: HELLO"


def test_settings_that_do_not_fit_are_said_in_one_line(site: Path, tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(BOT)
    command = [sys.executable, "-m", "shardline", "run", "bot", "--adapter", "lines", "--store", "bot.db"]
    done = subprocess.run(
        command,
        env=environment(site, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "SHARDLINE_LINES_FOLDER" in done.stderr
    assert done.stderr.count("\n") == 1


def test_it_proves_itself_with_the_kit(site: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_bytes((PACKAGE / "test_shardline_lines.py").read_bytes())
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(
        command,
        env=environment(site, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
