"""put, get and ask, cancelled at every step they take: nothing lost, nothing twice, nobody left in a waiting list."""

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from shardline.actors.actor import Actor
from shardline.actors.mailbox import Mailbox
from shardline.actors.ref import Reply

Operation = Callable[[], Awaitable[None]]


class _CancelAfterStep(trio.abc.Instrument):
    """Cancels `scope` when `task` has taken its n-th step."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, n: int) -> None:
        self.task = task
        self.scope = scope
        self.left = n

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()


async def is_cancelled_at(n: int, victim: Operation, helper: Operation) -> bool:
    """Run both side by side, cancel `victim` after its n-th step (0: before the first), let `helper` end.

    Returns:
        Whether there was a step to cancel it at.
    """
    scope = trio.CancelScope()

    async def run_victim() -> None:
        task = trio.lowlevel.current_task()
        instrument = _CancelAfterStep(task, scope, n)
        trio.lowlevel.add_instrument(instrument)
        try:
            with scope:
                if n == 0:
                    scope.cancel()
                await victim()
        finally:
            trio.lowlevel.remove_instrument(instrument)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_victim)
            await wait_all_tasks_blocked()
            await helper()
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    return scope.cancelled_caught


async def steps_of(scenario: Callable[[int], Awaitable[bool]]) -> int:
    """Go through the steps until there are no more to cancel at.

    Returns:
        How many there were.
    """
    n = 0
    while await scenario(n):
        n += 1
    return n


async def put_scenario(n: int) -> bool:
    mailbox = Mailbox[int](2)
    entered: list[int] = []
    got: list[int] = []

    async def victim() -> None:
        for item in range(12):
            await mailbox.put(item)
            entered.append(item)

    async def helper() -> None:
        while len(mailbox):
            got.append(await mailbox.get())
            await wait_all_tasks_blocked()

    cancelled = await is_cancelled_at(n, victim, helper)

    # Exactly the calls that returned have put something in.
    assert got == entered
    assert cancelled == (len(entered) < 12)
    mailbox.put_nowait(98)
    mailbox.put_nowait(99)
    assert await mailbox.get_batch(9) == [98, 99]
    return cancelled


async def get_scenario(n: int) -> bool:
    mailbox = Mailbox[int](100)
    got: list[int] = []

    async def victim() -> None:
        while len(got) < 90:
            got.append(await mailbox.get())
            if len(got) < 80:
                got.extend(await mailbox.get_batch(3))

    async def helper() -> None:
        for item in range(90):
            mailbox.put_nowait(item)
            if item % 10 == 0:
                await wait_all_tasks_blocked()

    cancelled = await is_cancelled_at(n, victim, helper)

    left = await mailbox.get_batch(100) if len(mailbox) else []
    assert [*got, *left] == list(range(90))
    mailbox.put_nowait(99)
    assert await mailbox.get() == 99
    return cancelled


@attrs.frozen
class Double:
    value: int
    reply: Reply[int]


class Doubler(Actor[Double]):
    """Answers after a checkpoint."""

    async def handle(self, message: Double) -> None:
        await trio.lowlevel.checkpoint()
        message.reply.set(2 * message.value)


async def ask_scenario(n: int) -> bool:
    actor = Doubler("doubler", capacity=4)
    answers: list[int] = []

    async def ask(value: int) -> int:
        def make(reply: Reply[int]) -> Double:
            return Double(value, reply)

        return await actor.ref.ask(make, timeout_s=5)

    async def victim() -> None:
        while len(answers) < 4:
            answers.append(await ask(len(answers)))

    async def helper() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(actor.run)
            await wait_all_tasks_blocked()
            # The actor is as good as before for the next one.
            assert await ask(50) == 100
            assert len(actor.mailbox) == 0
            nursery.cancel_scope.cancel()

    cancelled = await is_cancelled_at(n, victim, helper)

    assert answers == [0, 2, 4, 6][: len(answers)]
    assert cancelled == (len(answers) < 4)
    return cancelled


@pytest.mark.parametrize(
    ("scenario", "least_steps"), [(put_scenario, 10), (get_scenario, 10), (ask_scenario, 4)]
)
async def test_cancelled_at_every_step(scenario: Callable[[int], Awaitable[bool]], least_steps: int) -> None:
    assert await steps_of(scenario) >= least_steps
