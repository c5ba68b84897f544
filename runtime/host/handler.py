"""Handlers that are asyncio coroutines, and the context they get."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast, overload

import trio

from ...actors.errors import BusError, Code
from ...actors.message import BusMessage
from ..context import Context
from ..loops import mark_asyncio
from .guest import Guest, guest_here, tenant_here

if TYPE_CHECKING:
    import structlog.typing

    from ...actors.content import Content, SendRef
    from ...actors.plain import Plain
    from ...storage.records import OnUncertain

T = TypeVar("T")


class AsyncioContext:
    """What an asyncio handler may do in its turn: the verbs of `Context`, to be awaited on the program's loop.

    `reply`, `send`, `publish`, `schedule`, `cancel`, `ephemeral` and `step_key` are those of the `Context` itself.

    Attributes:
        message: The message.
    """

    def __init__(self, turn: Context, guest: Guest) -> None:
        self._turn = turn
        self._guest = guest
        self._calls = tenant_here().calls
        self.message = turn.message
        self.reply = turn.reply
        self.send = turn.send
        self.publish = turn.publish
        self.schedule = turn.schedule
        self.cancel = turn.cancel
        self.ephemeral = turn.ephemeral
        self.step_key = turn.step_key

    @property
    def claim(self) -> int:
        """The number of this run of the message."""
        return self._turn.claim

    @property
    def failures(self) -> int:
        """Turns of this message that failed before, in this generation."""
        return self._turn.failures

    @property
    def generation(self) -> int:
        """How often the message was requeued."""
        return self._turn.generation

    @property
    def deadline_s(self) -> float:
        """When the turn's time is over, in seconds of the loop's `time()`, as `asyncio.timeout_at` takes them."""
        return self._guest.loop.time() + self._turn.deadline_s - trio.current_time()

    @property
    def log(self) -> structlog.typing.FilteringBoundLogger:
        """A logger bound to the message's ids."""
        return self._turn.log

    @property
    def state(self) -> MutableMapping[str, Plain]:
        """See `Context.state`."""
        return self._turn.state

    async def send_now(
        self, name: str, content: str | Content, *, on_uncertain: OnUncertain | str | None = None
    ) -> SendRef:
        """See `Context.send_now`."""
        turn = self._turn
        return await self._guest.call(
            lambda: turn.send_now(name, content, on_uncertain=on_uncertain), self._calls
        )

    @overload
    async def step(self, name: str, fn: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def step(self, name: str, fn: Callable[[], T]) -> T: ...
    async def step(self, name: str, fn: Callable[[], T | Awaitable[T]]) -> T:
        """See `Context.step`; `fn` runs as an asyncio task."""
        turn, guest = self._turn, self._guest
        if not callable(fn):
            raise BusError(Code.INVALID_MESSAGE, "a step takes a function without arguments", step=name)
        run = partial(guest.on_host, partial(_called, fn))
        return await guest.call(lambda: turn.step(name, run), self._calls)


AsyncioHandler = Callable[[AsyncioContext, BusMessage], Awaitable[None]]


def asyncio_handler(function: AsyncioHandler) -> Callable[[Context, BusMessage], Awaitable[None]]:
    """Let `Topology.on` take a handler that is an asyncio coroutine function.

    It runs as an asyncio task of the program's loop. The time limit and the stop of the runtime cancel that task,
    and wait until it has ended; whoever else cancels it fails the turn.

    >>> from shardline import Topology
    >>> topology = Topology()
    >>> @topology.on("chat.message")
    ... @asyncio_handler
    ... async def answer(ctx: AsyncioContext, message: BusMessage) -> None:
    ...     ctx.reply(message.payload.text)

    Raises:
        BusError: INVALID_MESSAGE, not an async function.
    """
    if not inspect.iscoroutinefunction(function):
        raise BusError(Code.INVALID_MESSAGE, "an asyncio handler must be an async function (ctx, message)")

    @functools.wraps(function)
    async def handle(ctx: Context, message: BusMessage) -> None:
        guest = need_guest()
        await guest.on_host(partial(function, AsyncioContext(ctx, guest), message))

    mark_asyncio(handle)
    return handle


def need_guest() -> Guest:
    """The asyncio program round this trio task.

    Raises:
        BusError: WRONG_LOOP, there is none.
    """
    guest = guest_here()
    if guest is None:
        raise BusError(
            Code.WRONG_LOOP, "this needs an asyncio program: open the runtime with shardline.asyncio"
        )
    return guest


async def _called(fn: Callable[[], T | Awaitable[T]]) -> T:
    result = fn()
    return await cast("Awaitable[T]", result) if inspect.isawaitable(result) else result


__all__ = ["AsyncioContext", "AsyncioHandler", "asyncio_handler", "need_guest"]
