"""A full backlog, few tokens, timers that come due and handlers that publish, all at once."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, RetryLater, Topology
from shardline.adapters.base import ChannelCaps
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import new_message

LIMIT, LANE_LIMIT, TOKENS = 8, 4, 3
MESSAGES = 40
CHATS = 5


class Crowd:
    """A bot whose turns schedule, publish and fail, and the texts that its store took."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.topology = Topology()
        self.accepted: list[tuple[str, str]] = []
        self.full: Counter[str] = Counter()
        self.was_full = False
        self.bot: Harness | None = None

        @self.topology.on("chat.message", concurrency=4, timeout_s=600)
        async def answer(ctx: Context, message: BusMessage) -> None:
            assert self.bot is not None
            self.was_full |= self.bot.runtime.status().intake.is_paused
            await trio.sleep(self.dice.uniform(0, 2))
            text = message.payload.text
            if not ctx.failures and self.dice.random() < 0.3:
                raise RetryLater(self.dice.uniform(0.1, 5))
            if ">" not in text:
                # Due while the house is full, on purpose at the same moment as others'.
                ctx.schedule(f"{text}>timer", after_s=float(self.dice.choice((0, 1, 5, 20))))
                ctx.publish("chat.message", f"{text}>own")
                away = f"fake:{self.dice.randrange(CHATS)}"
                try:
                    await self.bot.runtime.publish(new_message(f"{text}>call", key=away), timeout_s=60)
                except BusError as error:
                    self.full[str(error.code)] += 1
            ctx.reply(text)

    async def feed(self, channel: str, name: str) -> None:
        """One reader, as a poll is: a message after the other."""
        assert self.bot is not None
        for number in range(MESSAGES):
            key, text = f"{channel}:{self.dice.randrange(CHATS)}", f"{name}-{number}"
            try:
                if await self.bot.say(key, text):
                    self.accepted.append((key, text))
            except BusError as error:
                self.full[str(error.code)] += 1


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_taken_is_lost_and_nothing_stands_still(autojump_clock: MockClock, seed: int) -> None:
    crowd = Crowd(seed)
    channels = [
        FakeChannel("fake", ChannelCaps(linear=True)),
        FakeChannel("waits", ChannelCaps(waits=True)),
        FakeChannel("asks", ChannelCaps(linear=False)),
    ]
    crowd.bot = bot = Harness(
        crowd.topology, channels=channels, max_backlog=LIMIT, max_lane_backlog=LANE_LIMIT, max_inflight=TOKENS,
        store="sqlite-inline",
    )  # fmt: skip
    async with bot:
        with trio.fail_after(24 * 3_600):
            async with trio.open_nursery() as nursery:
                for channel in ("fake", "waits", "asks"):
                    nursery.start_soon(crowd.feed, channel, channel)
            await bot.settle()
            await bot.runtime.wait_until(
                lambda: bot.runtime.is_quiet and bot.runtime.timers.next_due_us is None
            )
        rows = bot.runtime.messages.list(limit=10_000)
        status = bot.runtime.status()
    done = Counter(row.message.payload.text for row in rows if row.record.status is InboxStatus.DONE)
    refused = [row for row in rows if row.record.status is InboxStatus.REFUSED]

    assert len(rows) == sum(done.values()) + len(refused)
    assert set(done.values()) == {1}
    for _, text in crowd.accepted:
        assert {text, f"{text}>timer", f"{text}>own"} <= done.keys()
    assert sum(1 for _, text in crowd.accepted if text.startswith("waits")) == MESSAGES
    assert {row.record.errors[0].code for row in refused} <= {"QUEUE_FULL"}
    assert {row.message.channel for row in refused} <= {"fake"}
    assert (status.tokens_free, status.intake.backlog, status.intake.is_paused) == (TOKENS, 0, False)
    assert crowd.full.keys() <= {Code.QUEUE_FULL.value}
    # Whether anybody is refused hangs on whose turn it was.
    assert crowd.was_full, "the house was never full"
