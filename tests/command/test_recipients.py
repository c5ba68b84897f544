"""The parts that wait, the chats that moved and who cannot be reached, as the command shows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from shardline import BusMessage, Code, Context, Permanence, Runtime, Topology
from shardline.adapters.base import ChannelCaps, NotSent, Sent, Uncertain
from shardline.storage.sqlite import copy_store
from shardline.testing import FakeChannel
from tests.kits.operated import operate


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of four parts with an unknown second one, a group that moved, a recipient that blocked the bot."""
    path = tmp_path_factory.mktemp("recipients") / "bot.db"

    async def main() -> None:
        topology = Topology()

        @topology.on("chat.message")
        async def answer(ctx: Context, message: BusMessage) -> None:
            ctx.reply(message.payload.text)

        channel = FakeChannel("fake", ChannelCaps(max_text=4))
        async with Runtime.open(topology, store=path, adapters=[channel]) as runtime:
            with trio.fail_after(30):
                for key, text, *outcomes in (
                    ("split", "aaaabbbbccccdddd", Sent("1"), Uncertain("no answer")),
                    ("-4001", "b", NotSent(Code.RECIPIENT_NOT_FOUND, Permanence.PERMANENT, moved_to="new")),
                    ("blocked", "c", NotSent(Code.RECIPIENT_BLOCKED, Permanence.PERMANENT)),
                ):
                    channel.script(*outcomes)
                    await channel.say(key, text)
                    await runtime.wait_until(lambda: runtime.is_quiet)

    trio.run(main)
    return path


def _shown(store: Path, *words: str) -> list[dict[str, object]]:
    ended = operate("outbox", *words, "--store", store, "--json")
    assert ended.exit_code == 0, ended.output
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_held_parts_can_be_chosen(store: Path) -> None:
    assert [line["part"] for line in _shown(store, "list", "state=held")] == [3_000, 2_000]
    assert [line["part"] for line in _shown(store, "list", "state=uncertain")] == [1_000]
    assert _shown(store, "list", "state=held", "key=fake:blocked") == []
    assert operate("outbox", "list", "state=hold", "--store", store).exit_code == 2


def test_moved_chats_are_listed(store: Path) -> None:
    [line] = _shown(store, "aliases")
    assert (line["channel"], line["old"], line["new"]) == ("fake", "-4001", "new")
    assert "new" in operate("outbox", "aliases", "--store", store).stdout
    assert _shown(store, "aliases", "--offset", "1") == []


def test_who_cannot_be_reached_is_listed(store: Path) -> None:
    [line] = _shown(store, "unreachable")
    assert (line["channel"], line["key"], line["code"]) == ("fake", "fake:blocked", "RECIPIENT_BLOCKED")
    assert "RECIPIENT_BLOCKED" in operate("outbox", "unreachable", "--store", store).stdout


def test_a_person_lifts_a_mark_and_undoes_a_move_at_rest(store: Path, tmp_path: Path) -> None:
    rest = tmp_path / "bot.db"
    copy_store(store, rest)
    for what, name, lists in (("unreachable", "fake:blocked", "unreachable"), ("alias", "-4001", "aliases")):
        words = ("outbox", "forget", what, "fake", name, "--store", rest)
        ended = operate(*words, "--yes", "--json")
        told = json.loads(ended.stdout)
        assert (ended.exit_code, told["status"], told["name"]) == (0, "done", name)
        assert _shown(rest, lists) == []

        again = operate(*words, "--yes")
        assert (again.exit_code, "NOT_FOUND" in again.output) == (1, True)

    assert operate("outbox", "forget", "pause", "fake", "x", "--store", rest, "--yes").exit_code == 2
    assert len(_shown(store, "aliases")) == 1, "the other store is as it was"
