"""Field report 46: a forked child gets a typed error, the parent goes on."""

from __future__ import annotations

import os
from pathlib import Path

from shardline.actors.errors import BusError, Code
from shardline.storage.sqlite import open_sqlite
from tests.kits.store_checks import check_store
from tests.kits.store_rows import Hand
from tests.kits.stores import running


def codes_in_child(hand: Hand) -> str:
    """What a forked child meets at each way into the store."""
    codes: list[str] = []
    for call in (
        lambda: hand.store.submit(hand.publish(hand.new_inbox("tg:1", 9)), codes.append),  # type: ignore[arg-type]
        hand.store.reader.count_inbox,
    ):
        try:
            call()
        except BusError as error:
            codes.append(error.code)
        else:
            codes.append("none")
    return " ".join(codes)


async def test_child_of_a_fork_cannot_use_the_store(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path)) as hand:
        await hand.accept("tg:1", 1)
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(write_end, codes_in_child(hand).encode())
            finally:
                os._exit(0)
        os.close(write_end)
        said = os.read(read_end, 200).decode()
        os.close(read_end)
        os.waitpid(child, 0)  # noqa: ASYNC222 (it has ended)
        await hand.accept("tg:1", 2)

        assert said == f"{Code.FORKED} {Code.FORKED}"
    assert len(check_store(path)) == 2
