"""The proof of what a store says it can do."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from ...actors.errors import Code
from .opened import StoreContract, refused, running

_COPY = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2])"


async def _copy(home: Path) -> Path:
    """What a kill would leave. By a process of its own: closing a file here would drop the store's locks on it."""
    target = home.with_name(f"{home.name}-copy")
    await trio.run_process([sys.executable, "-I", "-c", _COPY, str(home), str(target)])
    return target


class StoreClaimsKit(StoreContract):
    """What a backend claims."""

    async def check_caps_are_what_was_said(self, home: Path) -> None:
        for _ in range(2):
            async with running(self.open(home)) as hand:
                assert hand.store.caps == self.caps

    async def check_closed_store_is_in_its_folder_alone(self, home: Path) -> None:
        """A store that claims to be durable, closed, is found again in a copy of its folder."""
        if self.caps.durable == "none":
            return
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1)
        async with running(self.open(await _copy(home))) as hand:
            assert hand.store.info.clean
            assert hand.inbox(record.id) == record

    async def check_kill_loses_nothing_that_was_answered(self, home: Path) -> None:
        """A store that claims to be durable has on disk whatever it has answered."""
        if self.caps.durable == "none":
            return
        async with running(self.open(home)) as hand:
            records = [await hand.accept("tg:1", number, claim=True) for number in range(5)]
            epochs = list(hand.store.epochs)
            left = await _copy(home)
        async with running(self.open(left)) as hand:
            assert not hand.store.info.clean
            assert hand.store.reader.claimed() == records
            assert [epoch - 1 for epoch in hand.store.epochs] == epochs

    async def check_second_owner_is_refused(self, home: Path) -> None:
        """A store that claims to be durable has one owner at a time: a second opening is STORE_LOCKED."""
        if self.caps.durable == "none":
            return
        async with running(self.open(home)) as hand:
            with refused(Code.STORE_LOCKED):
                self.open(home).close()
            await hand.accept("tg:1", 1)
