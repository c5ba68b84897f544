"""A breaker in a running bot: when it opens, what waits, and who probes."""

from __future__ import annotations

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
from shardline.storage.memory import open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel
from tests.kits.backend import RULES, SLOWLY, Backend, open_it, state
from tests.kits.bots import texts_to, until_quiet


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


def test_a_bad_breaker_is_refused_at_the_declaration() -> None:
    for field, value in (("failures", 0), ("failures", 1.5), ("window_s", 0), ("open_s", float("nan"))):
        with pytest.raises(BusError) as refused:
            Breaker(**{field: value})  # type: ignore[arg-type]  # what a settings file may hold
        assert refused.value.code is Code.INVALID_MESSAGE
        assert refused.value.context["field"] == field
