import errno
import os
import stat
import threading
from pathlib import Path

import pytest
import trio

from shardline.actors.errors import BusError, Code, Permanence
from shardline.adapters.base import NotSent, SendOutcome, Sent, Uncertain
from shardline.adapters.transcript.sink import Disk, Sink, open_sink
from shardline.adapters.transcript.sink_lines import SinkLine, read_sink, render_line


def said(key: str, text: str = "1: hello") -> SinkLine:
    return SinkLine(conversation="7", idempotency_key=key, text=text, claim=1)


def keys(path: Path) -> list[str]:
    return [line.idempotency_key for line in read_sink(path)]


def refusal(path: Path) -> Code:
    with pytest.raises(BusError) as caught:
        open_sink(path)
    return caught.value.code


class HeldDisk(Disk):
    """Counts; holds the first sync until it is let go; has room for so many writes."""

    def __init__(self, *, room: int = 1000) -> None:
        self.room = room
        self.writes = 0
        self.syncs = 0
        self.holding = threading.Event()
        self.go = threading.Event()

    def write(self, fd: int, data: bytes) -> None:
        self.writes += 1
        if self.writes > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(fd, data)

    def sync(self, fd: int) -> None:
        self.syncs += 1
        self.holding.set()
        assert self.go.wait(10)
        super().sync(fd)


class BadDisk(Disk):
    """Fails the calls it is told to, after half of the bytes where it is a write."""

    def __init__(self, *failing: str, code: int = errno.EIO) -> None:
        self.failing = set(failing)
        self.code = code

    def write(self, fd: int, data: bytes) -> None:
        if "write" in self.failing:
            os.write(fd, data[: len(data) // 2])
            raise OSError(self.code, os.strerror(self.code))
        super().write(fd, data)

    def sync(self, fd: int) -> None:
        if "sync" in self.failing:
            raise OSError(self.code, os.strerror(self.code))
        super().sync(fd)

    def truncate(self, fd: int, size: int) -> None:
        if "truncate" in self.failing:
            raise OSError(self.code, os.strerror(self.code))
        super().truncate(fd, size)


async def test_a_send_is_on_disk_before_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "sink"
    synced: list[bytes] = []

    class Watching(Disk):
        def sync(self, fd: int) -> None:
            synced.append(path.read_bytes())
            super().sync(fd)

    with open_sink(path, disk=Watching()) as sink:
        assert await sink.append(said("k1")) == Sent(None)
        assert synced == [render_line(said("k1"))]


async def test_waiting_sends_share_one_write_and_one_fsync(tmp_path: Path) -> None:
    disk = HeldDisk()
    outcomes: list[SendOutcome] = []

    async def send(sink: Sink, key: str) -> None:
        outcomes.append(await sink.append(said(key)))

    with open_sink(tmp_path / "sink", disk=disk) as sink:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, sink, "first")
            await trio.to_thread.run_sync(disk.holding.wait, 10)
            for number in range(200):
                nursery.start_soon(send, sink, f"k{number}")
            await trio.testing.wait_all_tasks_blocked()
            disk.go.set()

    assert outcomes == [Sent(None)] * 201
    assert (disk.writes, disk.syncs) == (2, 2)
    assert sorted(keys(tmp_path / "sink")) == sorted(["first", *(f"k{number}" for number in range(200))])


async def test_each_batch_gets_its_own_outcome(tmp_path: Path) -> None:
    disk = HeldDisk(room=1)
    outcomes: dict[str, SendOutcome] = {}

    async def send(sink: Sink, key: str) -> None:
        outcomes[key] = await sink.append(said(key))

    with open_sink(tmp_path / "sink", disk=disk) as sink:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, sink, "first")
            await trio.to_thread.run_sync(disk.holding.wait, 10)
            for key in ("second", "third"):
                nursery.start_soon(send, sink, key)
            await trio.testing.wait_all_tasks_blocked()
            disk.go.set()

    assert outcomes.pop("first") == Sent(None)
    assert [outcome.code for outcome in outcomes.values() if isinstance(outcome, NotSent)] == [
        Code.STORE_FULL
    ] * 2
    assert keys(tmp_path / "sink") == ["first"]


async def test_a_send_given_up_while_it_waits_is_not_written(tmp_path: Path) -> None:
    disk = HeldDisk()
    with open_sink(tmp_path / "sink", disk=disk) as sink:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sink.append, said("first"))
            await trio.to_thread.run_sync(disk.holding.wait, 10)
            async with trio.open_nursery() as given_up:
                given_up.start_soon(sink.append, said("second"))
                await trio.testing.wait_all_tasks_blocked()
                given_up.cancel_scope.cancel()
            nursery.start_soon(sink.append, said("third"))
            await trio.testing.wait_all_tasks_blocked()
            disk.go.set()

        assert keys(tmp_path / "sink") == ["first", "third"]
        assert not await sink.find("second")


async def test_the_writer_is_free_again_after_all_who_waited_gave_up(tmp_path: Path) -> None:
    disk = HeldDisk()
    with open_sink(tmp_path / "sink", disk=disk) as sink:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sink.append, said("first"))
            await trio.to_thread.run_sync(disk.holding.wait, 10)
            async with trio.open_nursery() as given_up:
                given_up.start_soon(sink.append, said("second"))
                await trio.testing.wait_all_tasks_blocked()
                # Both in one scheduler pass: the cancel is delivered, its clean-up has not run.
                given_up.cancel_scope.cancel()
                disk.go.set()
        with trio.fail_after(10):
            assert await sink.append(said("third")) == Sent(None)


async def test_a_cancelled_write_is_still_finished(tmp_path: Path) -> None:
    disk = HeldDisk()
    with open_sink(tmp_path / "sink", disk=disk) as sink:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sink.append, said("first"))
            await trio.to_thread.run_sync(disk.holding.wait, 10)
            nursery.cancel_scope.cancel()
            disk.go.set()

        assert await sink.find("first")


async def test_find_waits_for_the_write_under_way(tmp_path: Path) -> None:
    disk = HeldDisk()
    found: list[bool] = []

    async def find(sink: Sink, key: str) -> None:
        found.append(await sink.find(key))

    with open_sink(tmp_path / "sink", disk=disk) as sink:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sink.append, said("first"))
            await trio.to_thread.run_sync(disk.holding.wait, 10)
            nursery.start_soon(find, sink, "first")
            await trio.testing.wait_all_tasks_blocked()

            assert found == []
            disk.go.set()

    assert found == [True]


async def test_what_is_in_the_sink_is_found_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "sink"
    with open_sink(path) as sink:
        await sink.append(said('k"1\\é'))
    with open_sink(path) as sink:
        assert sink.known_lines == 1
        assert await sink.find('k"1\\é')
        assert not await sink.find("k2")


@pytest.mark.parametrize(
    "torn",
    [
        b"{",
        b"{\n",
        render_line(said("k3"))[:20],
        render_line(said("k3"))[:20] + b"\n",
        render_line(said("k3"))[:20] + b"\0" * 100,
        render_line(said("k3"))[:-1],
        b"\0" * 100,
        b"\0" * 100 + b"\n",
    ],
)
async def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "sink"
    whole = render_line(said("k1")) + render_line(said("k2"))
    path.write_bytes(whole + torn)
    with open_sink(path) as sink:
        assert path.read_bytes() == whole
        assert not await sink.find("k3")
        await sink.append(said("k3"))

    assert keys(path) == ["k1", "k2", "k3"]


async def test_a_line_cut_at_any_byte_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "sink"
    first, second = render_line(said("k1")), render_line(said("k2", 'tab\t "quoted" ü'))
    for cut in range(len(second)):
        path.write_bytes(first + second[:cut])
        open_sink(path).close()

        assert path.read_bytes() == first


@pytest.mark.parametrize(
    "data",
    [
        b"notes of mine",
        b"notes of mine\n",
        b'{"conversation": 0, "seq": 0, "sender": "user1", "at": "09:14", "text": "t"}\n',
        render_line(said("k1")) + b"hello\n",
        b"hello\n" + render_line(said("k1")),
        render_line(said("k1"))[:20] + b"\n" + render_line(said("k2")),
        b"x" * (9 << 20),
    ],
)
def test_a_file_of_someone_else_is_refused_and_left_alone(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "sink"
    path.write_bytes(data)

    assert refusal(path) is Code.STORE_MISMATCH
    assert path.read_bytes() == data


def test_links_devices_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")

    for path in (
        tmp_path / "link",
        tmp_path / "dangling",
        tmp_path / "folder",
        tmp_path / "pipe",
        Path("/dev/null"),
    ):
        assert refusal(path) is Code.STORE_MISMATCH
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_does_not_exist_is_an_io_error(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none" / "sink") is Code.STORE_IO


def test_a_second_writer_is_refused_before_it_repairs_anything(tmp_path: Path) -> None:
    path = tmp_path / "sink"
    with open_sink(path):
        path.write_bytes(b"{")

        assert refusal(path) is Code.STORE_LOCKED
        assert path.read_bytes() == b"{"
    open_sink(path).close()


def test_a_new_sink_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "sink"
    before = os.umask(0)
    try:
        open_sink(path).close()
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    sink = open_sink(tmp_path / "sink")
    sink.close()
    sink.close()


@pytest.mark.parametrize(
    ("failing", "code"),
    [(errno.ENOSPC, Code.STORE_FULL), (errno.EDQUOT, Code.STORE_FULL), (errno.EIO, Code.STORE_IO)],
)
async def test_a_failed_write_is_taken_back_and_certainly_not_sent(
    tmp_path: Path, failing: int, code: Code
) -> None:
    disk = BadDisk(code=failing)
    path = tmp_path / "sink"
    with open_sink(path, disk=disk) as sink:
        await sink.append(said("k1"))
        disk.failing = {"write"}
        outcome = await sink.append(said("k2"))

        assert isinstance(outcome, NotSent)
        assert (outcome.code, outcome.permanence) == (code, Permanence.TRANSIENT)
        assert path.read_bytes() == render_line(said("k1"))
        assert not await sink.find("k2")
        disk.failing = set()
        assert await sink.append(said("k2")) == Sent(None)

    assert keys(path) == ["k1", "k2"]


@pytest.mark.parametrize(
    ("failing", "sent"),
    [({"write", "truncate"}, False), ({"sync"}, False), ({"sync", "truncate"}, True)],
)
async def test_what_cannot_be_taken_back_is_uncertain_until_it_is_settled(
    tmp_path: Path, failing: set[str], sent: bool
) -> None:
    """Half a line, or one that was removed after all, settles as not sent; one that stayed settles as sent."""
    disk = BadDisk()
    path = tmp_path / "sink"
    with open_sink(path, disk=disk) as sink:
        await sink.append(said("k1"))
        disk.failing = failing
        outcome = await sink.append(said("k2"))

        assert isinstance(outcome, Uncertain)
        with pytest.raises(BusError) as caught:
            disk.failing = {"sync"}
            await sink.find("k2")
        assert caught.value.code is Code.STORE_IO
        assert isinstance(await sink.append(said("k3")), NotSent)
        disk.failing = set()
        assert await sink.find("k2") is sent
        assert await sink.append(said("k4")) == Sent(None)

    assert keys(path) == (["k1", "k2", "k4"] if sent else ["k1", "k4"])


async def test_an_unsettled_sink_settles_with_the_next_send(tmp_path: Path) -> None:
    disk = BadDisk("write", "truncate")
    with open_sink(tmp_path / "sink", disk=disk) as sink:
        assert isinstance(await sink.append(said("k1")), Uncertain)
        disk.failing = set()
        assert await sink.append(said("k2")) == Sent(None)
        assert not await sink.find("k1")

    assert keys(tmp_path / "sink") == ["k2"]


async def test_cancel_at_every_step_loses_no_line_that_was_sent(tmp_path: Path) -> None:
    """The n-th checkpoint of a send is cancelled, for every n."""
    for steps in range(6):
        path = tmp_path / f"sink{steps}"
        sent: list[str] = []
        with open_sink(path) as sink:

            async def send(sink: Sink, key: str, sent: list[str]) -> None:
                if isinstance(await sink.append(said(key)), Sent):
                    sent.append(key)

            async with trio.open_nursery() as nursery:
                for number in range(5):
                    nursery.start_soon(send, sink, f"k{number}", sent)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            with trio.fail_after(10):
                assert await sink.append(said("after")) == Sent(None)

        assert set(sent) <= set(keys(path))
        assert len(keys(path)) == len(set(keys(path)))
