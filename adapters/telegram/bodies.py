"""Bodies of requests and answers, without a generator that a cancelled call would leave to the collector.

Those of httpx and httpcore are async generators. One that is not run to its end is told by trio as a ResourceWarning.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import httpx
import trio

from .wire import MAX_ANSWER_BYTES

_CLOSE_S = 1.0


class Body(httpx.AsyncByteStream):
    """A request's body.

    Args:
        parts: In order.
        size: How many bytes the head has promised. A file may change while it is read.
    """

    def __init__(self, parts: Iterable[bytes], size: int) -> None:
        self._parts = iter(parts)
        self._left = size

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            part = next(self._parts, None)
        except OSError as error:
            raise httpx.WriteError(type(error).__name__) from None
        self._left -= len(part or b"")
        if self._left < 0 or (part is None and self._left > 0):
            raise httpx.WriteError("the file has another size than before")
        if part is None:
            raise StopAsyncIteration
        return part


async def body_of(parts: AsyncIterator[bytes], close: Callable[[], Awaitable[None]]) -> bytes:
    """Read an answer's body to its end.

    Args:
        parts: Generators over a connection.
        close: Closes the connection, of an answer that is too long: their next part is then an error, which ends them.
    """
    held: list[bytes] = []
    size = 0
    # No way out of the loop but theirs.
    async for part in parts:
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            await close_soon(close)
        else:
            held.append(part)
    return b"" if size > MAX_ANSWER_BYTES else b"".join(held)


async def close_soon(close: Callable[[], Awaitable[None]]) -> None:
    """Close, also in a call that is cancelled; within a second."""
    with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSE_S):
        await close()


__all__ = ["Body", "body_of", "close_soon"]
