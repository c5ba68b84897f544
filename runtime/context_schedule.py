"""What a turn may decide about later: set a timer, take one back."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from ..actors.codec import copy_plain
from ..actors.errors import BusError, Code
from ..actors.given import is_number, shown
from ..actors.instants import MAX_AT_US
from ..actors.message import BusMessage
from ..actors.names import canonical
from ..actors.plain import Plain
from ..storage.records import InboxRecord
from .context_checks import check_text, checked_headers
from .defaults import PAYLOAD_BYTES
from .effects import CancelEffect, Effect, TimerEffect
from .recurrence import Recurrence, is_recurrence, us_from_datetime
from .timer_rules import ScheduleId, home_of_schedule, schedule_id, schedule_tail

if TYPE_CHECKING:
    from .context_surroundings import Surroundings

_MAX_AFTER_S: Final = 100 * 366 * 86_400


class ScheduleVerbs:
    """The part of a `Context` that is about later. It has no state of its own."""

    __slots__ = ()

    if TYPE_CHECKING:
        message: BusMessage
        _record: InboxRecord
        _effects: list[Effect]
        _surroundings: Surroundings

        def check_active(self) -> None: ...
        def _check_hops(self) -> None: ...
        def _count_timer(self) -> int: ...
        def _add(self, effect: Effect) -> None: ...

    def schedule(
        self,
        payload: Plain,
        *,
        after_s: float | None = None,
        at: datetime | None = None,
        every: Recurrence | None = None,
        topic: str | None = None,
        key: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> ScheduleId:
        """Let something arrive later: a text in a conversation, or an event.

        Exactly one of `after_s`, `at` and `every` says when. The timer is stored with the end of this turn, or not at
        all. When it fires, what it brings is a new arrival at the tail of its conversation, with one hop more than
        this message.

        Args:
            payload: The text for a conversation topic; plain values for an event topic.
            after_s: Seconds from the end of this turn, >= 0.
            at: An aware datetime; one that is past fires at once.
            every: `Every` or `Cron`: again and again, until it is cancelled.
            topic: Default: the topic of this message.
            key: The conversation for a conversation topic (default: this one); the event's key.
            headers: Of an event.
        Returns:
            Its name, for `cancel`.
        Raises:
            BusError: INVALID_MESSAGE; INVALID_TOPIC, NO_SUBSCRIBER, HOP_LIMIT, STALE_CLAIM after the turn.
        """
        self.check_active()
        self._check_hops()
        after_us, at_us = _when(after_s, at, every)
        record = self._record
        to = self.message.topic if topic is None else canonical(topic, "topic")
        is_event = self._surroundings.is_event_topic(to)
        target = self.message.conversation_key if key is None and not is_event else key
        if is_event:
            # What the handler does to its value afterwards is not what it scheduled.
            payload = copy_plain(payload, limit_bytes=PAYLOAD_BYTES, what="payload")
        else:
            check_text(payload)
            if headers:
                raise BusError(
                    Code.INVALID_MESSAGE, "headers are of an event: a text has none", field="headers"
                )
        index = self._count_timer()
        tail = schedule_tail(record.shard, record.seq, index)
        place = self._surroundings.timer_place(to, target, spread=tail)
        name = schedule_id(place.shard, record.shard, record.seq, index)
        self._add(
            TimerEffect(
                id=name,
                place=place,
                payload=payload,
                headers=checked_headers(headers),
                after_us=after_us,
                at_us=at_us,
                rule=every,
            )
        )
        return name

    def cancel(self, schedule: str) -> bool:
        """Take a timer back, with the end of this turn.

        One that fires before this turn ends has fired: its message is on its way.

        Args:
            schedule: What `schedule` returned, in this turn or an earlier one of any conversation.
        Returns:
            Whether it is set now. False: it has fired, was cancelled, or its turn was never committed.
        Raises:
            BusError: INVALID_MESSAGE, no name of `schedule`; STALE_CLAIM after the turn.
        """
        self.check_active()
        home = home_of_schedule(schedule)
        for index, effect in enumerate(self._effects):
            if isinstance(effect, TimerEffect) and effect.id == schedule:
                del self._effects[index]
                return True
            if isinstance(effect, CancelEffect) and effect.id == schedule:
                return False
        if not self._surroundings.has_timer(schedule):
            return False
        self._add(CancelEffect(schedule, home))
        return True


def _when(
    after_s: float | None, at: datetime | None, every: Recurrence | None
) -> tuple[int | None, int | None]:
    """The pause and the time, microseconds; neither where it repeats."""
    if (after_s is None) + (at is None) + (every is None) != 2:
        raise BusError(Code.INVALID_MESSAGE, "a schedule needs exactly one of after_s, at and every")
    if after_s is not None:
        if not is_number(after_s) or not 0 <= after_s <= _MAX_AFTER_S:
            raise BusError(
                Code.INVALID_MESSAGE,
                f"after_s {shown(after_s)} must be a number from 0 to {_MAX_AFTER_S}",
                field="after_s",
            )
        return round(after_s * 1_000_000), None
    if at is not None:
        return None, _instant(at)
    if not is_recurrence(every):
        raise BusError(
            Code.INVALID_MESSAGE, f"every {shown(every)} must be an Every or a Cron", field="every"
        )
    return None, None


def _instant(at: object) -> int:
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise BusError(
            Code.INVALID_MESSAGE,
            f"at {shown(at)} names no zone, so nobody knows when that is: take an aware datetime, such as"
            " datetime.now(UTC) + timedelta(hours=1), or one with tzinfo=ZoneInfo('Europe/Berlin')",
            field="at",
        )
    at_us = us_from_datetime(at)
    if not 0 <= at_us <= MAX_AT_US:
        raise BusError(Code.INVALID_MESSAGE, f"at {shown(at)} must be from 1970 to 9999", field="at")
    return at_us
