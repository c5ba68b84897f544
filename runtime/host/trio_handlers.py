"""Plain handlers in an asyncio program: they are trio's, and one that awaits asyncio is told so."""

from __future__ import annotations

import asyncio
import functools
import types
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, cast

import attrs
import trio

from ...actors.errors import BusError, Code
from ..loops import is_marked_asyncio
from ..topology import FrozenTopology, HandlerSpec, Topology

if TYPE_CHECKING:
    from ...actors.message import BusMessage
    from ..context import Context


class WatchedTopology(Topology):
    """A topology whose plain handlers are watched for what they await.

    Args:
        declared: The program's.
    """

    def __init__(self, declared: Topology) -> None:
        super().__init__()
        self._declared = declared

    def freeze(self) -> FrozenTopology:
        """See `Topology.freeze`."""
        frozen = self._declared.freeze()
        handlers = {
            topic: types.MappingProxyType({channel: _watched(spec) for channel, spec in by_channel.items()})
            for topic, by_channel in frozen.handlers.items()
        }
        return attrs.evolve(frozen, handlers=types.MappingProxyType(handlers))


def _watched(spec: HandlerSpec) -> HandlerSpec:
    if is_marked_asyncio(spec.function):
        return spec
    function = spec.function

    @functools.wraps(function)
    async def handle(ctx: Context, message: BusMessage) -> None:
        await _trio_only(cast("Coroutine[object, object, None]", function(ctx, message)))

    return attrs.evolve(spec, function=handle)


async def _a_pass() -> None:
    await trio.lowlevel.cancel_shielded_checkpoint()


@types.coroutine
def _trio_only(work: Coroutine[object, object, None]) -> Generator[object, object, None]:
    """Drive a coroutine under trio; where it awaits something of asyncio it gets WRONG_LOOP, and may end with that."""
    given: object = None
    error: BaseException | None = None
    while True:
        try:
            wanted = work.send(given) if error is None else work.throw(error)
        except StopIteration:
            return
        given = error = None
        if wanted is None or asyncio.isfuture(wanted):
            # A pass, so that a handler which does it for ever stops nobody else.
            yield from cast("Generator[object, object, None]", _a_pass().__await__())
            error = BusError(
                Code.WRONG_LOOP,
                "a plain handler runs under trio and has awaited something of asyncio: declare it with "
                "asyncio_handler",
            )
            continue
        try:
            given = yield wanted
        except BaseException as raised:
            # trio throws its cancellation in here: it belongs to the handler.
            error = raised


__all__ = ["WatchedTopology"]
