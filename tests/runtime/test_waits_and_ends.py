"""Who waits for an end is told it, whatever end that is; a stop or a crash meanwhile loses and repeats nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Permanence, RetryPolicy, Topology
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, SendOutcome, Uncertain
from shardline.runtime.sender import Sender
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import new_message
from tests.kits.words import refused

BUSY = NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT, text="503")


def bot_of(words: dict[str, int]) -> Topology:
    """`dies` raises each time, `slow` is over its time limit each time, `late` works at the third try."""
    topology = Topology()
    policy = RetryPolicy(max_retries=2, base_delay_s=1, jitter="none")

    @topology.on("chat.message", timeout_s=5, retry=policy)
    async def answer(ctx: Context, message: BusMessage) -> None:
        word = message.payload.text
        words[word] = words.get(word, 0) + 1
        if word == "dies" or (word == "late" and ctx.failures < 2):
            raise ConnectionError("not now")
        if word == "slow":
            await trio.sleep(60)
        if word == "long":
            await trio.sleep(4)

    return topology


async def code_of(call: Callable[[], Awaitable[object]], codes: list[Code]) -> None:
    try:
        await call()
    except BusError as error:
        codes.append(error.code)


@pytest.mark.parametrize(
    ("word", "hops", "status", "code", "runs", "took_s"),
    [
        ("dies", 0, "dead", Code.HANDLER_FAILED, 3, 3),
        ("slow", 0, "dead", Code.HANDLER_TIMEOUT, 3, 18),
        ("late", 0, "done", None, 3, 3),
        ("round", 65, "dead", Code.HOP_LIMIT, 0, 0),
    ],
)
async def test_a_publisher_is_told_the_end_after_all_tries(
    autojump_clock: MockClock, word: str, hops: int, status: str, code: Code | None, runs: int, took_s: float
) -> None:
    words: dict[str, int] = {}
    async with Harness(bot_of(words)) as bot:
        begun_s = trio.current_time()
        ended = await bot.runtime.publish(attrs.evolve(new_message(word), hops=hops), wait="handled")
        waited_s = trio.current_time() - begun_s

    assert (ended.status, ended.code, words.get(word, 0)) == (status, code, runs)
    assert waited_s == pytest.approx(took_s, abs=0.1)


async def test_a_publisher_whose_message_is_refused_waits_for_nothing(autojump_clock: MockClock) -> None:
    words: dict[str, int] = {}
    async with Harness(bot_of(words), max_lane_backlog=1) as bot:
        await bot.runtime.publish(new_message("long"))
        await bot.runtime.publish(new_message("long"))
        with trio.fail_after(1), refused(Code.QUEUE_FULL):
            await bot.runtime.publish(new_message("hi"), wait="handled", timeout_s=0)
        await bot.settle()

    assert words == {"long": 2}


async def test_a_repeat_in_the_next_run_is_told_the_end(autojump_clock: MockClock) -> None:
    """The waiter is told of the stop; the same key later waits for the message that went on."""
    words, codes = dict[str, int](), list[Code]()
    async with trio.open_nursery() as nursery, Harness(bot_of(words), store="sqlite-inline") as bot:
        publish = bot.runtime.publish
        nursery.start_soon(code_of, lambda: publish(new_message("long", idem="k"), wait="handled"), codes)
        await bot.advance(1)
        await bot.crash()
        again = await bot.runtime.publish(new_message("long", idem="k"), wait="handled")

    assert codes == [Code.BUS_CLOSED]
    assert (again.status, again.receipt.duplicate, words) == ("done", True, {"long": 2})


class Slow(FakeChannel):
    """Takes a second for each send, and may never end one."""

    hangs: bool = False

    async def send(self, out: Outbound) -> SendOutcome:
        if self.hangs:
            self.attempts.append(out)
            await trio.sleep_forever()
        await trio.sleep(1)
        return await FakeChannel.send(self, out)


async def test_a_sender_over_a_stop_is_told_so_and_its_send_is_there(autojump_clock: MockClock) -> None:
    """One send is in back-off when the stop comes: its waiter hears BUS_CLOSED; the next run sends it, once."""
    codes: list[Code] = []
    channel = FakeChannel("fake")
    harness = Harness(bot_of({}), channels=[channel], store="sqlite-inline")
    async with trio.open_nursery() as nursery, harness as bot:
        channel.script(BUSY)
        send = bot.runtime.sender.send
        nursery.start_soon(code_of, lambda: send("fake", "fake:1", "hi", "k"), codes)
        await bot.advance(0.01)
        await bot.crash()
        again = await bot.runtime.sender.send("fake", "fake:1", "hi", "k")
        more = await bot.runtime.sender.send("fake", "fake:1", "hi", "k")
        with refused(Code.IDENTITY_MISMATCH):
            await bot.runtime.sender.send("fake", "fake:1", "other", "k")

    assert codes == [Code.BUS_CLOSED]
    assert (again.status, again.deduped, more.deduped) == ("sent", False, True)
    assert bot.sent("fake:1") == ["hi"]


async def test_a_sender_over_a_crash_in_the_send_is_told_that_nobody_knows(autojump_clock: MockClock) -> None:
    codes: list[Code] = []
    channel = Slow("fake", ChannelCaps(send_timeout_s=1e6))
    channel.hangs = True
    harness = Harness(bot_of({}), channels=[channel], store="sqlite-inline")
    async with trio.open_nursery() as nursery, harness as bot:
        send = bot.runtime.sender.send
        nursery.start_soon(code_of, lambda: send("fake", "fake:1", "hi", "k"), codes)
        await bot.advance(5)
        await bot.crash()
        channel.hangs = False
        again = await bot.runtime.sender.send("fake", "fake:1", "hi", "k")
        await bot.resolve("k", "sent")
        settled = await bot.runtime.sender.send("fake", "fake:1", "hi", "k")

    assert codes == [Code.BUS_CLOSED]
    assert (again.status, again.code) == ("uncertain", Code.DELIVERY_UNCERTAIN)
    assert (settled.status, settled.deduped) == ("sent", True)
    assert len(channel.attempts) == 1


async def test_two_senders_with_one_key_send_once(autojump_clock: MockClock) -> None:
    channel = Slow("fake")
    ends: list[tuple[str, int]] = []
    codes: list[Code] = []
    async with Harness(bot_of({}), channels=[channel]) as bot:
        senders = [Sender(vars(bot.runtime)["_services"]) for _ in range(2)]

        async def send(sender: Sender, text: str) -> None:
            try:
                ended = await sender.send("fake", "fake:1", text, "k")
                ends.append((ended.status, ended.outbox_id))
            except BusError as error:
                codes.append(error.code)

        async with trio.open_nursery() as nursery:
            for sender, text in zip((*senders, senders[0]), ("hi", "hi", "bye"), strict=True):
                nursery.start_soon(send, sender, text)

    assert len(channel.attempts) == 1, "whichever text came first, it alone went out"
    assert len(ends) == (2 if channel.attempts[0].text == "hi" else 1)
    assert set(ends) == {("sent", channel.attempts[0].id)}
    assert codes == [Code.IDENTITY_MISMATCH] * (3 - len(ends))


@pytest.mark.parametrize("decision", ["sent", "dead", "resend"])
async def test_a_waiter_is_told_what_a_person_decides(autojump_clock: MockClock, decision: str) -> None:
    """The send behind an uncertain one that blocks its conversation waits; the decision lets it go."""
    channel = FakeChannel("fake", ChannelCaps(block_on_uncertain=True))
    told: list[str] = []
    async with Harness(bot_of({}), channels=[channel]) as bot:
        channel.script(Uncertain("no answer"))
        first = await bot.runtime.sender.send("fake", "fake:1", "one", "k1")

        async def second() -> None:
            told.append((await bot.runtime.sender.send("fake", "fake:1", "two", "k2")).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(second)
            await bot.advance(10)
            assert told == []
            await bot.resolve("k1", decision)  # type: ignore[arg-type]  # one of the three
        await bot.settle()

    assert (first.status, told) == ("uncertain", ["sent"])
    assert [out.text for out in channel.attempts] == [
        "one",
        "two",
        *(["one"] if decision == "resend" else []),
    ]
