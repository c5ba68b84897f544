"""What the two transition tables share: their refusals and the bounded list of failures."""

from __future__ import annotations

from ..actors.errors import BusError, Code
from ..storage.records import Failure
from .defaults import MAX_ERRORS


def invalid_transition(row_id: int, *, status: str, event: str, reason: str = "") -> BusError:
    """INVALID_TRANSITION; its context has `from` and `event`."""
    why = f": {reason}" if reason else ""
    return BusError(
        Code.INVALID_TRANSITION,
        f"row {row_id} is {status}, which does not allow {event}{why}",
        row_id=row_id,
        event=event,
        reason=reason,
        **{"from": str(status)},
    )


def stale_claim(row_id: int, *, held: int, given: int | None, event: str) -> BusError:
    """STALE_CLAIM: the caller acts under another claim than the row's."""
    return BusError(
        Code.STALE_CLAIM,
        f"row {row_id} is at claim {held}, not {given}",
        row_id=row_id,
        event=event,
        held=held,
        given=given,
    )


def failure(code: str, text: str, at_us: int, claim: int, own_code: str | None = None) -> Failure:
    """A `Failure` whose code is a plain string, fit for any codec."""
    return Failure(at_us=at_us, code=str(code), text=text, claim=claim, own_code=own_code)


def keep_last(errors: tuple[Failure, ...], new: Failure) -> tuple[Failure, ...]:
    """`errors` and `new`, without the oldest beyond the bound: the history has them all."""
    return (*errors[-(MAX_ERRORS - 1) :], new)
