"""Instants in their text form, RFC 3339, and in ours, microseconds since 1970 UTC."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from .errors import BusError, Code

__all__ = ["MAX_AT_US", "check_rfc3339", "rfc3339_from_us", "us_from_rfc3339"]

MAX_AT_US = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def check_rfc3339(value: str, what: str) -> str:
    """Check a time stamp: RFC 3339 with upper-case `T` and `Z`, a real date, 1-9 digits of fraction, no leap second.

    Returns:
        `value`, unchanged.
    Raises:
        BusError: INVALID_MESSAGE.
    """
    _parsed(value, what)
    return value


def us_from_rfc3339(value: str, what: str = "time") -> int:
    """Convert a time stamp to microseconds since 1970 UTC; digits past the sixth are cut off.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    return (_parsed(value, what) - _EPOCH) // _MICROSECOND


def rfc3339_from_us(at_us: int) -> str:
    """Write an instant in UTC, with six digits of fraction unless they are all zero.

    Args:
        at_us: Microseconds since 1970 UTC, 0 … `MAX_AT_US`.
    """
    moment = _EPOCH + timedelta(microseconds=at_us)
    return moment.replace(tzinfo=None).isoformat() + "Z"


def _parsed(value: str, what: str) -> datetime:
    moment = _moment(value)
    if moment is None:
        raise BusError(
            Code.INVALID_MESSAGE,
            f"{what} {value[:40]!r} is no RFC 3339 time such as 2026-02-16T11:12:00Z",
            field=what,
        )
    return moment


# A message's time is read where it comes in and checked again with the whole message.
@lru_cache(maxsize=64)
def _moment(value: str) -> datetime | None:
    if _RFC3339.fullmatch(value) is None:
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None
