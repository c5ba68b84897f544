"""The plug-in keeps what a channel promises: `pytest` here, with shardline and pytest-trio installed."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from shardline_lines import Lines

from shardline.testing import KitCheck, adapter_kit


class Folder:
    """Somebody writes into in.txt and reads out.txt."""

    addresses = ("ann", "bob")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in.txt").touch()

    def open(self) -> Lines:
        return Lines.from_settings({"folder": str(self.folder)})

    async def say(self, address: str, text: str) -> None:
        await trio.lowlevel.checkpoint()
        with (self.folder / "in.txt").open("a") as file:
            file.write(f"{address}: {text}\n")

    def delivered(self) -> Sequence[tuple[str, str]]:
        out = self.folder / "out.txt"
        lines = out.read_text().splitlines() if out.is_file() else []
        said = (line.partition(" ")[2].partition(": ") for line in lines)
        return [(address, text) for address, _, text in said]

    def cut(self) -> None:
        (self.folder / "out.txt").unlink(missing_ok=True)
        (self.folder / "out.txt").mkdir()


@asynccontextmanager
async def folder_platform(folder: Path) -> AsyncGenerator[Folder]:
    yield Folder(folder)


@pytest.mark.parametrize("check", adapter_kit(folder_platform, Lines.caps), ids=str)
async def test_lines_is_a_channel(check: KitCheck, tmp_path: Path) -> None:
    await check(tmp_path)
