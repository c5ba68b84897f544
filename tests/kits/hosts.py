"""What tests of asyncio programs share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

import trio

from shardline import BusError, BusMessage, Code, RetryPolicy, Topology
from shardline.asyncio import AsyncioContext, asyncio_handler

T = TypeVar("T")

Handler = Callable[[AsyncioContext, BusMessage], Awaitable[None]]


def in_asyncio(main: Callable[[], Coroutine[object, object, T]], limit_s: float = 120) -> T:
    """Run an asyncio program that ends in time, and leaves the thread to the next one."""

    async def limited() -> T:
        async with asyncio.timeout(limit_s):
            return await main()

    result = asyncio.run(limited())
    assert not trio.lowlevel.in_trio_run()
    return result


def host_bot(handler: Handler, *, timeout_s: float = 30, max_retries: int = 3) -> Topology:
    """A bot of one asyncio handler, which tries again at once."""
    topology = Topology()
    retry = RetryPolicy(max_retries=max_retries, base_delay_s=0.05, jitter="none")
    topology.on("chat.message", timeout_s=timeout_s, retry=retry)(asyncio_handler(handler))
    return topology


def counting_host_bot() -> Topology:
    """Answers `"{turn}: {text}"`, the turn counted in the conversation's state, after a pass of the loop."""

    async def answer(ctx: AsyncioContext, message: BusMessage) -> None:
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        await asyncio.sleep(0)
        ctx.reply(f"{turns + 1}: {message.payload.text}")

    return host_bot(answer)


async def code_of_call(call: Awaitable[object]) -> Code | None:
    """The code that a call is refused with; None where it is not."""
    try:
        await call
    except BusError as error:
        return error.code
    return None
