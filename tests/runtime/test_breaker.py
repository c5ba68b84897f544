"""A breaker in a running bot: what waits, who probes, and that nothing is lost or counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from shardline import (
    Breaker,
    BusError,
    BusMessage,
    Code,
    Context,
    Permanent,
    RetryLater,
    RetryPolicy,
    Runtime,
    Topology,
)
from shardline.adapters.base import Inbound
from shardline.runtime.breaker import CircuitState
from shardline.runtime.lane import LaneRow, Lanes
from shardline.runtime.shard_inbox import ShardInbox
from shardline.runtime.turn_breaker import TurnBreaker
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel
from tests.kits.bots import texts_to, until_quiet
from tests.kits.crashes import crash_in

RULES = Breaker(failures=3, window_s=30, open_s=10)
SLOWLY = RetryPolicy(max_retries=9, base_delay_s=60, max_delay_s=60, jitter="none")


class Backend:
    """What the handlers of `chat.message` need; those of `dm.reply.v1` do without.

    Attributes:
        error: What a call raises; None lets it through.
        work_s: How long a call takes.
        calls: Each call with its time, by text.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.work_s = 0.1
        self.calls: list[tuple[float, str]] = []
        self.under_way = 0
        self.most = 0

    def bot(self, breaker: Breaker | None = RULES, *, retry: RetryPolicy = SLOWLY) -> Topology:
        topology = Topology()

        @topology.on("chat.message", retry=retry, breaker=breaker, timeout_s=1_000)
        async def answer(ctx: Context, message: BusMessage) -> None:
            self.calls.append((trio.current_time(), message.payload.text))
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            try:
                await trio.sleep(self.work_s)
            finally:
                self.under_way -= 1
            if self.error is not None:
                raise self.error
            ctx.reply(message.payload.text)

        @topology.on("dm.reply.v1")
        async def other(ctx: Context, message: BusMessage) -> None:
            ctx.reply(message.payload.text)

        return topology

    def take(self) -> list[str]:
        """The texts of the calls since the last look."""
        texts = [text for _, text in self.calls]
        self.calls.clear()
        return texts


def state(runtime: Runtime) -> CircuitState:
    (breaker,) = runtime.status().breakers
    return breaker.state


async def open_it(runtime: Runtime, channel: FakeChannel, backend: Backend, *, count: int = 3) -> None:
    """Let conversations fail until the breaker opens."""
    backend.error = ConnectionError("down")
    for number in range(count):
        await channel.say(f"bad-{number}", f"bad {number}")
    await trio.sleep(0.2)
    assert state(runtime) is CircuitState.OPEN
    assert len(backend.take()) == count


async def test_while_it_is_open_nothing_starts_and_nothing_is_counted(autojump_clock: MockClock) -> None:
    backend, channel = Backend(), FakeChannel()
    with capture_logs() as logs:
        async with Runtime.open(
            backend.bot(), store=open_memory(), adapters=[channel], max_inflight=4
        ) as runtime:
            await open_it(runtime, channel, backend)
            for number in range(20):
                await channel.say(f"c{number}", "one")
                await channel.say(f"c{number}", "two")
            await trio.sleep(5)

            status = runtime.status()
            assert backend.take() == []
            assert status.tokens_free == 4
            (breaker,) = status.breakers
            assert (breaker.topic, breaker.channel, breaker.opened, breaker.waiting) == (
                "chat.message",
                None,
                1,
                20,
            )
            assert 0 < breaker.retry_in_s < 5
            # The first of each conversation had its claim on disk already.
            rows = runtime.messages.list(limit=100)
            waiting = [row.record for row in rows if row.record.conversation_key.startswith("fake:c")]
            assert {record.status for record in waiting} == {InboxStatus.FAILED, InboxStatus.QUEUED}
            assert {(r.failures, r.crashes, r.errors) for r in waiting} == {(0, 0, ())}
            deferred = [record for record in waiting if record.status is InboxStatus.FAILED]
            assert len(deferred) == 20
            assert all(
                r.next_at_us is not None and r.wait_us is not None and r.wait_us <= 10_000_000
                for r in deferred
            )

            # Other topics flow, with four tokens.
            for number in range(20):
                await channel.read(
                    Inbound(
                        platform_message_id=f"d{number}", address="d", text=f"d{number}", topic="dm.reply.v1"
                    )
                )
            await runtime.wait_until(lambda: len(texts_to("d", channel)) == 20)
            assert state(runtime) is CircuitState.OPEN

            backend.error = None
            await until_quiet(runtime, 1_000)
            assert state(runtime) is CircuitState.CLOSED
            for number in range(20):
                assert texts_to(f"c{number}", channel) == ["one", "two"]
            assert runtime.status().inbox[InboxStatus.DONE] == 3 + 40 + 20
            assert runtime.status().tokens_free == 4

    [opened] = [line for line in logs if line["event"] == "breaker.opened"]
    assert (opened["topic"], opened["bus_error_code"]) == ("chat.message", "CIRCUIT_OPEN")
    assert {line["bus_error_code"] for line in logs if line["event"] == "turn.deferred"} == {"CIRCUIT_OPEN"}
    assert [line["event"] for line in logs if line["event"].startswith("breaker.")] == [
        "breaker.opened",
        "breaker.closed",
    ]


async def test_half_open_lets_one_message_of_one_lane_through(autojump_clock: MockClock) -> None:
    backend, channel = Backend(), FakeChannel()
    async with Runtime.open(backend.bot(), store=open_memory(), adapters=[channel]) as runtime:
        await open_it(runtime, channel, backend)
        for number in range(10):
            await channel.say(f"c{number}", f"one {number}")
            await channel.say(f"c{number}", f"two {number}")
        backend.most = 0

        # One try each 10 s and a bit; the failures of the probes are counted to their messages.
        for opened in range(2, 5):
            await trio.sleep(10.2)
            assert len(backend.take()) == 1
            assert state(runtime) is CircuitState.OPEN
            assert runtime.status().breakers[0].opened == opened
        assert backend.most == 1
        rows = [row.record for row in runtime.messages.list(limit=100)]
        assert sum(record.failures for record in rows) == 3 + 3

        backend.error = None
        await trio.sleep(10.2)
        assert state(runtime) is CircuitState.CLOSED
        await until_quiet(runtime, 1_000)
        for number in range(10):
            assert texts_to(f"c{number}", channel) == [f"one {number}", f"two {number}"]


async def test_once_it_closes_nobody_waits_on(autojump_clock: MockClock) -> None:
    backend, channel = Backend(), FakeChannel()
    async with Runtime.open(backend.bot(), store=open_memory(), adapters=[channel]) as runtime:
        await open_it(runtime, channel, backend)
        for number in range(10):
            await channel.say(f"c{number}", "hi")
        backend.error = None
        await trio.sleep(10.5)

        assert [texts_to(f"c{number}", channel) for number in range(10)] == [["hi"]] * 10


@pytest.mark.parametrize(
    ("error", "fails"),
    [
        pytest.param(ConnectionError("down"), True, id="a foreign error"),
        pytest.param(BusError(Code.STORE_BUSY, "later"), True, id="a transient code"),
        pytest.param(Permanent("x.bad"), False, id="Permanent"),
        pytest.param(BusError(Code.NOT_FOUND, "gone"), False, id="a permanent code"),
        pytest.param(RetryLater(60), False, id="RetryLater"),
        pytest.param(
            ExceptionGroup("", [ValueError(), Permanent("x.bad")]), False, id="a group with a Permanent"
        ),
    ],
)
async def test_what_counts_as_a_failure(autojump_clock: MockClock, error: Exception, fails: bool) -> None:
    backend, channel = Backend(), FakeChannel()
    backend.error = error
    async with Runtime.open(backend.bot(), store=open_memory(), adapters=[channel]) as runtime:
        for number in range(6):
            await channel.say(f"c{number}", "hi")
        await trio.sleep(0.2)

        assert state(runtime) is (CircuitState.OPEN if fails else CircuitState.CLOSED)


async def test_a_poison_conversation_opens_nothing(autojump_clock: MockClock) -> None:
    """Its failures count once, and whoever gets through clears them."""
    topology, channel = Topology(), FakeChannel()
    quickly = RetryPolicy(max_retries=20, base_delay_s=0.1, multiplier=1, jitter="none")

    @topology.on("chat.message", retry=quickly, breaker=Breaker(failures=2, window_s=1_000, open_s=10))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text.startswith("bad"):
            raise ValueError("a bug")
        ctx.reply(message.payload.text)

    async with Runtime.open(topology, store=open_memory(), adapters=[channel]) as runtime:
        await channel.say("poison", "bad")
        await until_quiet(runtime)
        assert runtime.status().inbox[InboxStatus.DEAD] == 1
        await channel.say("good", "hi")
        await until_quiet(runtime)
        await channel.say("poison-2", "bad")
        await until_quiet(runtime)

        assert runtime.status().breakers[0].opened == 0
        assert texts_to("good", channel) == ["hi"]


async def test_time_limits_open_it(autojump_clock: MockClock) -> None:
    topology, channel = Topology(), FakeChannel()

    @topology.on("chat.message", timeout_s=1, retry=SLOWLY, breaker=RULES)
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.sleep_forever()

    async with Runtime.open(topology, store=open_memory(), adapters=[channel]) as runtime:
        for number in range(3):
            await channel.say(f"c{number}", "hi")
        await trio.sleep(1.1)
        assert state(runtime) is CircuitState.OPEN


async def test_each_handler_of_a_topic_has_its_own(autojump_clock: MockClock) -> None:
    topology = Topology()
    channels = FakeChannel("one"), FakeChannel("two")

    @topology.on("chat.message", channel="one", retry=SLOWLY, breaker=RULES)
    async def fail(ctx: Context, message: BusMessage) -> None:
        raise ValueError("down")

    @topology.on("chat.message", breaker=RULES)
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    async with Runtime.open(topology, store=open_memory(), adapters=channels) as runtime:
        for number in range(4):
            await channels[0].say(f"c{number}", "hi")
        for number in range(4):
            await channels[1].say(f"c{number}", "hi")
        await runtime.wait_until(lambda: len(channels[1].delivered) == 4)

        found = {breaker.channel: breaker.state for breaker in runtime.status().breakers}
        assert found == {"one": CircuitState.OPEN, None: CircuitState.CLOSED}


async def test_a_crash_while_it_is_open_loses_nothing(autojump_clock: MockClock) -> None:
    """The next process begins closed; what was deferred waits no longer than it was told."""
    backend, channel, database = Backend(), FakeChannel(), MemoryDatabase()
    async with Runtime.open(
        backend.bot(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        await open_it(runtime, channel, backend)
        for number in range(10):
            await channel.say(f"c{number}", "one")
            await channel.say(f"c{number}", "two")
        await trio.sleep(1)
        left = database.copy()

    backend.error = None
    after = FakeChannel()
    async with Runtime.open(backend.bot(), store=open_memory(database=left), adapters=[after]) as runtime:
        assert state(runtime) is CircuitState.CLOSED
        rows = [row.record for row in runtime.messages.list(limit=100)]
        assert {record.crashes for record in rows} == {0}
        began = trio.current_time()
        await runtime.wait_until(lambda: len(after.delivered) == 20)
        assert trio.current_time() - began < 10.5
        for number in range(10):
            assert texts_to(f"c{number}", after) == ["one", "two"]


async def test_a_stop_while_it_is_open_leaves_all_to_the_next_run(autojump_clock: MockClock) -> None:
    backend, channel, database = Backend(), FakeChannel(), MemoryDatabase()
    async with Runtime.open(
        backend.bot(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        await open_it(runtime, channel, backend)
        await channel.say("c", "one")
        began = trio.current_time()
    assert trio.current_time() - began < 1

    backend.error = None
    async with Runtime.open(
        backend.bot(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        await until_quiet(runtime, 1_000)
        assert texts_to("c", channel) == ["one"]


async def test_a_probe_whose_shard_restarts_is_replaced(autojump_clock: MockClock) -> None:
    """Nobody will know how it would have ended; another one tries."""
    backend, channel = Backend(), FakeChannel()
    async with Runtime.open(backend.bot(), store=open_memory(shard_count=1), adapters=[channel]) as runtime:
        await open_it(runtime, channel, backend)
        for number in range(10):
            await channel.say(f"c{number}", "one")
            await channel.say(f"c{number}", "two")
        backend.work_s = 5
        await trio.sleep(9.95)
        assert state(runtime) is CircuitState.HALF_OPEN
        assert len(backend.take()) == 1
        with crash_in(ShardInbox, "accepted", at=[1]) as crashed:
            await channel.say("new", "hi")
            await trio.sleep(0.01)
        backend.error = None
        await until_quiet(runtime, 1_000)

        assert crashed == [1]
        assert state(runtime) is CircuitState.CLOSED
        for number in range(10):
            assert texts_to(f"c{number}", channel) == ["one", "two"]


async def test_of_many_that_ask_at_once_one_is_claimed(autojump_clock: MockClock) -> None:
    """Their own waits end when the breaker's does."""
    backend, channel = Backend(), FakeChannel()
    retry = RetryPolicy(max_retries=9, base_delay_s=10, multiplier=1, jitter="none")
    async with Runtime.open(backend.bot(retry=retry), store=open_memory(), adapters=[channel]) as runtime:
        await open_it(runtime, channel, backend)
        await trio.sleep(30)

        assert runtime.status().breakers[0].opened == 3
        assert len(backend.take()) == 2
        assert runtime.counters.get("deferred", 0) == 0


async def test_messages_behind_a_lane_that_is_held_give_their_tokens_back(autojump_clock: MockClock) -> None:
    topology, channel = Topology(), FakeChannel()

    @topology.on("chat.message", retry=SLOWLY, breaker=Breaker(failures=1, open_s=100))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "slow":
            await trio.sleep(5)
            raise Permanent("x.slow")
        if message.payload.text == "bad" and ctx.failures == 0:
            raise ConnectionError("down")
        ctx.reply(message.payload.text)

    async with Runtime.open(topology, store=open_memory(), adapters=[channel], max_inflight=32) as runtime:
        for text in ("slow", "two", "three"):
            await channel.say("a", text)
        await channel.say("b", "bad")
        await trio.sleep(1)
        assert (state(runtime), runtime.status().tokens_free) == (CircuitState.OPEN, 32 - 3)
        await trio.sleep(5)
        assert runtime.status().tokens_free == 32
        await until_quiet(runtime, 1_000)
        assert texts_to("a", channel) == ["two", "three"]
        assert texts_to("b", channel) == ["bad"]


async def test_whoever_comes_to_wait_when_it_has_closed_is_woken_at_once(autojump_clock: MockClock) -> None:
    """A message was deferred, and before that was on disk the circuit closed."""
    backend = Backend()
    async with Runtime.open(backend.bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime:
        services = runtime._services
        breaker = TurnBreaker("chat.message", None, RULES, services)
        woken: list[str] = []

        def wake() -> bool:
            woken.append("woken")
            return True

        breaker.wait(wake)
        assert woken == ["woken"]


async def test_many_conversations_wait_without_a_message_in_memory(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog of three hundred conversations behind an open breaker, with a window of few."""
    database, backend, channel = MemoryDatabase(), Backend(), FakeChannel()
    async with Runtime.open(
        backend.bot(), store=open_memory(database=database, shard_count=2), adapters=[channel], grace_s=0
    ) as runtime:
        await open_it(runtime, channel, backend)
        for number in range(300):
            await channel.say(f"c{number}", "one")
            await channel.say(f"c{number}", "two")
        database = database.copy()

    every: list[Lanes[LaneRow]] = []
    made: Callable[..., None] = vars(Lanes)["__init__"]

    def note(self: Lanes[LaneRow], *args: object, **kwargs: object) -> None:
        every.append(self)
        made(self, *args, **kwargs)

    monkeypatch.setattr(Lanes, "__init__", note)
    channel = FakeChannel()
    async with Runtime.open(
        backend.bot(),
        store=open_memory(database=database, shard_count=2),
        adapters=[channel],
        max_inflight=20,
    ) as runtime:
        await trio.sleep(11)
        assert state(runtime) is CircuitState.OPEN
        calls = len(backend.take())
        assert sum(len(lane.queue) for lanes in every for lane in lanes.values()) <= 2 * (20 + 64)
        await trio.sleep(9)
        # Not one more while it is open.
        assert len(backend.take()) <= 1
        assert calls < 90
        backend.error = None
        await until_quiet(runtime, 1_000)

        texts = defaultdict[str, list[str]](list)
        for out in channel.delivered:
            texts[out.address].append(out.text)
        assert [texts[f"c{number}"] for number in range(300)] == [["one", "two"]] * 300


def test_a_bad_breaker_is_refused_at_the_declaration() -> None:
    for field, value in (("failures", 0), ("failures", 1.5), ("window_s", 0), ("open_s", float("nan"))):
        with pytest.raises(BusError) as refused:
            Breaker(**{field: value})  # type: ignore[arg-type]  # what a settings file may hold
        assert refused.value.code is Code.INVALID_MESSAGE
        assert refused.value.context["field"] == field
