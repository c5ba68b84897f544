"""Field entry 44: a store on a network or VM-shared file system is refused, and health is a real write, not a word."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import apsw
import pytest
import structlog.testing
import trio
from click.testing import CliRunner
from trio.testing import MockClock

from shardline import BusError, Code, Runtime
from shardline.runtime.command import runner
from shardline.runtime.settings import load_settings
from shardline.storage.records import InboxStatus
from shardline.storage.sqlite import mounts, open_sqlite
from shardline.storage.sqlite.upgrade import upgrade_file
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot, until_quiet
from tests.kits.faulty_vfs import Fault, FaultyVfs
from tests.kits.words import refused

UNSAFE = ("nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs")


@pytest.fixture
def listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the system says of its mounts; the store lies in `mounted` below."""
    listing = tmp_path / "mounts"
    monkeypatch.setattr(mounts, "_MOUNTS", listing)
    (tmp_path / "mounted").mkdir()
    return listing


def mount(listing: Path, kind: str) -> Path:
    """Put a file system of this kind under the store; its path."""
    folder = listing.with_name("mounted")
    listing.write_text(f"/dev/x / ext4 rw 0 0\nsomewhere {folder} {kind} rw 0 0\n")
    return folder / "bot.db"


@pytest.mark.parametrize("kind", UNSAFE)
async def test_a_start_there_is_refused_and_leaves_no_file(listing: Path, kind: str) -> None:
    path = mount(listing, kind)
    with pytest.raises(BusError, match=kind) as caught:
        async with Runtime.open(counting_bot(), store=path, adapters=[FakeChannel()]):
            pytest.fail("the block must not begin")

    assert caught.value.code is Code.UNSAFE_FILESYSTEM
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "fuseblk", "tmpfs"])
async def test_a_local_disk_is_fine(listing: Path, kind: str) -> None:
    open_sqlite(mount(listing, kind)).close()


async def test_an_upgrade_there_is_refused_too(listing: Path) -> None:
    path = mount(listing, "ext4")
    open_sqlite(path).close()
    mount(listing, "nfs")
    with refused(Code.UNSAFE_FILESYSTEM):
        upgrade_file(path, 1)


async def test_who_knows_better_may_open_it_and_the_log_says_so(listing: Path) -> None:
    path = mount(listing, "nfs")
    with structlog.testing.capture_logs() as logs:
        async with Runtime.open(
            counting_bot(), store=path, adapters=[FakeChannel()], unsafe_filesystem="allow"
        ):
            pass

    [entry] = [entry for entry in logs if entry["event"] == "store.unsafe_allowed"]
    assert (entry["kind"], entry["log_level"]) == ("nfs", "warning")


def test_the_setting_may_come_from_the_environment() -> None:
    name = "unsafe_filesystem"
    assert load_settings({}, {})[name].value == "refuse"
    assert load_settings({}, {"SHARDLINE_UNSAFE_FILESYSTEM": "allow"})[name].value == "allow"


@pytest.mark.parametrize("flags", [[], ["--allow-unsafe-filesystem"]])
def test_the_command_has_a_flag_for_it(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bot = tmp_path / "unsafe_bot.py"
    bot.write_text(
        "from shardline import Topology\n"
        "from shardline.testing import FakeChannel\n"
        "topology = Topology()\n"
        "@topology.on('chat.message')\n"
        "async def answer(ctx, message): ...\n"
        "adapters = [FakeChannel()]\n"
    )
    given: list[object] = []

    def run(*_: object, unsafe_filesystem: object, **__: object) -> None:
        given.append(unsafe_filesystem)

    def no_logs(**_: object) -> None:
        """The test's own stay as they are."""

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.setattr(runner, "set_up_logs", no_logs)
    result = CliRunner().invoke(
        runner.command, [f"{bot}:topology", "--store", str(tmp_path / "bot.db"), *flags]
    )

    assert result.exit_code == 0, result.output
    assert given == ["allow" if flags else None]


@pytest.fixture
def vfs() -> Generator[FaultyVfs]:
    vfs = FaultyVfs("healthy")
    yield vfs
    vfs.unregister()


async def test_health_is_not_ok_within_one_period_of_a_storage_error(
    tmp_path: Path, autojump_clock: MockClock, vfs: FaultyVfs
) -> None:
    """Nobody says anything: the runtime's own note is the write that finds it."""
    store = open_sqlite(tmp_path / "bot.db", mode="inline", vfs=vfs.name)
    channel = FakeChannel()
    async with Runtime.open(counting_bot(), store=store, adapters=[channel]) as runtime:
        await trio.sleep(7)
        assert runtime.status().store.is_ok
        vfs.arm(Fault("write", count=None, error=apsw.FullError))
        await trio.sleep(5)
        health = runtime.status().store
        assert not health.is_ok
        assert health.problems[0].startswith("STORE_FULL: the disk is full: free space")
        vfs.arm(None)
        await trio.sleep(5)
        assert runtime.status().store.is_ok
        await channel.say("a", "hi")
        await until_quiet(runtime)
        assert runtime.status().inbox[InboxStatus.DONE] == 1
