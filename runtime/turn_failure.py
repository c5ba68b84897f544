"""What the failure of a turn means: another try, or the end. Pure."""

from __future__ import annotations

from ..actors.errors import Code, Permanence, error_code_of, own_code_of, permanence_of
from ..actors.text import clean_text
from ..storage.records import InboxRecord
from .inbox_rules import Dead, Fail
from .retry import RetryPolicy

_TEXT_CHARACTERS = 500


def failure_event(
    error: BaseException, record: InboxRecord, policy: RetryPolicy, *, now_us: int, unit: float
) -> Fail | Dead:
    """Decide by the error's class and the budget, never by its text.

    Args:
        error: What the handler raised, or the time limit.
        record: The running row.
        policy: Of the handler.
        now_us: Wall clock, microseconds since 1970 UTC.
        unit: A number drawn evenly from [0, 1), for the jitter.
    Returns:
        `Fail` with its due time, or `Dead` for a permanent error or a spent budget.
    """
    code = str(error_code_of(error) or Code.HANDLER_FAILED)
    own_code = own_code_of(error)
    text = f"{type(error).__name__}: {_said(error)}"[:_TEXT_CHARACTERS]
    if permanence_of(error) is Permanence.PERMANENT or policy.is_spent(record.failures + 1):
        return Dead(code, text, own_code)
    wait_us = round(policy.delay_s(record.failures, unit) * 1e6)
    return Fail(code, text, now_us + wait_us, wait_us, own_code)


def _said(error: BaseException) -> str:
    """Its text, as it can be stored: user code may put anything into an exception, also into its `__str__`."""
    try:
        return clean_text(str(error))
    except Exception as other:
        return f"(its text cannot be had: {type(other).__name__})"
