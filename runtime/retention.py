"""How long what has ended is kept, and the actor that takes it away: little by little, through the one writer.

Four clocks: what was said (`messages_s`), the keys that repeats are known by (`keys_s`), the history (`history_s`),
and dead letters, which only a person purges. A row whose key has to be known longer than what it said is emptied
first and goes later. What is open, dead, parked or uncertain never goes, however old.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs
import trio

from ..actors.errors import BusError, Code
from ..actors.given import is_number
from ..storage.commands import Commit
from ..storage.pruning import Ages, PruneKind
from .defaults import DEDUPE_HORIZON_S, HISTORY_S, PRUNE_EVERY_S, PRUNE_ROWS, PRUNE_SHARE, RETENTION_S
from .steady_wall import SteadyWall

if TYPE_CHECKING:
    from .services import Services
    from .topology import FrozenTopology

# Sends before the messages whose early sends they may be.
_KINDS: Final[tuple[PruneKind, ...]] = ("sends", "messages", "events", "history", "controls", "instances")
_MIN_PAUSE_S: Final = 0.01
_MAX_PAUSE_S: Final = 30.0
_PASSING: Final = (Code.FENCED, Code.STORE_FULL, Code.STORE_BUSY)


@attrs.frozen(kw_only=True)
class Retention:
    """How long what has ended is kept; `math.inf` is for ever.

    Attributes:
        messages_s: Seconds, > 0: messages that are done or refused, sends that are sent, events without a time of
            their own, and what a person purged.
        keys_s: Seconds, > 0: how long at least a repeat of them is known as one.
        history_s: Seconds, > 0.
    Raises:
        BusError: INVALID_MESSAGE; `field` and `value` are in its context.
    """

    messages_s: float = RETENTION_S
    keys_s: float = DEDUPE_HORIZON_S
    history_s: float = HISTORY_S

    def __attrs_post_init__(self) -> None:
        for field, seconds in (
            ("messages_s", self.messages_s),
            ("keys_s", self.keys_s),
            ("history_s", self.history_s),
        ):
            if not _is_length(seconds):
                raise BusError(
                    Code.INVALID_MESSAGE,
                    f"{field} must be a number of seconds greater than 0",
                    field=field,
                    value=seconds,
                )


def ages_at(now_us: int, retention: Retention, topology: FrozenTopology) -> Ages:
    """Up to when rows are past their time now."""
    return Ages(
        content_us=_before(now_us, retention.messages_s),
        keys_us=_before(now_us, max(retention.messages_s, retention.keys_s)),
        history_us=_before(now_us, retention.history_s),
        topics=tuple(
            (name, _before(now_us, topic.retention_s))
            for name, topic in topology.events.items()
            if topic.retention_s is not None
        ),
    )


class Pruner:
    """Takes away what is past its time: a pass every five minutes, in commits of few rows with pauses between.

    A commit that took long says that the writer has others to serve: the pause after it is as much longer.

    Args:
        services: The runtime's parts.
        retention: How long things are kept.
    """

    def __init__(self, services: Services, retention: Retention) -> None:
        self._services = services
        self._retention = retention
        self._wall = SteadyWall(services.clock, _longest_s(retention, services.topology))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Prune until cancelled."""
        task_status.started()
        self._wall.now_us()
        while True:
            await trio.sleep(PRUNE_EVERY_S)
            try:
                await self.run_pass()
            except BusError as error:
                # The store is full or busy, or a shard restarts: the next pass goes on where this one ended.
                if error.code not in _PASSING:
                    raise
                self._services.log.warning("retention.put_off", bus_error_code=str(error.code))

    async def run_pass(self) -> None:
        """Look at everything once.

        Raises:
            BusError: The store refused a commit; what was taken away before is gone.
        """
        services = self._services
        began_s = trio.current_time()
        ages = ages_at(self._wall.now_us(), self._retention, services.topology)
        counts: Counter[str] = Counter()
        for kind in _KINDS:
            after: int | None = 0
            while after is not None:
                after = await self._step(kind, ages, after, counts)
        if counts.total():
            services.log.info(
                "retention.pruned",
                messages=counts["messages"],
                sends=counts["sends"],
                events=counts["events"],
                history=counts["history"],
                others=counts["controls"] + counts["instances"],
                took_s=round(trio.current_time() - began_s, 3),
            )

    async def _step(self, kind: PruneKind, ages: Ages, after: int, counts: Counter[str]) -> int | None:
        services = self._services
        past = services.store.reader.past(kind, ages, after, PRUNE_ROWS)
        began_s = trio.current_time()
        if past.count:
            # Any shard's lease will do.
            shard = services.shards[0]
            await services.store.commit(
                Commit(
                    shard=shard.number, epoch=shard.epoch, at_us=services.clock.wall_us(), prune=past.prune
                )
            )
            counts[kind] += past.count
            services.pruned[kind] = services.pruned.get(kind, 0) + past.count
        if past.count or past.after is not None:
            took_s = trio.current_time() - began_s
            await trio.sleep(min(max(_MIN_PAUSE_S, took_s * (1 / PRUNE_SHARE - 1)), _MAX_PAUSE_S))
        return past.after


def _longest_s(retention: Retention, topology: FrozenTopology) -> float:
    """How long what is not kept for ever is kept at most."""
    times = [retention.messages_s, retention.keys_s, retention.history_s]
    times += [topic.retention_s for topic in topology.events.values() if topic.retention_s is not None]
    return max((seconds for seconds in times if seconds != math.inf), default=math.inf)


def _before(now_us: int, age_s: float) -> int:
    # Far before the first row, and within what a store can compare.
    return max(now_us - round(min(age_s, 1e12) * 1_000_000), -(2**62))


def _is_length(seconds: object) -> bool:
    return seconds == math.inf or (is_number(seconds) and seconds > 0)


__all__ = ["Pruner", "Retention", "ages_at"]
