"""What timers are called, where they fire into, and what becomes of one that fires. Pure.

A timer is *set* from the commit that stores it until the one that stores its arrival, or that takes it back. One that
repeats stays set: that same commit moves it to its next time. Its due time is a wall-clock time.

What is missed while nobody runs is made up for once: a timer that is past its time fires once, and the next time of one
that repeats is the first that is still to come.

A clock that is set forward makes timers due at once, each once. A clock that is set back delays them; a timer that
waits a length (`wait_us`) whose beginning then lies in the future begins again, so that it never waits longer than
twice its length. One that repeats by a zone's clocks looks for its next time anew then, else a bot that once ran with
a clock of years ahead would be silent for years.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NewType

from ..actors.errors import BusError, Code
from ..actors.keys import check_conversation_key, fnv1a32, shard_of
from ..actors.names import canonical, shown
from ..actors.value import changed
from ..storage.commands import TimerMove
from ..storage.records import TimerRecord
from .effects import TimerPlace
from .recurrence import Cron, Every, Recurrence, pack_rule, unpack_rule

if TYPE_CHECKING:
    from .topology import FrozenTopology

ScheduleId = NewType("ScheduleId", str)
"""Names a timer: `timer-<home>-<shard>-<seq>-<i>`, after the message whose turn set it."""

_ID: Final = re.compile(r"timer-([0-9]{1,9})-([0-9]{1,9})-[0-9]{1,18}-[0-9]{1,9}")
_DECLARED: Final = "every-"
SLACK_US: Final = 1_000_000
"""A pause that begins so much in the future is none of a clock set back: clocks are always a little set."""


def schedule_id(home: int, shard: int, seq: int, index: int) -> ScheduleId:
    """Name a timer.

    Args:
        home: The shard that it fires into.
        shard, seq: The place of the message whose turn sets it: no other message ever has it.
        index: Counts the timers of the turn.
    """
    return ScheduleId(f"timer-{home}-{schedule_tail(shard, seq, index)}")


def schedule_tail(shard: int, seq: int, index: int) -> str:
    """The part of a name that says who set it."""
    return f"{shard}-{seq}-{index}"


def home_of_schedule(schedule: object) -> int:
    """The shard that a timer of this name fires into.

    Raises:
        BusError: INVALID_MESSAGE, no name that `schedule_id` makes.
    """
    match = _ID.fullmatch(schedule) if isinstance(schedule, str) else None
    if match is None:
        raise BusError(
            Code.INVALID_MESSAGE,
            f"{shown(schedule)} is no schedule of a turn: take what ctx.schedule returned",
            field="schedule",
        )
    return int(match[1])


def setter_of_schedule(timer_id: str) -> int | None:
    """The shard of the message whose turn has set it; None where no turn has."""
    match = _ID.fullmatch(timer_id)
    return None if match is None else int(match[2])


def declared_id(name: str) -> str:
    """The name of a timer that the topology declares."""
    return f"{_DECLARED}{name}"


def is_declared(timer_id: str) -> bool:
    """Whether the topology has set it."""
    return timer_id.startswith(_DECLARED)


def timer_place(
    topology: FrozenTopology, topic: str, key: str | None, *, spread: str, shard_count: int
) -> TimerPlace:
    """Where a timer fires into.

    Args:
        topology: Where the topic is.
        topic: A conversation topic or an event topic.
        key: The conversation; the event's key, or None.
        spread: Chooses the partition of an event without a key.
        shard_count: Of the store.
    Raises:
        BusError: INVALID_TOPIC, NO_SUBSCRIBER; INVALID_MESSAGE, no such conversation.
    """
    events = topology.events.get(topic)
    if events is not None:
        if key is not None:
            canonical(key, "key")
        partition = fnv1a32((spread if key is None else key).encode()) % (events.partitions or shard_count)
        return TimerPlace("event", topic, key, partition % shard_count, partition)
    topology.check_conversation_topic(topic)
    if key is None:
        raise BusError(Code.INVALID_MESSAGE, f"topic {topic} needs a conversation", field="key")
    home = shard_of(check_conversation_key(key), shard_count)
    return TimerPlace("message", topic, key, home, home)


def new_record(
    timer_id: str,
    place: TimerPlace,
    *,
    now_us: int,
    after_us: int | None = None,
    at_us: int | None = None,
    rule: Recurrence | None = None,
) -> TimerRecord:
    """A timer to set: exactly one of the last three says when it fires."""
    text, zone = pack_rule(rule)
    due_us, wait_us = now_us, after_us
    if after_us is not None:
        due_us = now_us + after_us
    elif at_us is not None:
        due_us = at_us
    elif rule is not None:
        due_us = rule.next_us(now_us)
        wait_us = _wait_us(rule, due_us, now_us)
    return TimerRecord(
        id=timer_id,
        shard=place.shard,
        kind=place.kind,
        topic=place.topic,
        partition=place.partition,
        conversation_key=place.key,
        due_at_us=due_us,
        wait_us=wait_us,
        rule=text,
        zone=zone,
        created_at_us=now_us,
    )


def fire(record: TimerRecord, now_us: int) -> TimerMove:
    """A due timer leaves its time: for good, or for its next one.

    Raises:
        BusError: INVALID_MESSAGE, it repeats by a rule or zone that this machine does not know.
    """
    if record.rule is None:
        return TimerMove(record, None)
    rule = unpack_rule(record.rule, record.zone)
    due_us = rule.next_us(now_us, record.due_at_us)
    return TimerMove(record, changed(record, due_at_us=due_us, wait_us=_wait_us(rule, due_us, now_us)))


def begin_again(record: TimerRecord, now_us: int) -> TimerMove:
    """A pause that begins in the future begins now; a rule of clocks looks for its next time from now on.

    Raises:
        BusError: INVALID_MESSAGE, as of `fire`.
    """
    due_us, wait_us = now_us + (record.wait_us or 0), record.wait_us
    if record.rule is not None and isinstance(rule := unpack_rule(record.rule, record.zone), Cron):
        # A time that it has fired at already comes to nothing: its arrival is known.
        due_us = rule.next_us(now_us)
        wait_us = due_us - now_us
    return TimerMove(record, changed(record, due_at_us=due_us, wait_us=wait_us))


def wait_on(record: TimerRecord) -> TimerMove:
    """One whose rule cannot be read waits for the time it has, and is not looked at before."""
    return TimerMove(record, changed(record, wait_us=None))


def _wait_us(rule: Recurrence, due_us: int, now_us: int) -> int:
    return rule.step_us if isinstance(rule, Every) else due_us - now_us


def arrival_key(record: TimerRecord) -> str:
    """What an arrival is known by: it is stored once, whatever happens between."""
    return f"{record.id}:{record.due_at_us}"
