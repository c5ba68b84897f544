from collections.abc import Iterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from shardline.actors.errors import Code
from shardline.actors.mailbox import EndOfMailbox, Mailbox
from tests.kits.words import refused


def filled(capacity: int, *items: int) -> Mailbox[int]:
    mailbox = Mailbox[int](capacity, name="box")
    for item in items:
        mailbox.put_nowait(item)
    return mailbox


async def test_first_in_first_out() -> None:
    mailbox = filled(3, 1, 2, 3)

    assert [await mailbox.get(), await mailbox.get(), await mailbox.get()] == [1, 2, 3]
    assert len(mailbox) == 0


async def test_a_full_mailbox_refuses_and_keeps_what_it_has() -> None:
    mailbox = filled(2, 1, 2)

    with refused(Code.QUEUE_FULL, "full"):
        mailbox.put_nowait(3)
    assert len(mailbox) == mailbox.capacity == 2
    assert await mailbox.get_batch(9) == [1, 2]


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_mailbox_without_room_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match="room"):
        Mailbox[int](capacity)


async def test_a_batch_is_what_waits_up_to_the_limit() -> None:
    mailbox = filled(9, *range(5))

    assert await mailbox.get_batch(3) == [0, 1, 2]
    assert await mailbox.get_batch(3) == [3, 4]
    with pytest.raises(ValueError, match="at least one"):
        await mailbox.get_batch(0)


@pytest.mark.parametrize("batched", [False, True])
async def test_the_consumer_waits_for_a_message(batched: bool) -> None:
    mailbox = Mailbox[int](1)
    got: list[int] = []

    async def consume() -> None:
        got.extend(await mailbox.get_batch(5) if batched else [await mailbox.get()])

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            await wait_all_tasks_blocked()
            assert got == []
            mailbox.put_nowait(7)

    assert got == [7]


async def test_producers_enter_in_the_order_they_came_and_nobody_overtakes() -> None:
    mailbox = filled(1, 0)
    entered: list[int] = []

    async def produce(n: int) -> None:
        await mailbox.put(n)
        entered.append(n)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for n in (1, 2, 3):
                nursery.start_soon(produce, n)
                await wait_all_tasks_blocked()
            assert (entered, len(mailbox)) == ([], 1)
            assert await mailbox.get() == 0
            # The room belongs to producer 1 from that moment on, before its task has run.
            with refused(Code.QUEUE_FULL):
                mailbox.put_nowait(99)
            await wait_all_tasks_blocked()
            assert entered == [1]
            assert [await mailbox.get() for _ in range(3)] == [1, 2, 3]

    # Woken in one tick, they run in any order; their messages keep theirs.
    assert sorted(entered) == [1, 2, 3]


async def test_a_batch_makes_room_for_as_many_producers() -> None:
    mailbox = filled(3, 0, 1, 2)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for n in range(3, 8):
                nursery.start_soon(mailbox.put, n)
                await wait_all_tasks_blocked()
            assert await mailbox.get_batch(2) == [0, 1]
            assert len(mailbox) == 3
            assert [*await mailbox.get_batch(9), *await mailbox.get_batch(9)] == [2, 3, 4, 5, 6, 7]


async def test_a_cancelled_producer_takes_its_message_along() -> None:
    mailbox = filled(1, 0)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(0) as scope:
                await mailbox.put(1)
            assert scope.cancelled_caught
            nursery.start_soon(mailbox.put, 2)
            await wait_all_tasks_blocked()
            assert [await mailbox.get(), await mailbox.get()] == [0, 2]

    assert len(mailbox) == 0


async def test_a_message_handed_over_in_the_tick_of_the_cancellation_is_not_lost() -> None:
    mailbox = Mailbox[int](1)
    got: list[int] = []
    scope = trio.CancelScope()

    async def consume() -> None:
        with scope:
            got.append(await mailbox.get())

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            await wait_all_tasks_blocked()
            mailbox.put_nowait(1)
            scope.cancel()

    assert [*got, *([await mailbox.get()] if len(mailbox) else [])] == [1]


async def test_room_given_in_the_tick_of_the_cancellation_is_used() -> None:
    mailbox = filled(1, 0)
    ends: list[str] = []
    scope = trio.CancelScope()

    async def produce() -> None:
        with scope:
            await mailbox.put(1)
            ends.append("put returned")

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce)
            await wait_all_tasks_blocked()
            assert await mailbox.get() == 0
            scope.cancel()

    assert (ends, len(mailbox)) == (["put returned"], 1)


async def test_a_cancelled_consumer_leaves_its_place() -> None:
    mailbox = Mailbox[int](1)
    with trio.move_on_after(0):
        await mailbox.get()

    mailbox.put_nowait(1)
    assert await mailbox.get() == 1


async def test_closed_takes_no_more_but_gives_what_it_has() -> None:
    mailbox = filled(3, 1, 2)
    mailbox.close()
    mailbox.close()

    assert mailbox.is_closed
    with refused(Code.BUS_CLOSED):
        mailbox.put_nowait(3)
    with refused(Code.BUS_CLOSED):
        await mailbox.put(3)
    assert await mailbox.get() == 1
    assert await mailbox.get_batch(5) == [2]
    with pytest.raises(EndOfMailbox):
        await mailbox.get()
    with pytest.raises(EndOfMailbox):
        await mailbox.get_batch(5)


async def test_closing_wakes_the_consumer() -> None:
    mailbox = Mailbox[int](1)

    async def consume() -> None:
        with pytest.raises(EndOfMailbox):
            await mailbox.get()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            await wait_all_tasks_blocked()
            mailbox.close()


async def test_closing_refuses_the_producers_that_wait() -> None:
    mailbox = filled(1, 0)
    refusals: list[int] = []

    async def produce(n: int) -> None:
        with refused(Code.BUS_CLOSED):
            await mailbox.put(n)
        refusals.append(n)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for n in (1, 2):
                nursery.start_soon(produce, n)
            await wait_all_tasks_blocked()
            mailbox.close()

    assert sorted(refusals) == [1, 2]
    assert await mailbox.get_batch(9) == [0]


async def test_a_second_consumer_is_a_mistake() -> None:
    mailbox = Mailbox[int](1)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mailbox.get)
            await wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError, match="consumer"):
                await mailbox.get()
            mailbox.put_nowait(1)


class _Turns(trio.abc.Instrument):
    """Counts how often a neighbour task gets its turn."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self.task = task
        self.turns = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.turns += task is self.task


@pytest.fixture
def neighbour(nursery: trio.Nursery) -> Iterator[_Turns]:
    tasks: list[trio.lowlevel.Task] = []

    async def run_on() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    nursery.start_soon(run_on)
    tasks.extend(nursery.child_tasks)
    turns = _Turns(tasks[0])
    trio.lowlevel.add_instrument(turns)
    yield turns
    trio.lowlevel.remove_instrument(turns)


@pytest.mark.parametrize("limit", [None, 1, 8, 100])
async def test_a_consumer_never_short_of_messages_lets_others_run(
    neighbour: _Turns, limit: int | None
) -> None:
    mailbox = filled(3200, *range(3200))

    while len(mailbox):
        if limit is None:
            await mailbox.get()
        else:
            await mailbox.get_batch(limit)

    # A batch larger than 32 is one step, and each one comes after a checkpoint; no more than that, they are dear.
    expected = 3200 // max(32, limit or 1)
    assert expected - 1 <= neighbour.turns <= expected + 1
