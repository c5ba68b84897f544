"""Albums in one turn: how long the first part waits, what joins it, and that all rows of it share every end."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Permanent, Topology
from shardline.actors.extensions import Kind
from shardline.adapters.base import Inbound
from shardline.runtime.defaults import ALBUM_MESSAGES, MAX_ALBUM_S
from shardline.storage.records import InboxRecord, InboxStatus
from shardline.testing import Harness
from tests.kits.albums import album_bot, part


async def read(bot: Harness, *parts: Inbound) -> None:
    """Read them one after another."""
    for one in parts:
        await bot.channel("fake").read(one)


def rows(bot: Harness) -> list[InboxRecord]:
    """All messages in the order they came."""
    return sorted((row.record for row in bot.runtime.messages.list(limit=1_000)), key=lambda row: row.seq)


async def test_the_first_part_waits_and_nobody_else_does(autojump_clock: MockClock) -> None:
    topology, turns = album_bot(1.0)
    async with Harness(topology) as bot:
        await read(bot, part(0, text="a"), part(9, album=None, text="other", chat="2"))
        await bot.settle(until_s=0.5)

        assert turns == [["other"]]
        status = bot.runtime.status()
        assert (status.inbox[InboxStatus.QUEUED], status.tokens_free) == (1, 1_024)
        await bot.settle()
        assert turns == [["other"], ["a"]]


async def test_what_comes_between_ends_the_album_and_keeps_its_place(autojump_clock: MockClock) -> None:
    topology, turns = album_bot(1.0)
    async with Harness(topology) as bot:
        await read(
            bot,
            part(0, text="a"),
            part(1, text="b"),
            part(2, album=None, text="and?"),
            part(3, text="c"),
            part(4, album="g2", text="x"),
            part(5, album="g2", text="y"),
        )
        await bot.settle()

        assert turns == [["a", "b"], ["and?"], ["c"], ["x", "y"]]


async def test_what_is_late_is_an_album_of_its_own(autojump_clock: MockClock) -> None:
    topology, turns = album_bot(1.0)
    async with Harness(topology) as bot:
        await read(bot, part(0, text="a"))
        await bot.advance(0.9)
        await read(bot, part(1, text="b"))
        await bot.advance(0.2)
        await read(bot, part(2, text="c"))
        await bot.settle()

        assert turns == [["a", "b"], ["c"]]


async def test_an_edit_of_a_part_does_not_wait(autojump_clock: MockClock) -> None:
    topology, turns = album_bot(1.0)
    edit = part(0, text="a, edited")
    edit = attrs.evolve(edit, extensions=attrs.evolve(edit.extensions, kind=Kind.EDIT))
    async with Harness(topology) as bot:
        await read(bot, edit)
        await bot.settle(until_s=0.1)

        assert turns == [["a, edited"]]


@pytest.mark.parametrize("max_inflight", [1, 1_024])
async def test_no_turn_takes_more_than_ten_however_small_the_window_of_memory(
    max_inflight: int, autojump_clock: MockClock
) -> None:
    topology, turns = album_bot(1.0)
    texts = [str(number) for number in range(2 * ALBUM_MESSAGES + 3)]
    async with Harness(topology, store="sqlite-inline", max_inflight=max_inflight) as bot:
        await read(bot, *(part(number, text=text) for number, text in enumerate(texts)))
        await bot.settle()

        assert [len(turn) for turn in turns] == [ALBUM_MESSAGES, ALBUM_MESSAGES, 3]
        assert [text for turn in turns for text in turn] == texts
        status = bot.runtime.status()
        assert status.inbox[InboxStatus.DONE] == bot.runtime.counters["handled"] == len(texts)
        assert status.tokens_free == max_inflight


async def test_a_failure_takes_all_parts_through_again(autojump_clock: MockClock) -> None:
    topology, turns = album_bot(1.0, fails=1)
    async with Harness(topology) as bot:
        await read(bot, *(part(number) for number in range(3)))
        await bot.settle()

        assert turns == [["before", "", "after"]] * 2
        assert [(row.status, row.failures, row.claim) for row in rows(bot)] == [(InboxStatus.DONE, 1, 2)] * 3
        assert bot.sent("fake:1") == ["3 parts"]


async def test_what_comes_during_the_back_off_is_no_part_of_the_retry(autojump_clock: MockClock) -> None:
    topology, turns = album_bot(0.2, fails=1)
    async with Harness(topology) as bot:
        await read(bot, part(0, text="a"), part(1, text="b"))
        await bot.advance(0.3)
        assert turns == [["a", "b"]]
        await read(bot, part(2, text="c"))
        await bot.settle()

        assert turns == [["a", "b"], ["a", "b"], ["c"]]


async def test_a_spent_budget_makes_every_part_a_dead_letter_and_each_can_go_again(
    autojump_clock: MockClock,
) -> None:
    topology, turns = album_bot(1.0, fails=3)
    async with Harness(topology) as bot:
        await read(bot, *(part(number) for number in range(3)), part(7, album=None, text="next"))
        await bot.settle()

        assert turns == [["before", "", "after"]] * 3 + [["next"]]
        dead = [row for row in rows(bot) if row.status is InboxStatus.DEAD]
        assert [(row.failures, len(row.errors), row.errors[-1].code) for row in dead] == [
            (3, 3, "HANDLER_FAILED")
        ] * 3
        assert bot.runtime.counters["dead"] == 3
        for row in dead:
            await bot.requeue(row.id)
        await bot.settle()

        assert sum(len(turn) for turn in turns[4:]) == 3
        assert {row.status for row in rows(bot)} == {InboxStatus.DONE}


async def test_a_crash_in_the_turn_counts_for_every_part_and_runs_them_together_again(
    autojump_clock: MockClock,
) -> None:
    topology, turns = hanging_bot()
    async with Harness(topology, store="sqlite-inline") as bot:
        await read(bot, *(part(number) for number in range(3)))
        await bot.advance(1.5)
        assert len(turns) == 1
        await bot.crash()
        await bot.settle()

        assert turns == [["before", "", "after"]] * 2
        assert [(row.status, row.failures, row.claim) for row in rows(bot)] == [(InboxStatus.DONE, 0, 2)] * 3


async def test_an_album_that_kills_the_process_is_one_turn_to_blame(autojump_clock: MockClock) -> None:
    topology, turns = hanging_bot(for_ever=True)
    async with Harness(topology, store="sqlite-inline") as bot:
        await read(bot, *(part(number) for number in range(3)), part(8, album=None, text="next"))
        for _ in range(5):
            await bot.advance(1.5)
            await bot.crash()
        await bot.settle()

        assert turns == [["before", "", "after"]] * 5 + [["next"]]
        assert [(row.status, row.blames) for row in rows(bot)] == [(InboxStatus.DEAD, 5)] * 3 + [
            (InboxStatus.DONE, 0)
        ]
        assert {row.errors[-1].code for row in rows(bot)[:3]} == {"CRASH_LOOP"}


def hanging_bot(*, for_ever: bool = False) -> tuple[Topology, list[list[str]]]:
    """A bot that hangs in its first turn, or in each that takes an album."""
    topology = Topology()
    turns: list[list[str]] = []

    @topology.on("chat.message", album_s=1.0, timeout_s=1_000)
    async def answer(ctx: Context, message: BusMessage) -> None:
        turns.append([member.payload.text for member in ctx.messages])
        if len(turns) == 1 or (for_ever and len(ctx.messages) > 1):
            await trio.sleep(900)

    return topology, turns


async def test_a_permanent_error_of_the_turn_is_that_of_every_part(autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message", album_s=1.0)
    async def answer(ctx: Context, message: BusMessage) -> None:
        raise Permanent("x.no", "not this album")

    async with Harness(topology) as bot:
        await read(bot, part(0), part(1))
        row_ids = [row.id for row in rows(bot)]
        await bot.settle()

        assert [bot.runtime.dead_letters.show(row_id).record.errors[-1].own_code for row_id in row_ids] == [
            "x.no"
        ] * 2


@pytest.mark.parametrize("album_s", [0, -1, float("nan"), MAX_ALBUM_S + 1])
def test_a_bad_window_is_refused_where_it_is_declared(album_s: float) -> None:
    with pytest.raises(BusError, match="album_s") as caught:
        album_bot(album_s)
    assert caught.value.code is Code.INVALID_MESSAGE
