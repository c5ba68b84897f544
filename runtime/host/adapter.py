"""Channels written for asyncio: the same protocol, awaited on the program's loop."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from ..channel import (
    Acts,
    ChannelCaps,
    Edge,
    HasChats,
    Inbound,
    Outbound,
    Reconciles,
    SendOutcome,
    Sent,
    Splits,
)
from .guest import Guest, tenant_here
from .handler import need_guest

if TYPE_CHECKING:
    from ...actors.content import Action
    from ...storage.commands import Stored
    from ..channel import NotSent


class AsyncioEdge:
    """What the `run` of an asyncio adapter is given. `fact`, `refused` and `report` are those of `Edge`."""

    def __init__(self, edge: Edge, guest: Guest, task_status: trio.TaskStatus[None]) -> None:
        self._edge = edge
        self._guest = guest
        self._calls = tenant_here().calls
        self.started = task_status.started
        """To be called when the adapter is ready."""
        self.fact = edge.fact
        self.refused = edge.refused
        self.report = edge.report

    async def accept(self, inbound: Inbound, *, facts: Mapping[str, str] | None = None) -> Stored | None:
        """See `Edge.accept`. Any task of the program may call it while the runtime is open.

        Raises:
            BusError: also BUS_CLOSED, it has ended.
        """
        edge = self._edge
        return await self._guest.call(lambda: edge.accept(inbound, facts=facts), self._calls)


class AsyncioAdapter(Protocol):
    """A channel plug-in whose coroutines are asyncio's.

    `reconcile`, `act` (coroutines too), `split` and `chat_of` are optional, as for an `Adapter`.
    """

    @property
    def name(self) -> str: ...
    @property
    def prefix(self) -> str: ...
    @property
    def caps(self) -> ChannelCaps: ...

    async def run(self, edge: AsyncioEdge) -> None:
        """Read the channel until it ends or is cancelled; call `edge.started()` when ready."""
        ...

    async def send(self, out: Outbound) -> SendOutcome:
        """Send one message, once."""
        ...


class _OnHost:
    """An `Adapter` that has the work done on the host's loop."""

    def __init__(self, inner: AsyncioAdapter) -> None:
        self._inner = inner
        # What an adapter can do is told by the methods it has.
        if isinstance(inner, Splits):
            self.split = inner.split
        if isinstance(inner, HasChats):
            self.chat_of = inner.chat_of
        if isinstance(inner, Reconciles):
            self.reconcile = partial(_reconcile, inner)
        if isinstance(inner, Acts):
            self.act = partial(_act, inner)

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def prefix(self) -> str:
        return self._inner.prefix

    @property
    def caps(self) -> ChannelCaps:
        return self._inner.caps

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        guest = need_guest()
        await guest.on_host(partial(self._inner.run, AsyncioEdge(edge, guest, task_status)))

    async def send(self, out: Outbound) -> SendOutcome:
        return await need_guest().on_host(partial(self._inner.send, out))


def asyncio_adapter(adapter: AsyncioAdapter) -> _OnHost:
    """Make an adapter of one whose coroutines are asyncio's."""
    return _OnHost(adapter)


async def _reconcile(inner: Reconciles, out: Outbound) -> Sent | NotSent | None:
    return await need_guest().on_host(partial(inner.reconcile, out))


async def _act(inner: Acts, address: str, action: Action) -> None:
    await need_guest().on_host(partial(inner.act, address, action))


__all__ = ["AsyncioAdapter", "AsyncioEdge", "asyncio_adapter"]
