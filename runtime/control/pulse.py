"""What only the process knows, told to those who look from outside: every five seconds, as a fact of the store."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import trio

from ...actors.codec import pack_plain
from ...actors.errors import BusError, Code
from ...actors.plain import Plain
from ...storage.commands import Commit, Fact
from ..defaults import PULSE_S

if TYPE_CHECKING:
    from ..services import Services

NAMESPACE = "core"
KEY = "instance_status"
_FACT_BYTES = 64 * 1024
_MAX_TURNS = 50


class PulseActor:
    """Writes how the runtime stands.

    Args:
        services: The runtime's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

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
        now_s = trio.current_time()
        turns: list[Plain] = []
        for actor in services.topics.values():
            for turn in actor.pool.running:
                begun_s = turn.due_s - turn.timeout_s
                turns.append(
                    {
                        "id": f"in-{turn.row.record.id}",
                        "key": turn.lane.key,
                        "topic": turn.row.record.topic,
                        "age_s": round(now_s - begun_s, 3),
                    }
                )
        turns.sort(key=_age, reverse=True)
        return {
            "at_us": now_us,
            "instance": services.store.info.instance,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "running_turns": len(turns),
            "oldest_turns": turns[:_MAX_TURNS],
            "running_sends": sum(len(one.pool.running) for one in services.deliveries.values()),
            "tokens_free": services.tokens.free,
            "stopping": services.draining,
            "counters": dict(services.counters),
        }


def _age(turn: Plain) -> float:
    age = turn["age_s"] if isinstance(turn, dict) else 0.0
    return age if isinstance(age, float) else 0.0
