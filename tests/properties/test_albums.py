"""The rule of albums over any conversation, and a runtime that is stopped anywhere while albums come in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import attrs
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from shardline.actors.extensions import Extensions
from shardline.runtime.album_rules import joins, wait_us
from shardline.runtime.defaults import ALBUM_MESSAGES
from shardline.runtime.turn import QueuedRow
from shardline.storage.records import InboxRecord, InboxStatus
from shardline.testing import Harness
from tests.kits.albums import album_bot, part
from tests.kits.words import make_message

ALBUM_US = 1_000_000
_MESSAGE = make_message()


def queued(seq: int, album: str, at_us: int) -> QueuedRow:
    record = InboxRecord(
        id=seq,
        shard=0,
        seq=seq,
        topic="chat.message",
        partition=0,
        offset=seq,
        channel="fake",
        conversation_key="fake:1",
        status=InboxStatus.QUEUED,
        accepted_at_us=at_us,
    )
    message = attrs.evolve(_MESSAGE, extensions=Extensions(media_group_id=album))
    return QueuedRow(record, message, holds_token=False)


def turns_of(rows: Sequence[QueuedRow]) -> list[list[QueuedRow]]:
    """The turns that take these rows, one after another."""
    turns: list[list[QueuedRow]] = []
    for row in rows:
        if turns and joins(turns[-1][0], row, held=len(turns[-1]), album_us=ALBUM_US):
            turns[-1].append(row)
        else:
            turns.append([row])
    return turns


ROWS = st.lists(st.tuples(st.sampled_from(["g1", "g2"]), st.integers(-ALBUM_US, 2 * ALBUM_US)), max_size=40)


@given(ROWS)
def test_turns_keep_the_order_and_every_bound(steps: list[tuple[str, int]]) -> None:
    at_us, rows = 10**15, list[QueuedRow]()
    for seq, (album, step_us) in enumerate(steps):
        at_us += step_us
        rows.append(queued(seq, album, at_us))
    turns = turns_of(rows)

    assert [row for turn in turns for row in turn] == rows
    for turn in turns:
        first = turn[0].record.accepted_at_us
        assert len(turn) <= ALBUM_MESSAGES
        assert len({row.message.extensions.media_group_id for row in turn}) == 1
        assert all(row.record.accepted_at_us <= first + ALBUM_US for row in turn)
    for turn, following in itertools.pairwise(turns):
        # Nothing that belongs together is torn: there is a reason for each border.
        other, head = following[0], turn[0]
        assert (
            len(turn) == ALBUM_MESSAGES
            or other.message.extensions.media_group_id != head.message.extensions.media_group_id
            or other.record.accepted_at_us > head.record.accepted_at_us + ALBUM_US
        )
    # A restart that has handled the first turns finds the same others.
    for done in range(len(turns)):
        assert turns_of([row for turn in turns[done:] for row in turn]) == turns[done:]


@given(accepted_us=st.integers(0, 10**16), now_us=st.integers(0, 10**16))
def test_the_wait_is_never_longer_than_the_window_however_the_clock_is_set(
    accepted_us: int, now_us: int
) -> None:
    waits_us = wait_us(queued(1, "g1", accepted_us), album_us=ALBUM_US, now_us=now_us)

    assert 0 <= waits_us <= ALBUM_US
    assert now_us < accepted_us or now_us + waits_us >= min(accepted_us + ALBUM_US, now_us + waits_us)
    assert waits_us == 0 or now_us < accepted_us + ALBUM_US


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["g1", "g2", "alone", "crash"]),
        st.floats(0.01, 1.2).map(lambda s: round(s, 2)),
    ),
    max_size=25,
)


@settings(max_examples=15, deadline=None)
@given(steps=STEPS, fails=st.integers(0, 2))
def test_a_runtime_loses_nothing_keeps_the_order_and_handles_each_once(
    steps: list[str | float], fails: int
) -> None:
    async def main() -> None:
        topology, turns = album_bot(0.5, fails=fails)
        said: list[str] = []
        async with Harness(topology, store="sqlite-inline") as bot:
            for step in steps:
                if isinstance(step, float):
                    await bot.advance(step)
                elif step == "crash":
                    await bot.crash()
                else:
                    text = f"{step} {len(said)}"
                    said.append(text)
                    album = None if step == "alone" else str(step)
                    await bot.channel("fake").read(part(len(said), album=album, text=text))
            await bot.settle()

            assert bot.runtime.status().inbox[InboxStatus.DONE] == len(said)
            # A turn that failed, or that a crash cut off, ran again: its last run counts.
            last = dict[str, None]()
            for text in itertools.chain(*turns):
                last.pop(text, None)
                last[text] = None
            assert list(last) == said
            for turn in turns:
                assert len({text.split()[0] for text in turn}) == 1

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
