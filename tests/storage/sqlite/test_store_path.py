"""Paths that no store can have: one typed error, and nothing is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shardline import BusError, Code, Runtime
from tests.kits.albums import album_bot


@pytest.mark.parametrize(
    "name", [os.fsdecode(b"a\xff.db"), os.fsdecode(b"\xfe/bot.db"), "nul\0.db"], ids=repr
)
async def test_a_path_that_is_no_utf8_is_refused_before_anything_is_made(name: str, tmp_path: Path) -> None:
    topology, _ = album_bot(None)
    if "/" in name:
        (tmp_path / name).parent.mkdir()
    before = sorted(os.listdir(os.fsencode(tmp_path)))
    with pytest.raises(BusError, match=r"rename|give the path") as caught:
        async with Runtime.open(topology, store=tmp_path / name):
            raise AssertionError("never opened")

    assert caught.value.code is Code.INVALID_MESSAGE
    assert str(caught.value).isprintable()
    assert sorted(os.listdir(os.fsencode(tmp_path))) == before


@pytest.mark.parametrize("name", ["🤖 ü.db", ":memory:", "q?mode=ro#1.db"])
async def test_other_odd_names_are_names(name: str, tmp_path: Path) -> None:
    topology, _ = album_bot(None)
    async with Runtime.open(topology, store=tmp_path / name):
        pass

    assert sorted(os.listdir(tmp_path)) == sorted([name, f"{name}.lock"])
