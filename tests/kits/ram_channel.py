"""A platform in memory with a right adapter, for tests of the kit: each mutant changes one thing of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import attrs
import trio

from shardline.actors.errors import Code, Permanence
from shardline.adapters.base import (
    Adapter,
    ChannelCaps,
    Edge,
    Inbound,
    NotSent,
    Outbound,
    SendOutcome,
    Sent,
    Uncertain,
)
from shardline.testing import MakePlatform

CAPS = ChannelCaps(reconciles=True, deduplicates=True)


@attrs.define(eq=False)
class Ram:
    """The platform.

    Attributes:
        log: (address, text) of what was said, in order.
        acknowledged: How many of them it was told are taken.
        got: The sends that it has.
    """

    kind: type[RamChannel]
    log: list[tuple[str, str]] = attrs.field(factory=list[tuple[str, str]])
    acknowledged: int = 0
    got: list[Outbound] = attrs.field(factory=list[Outbound])
    is_cut: bool = False
    opened: int = 0
    news: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)
    addresses: Sequence[str] = ("ann", "bob")

    def open(self) -> Adapter:
        self.opened += 1
        return self.kind(self)

    async def say(self, address: str, text: str) -> None:
        await trio.lowlevel.checkpoint()
        self.log.append((address, text))
        self.news.unpark_all()

    def delivered(self) -> Sequence[tuple[str, str]]:
        return [(out.address, out.text) for out in self.got]

    def cut(self) -> None:
        self.is_cut = True


class RamChannel:
    """A right adapter: reads on from what the platform was told, and tells it after each accept."""

    def __init__(self, platform: Ram) -> None:
        self.platform = platform

    @property
    def name(self) -> str:
        return "ram"

    @property
    def prefix(self) -> str:
        return "ram"

    @property
    def caps(self) -> ChannelCaps:
        return CAPS

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await self.read(edge)

    async def read(self, edge: Edge) -> None:
        platform = self.platform
        while True:
            while platform.acknowledged < len(platform.log):
                await edge.accept(self.inbound(platform.acknowledged))
                platform.acknowledged += 1
            await platform.news.park()

    def inbound(self, number: int) -> Inbound:
        address, text = self.platform.log[number]
        return Inbound(platform_message_id=str(number), address=address, text=text)

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        if self.platform.is_cut:
            return Uncertain("cut")
        if self.has(out):
            return Sent(None, deduped=True)
        self.platform.got.append(out)
        return Sent(None)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        return Sent(None) if self.has(out) else NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)

    def has(self, out: Outbound) -> bool:
        return any(one.idempotency_key == out.idempotency_key for one in self.platform.got)


def ram_of(kind: type[RamChannel]) -> MakePlatform:
    """Platforms whose adapters are of this kind."""

    @asynccontextmanager
    async def made() -> AsyncGenerator[Ram]:
        yield Ram(kind)

    def make(folder: Path) -> AbstractAsyncContextManager[Ram]:
        return made()

    return make


Kind = TypeVar("Kind", bound=type[RamChannel])


class Wrong:
    """Wrong adapters, each with the check of the kit that has to catch it."""

    def __init__(self) -> None:
        self.found: list[tuple[str, type[RamChannel]]] = []

    def caught_by(self, *checks: str) -> Callable[[Kind], Kind]:
        """Note a wrong adapter under the checks that have to catch it."""

        def note(kind: Kind) -> Kind:
            self.found.extend((check, kind) for check in checks)
            return kind

        return note
