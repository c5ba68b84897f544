"""What only the process knows, told to those who look from outside: every five seconds, as a fact of the store."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import attrs
import trio

from ...actors.codec import pack_plain
from ...actors.errors import BusError, Code
from ...actors.plain import Plain
from ...actors.supervisor import ChildStatistics
from ...storage.commands import Commit, Fact
from ..breaker import CircuitState
from ..breakers import breaker_statuses
from ..channel_status import ChannelStatus, channel_status
from ..defaults import PULSE_S
from ..running import RunningTurn, running_turns
from ..store_health import StoreHealth, store_health

if TYPE_CHECKING:
    from ..edge import EdgeActor
    from ..health import Health
    from ..health_watch import HealthWatch
    from ..services import Services

NAMESPACE = "core"
KEY = "instance_status"
_FACT_BYTES = 64 * 1024
_MAX_KEY_CHARACTERS = 200
_MAX_BREAKERS = 50
_MAX_REASONS = 30
_WATCHED = ("accepted", "handled", "sent")
"""Counters whose last change is told: a bot that stands still shows by it."""


class PulseActor:
    """Writes how the runtime stands.

    Args:
        services: The runtime's parts.
        edges: The edge actors.
        statistics: How they stand.
        health: How the whole is.
    """

    def __init__(
        self,
        services: Services,
        edges: Sequence[EdgeActor],
        statistics: Callable[[], Sequence[ChildStatistics]],
        health: HealthWatch,
    ) -> None:
        self._services = services
        self._edges = edges
        self._statistics = statistics
        self._health = health
        # By counter: what it was, and when the pulse that found it so was written.
        self._seen: dict[str, tuple[int, int]] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled; the first time at once."""
        task_status.started()
        while True:
            await self._write()
            await trio.sleep(PULSE_S)

    async def _write(self) -> None:
        services = self._services
        now_us = services.clock.wall_us()
        fact = Fact(NAMESPACE, KEY, pack_plain(self._status(now_us), limit_bytes=_FACT_BYTES, what="status"))
        # Any shard's lease will do.
        shard = services.shards[0]
        try:
            await services.store.commit(
                Commit(shard=shard.number, epoch=shard.epoch, at_us=now_us, facts=(fact,))
            )
        except BusError as error:
            # The shard restarts: the next note will have its new lease.
            if error.code is not Code.FENCED:
                raise

    def _status(self, now_us: int) -> dict[str, Plain]:
        services = self._services
        turns, intake = running_turns(services), services.intake.status()
        return {
            "at_us": now_us,
            "instance": services.store.info.instance,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "store": _told_store(store_health(services.store.condition, intake)),
            "intake": "paused" if intake.is_paused else "open",
            "backlog": intake.backlog,
            "max_backlog": intake.max_backlog,
            "running_turns": turns.count,
            "overdue_turns": turns.overdue,
            "oldest_turns": [_told_turn(turn) for turn in turns.oldest],
            "running_sends": sum(len(one.pool.running) for one in services.deliveries.values()),
            "channels": {
                name: _told_channel(channel_status(delivery))
                for name, delivery in services.deliveries.items()
            },
            "lanes": services.lanes,
            "pruned": dict(services.pruned),
            "tokens_free": services.tokens.free,
            "stopping": services.draining,
            "open_breakers": dict(islice(self._open_breakers(), _MAX_BREAKERS)),
            "edges": {edge.name.removeprefix("edge-"): _told(edge) for edge in self._statistics()},
            "last_received_at_us": {
                edge.adapter.name: edge.last_received_us
                for edge in self._edges
                if edge.last_received_us is not None
            },
            "health": _told_health(self._health.look()),
            **self._last_changes(now_us),
            "counters": dict(services.counters),
        }

    def _open_breakers(self) -> Iterator[tuple[str, Plain]]:
        for found in breaker_statuses(self._services):
            if found.state is not CircuitState.CLOSED:
                yield found.name, f"{found.state}, {found.waiting} waiting, tries in {found.retry_in_s:.0f} s"

    def _last_changes(self, now_us: int) -> dict[str, Plain]:
        """When each watched counter was last found changed; exact to one pulse, and nothing is noted per message."""
        counters = self._services.counters
        for name in _WATCHED:
            count = counters.get(name, 0)
            if count != self._seen.get(name, (0, 0))[0]:
                self._seen[name] = (count, now_us)
        return {f"last_{name}_at_us": at_us for name, (_, at_us) in self._seen.items()}


def _told_health(health: Health) -> Plain:
    return {
        "state": str(health.state),
        "reasons": [
            {**attrs.asdict(reason), "state": str(reason.state)} for reason in health.reasons[:_MAX_REASONS]
        ],
    }


def _told_store(health: StoreHealth) -> dict[str, Plain]:
    return {
        "ok": health.is_ok,
        "problems": list(health.problems),
        "waiting": health.waiting,
        "log_bytes": health.log_bytes,
    }


def _told_turn(turn: RunningTurn) -> Plain:
    return {
        "id": f"in-{turn.inbox_id}",
        "key": turn.conversation_key[:_MAX_KEY_CHARACTERS],
        "topic": turn.topic,
        "channel": turn.channel,
        "age_s": round(turn.age_s, 3),
        # A handler may have no limit, and the note holds finite numbers alone.
        "limit_s": turn.limit_s if math.isfinite(turn.limit_s) else None,
        "overdue": turn.overdue,
    }


def _told_channel(status: ChannelStatus) -> dict[str, Plain]:
    told: dict[str, Plain] = {**attrs.asdict(status)}
    return {**told, "code": None if status.code is None else str(status.code)}


def _told(edge: ChildStatistics) -> str:
    crashes = f"{edge.state.value}, {edge.crashes} crashes"
    return (
        crashes
        if edge.last_error_type is None
        else f"{crashes}, last {edge.last_error_code or edge.last_error_type}"
    )
