"""Field entry 50, on its way out: an id of many digits is the same text in an export for the audit."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import pytest
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import Inbound, Sent
from shardline.testing import FakeChannel
from tests.kits.bad_input import BIG_IDS
from tests.kits.bots import until_quiet

pytest.importorskip("pyarrow", reason="the extra `audit` is not installed")

from shardline.storage.audit.export import export_store


class Frame(Protocol):
    def to_pylist(self) -> list[dict[str, object]]: ...


@pytest.mark.parametrize("big", BIG_IDS)
def test_long_ids_are_the_same_text_in_an_export(tmp_path: Path, big: str) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("hi")

    async def main() -> None:
        channel = FakeChannel("discord")
        channel.script(Sent(big))
        async with Runtime.open(topology, store=tmp_path / "bot.db", adapters=[channel]) as runtime:
            await channel.read(Inbound(platform_message_id=big, address=big, text="hi"))
            await until_quiet(runtime)

    trio.run(main)
    manifest = export_store(tmp_path / "bot.db", tmp_path / "x")
    parquet = import_module("pyarrow.parquet")

    def only(table: str) -> dict[str, object]:
        (file,) = manifest.tables[table].files
        (row,) = cast("Frame", parquet.ParquetFile(tmp_path / "x" / file).read()).to_pylist()
        return row

    inbox, outbox = only("inbox"), only("outbox")
    assert inbox["conversation_key"] == outbox["conversation_key"] == f"discord:{big}"
    assert str(inbox["dedupe_key"]).endswith(f":{big}")
    assert outbox["platform_message_id"] == big
