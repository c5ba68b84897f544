"""Lets actors crash while they work, at seeded moments, never more often than their supervisor bears."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import wraps
from types import ModuleType
from typing import Final

import attrs
import trio

from shardline import Runtime
from shardline.runtime import edge as edge_module
from shardline.runtime.edge import EdgeActor
from shardline.runtime.intake import Intake
from shardline.runtime.pool import WorkerPool
from shardline.runtime.relay import Relay
from shardline.runtime.send import Send
from shardline.runtime.shard import ShardActor
from shardline.runtime.shard_inbox import ShardInbox
from shardline.runtime.shard_outbox import ShardOutbox
from shardline.runtime.turn import Turn
from shardline.storage.journal import Journal
from tests.kits.crashes import Injected

BUDGET: Final = 3
"""Crashes of a kind within the period: fewer than its supervisor's budget, for a place may hit another kind too."""

PERIOD_S: Final = 31.0


@attrs.frozen
class Place:
    """A method that fails, before or after it has done its work."""

    owner: type | ModuleType
    method: str
    after: bool = False


PLACES: Final[dict[str, tuple[Place, ...]]] = {
    "shards": (
        Place(ShardInbox, "turn_ended"),
        Place(ShardInbox, "turn_ended", after=True),
        Place(ShardInbox, "accepted"),
        Place(ShardInbox, "claimed"),
        Place(ShardInbox, "refill"),
        Place(ShardOutbox, "send_ended"),
        Place(ShardOutbox, "send_ended", after=True),
        Place(ShardOutbox, "placed"),
        Place(ShardOutbox, "looked_up"),
        Place(ShardActor, "_flush"),
        Place(Journal, "submit"),
    ),
    "topics": (Place(Turn, "ended", after=True), Place(WorkerPool, "_begin")),
    "deliveries": (Place(Send, "ended", after=True),),
    "edges": (
        Place(EdgeActor, "accept"),
        Place(edge_module, "message_of"),
        Place(Intake, "has_room"),
    ),
    "relay": (Place(Relay, "_relay"),),
}


class Saboteur:
    """Strikes one kind of actor after the other.

    Attributes:
        struck: Crashes so far, by the name of the place.
    """

    def __init__(self, seed: int, *, relayed: bool) -> None:
        self.struck: list[str] = []
        # One for each kind: which of them comes first is left to the scheduler.
        self._chances = {
            kind: random.Random(f"{seed} {kind}") for kind in PLACES if relayed or kind != "relay"
        }
        self._armed: set[Place] = set()

    def install(self) -> None:
        """Put a wrapper around each place. It stays for the life of the process."""
        for kind in self._chances:
            for place in PLACES[kind]:
                self._wrap(place)

    async def run(self, runtime: Runtime, handled: Callable[[], int], marks: Sequence[int]) -> None:
        """Strike each kind at each of these numbers of handled messages, and a bit."""
        async with trio.open_nursery() as nursery:
            for kind, chance in self._chances.items():
                late = [mark + chance.randrange(100) for mark in marks]
                nursery.start_soon(self._strike, runtime, kind, handled, late)

    async def _strike(
        self, runtime: Runtime, kind: str, handled: Callable[[], int], marks: Sequence[int]
    ) -> None:
        times_s: list[float] = []
        for mark in marks:

            def is_reached(mark: int = mark) -> bool:
                return handled() >= mark

            await runtime.wait_until(is_reached)
            if len(times_s) >= BUDGET:
                await trio.sleep_until(times_s[-BUDGET] + PERIOD_S)
            self._armed.add(self._chances[kind].choice(PLACES[kind]))
            times_s.append(trio.current_time())

    def _wrap(self, place: Place) -> None:
        real: Callable[..., object] = getattr(place.owner, place.method)

        @wraps(real)
        def wrapped(*args: object, **kwargs: object) -> object:
            if place in self._armed and not place.after:
                self._fail(place)
            result = real(*args, **kwargs)
            if place in self._armed:
                self._fail(place)
            return result

        setattr(place.owner, place.method, wrapped)

    def _fail(self, place: Place) -> None:
        self._armed.discard(place)
        self.struck.append(f"{place.owner.__name__}.{place.method}")
        raise Injected
