"""A store in memory behind a thin wall, for tests of the kit: each mutant changes one thing of what goes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import trio

from shardline.actors.errors import BusError
from shardline.storage.commands import (
    Commit,
    Committed,
    Duplicate,
    Leased,
    Outcome,
    Part,
    Publish,
    Refused,
    Stored,
    TakeLease,
)
from shardline.storage.condition import StoreCondition
from shardline.storage.journal import Journal
from shardline.storage.port import Caps, Reader, Settle, StoreInfo

MEMORY = Caps(shared="process", durable="none", emits="atomic")


class WatchedReader:
    """A reader of which a mutant replaces what it names `read_…`."""

    def __init__(self, reader: Reader, store: WallStore) -> None:
        self._reader = reader
        self._store = store

    def __getattr__(self, name: str) -> object:
        own: object = getattr(self._store, f"read_{name}", None)
        real: object = getattr(self._reader, name)
        return real if own is None else own


class WallStore:
    """A right store. What is submitted goes through `part`, what is answered through `outcome`."""

    claims: Caps = MEMORY
    """What the kit is told that it claims."""

    def __init__(self, store: Journal) -> None:
        self.store = store
        self.real: Reader = store.reader

    def part(self, part: Part) -> Part:
        return part

    def outcome(self, part: Part, outcome: Outcome) -> Outcome:
        return outcome

    @property
    def caps(self) -> Caps:
        return self.store.caps

    @property
    def info(self) -> StoreInfo:
        return self.store.info

    @property
    def reader(self) -> Reader:
        return cast("Reader", WatchedReader(self.store.reader, self))

    @property
    def epochs(self) -> Sequence[int]:
        return self.store.epochs

    @property
    def open_messages(self) -> int:
        return self.store.open_messages

    @property
    def condition(self) -> StoreCondition:
        return self.store.condition

    def wind_down(self) -> None:
        self.store.wind_down()

    def next_inbox_id(self) -> int:
        return self.store.next_inbox_id()

    def next_outbox_id(self) -> int:
        return self.store.next_outbox_id()

    def next_event_id(self) -> int:
        return self.store.next_event_id()

    def submit(self, part: Part, settle: Settle) -> None:
        self.store.submit(self.part(part), lambda outcome: settle(self.outcome(part, outcome)))

    async def publish(self, part: Publish) -> Stored | Duplicate:
        await trio.lowlevel.checkpoint_if_cancelled()
        told: list[Outcome] = []
        with trio.CancelScope(shield=True):
            told.append(await self.settled(part))
        return cast("Stored | Duplicate", told[0])

    async def commit(self, part: Commit) -> Committed:
        await trio.lowlevel.checkpoint_if_cancelled()
        return cast("Committed", await self.settled(part))

    async def take_lease(self, shard: int) -> Leased:
        await trio.lowlevel.checkpoint_if_cancelled()
        return cast("Leased", await self.settled(TakeLease(shard)))

    async def settled(self, part: Part) -> Outcome:
        told: list[Outcome] = []
        done = trio.Event()

        def settle(outcome: Outcome) -> None:
            told.append(outcome)
            done.set()

        self.submit(part, settle)
        await done.wait()
        if isinstance(told[0], Refused):
            raise self.error_of(told[0].error)
        return told[0]

    def error_of(self, error: BusError) -> BusError:
        return BusError(error.code, error.message, **error.context)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await self.store.run(task_status=task_status)

    def close(self) -> None:
        self.store.close()


Kind = TypeVar("Kind", bound=type[WallStore])


class Wrong:
    """Wrong stores, each with the check of the kit that has to catch it."""

    def __init__(self) -> None:
        self.found: list[tuple[str, type[WallStore]]] = []

    def caught_by(self, *checks: str) -> Callable[[Kind], Kind]:
        """Note a wrong store under the checks that have to catch it."""

        def note(kind: Kind) -> Kind:
            self.found.extend((check, kind) for check in checks)
            return kind

        return note
