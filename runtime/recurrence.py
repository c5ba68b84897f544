"""How a schedule repeats: at even distances, or by the clocks of a zone. Pure.

The rule for the nights when clocks are changed is Debian cron's, by the library cronsim. For an expression that names
its minute and its hour:

- A time that the night skips (02:30 where 02:00 becomes 03:00) fires once, when the gap ends: at 03:00.
- A time that the night has twice fires once, the first time.

An expression whose minute or hour field begins with `*` is held against every minute that really passes: every 15
minutes is every 15 minutes, also in such a night. What the clocks show twice fires twice then, what they skip not.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import attrs
from cronsim import CronSim, CronSimError

from ..actors.errors import BusError, Code
from ..actors.given import is_number, shown

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_EVERY: Final = "every "
_AT: Final = re.compile("([0-9]{1,2}):([0-9]{2})")
_MAX_STEP_S: Final = 10 * 366 * 86_400


@attrs.frozen
class Every:
    """Again after so many seconds, 1 to ten years. Missed times are made up for once; the distance stays even.

    Raises:
        BusError: INVALID_MESSAGE.
    """

    seconds: float

    def __attrs_post_init__(self) -> None:
        if not is_number(self.seconds) or not 1 <= self.seconds <= _MAX_STEP_S:
            raise BusError(
                Code.INVALID_MESSAGE,
                f"every {shown(self.seconds)}: seconds must be a number from 1 to {_MAX_STEP_S}",
                field="every",
            )

    @property
    def step_us(self) -> int:
        """The distance, microseconds."""
        return round(self.seconds * 1_000_000)

    def next_us(self, now_us: int, due_us: int | None = None) -> int:
        """The first time after `now_us`.

        Args:
            now_us: Wall clock, microseconds since 1970 UTC.
            due_us: A time of the row of times, at or before now; None begins a new row.
        """
        if due_us is None:
            return now_us + self.step_us
        return due_us + ((now_us - due_us) // self.step_us + 1) * self.step_us


@attrs.frozen
class Cron:
    """At the times of a cron expression, by the clocks of a zone.

    Args:
        expression: Five fields: minute, hour, day of month, month, day of week.
        zone: A name of the IANA data base, such as Europe/Berlin.
    Raises:
        BusError: INVALID_MESSAGE, no such expression or zone, or a time that never comes.

    >>> Cron.daily("02:30", zone="Europe/Berlin").expression
    '30 2 * * *'
    """

    expression: str
    zone: str = "UTC"

    def __attrs_post_init__(self) -> None:
        if not _has_five_fields(self.expression):
            raise BusError(
                Code.INVALID_MESSAGE,
                f"cron {shown(self.expression)} must have five fields: minute, hour, day of month, month, day of week",
                field="expression",
            )
        self.next_us(0)

    @classmethod
    def daily(cls, at: str, *, zone: str = "UTC") -> Self:
        """Once a day.

        Args:
            at: Hours and minutes by the zone's clocks, `02:30`.
            zone: As for `Cron`.
        Raises:
            BusError: INVALID_MESSAGE, no such time or zone.
        """
        found = _AT.fullmatch(at) if _is_text(at) else None
        if found is None:
            raise BusError(Code.INVALID_MESSAGE, f"{shown(at)} is no time of day such as 02:30", field="at")
        return cls(f"{int(found[2])} {int(found[1])} * * *", zone)

    def next_us(self, now_us: int, due_us: int | None = None) -> int:
        """The first time after `now_us`, whatever was due before.

        Raises:
            BusError: INVALID_MESSAGE, the expression or the zone is none that this machine knows.
        """
        now = (_EPOCH + timedelta(microseconds=now_us)).astimezone(_zone(self.zone))
        times = _times(self.expression, now)
        while True:
            try:
                due_us = us_from_datetime(next(times))
            except (StopIteration, OverflowError, ValueError) as error:
                raise BusError(
                    Code.INVALID_MESSAGE,
                    f"cron {self.expression!r} names no time to come",
                    field="expression",
                ) from error
            # Told apart by the clocks alone, a time of the hour that comes twice may lie behind.
            if due_us > now_us:
                return due_us


Recurrence = Every | Cron


def is_recurrence(value: object) -> bool:
    """Whether this is a rule; declarations come from programs that no type checker has seen, too."""
    return isinstance(value, Every | Cron)


def us_from_datetime(at: datetime) -> int:
    """An aware datetime as microseconds since 1970 UTC."""
    return (at - _EPOCH) // _MICROSECOND


def pack_rule(rule: Recurrence | None) -> tuple[str | None, str | None]:
    """A rule as the two columns of its timer."""
    if rule is None:
        return None, None
    if isinstance(rule, Every):
        return f"{_EVERY}{rule.seconds!r}", None
    return rule.expression, rule.zone


def unpack_rule(rule: str, zone: str | None) -> Recurrence:
    """Read `pack_rule`.

    Raises:
        BusError: INVALID_MESSAGE, a rule or zone that this version or machine does not know.
    """
    if rule.startswith(_EVERY):
        try:
            return Every(float(rule.removeprefix(_EVERY)))
        except ValueError as error:
            raise BusError(Code.INVALID_MESSAGE, f"{shown(rule)} is no rule", field="rule") from error
    return Cron(rule, zone or "UTC")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise BusError(
            Code.INVALID_MESSAGE,
            f"there is no zone {shown(name)}: take a name of the IANA data base such as Europe/Berlin",
            field="zone",
        ) from error


def _times(expression: str, now: datetime) -> CronSim:
    try:
        return CronSim(expression, now)
    except CronSimError as error:
        raise BusError(
            Code.INVALID_MESSAGE, f"cron {shown(expression)}: {str(error).lower()}", field="expression"
        ) from error


def _has_five_fields(value: object) -> bool:
    return isinstance(value, str) and len(value.split()) == 5


def _is_text(value: object) -> bool:
    # Typed as text; declarations come from settings files, too.
    return isinstance(value, str)


__all__ = ["Cron", "Every", "Recurrence", "is_recurrence", "pack_rule", "unpack_rule", "us_from_datetime"]
