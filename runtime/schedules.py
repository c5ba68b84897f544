"""A schedule that the topology declares, and what it becomes in a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ..actors.errors import BusError, Code
from ..actors.instants import MAX_AT_US
from ..actors.names import check_name, check_topic, shown
from ..actors.plain import Plain, check_plain
from ..actors.value import changed
from ..storage.commands import NewTimer
from ..storage.records import StoredTimer, TimerContent
from .context_checks import check_text
from .recurrence import Recurrence, is_recurrence
from .timer_arrival import check_timer
from .timer_rules import declared_id, new_record, timer_place

if TYPE_CHECKING:
    from .topology import FrozenTopology


@attrs.frozen(kw_only=True)
class Schedule:
    """What arrives again and again, by itself; see `Topology.every`."""

    name: str
    rule: Recurrence
    payload: Plain
    topic: str
    key: str | None
    headers: Mapping[str, str]


def check_schedule(schedule: Schedule) -> None:
    """Check what a declaration alone shows.

    Raises:
        BusError: INVALID_MESSAGE, INVALID_TOPIC.
    """
    check_name(schedule.name, "schedule")
    check_topic(schedule.topic)
    check_plain(schedule.payload)
    if not is_recurrence(schedule.rule):
        raise BusError(
            Code.INVALID_MESSAGE, f"rule {shown(schedule.rule)} must be an Every or a Cron", field="rule"
        )


def check_target(schedule: Schedule, topology: FrozenTopology) -> None:
    """Check that a schedule goes where something can arrive.

    Raises:
        BusError: INVALID_TOPIC, NO_SUBSCRIBER, INVALID_MESSAGE, TOO_LARGE.
    """
    place = timer_place(topology, schedule.topic, schedule.key, spread=schedule.name, shard_count=1)
    if place.kind == "message":
        check_text(schedule.payload)
    timer = declared_timer(schedule, topology, shard_count=1, now_us=0)
    # The last time there is has the longest name.
    record = changed(timer.record, due_at_us=MAX_AT_US)
    check_timer(StoredTimer(record, timer.content), now_us=0)


def declared_timer(
    schedule: Schedule, topology: FrozenTopology, *, shard_count: int, now_us: int
) -> NewTimer:
    """The timer of a declared schedule, set anew."""
    place = timer_place(topology, schedule.topic, schedule.key, spread=schedule.name, shard_count=shard_count)
    record = new_record(declared_id(schedule.name), place, now_us=now_us, rule=schedule.rule)
    content = TimerContent(payload=schedule.payload, headers=schedule.headers)
    return NewTimer(record=record, content=content, replaces=True)


def is_same(stored: StoredTimer, declared: NewTimer) -> bool:
    """Whether a stored timer is what its declaration says, whenever it is due next."""
    was, now = stored.record, declared.record
    return (
        (was.shard, was.kind, was.topic, was.partition, was.conversation_key, was.rule, was.zone)
        == (now.shard, now.kind, now.topic, now.partition, now.conversation_key, now.rule, now.zone)
        and stored.content.payload == declared.content.payload
        and dict(stored.content.headers) == dict(declared.content.headers)
    )


__all__ = ["Schedule", "check_schedule", "check_target", "declared_timer", "is_same"]
