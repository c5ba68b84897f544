"""Field entry 50, and what people type: ids keep every digit, arguments that are no text are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from shardline import (
    BusMessage,
    Context,
    Runtime,
    Topology,
)
from shardline.adapters.base import Inbound, Sent
from shardline.testing import FakeChannel
from tests.kits.bad_input import BIG_IDS
from tests.kits.bots import counting_bot, until_quiet
from tests.kits.controlled import query
from tests.kits.operated import operate


@pytest.mark.parametrize("big", BIG_IDS)
def test_long_ids_are_the_same_text_everywhere(tmp_path: Path, big: str) -> None:
    """Entry 50: through inbox, outbox and `--json`."""
    store = tmp_path / "bot.db"
    seen: list[BusMessage] = []
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        seen.append(message)
        ctx.state["last"] = big
        ctx.reply(big)

    async def main() -> None:
        channel = FakeChannel("discord")
        channel.script(Sent(big))
        async with Runtime.open(topology, store=store, adapters=[channel]) as runtime:
            inbound = Inbound(platform_message_id=big, address=big, text=big, sender=big, reply_to=big)
            await channel.read(inbound)
            await until_quiet(runtime)
        assert [(out.address, out.reply_to, out.text) for out in channel.delivered] == [(big, big, big)]

    trio.run(main)
    (message,) = seen
    assert message.conversation_key == message.participant_key == f"discord:{big}"
    assert message.extensions.platform_message_id == message.extensions.from_user_id == big
    (inbox,) = operate("inbox", "list", "--store", store, "--json").stdout.splitlines()
    (outbox,) = operate("outbox", "list", "--store", store, "--json").stdout.splitlines()
    shown = json.loads(operate("inbox", "show", "in-1", "--store", store, "--json").stdout)
    assert (json.loads(inbox)["key"], json.loads(inbox)["text"]) == (f"discord:{big}", big)
    assert (json.loads(outbox)["key"], json.loads(outbox)["platform_message_id"]) == (f"discord:{big}", big)
    assert f'"{big}"' in inbox
    assert big in json.dumps(shown)
    again = operate(
        "publish",
        "--key",
        f"discord:{big}",
        "--text",
        big,
        "--idempotency-key",
        big,
        "--store",
        store,
        "--json",
    )
    assert again.exit_code == 0, again.output
    assert query(store, "SELECT conversation_key, dedupe_key FROM inbox WHERE id = 2") == [
        (f"discord:{big}", f"topic:chat.message:{big}")
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--key", "fake:a", "--text", "a\udcff"),
        ("--key", "fake:\udcff", "--text", "a"),
        ("--key", "fake:a", "--text", "a", "--idempotency-key", "\udcff"),
        ("--key", "fake:a", "--text", "a", "--channel", "\udcff"),
        ("--key", "fake:a", "--text", "a", "--topic", "\udcff"),
        ("--key", "fake:a", "--text", "x" * 1_048_577),
        ("--key", "fake:a", "--text", ""),
        ("--key", "fake:a", "--text", "a", "--actor", "\udcff"),
    ],
)
def test_arguments_that_are_no_text_are_refused_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    store = tmp_path / "bot.db"

    async def main() -> None:
        async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()]):
            pass

    trio.run(main)
    ended = operate("publish", *arguments, "--store", store)

    assert ended.exit_code in ({1, 2} if "--actor" in arguments else {2})
    assert ended.stderr.startswith("shardline: ")
    assert ended.stderr.count("\n") == 1
    assert query(store, "SELECT count(*) FROM control") == [(0,)]
