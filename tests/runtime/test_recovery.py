"""What a start makes of what the last run left: waits, suspects, vanished handlers, sends that were still to go."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, RetryLater, RetryPolicy, Runtime, Topology
from shardline.actors.clock import FakeClock
from shardline.adapters.base import ChannelCaps, Inbound, NotSent, Outbound, SendOutcome, Sent
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxStatus, OutboxState, StoredInbox
from shardline.testing import FakeChannel
from tests.kits.albums import album_bot, part
from tests.kits.bots import check_all_done, check_counted, counting_bot, texts_to, until_quiet

START_US = 1_767_225_600_000_000
DAY_S = 86_400.0


def failing_once(seen: list[float]) -> Topology:
    topology = Topology()

    @topology.on(
        "chat.message", retry=RetryPolicy(max_retries=3, base_delay_s=100, jitter="none", max_delay_s=100)
    )
    async def answer(ctx: Context, message: BusMessage) -> None:
        seen.append(trio.current_time())
        if message.payload.text == "bad" and ctx.failures == 0:
            raise ValueError("once")
        ctx.reply(message.payload.text)

    return topology


@pytest.mark.parametrize(
    ("shift_s", "wait_s"),
    [
        pytest.param(30, 70, id="the rest"),
        pytest.param(500, 0, id="due meanwhile"),
        pytest.param(-DAY_S, 100, id="the clock was set back: never longer than the wait was"),
    ],
)
async def test_a_back_off_goes_on_after_a_restart(
    autojump_clock: MockClock, shift_s: float, wait_s: float
) -> None:
    database, channel, seen = MemoryDatabase(), FakeChannel("fake"), list[float]()
    async with Runtime.open(
        failing_once(seen),
        store=open_memory(database=database, clock=(clock := FakeClock(start_us=START_US))),
        adapters=[channel],
        clock=clock,
    ) as runtime:
        await channel.say("a", "bad")
        await channel.say("a", "behind")
        await runtime.wait_until(lambda: runtime.status().inbox[InboxStatus.FAILED] == 1)

    seen.clear()
    later = FakeClock(start_us=START_US + round(shift_s * 1e6))
    began = trio.current_time()
    async with Runtime.open(
        failing_once(seen), store=open_memory(database=database, clock=later), adapters=[channel], clock=later
    ) as runtime:
        await channel.say("b", "not held up")
        await until_quiet(runtime, 1_000)

        assert texts_to("a", channel) == ["bad", "behind"]
        assert texts_to("b", channel) == ["not held up"]
        assert runtime.status().tokens_free == 1024
    assert max(seen) - began == pytest.approx(wait_s, abs=1)


async def test_nobody_waits_for_a_suspect_whose_next_try_is_hours_away(autojump_clock: MockClock) -> None:
    """It met two crashes, then asked for an hour: a restart in that hour held up the whole bot for the rest of it."""
    database, channel, topology = MemoryDatabase(), FakeChannel("fake"), Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "slow" and not ctx.failures:
            raise RetryLater(3_600)
        ctx.reply(message.payload.text)

    async with Runtime.open(topology, store=open_memory(database=database), adapters=[channel]) as runtime:
        await channel.say("a", "slow")
        await runtime.wait_until(lambda: runtime.status().inbox[InboxStatus.FAILED] == 1)
    # As two kills before that turn leave it.
    database.source.connect().execute("UPDATE inbox SET crashes = 2")
    began = trio.current_time()
    async with Runtime.open(topology, store=open_memory(database=database), adapters=[channel]) as runtime:
        await channel.say("b", "hello")
        await runtime.wait_until(lambda: bool(channel.delivered))
        assert texts_to("b", channel) == ["hello"]
        assert trio.current_time() - began < 60
        await until_quiet(runtime, 4_000)
        assert texts_to("a", channel) == ["slow"]


async def test_an_album_of_suspects_that_is_no_album_any_more_holds_nobody_up(
    autojump_clock: MockClock,
) -> None:
    """Its first part failed, and its next try waited for the parts behind it to run first: for ever."""
    database, channel = MemoryDatabase(), FakeChannel("fake")
    whole, _ = album_bot(60.0)
    async with Runtime.open(whole, store=open_memory(database=database), adapters=[channel]) as runtime:
        for number in range(3):
            await channel.read(part(number, text=str(number)))
    # As two kills in the album's turn leave it.
    database.source.connect().execute("UPDATE inbox SET crashes = 2")
    single, turns = album_bot(None, fails=1)
    async with Runtime.open(single, store=open_memory(database=database), adapters=[channel]) as runtime:
        await channel.say("2", "hello")
        await until_quiet(runtime, 60)

    assert sorted(text for (text,) in turns) == ["0", "0", "1", "2", "hello"]


async def test_rows_whose_handler_vanished_are_parked_once_and_go_on_after_requeue(
    autojump_clock: MockClock,
) -> None:
    """Field entry 39: the conversation goes on without them."""

    def slow_orders() -> Topology:
        topology = counting_bot()

        @topology.on("share.proactive.v1")
        async def share(ctx: Context, message: BusMessage) -> None:
            await trio.sleep(3_600)

        return topology

    def quick_orders() -> Topology:
        topology = counting_bot()

        @topology.on("share.proactive.v1")
        async def share(ctx: Context, message: BusMessage) -> None:
            ctx.reply(f"shared {message.payload.text}")

        return topology

    database, channel = MemoryDatabase(), FakeChannel("fake")
    async with Runtime.open(
        slow_orders(), store=open_memory(database=database), adapters=[channel], grace_s=0
    ):
        for number in range(2):
            await channel.read(
                Inbound(
                    platform_message_id=f"s{number}",
                    address="a",
                    text=f"s{number}",
                    topic="share.proactive.v1",
                )
            )
        await channel.say("a", "chat")

    parked: list[StoredInbox] = []
    for _ in range(2):
        async with Runtime.open(
            counting_bot(), store=open_memory(database=database), adapters=[channel]
        ) as runtime:
            await until_quiet(runtime)
            parked = runtime.messages.list(status=InboxStatus.PARKED)
            assert [len(row.record.errors) for row in parked] == [1, 1]
            assert {row.record.errors[0].code for row in parked} == {"NO_SUBSCRIBER"}
            assert {row.record.crashes for row in parked} == {0}
            assert texts_to("a", channel) == ["1: chat"]

    async with Runtime.open(
        quick_orders(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        await until_quiet(runtime)
        assert texts_to("a", channel) == ["1: chat"]
        for row in sorted(parked, key=lambda row: row.record.id):
            await runtime.dead_letters.requeue(row.record.id)
        await until_quiet(runtime)
        assert texts_to("a", channel) == ["1: chat", "shared s0", "shared s1"]
        with pytest.raises(BusError) as again:
            await runtime.dead_letters.requeue(parked[0].record.id)
        assert again.value.code is Code.INVALID_TRANSITION
        check_all_done(runtime)


class Platform(FakeChannel):
    """A channel that can be asked; while `stuck`, sends do not end."""

    stuck = False

    async def send(self, out: Outbound) -> SendOutcome:
        if self.stuck:
            await trio.sleep_forever()
        return await super().send(out)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        self.lookups.append(out)
        if any(sent.idempotency_key == out.idempotency_key for sent in self.delivered):
            return Sent(None)
        return NotSent(Code.NOT_FOUND, Code.NOT_FOUND.permanence)


async def test_sends_that_wait_at_a_start_go_out_in_order_and_before_newer_ones(
    autojump_clock: MockClock,
) -> None:
    database = MemoryDatabase()
    channel = Platform("fake", ChannelCaps(reconciles=True, send_timeout_s=10_000))
    channel.stuck = True
    said = {f"c{n}": [f"text {i}" for i in range(4)] for n in range(8)}
    async with Runtime.open(
        counting_bot(), store=open_memory(database=database), adapters=[channel], grace_s=0
    ) as runtime:
        for address, texts in said.items():
            for text in texts[:3]:
                await channel.say(address, text)
        await runtime.wait_until(lambda: runtime.status().inbox[InboxStatus.DONE] == 24)
        await trio.testing.wait_all_tasks_blocked()
        left = database.copy()

    channel.stuck = False
    async with Runtime.open(counting_bot(), store=open_memory(database=left), adapters=[channel]) as runtime:
        for address, texts in said.items():
            await channel.say(address, texts[3])
        await until_quiet(runtime)

        check_counted(said, channel)
        check_all_done(runtime)
        assert sorted(out.address for out in channel.lookups) == sorted(said)


# --- suspects ------------------------------------------------------------------------------------------------


class Crashing:
    """Handlers that stand still, so that a copy of the store is what a kill under them would leave."""

    def __init__(self) -> None:
        self.go_on = False
        self.running = 0
        self.peak = 0
        self.order: list[str] = []

    def topology(self) -> Topology:
        topology = Topology()

        @topology.on("chat.message", timeout_s=10_000)
        async def answer(ctx: Context, message: BusMessage) -> None:
            self.running += 1
            self.peak = max(self.peak, self.running)
            try:
                await trio.sleep(1 if self.go_on else 3_600)
            finally:
                self.running -= 1
            self.order.append(message.payload.text)
            ctx.reply(message.payload.text)

        return topology

    async def crash(self, database: MemoryDatabase, *said: str) -> MemoryDatabase:
        """Run, accept what is said, one conversation each, and die with every handler under way."""
        channel = FakeChannel("fake")
        async with Runtime.open(
            self.topology(), store=open_memory(database=database), adapters=[channel], grace_s=0
        ):
            for text in said:
                assert await channel.say(text, text)
            await trio.testing.wait_all_tasks_blocked()
            return database.copy()


async def test_suspects_run_first_and_only_half_as_many_at_once_as_were_in_flight(
    autojump_clock: MockClock,
) -> None:
    bot = Crashing()
    suspects = [f"suspect-{n}" for n in range(8)]
    left = await bot.crash(MemoryDatabase(), *suspects)
    left = await bot.crash(left)
    bot.go_on, bot.peak = True, 0

    channel = FakeChannel("fake")
    async with Runtime.open(bot.topology(), store=open_memory(database=left), adapters=[channel]) as runtime:
        for number in range(8):
            await channel.say(f"innocent-{number}", f"innocent-{number}")
        await channel.say("suspect-0", "behind")
        await runtime.wait_until(lambda: len(bot.order) == 8)
        assert sorted(bot.order) == sorted(suspects)
        assert bot.peak == 4
        await until_quiet(runtime)

        assert bot.peak > 4
        assert len(bot.order) == 17
        check_all_done(runtime)


async def test_one_crash_makes_no_suspect(autojump_clock: MockClock) -> None:
    bot = Crashing()
    left = await bot.crash(MemoryDatabase(), "a", "b", "c", "d")
    bot.go_on, bot.peak = True, 0
    async with Runtime.open(
        bot.topology(), store=open_memory(database=left), adapters=[FakeChannel("fake")]
    ) as runtime:
        assert {row.record.crashes for row in runtime.messages.list()} == {1}
        await until_quiet(runtime)
        assert bot.peak == 4
        # Done clears what was counted.
        check_all_done(runtime)


async def test_the_fifth_crash_of_one_that_ran_alone_is_its_end(autojump_clock: MockClock) -> None:
    bot = Crashing()
    left = await bot.crash(MemoryDatabase(), "poison")
    for _ in range(4):
        left = await bot.crash(left)
    bot.go_on = True
    channel = FakeChannel("fake")
    async with Runtime.open(bot.topology(), store=open_memory(database=left), adapters=[channel]) as runtime:
        (dead,) = runtime.dead_letters.list()
        assert (dead.record.crashes, dead.record.blames, dead.record.errors[-1].code) == (5, 5, "CRASH_LOOP")
        assert await channel.say("poison", "behind", platform_message_id="2")
        await until_quiet(runtime)
        assert bot.order == ["behind"]

        await runtime.dead_letters.requeue(dead.record.id)
        await until_quiet(runtime)
        assert bot.order == ["behind", "poison"]
        assert {row.record.blames for row in runtime.messages.list()} == {0}
        assert runtime.status().outbox[OutboxState.SENT] == 2


async def test_a_suspect_whose_handler_vanished_does_not_keep_the_gate_shut(
    autojump_clock: MockClock,
) -> None:
    bot = Crashing()
    left = await bot.crash(MemoryDatabase(), "a", "b")
    left = await bot.crash(left)
    empty = Topology()
    handled: list[str] = []

    @empty.on("dm.reply.v1")
    async def reply(ctx: Context, message: BusMessage) -> None:
        handled.append(message.payload.text)

    channel = FakeChannel("fake", ChannelCaps(topics=("dm.reply.v1",)))
    async with Runtime.open(empty, store=open_memory(database=left), adapters=[channel]) as runtime:
        await channel.read(Inbound(platform_message_id="1", address="c", text="hi", topic="dm.reply.v1"))
        await until_quiet(runtime)

        assert handled == ["hi"]
        assert runtime.status().inbox[InboxStatus.PARKED] == 2
