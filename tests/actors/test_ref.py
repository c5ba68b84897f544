from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from shardline.actors.actor import Actor
from shardline.actors.errors import BusError, Code
from shardline.actors.mailbox import Mailbox
from shardline.actors.ref import ActorRef, OpenAsks, Reply
from tests.kits.words import refused


@attrs.frozen
class Note:
    text: str


@attrs.frozen
class Length:
    """Answered with the length of `text`; "hush" is never answered, "no" with a refusal."""

    text: str
    reply: Reply[int]


class Clerk(Actor[Note | Length]):
    """Writes down what happens to it; "boom" is a crash, "wait" lasts for ever."""

    def __init__(self, *, capacity: int = 8) -> None:
        super().__init__("clerk", capacity=capacity)
        self.seen: list[str] = []
        self.kept: list[Reply[int]] = []
        self.start_error: Exception | None = None

    async def on_start(self) -> None:
        if self.start_error is not None:
            raise self.start_error
        self.seen.append("start")

    async def handle(self, message: Note | Length) -> None:
        self.seen.append(message.text)
        if message.text == "boom":
            raise ValueError(message.text)
        if message.text == "wait":
            await trio.sleep_forever()
        if isinstance(message, Length):
            if message.text == "hush":
                self.kept.append(message.reply)
            elif message.text == "no":
                message.reply.fail(BusError(Code.NOT_AUTHORIZED, "no"))
            else:
                message.reply.set(len(message.text))

    async def on_stop(self) -> None:
        self.seen.append("stop")


async def length_of(clerk: Clerk, text: str, *, timeout_s: float = 5.0) -> int:
    def make(reply: Reply[int]) -> Length:
        return Length(text, reply)

    return await clerk.ref.ask(make, timeout_s=timeout_s)


@asynccontextmanager
async def running(clerk: Clerk) -> AsyncGenerator[trio.Nursery, None]:
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(clerk.run)
            yield nursery
            nursery.cancel_scope.cancel()


async def crash(clerk: Clerk) -> None:
    """Run until the clerk trips over a boom that waits, or comes."""
    with pytest.raises(ValueError, match="boom"):
        await clerk.run()


async def ask_in_vain(clerk: Clerk, text: str, causes: list[BaseException | None]) -> None:
    with pytest.raises(BusError) as caught:
        await length_of(clerk, text)
    assert caught.value.code is Code.BUS_CLOSED
    causes.append(caught.value.__cause__)


async def test_messages_are_handled_in_order_between_start_and_stop() -> None:
    clerk = Clerk()
    async with running(clerk):
        for text in "abc":
            clerk.ref.tell(Note(text))
        await wait_all_tasks_blocked()
        assert clerk.seen == ["start", "a", "b", "c"]

    assert clerk.seen == ["start", "a", "b", "c", "stop"]


async def test_telling_is_refused_without_room_and_after_the_close() -> None:
    clerk = Clerk(capacity=1)
    clerk.ref.tell(Note("a"))
    with refused(Code.QUEUE_FULL):
        clerk.ref.tell(Note("b"))
    with refused(Code.QUEUE_FULL):
        await length_of(clerk, "b")

    clerk.mailbox.close()
    with refused(Code.BUS_CLOSED):
        clerk.ref.tell(Note("c"))
    with refused(Code.BUS_CLOSED):
        await length_of(clerk, "c")
    await clerk.run()
    assert clerk.seen == ["start", "a", "stop"]


async def test_an_ask_returns_the_answer() -> None:
    clerk = Clerk()
    async with running(clerk):
        assert await length_of(clerk, "four") == 4


async def test_an_ask_raises_what_the_actor_failed_it_with_and_the_actor_lives_on() -> None:
    clerk = Clerk()
    async with running(clerk):
        with refused(Code.NOT_AUTHORIZED):
            await length_of(clerk, "no")
        assert await length_of(clerk, "yes") == 3


async def test_the_first_answer_counts() -> None:
    reply = Reply[int]()
    reply.set(1)
    reply.set(2)
    reply.fail(ValueError())

    assert not reply.is_open
    assert await reply.wait() == 1


async def test_no_answer_in_time(autojump_clock: MockClock) -> None:
    clerk = Clerk()
    async with running(clerk):
        began_s = trio.current_time()
        with refused(Code.HANDLER_TIMEOUT):
            await length_of(clerk, "hush", timeout_s=2.5)

        assert trio.current_time() - began_s == pytest.approx(2.5)
        # The late answer meets nobody, and the actor can tell.
        assert not clerk.kept[0].is_open
        clerk.kept[0].set(4)
        assert await length_of(clerk, "next") == 4


async def test_an_ask_that_has_ended_is_not_kept(autojump_clock: MockClock) -> None:
    asks = OpenAsks("deaf")
    ref = ActorRef[Reply[int]]("deaf", Mailbox(1), asks)

    def make(reply: Reply[int]) -> Reply[int]:
        return reply

    for code in (Code.HANDLER_TIMEOUT, Code.QUEUE_FULL):
        with refused(code):
            await ref.ask(make, timeout_s=1)
        assert len(asks) == 0


async def test_a_crash_ends_every_open_ask_with_its_cause() -> None:
    clerk = Clerk()
    causes: list[BaseException | None] = []

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crash, clerk)
            nursery.start_soon(ask_in_vain, clerk, "hush", causes)
            await wait_all_tasks_blocked()
            nursery.start_soon(ask_in_vain, clerk, "boom", causes)

    assert [str(cause) for cause in causes] == ["boom", "boom"]
    # One that was kept in the crashed state is answered already; its late answer changes nothing.
    assert not clerk.kept[0].is_open


async def test_a_cancelled_actor_ends_asks_in_hand_and_those_that_still_wait() -> None:
    clerk = Clerk()
    causes: list[BaseException | None] = []

    with trio.fail_after(5):
        async with trio.open_nursery() as askers, trio.open_nursery() as nursery:
            await nursery.start(clerk.run)
            for text in ("wait", "behind"):
                askers.start_soon(ask_in_vain, clerk, text, causes)
                await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    assert causes == [None, None]
    assert clerk.seen == ["start", "wait", "stop"]


async def test_an_orderly_end_closes_the_asks_it_did_not_answer() -> None:
    clerk = Clerk()
    causes: list[BaseException | None] = []

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clerk.run)
            nursery.start_soon(ask_in_vain, clerk, "hush", causes)
            await wait_all_tasks_blocked()
            clerk.mailbox.close()

    assert causes == [None]


async def test_asking_between_two_runs_is_refused_at_once_and_works_again_after_the_restart() -> None:
    clerk = Clerk()
    clerk.ref.tell(Note("boom"))
    await crash(clerk)

    with refused(Code.BUS_CLOSED):
        await length_of(clerk, "down")
    async with running(clerk):
        assert await length_of(clerk, "up") == 2
    assert "down" not in clerk.seen


async def test_asking_before_the_first_run_waits_for_it() -> None:
    clerk = Clerk()
    lengths: list[int] = []

    async def ask() -> None:
        lengths.append(await length_of(clerk, "early"))

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            await nursery.start(clerk.run)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    assert lengths == [5]


async def test_a_restart_keeps_the_mailbox_and_loses_only_the_message_in_hand() -> None:
    clerk = Clerk(capacity=5)
    for text in ("a", "boom", "b"):
        clerk.ref.tell(Note(text))
    await crash(clerk)
    # While it is down.
    clerk.ref.tell(Note("c"))
    clerk.mailbox.close()
    await clerk.run()

    assert clerk.seen == ["start", "a", "boom", "stop", "start", "b", "c", "stop"]


async def test_a_failed_start_is_a_crash_without_a_stop() -> None:
    clerk = Clerk()
    clerk.start_error = error = ValueError("no table")
    clerk.ref.tell(Note("a"))
    with pytest.raises(ValueError, match="no table") as caught:
        await clerk.run()
    assert caught.value is error
    assert clerk.seen == []

    clerk.start_error = None
    clerk.mailbox.close()
    await clerk.run()
    assert clerk.seen == ["start", "a", "stop"]


async def test_started_is_told_after_on_start() -> None:
    clerk = Clerk()
    async with running(clerk):
        assert clerk.seen == ["start"]


async def test_an_actor_without_a_handler_says_so() -> None:
    actor = Actor[int]("idle")
    actor.ref.tell(1)
    with pytest.raises(NotImplementedError):
        await actor.run()


def test_names() -> None:
    clerk = Clerk()
    assert (clerk.name, clerk.ref.name, repr(clerk.ref)) == ("clerk", "clerk", "<ActorRef clerk>")
