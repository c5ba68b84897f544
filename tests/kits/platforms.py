"""The far sides of the channels that come along, for the kit that proves them."""

from __future__ import annotations

import errno
import importlib.util
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import trio

from shardline.adapters.base import Adapter, ChannelCaps, Edge, Inbound, Outbound, SendOutcome, Uncertain
from shardline.adapters.transcript import Sink, Transcript, open_sink, read_sink
from shardline.adapters.transcript.sink import Disk
from shardline.testing import FakeChannel

LINE_CHANNEL = Path(__file__).parents[2] / "examples/line_channel.py"


class FakePlatform:
    """People who use a `FakeChannel`: what it did not take, they say again."""

    addresses = ("ann", "bob")

    def __init__(self) -> None:
        self.channel = FakeChannel()
        self.said: list[Inbound] = []
        self.taken = 0
        self.news = trio.lowlevel.ParkingLot()
        self._got: list[Outbound] = []

    def open(self) -> Adapter:
        self._got += self.channel.delivered
        self.channel = FakeChannel()
        return PushedFake(self, self.channel)

    async def say(self, address: str, text: str) -> None:
        await trio.lowlevel.checkpoint()
        number = str(len(self.said))
        self.said.append(Inbound(platform_message_id=number, address=address, text=text, sender="somebody"))
        self.news.unpark_all()

    def delivered(self) -> Sequence[tuple[str, str]]:
        return [(out.address, out.text) for out in self._got + self.channel.delivered]

    def cut(self) -> None:
        self.channel.script(Uncertain("no line"))


class PushedFake:
    """A fake channel, and somebody who talks into it while it runs."""

    def __init__(self, platform: FakePlatform, channel: FakeChannel) -> None:
        self._platform = platform
        self._channel = channel

    @property
    def name(self) -> str:
        return self._channel.name

    @property
    def prefix(self) -> str:
        return self._channel.prefix

    @property
    def caps(self) -> ChannelCaps:
        return self._channel.caps

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        platform = self._platform
        async with trio.open_nursery() as nursery:
            await nursery.start(self._channel.run, edge)
            task_status.started()
            while True:
                while platform.taken < len(platform.said):
                    await self._channel.read(platform.said[platform.taken])
                    platform.taken += 1
                await platform.news.park()

    async def send(self, out: Outbound) -> SendOutcome:
        return await self._channel.send(out)


class Full(Disk):
    """A disk that may be full."""

    is_full = False

    def write(self, fd: int, data: bytes) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no room")
        super().write(fd, data)


class TranscriptPlatform:
    """A log that grows, and a sink."""

    addresses = ("7", "kitchen")

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.log.touch()
        self.sink: Sink | None = None
        self._path = folder / "sink"
        self._disk = Full()
        self._count = 0

    def open(self) -> Adapter:
        if self.sink is not None:
            self.sink.close()
        self.sink = open_sink(self._path, disk=self._disk)
        return Transcript(self.log, self.sink)

    async def say(self, address: str, text: str) -> None:
        line = {"conversation": address, "seq": self._count, "sender": "user1", "at": "08:00", "text": text}
        self._count += 1
        with self.log.open("a") as file:
            file.write(json.dumps(line) + "\n")
        await trio.lowlevel.checkpoint()

    def delivered(self) -> Sequence[tuple[str, str]]:
        return [(line.conversation, line.text) for line in read_sink(self._path)]

    def cut(self) -> None:
        self._disk.is_full = True


class LinesPlatform:
    """The two files of `examples/line_channel.py`."""

    addresses = ("ann", "bob")

    def __init__(self, folder: Path, module: ModuleType) -> None:
        self._source = folder / "in.txt"
        self._source.touch()
        self._sink = folder / "out.txt"
        self._folder = folder
        self._open: Callable[[Path], Adapter] = module.Lines

    def open(self) -> Adapter:
        return self._open(self._folder)

    async def say(self, address: str, text: str) -> None:
        with self._source.open("a") as file:
            file.write(f"{address}: {text}\n")
        await trio.lowlevel.checkpoint()

    def delivered(self) -> Sequence[tuple[str, str]]:
        if not self._sink.is_file():
            return []
        lines = [line.partition(" ")[2].partition(": ") for line in self._sink.read_text().splitlines()]
        return [(address, text) for address, _, text in lines]

    def cut(self) -> None:
        self._sink.mkdir()


@asynccontextmanager
async def fake_platform(folder: Path) -> AsyncGenerator[FakePlatform]:
    yield FakePlatform()


@asynccontextmanager
async def transcript_platform(folder: Path) -> AsyncGenerator[TranscriptPlatform]:
    platform = TranscriptPlatform(folder)
    try:
        yield platform
    finally:
        if platform.sink is not None:
            platform.sink.close()


@asynccontextmanager
async def lines_platform(folder: Path) -> AsyncGenerator[LinesPlatform]:
    spec = importlib.util.spec_from_file_location("line_channel", LINE_CHANNEL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield LinesPlatform(folder, module)
