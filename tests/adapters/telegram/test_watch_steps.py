"""One call of several is cut off at each of its steps: the others are answered, whoever read for them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest
import trio

from shardline.adapters.telegram.api import HttpApi
from shardline.adapters.telegram.watch import HAS_WATCH
from tests.adapters.telegram.test_cancelled_calls import nothing_left
from tests.adapters.telegram.test_hostile import OK, Serve, answer, hostile
from tests.adapters.telegram.test_watch import call

CALLS = 4
MOST_STEPS = 4_000
"""A large body goes out in as many pieces as the system's buffers are full in between."""
SMALL, LARGE = 10, 6 * 1024 * 1024

pytestmark = pytest.mark.skipif(not HAS_WATCH, reason="there is no epoll here")


class Cut(trio.abc.Instrument):
    """Cancels a scope behind a step of one task.

    Attributes:
        task: Whose steps count; None for none yet.
        left: How many steps are still to come.
    """

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self.task: trio.lowlevel.Task | None = None
        self._scope = scope
        self.left = step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self._scope.cancel()


@contextmanager
def instrument(one: trio.abc.Instrument) -> Generator[None]:
    trio.lowlevel.add_instrument(one)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(one)


def in_pieces() -> Serve:
    """Reads all of a request and answers it with its own chat, in two pieces; keeps the connection."""

    async def serve(stream: trio.SocketStream) -> None:
        while told := bytes(await stream.receive_some()):
            head, _, body = told.partition(b"\r\n\r\n")
            left = int(head.rpartition(b"content-length: ")[2]) - len(body)
            while left > 0 and (more := await stream.receive_some()):
                left -= len(more)
            chat = int(told.partition(b'"chat_id":')[2].partition(b",")[0])
            found = answer(OK.replace(b"1}", b"%d}" % chat))
            await stream.send_all(found[:50])
            await trio.lowlevel.checkpoint()
            await stream.send_all(found[50:])

    return serve


async def one_cut(api: HttpApi, victim: int, step: int, size: int) -> bool:
    """Whether the call had as many steps."""
    scope = trio.CancelScope()
    cut = Cut(scope, step)
    told = dict[int, object]()

    async def calls(chat: int) -> None:
        # Two, so that a connection is used again while others wait.
        await call(api, chat, told, size=size if chat == victim else SMALL)
        await call(api, chat, told)

    async def scoped() -> None:
        with scope:
            cut.task = trio.lowlevel.current_task()
            await calls(victim)

    with instrument(cut):
        async with trio.open_nursery() as nursery:
            for chat in range(1, CALLS + 1):
                if chat == victim:
                    nursery.start_soon(scoped)
                else:
                    nursery.start_soon(calls, chat)
    for chat in range(1, CALLS + 1):
        assert told.get(chat) == chat or (chat == victim and chat not in told), (step, told)
    return cut.left <= 0


@pytest.mark.parametrize(
    "size", [pytest.param(SMALL, id="small"), pytest.param(LARGE, id="large", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("victim", range(1, CALLS + 1))
async def test_a_call_that_is_cut_off_at_any_step(victim: int, size: int) -> None:
    with nothing_left():
        async with hostile(in_pieces()) as api:
            for step in range(1, MOST_STEPS):
                if not await one_cut(api, victim, step, size):
                    break
            else:
                pytest.fail("the call has no end")
