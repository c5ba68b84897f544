"""What the actors of one runtime share. One record per runtime; nothing here is global."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import attrs

from ..actors.clock import Clock
from ..storage.port import Store
from .alarms import Alarms
from .ends import Ends
from .gate import Gate
from .tokens import Tokens
from .topology import FrozenTopology
from .turn_waits import TurnWaits

if TYPE_CHECKING:
    import structlog.typing

    from .activity import Activity
    from .delivery import DeliveryActor
    from .intake import Intake
    from .relay import Relay
    from .shard import ShardActor
    from .timer import TimerActor
    from .topic_handler import TopicHandlerActor


@attrs.define(kw_only=True)
class Services:
    """The parts of a runtime, as its actors find each other.

    Attributes:
        draining: A stop has begun: nothing new is claimed or started.
        has_cut_off: The stop refused a turn something, so that its message went back in line.
        pruned: Rows that retention took away in this run, by kind.
        is_ending: The tree ends: what the store refuses from now on is left to the next start.
        counters: Events of this run by name, for `status` and the end's summary.
    """

    store: Store
    clock: Clock
    topology: FrozenTopology
    tokens: Tokens
    intake: Intake
    alarms: Alarms
    gate: Gate
    activity: Activity
    random: random.Random
    log: structlog.typing.FilteringBoundLogger
    window_rows: int
    shards: list[ShardActor] = attrs.field(factory=list["ShardActor"])
    topics: dict[str, TopicHandlerActor] = attrs.field(factory=dict[str, "TopicHandlerActor"])
    deliveries: dict[str, DeliveryActor] = attrs.field(factory=dict[str, "DeliveryActor"])
    prefixes: dict[str, str] = attrs.field(factory=dict[str, str])
    counters: Counter[str] = attrs.field(factory=Counter[str])
    pruned: dict[str, int] = attrs.field(factory=dict[str, int])
    ends: Ends = attrs.field(factory=Ends)
    turn_waits: TurnWaits = attrs.field(factory=TurnWaits)
    draining: bool = False
    has_cut_off: bool = False
    is_ending: bool = False
    _relay: Relay | None = None
    _timers: TimerActor | None = None

    @property
    def relay(self) -> Relay:
        """Carries emits where the store does not."""
        if self._relay is None:
            raise AssertionError("the runtime is not wired yet")
        return self._relay

    @property
    def timers(self) -> TimerActor:
        """Fires what was to arrive later."""
        if self._timers is None:
            raise AssertionError("the runtime is not wired yet")
        return self._timers

    def wire(self, relay: Relay, timers: TimerActor) -> None:
        """Set the actors that others call, once."""
        self._relay = relay
        self._timers = timers

    @property
    def is_quiet(self) -> bool:
        """Nothing is queued, running, in back-off or on its way, and no timer is due."""
        if not self.relay.is_quiet or not self.timers.is_quiet:
            return False
        return all(shard.is_quiet for shard in self.shards)

    @property
    def lanes(self) -> int:
        """Lanes in memory, of messages and of sends."""
        return sum(len(shard.inbox.lanes) + len(shard.outbox.lanes) for shard in self.shards)

    def flush_all(self) -> None:
        """Let every shard look again at what may start."""
        for shard in self.shards:
            shard.flush_soon()

    def begin_end(self) -> None:
        """The tree begins to end: nobody in it waits for a full or busy disk any longer than the store allows."""
        self.is_ending = True
        self.store.wind_down()

    def count(self, name: str, by: int = 1) -> None:
        """Count an event of this run."""
        self.counters[name] += by
