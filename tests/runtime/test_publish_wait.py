"""`publish(wait="handled")`: the answer, who waits for whom, and what is left behind."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from shardline import (
    BusError,
    BusMessage,
    Code,
    Context,
    Direction,
    Event,
    Permanence,
    Permanent,
    RetryPolicy,
    Topology,
)
from shardline.adapters.base import NotSent, Uncertain
from shardline.runtime.services import Services
from shardline.runtime.shard_inbox import ShardInbox
from shardline.runtime.shard_messages import TurnEnded
from shardline.testing import Harness
from tests.kits.bots import new_message


def obedient() -> Topology:
    topology = Topology()
    topology.topic("log")

    @topology.on("chat.message", retry=RetryPolicy(max_retries=1))
    async def answer(ctx: Context, message: BusMessage) -> None:
        text = message.payload.text
        if text == "bad":
            raise Permanent("x.bad", "no good")
        if text == "flaky" and ctx.failures == 0:
            raise ConnectionError("once")
        await trio.sleep(1)
        ctx.reply(text)

    return topology


def services_of(bot: Harness) -> Services:
    services: Services = vars(bot.runtime)["_services"]
    return services


async def test_the_answer_comes_with_the_end(autojump_clock: MockClock) -> None:
    async with Harness(obedient()) as bot:
        begun_s = trio.current_time()
        done = await bot.runtime.publish(new_message("hi"), wait="handled")
        assert (done.status, done.code) == ("done", None)
        assert trio.current_time() - begun_s == pytest.approx(1)
        flaky = await bot.runtime.publish(new_message("flaky"), wait="handled")
        dead = await bot.runtime.publish(new_message("bad"), wait="handled")

    assert flaky.status == "done"
    assert (dead.status, dead.code, dead.own_code) == ("dead", Code.HANDLER_FAILED, "x.bad")


async def test_a_repeat_is_told_how_the_first_one_ended(autojump_clock: MockClock) -> None:
    async with Harness(obedient()) as bot:
        first = await bot.runtime.publish(new_message("bad", idem="k"), wait="handled")
        again = await bot.runtime.publish(new_message("bad", idem="k"), wait="handled")

    assert again.receipt.duplicate
    assert (again.status, again.own_code, again.receipt.event_id) == (
        "dead",
        "x.bad",
        first.receipt.event_id,
    )


async def test_a_send_is_done_dead_or_parked(autojump_clock: MockClock) -> None:
    async with Harness(obedient()) as bot:
        bot.channel("fake").script(
            NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT, text="no"), Uncertain("no answer")
        )
        dead, parked, done = [
            await bot.runtime.publish(new_message("hi", direction=Direction.OUTBOUND), wait="handled")
            for _ in range(3)
        ]

    assert [(one.status, one.code) for one in (dead, parked, done)] == [
        ("dead", Code.CONTENT_REFUSED),
        ("parked", Code.DELIVERY_UNCERTAIN),
        ("done", None),
    ]


async def test_an_event_has_no_end_to_wait_for(autojump_clock: MockClock) -> None:
    event = Event(id="e", ts_us=1, topic="log", key=None, headers={}, payload=1)
    async with Harness(obedient()) as bot:
        with pytest.raises(BusError) as refused:
            await bot.runtime.publish(event, wait="handled")  # type: ignore[call-overload]  # what is refused

    assert refused.value.code is Code.INVALID_MESSAGE


async def test_who_is_cancelled_leaves_nothing_and_the_message_goes_on(autojump_clock: MockClock) -> None:
    async with Harness(obedient()) as bot:
        with trio.move_on_after(0.5) as scope:
            await bot.runtime.publish(new_message("hi"), wait="handled")
        assert scope.cancelled_caught
        assert services_of(bot).ends.waiting == 0  # nothing else shows what is left behind
        await bot.settle()
        assert bot.sent("fake:a") == ["hi"]


async def test_a_shard_that_restarts_answers_all_the_same(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, crashes = ShardInbox.turn_ended, ["once"]

    def turn_ended(inbox: ShardInbox, message: TurnEnded) -> None:
        if crashes:
            raise RuntimeError(crashes.pop())
        real(inbox, message)

    monkeypatch.setattr(ShardInbox, "turn_ended", turn_ended)
    async with Harness(obedient()) as bot:
        handled = await bot.runtime.publish(new_message("hi"), wait="handled")
        assert bot.runtime.counters["crashes"] == 1

    assert handled.status == "done"


async def test_a_stop_ends_the_wait(autojump_clock: MockClock) -> None:
    codes: list[Code] = []

    async def publish() -> None:
        try:
            await bot.runtime.publish(new_message("hi"), wait="handled")
        except BusError as error:
            codes.append(error.code)

    topology = Topology()

    @topology.on("chat.message", timeout_s=1_000)
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.sleep(500)

    async with trio.open_nursery() as nursery:
        async with Harness(topology) as bot:
            nursery.start_soon(publish)
            await wait_all_tasks_blocked()

    assert codes == [Code.BUS_CLOSED]


def asking(bot_of: list[Harness], seen: dict[str, str], *, begun: dict[str, trio.Event]) -> Topology:
    """`ask:<conversation>` publishes to that conversation and waits for the end."""
    topology = Topology()

    @topology.on("chat.message", timeout_s=60, retry=RetryPolicy(max_retries=0))
    async def answer(ctx: Context, message: BusMessage) -> None:
        key, text = message.conversation_key, message.payload.text
        if not text.startswith("ask:"):
            return
        begun[key].set()
        for event in begun.values():
            await event.wait()
        target = text.removeprefix("ask:")
        await trio.sleep(int(key[-1]))
        try:
            handled = await bot_of[0].runtime.publish(new_message("just this", key=target), wait="handled")
            seen[key] = handled.status
        except BusError as error:
            seen[key] = str(error.code)
            assert trio.current_time() - ctx.deadline_s < -50, "at once, not by the time limit"

    return topology


async def test_a_turn_that_would_wait_for_itself_is_told_at_once(autojump_clock: MockClock) -> None:
    seen: dict[str, str] = {}
    bots: list[Harness] = []
    async with Harness(asking(bots, seen, begun={"fake:1": trio.Event()})) as bot:
        bots.append(bot)
        await bot.say("fake:1", "ask:fake:1")
        await bot.settle()
        rows = bot.runtime.messages.list(key="fake:1")

    assert seen == {"fake:1": "WOULD_DEADLOCK"}
    assert len(rows) == 1, "nothing was stored"


async def test_a_ring_of_turns_is_broken_by_the_last_one(autojump_clock: MockClock) -> None:
    """1 waits for 2, 2 for 3; 3 would wait for 1."""
    seen: dict[str, str] = {}
    bots: list[Harness] = []
    keys = ["fake:1", "fake:2", "fake:3"]
    async with Harness(asking(bots, seen, begun={key: trio.Event() for key in keys})) as bot:
        bots.append(bot)
        for key, target in zip(keys, [*keys[1:], keys[0]], strict=True):
            await bot.say(key, f"ask:{target}")
        await bot.settle()
        waits = len(services_of(bot).turn_waits)

    assert seen == {"fake:1": "done", "fake:2": "done", "fake:3": "WOULD_DEADLOCK"}
    assert waits == 0


async def test_a_turn_may_wait_for_another_conversation(autojump_clock: MockClock) -> None:
    seen: dict[str, str] = {}
    bots: list[Harness] = []
    async with Harness(asking(bots, seen, begun={"fake:1": trio.Event()})) as bot:
        bots.append(bot)
        await bot.say("fake:1", "ask:fake:2")
        await bot.settle()

    assert seen == {"fake:1": "done"}
