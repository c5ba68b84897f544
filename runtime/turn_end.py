"""How a failed turn ends: what the time limit is as an error, what a stop is, and the event with its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.errors import BusError, Code, error_code_of
from .inbox_rules import Dead, Fail, Release
from .reports import report_turn
from .turn_failure import failure_event, failure_text

if TYPE_CHECKING:
    from .services import Services
    from .turn import Turn


def time_limit_error(limit_s: float, raised: BaseException | None) -> BusError:
    """The error of a turn that took too long; what it raised while it ended is the cause, and can steer it."""
    text = f"the turn took longer than {limit_s} s"
    if raised is not None:
        text = f"{text}; when it ended it raised {failure_text(raised)}"
    error = BusError(Code.HANDLER_TIMEOUT, text, timeout_s=limit_s)
    error.__cause__ = raised
    return error


def failed_turn(turn: Turn, error: BaseException, services: Services) -> Fail | Dead | Release:
    """Decide what the failure of a turn means, and report it.

    A turn that the runtime refused something because it stops is cut off by the stop, and its message goes back.
    """
    if services.draining and error_code_of(error) is Code.BUS_CLOSED:
        services.has_cut_off = True
        return Release()
    event = failure_event(
        error,
        turn.row.record,
        turn.handler.retry,
        now_us=services.clock.wall_us(),
        unit=services.random.random(),
    )
    report_turn(turn, error, event, services)
    return event
