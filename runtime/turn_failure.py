"""What the failure of a turn means: another try, or the end. Pure."""

from __future__ import annotations

from typing import cast

from ..actors.errors import Code, Permanence, error_code_of, own_code_of, permanence_of, retry_later_of
from ..actors.leaves import leaves
from ..actors.text import clean_text
from ..storage.records import InboxRecord
from .inbox_rules import Dead, Fail
from .retry import RetryPolicy, bounded_later_s

_TEXT_CHARACTERS = 500
_GROUP_CHARACTERS = 2_000


def failure_event(
    error: BaseException, record: InboxRecord, policy: RetryPolicy, *, now_us: int, unit: float
) -> Fail | Dead:
    """Decide by the error's class and the budget, never by its text.

    A permanent error anywhere in a group wins, and so does a `Permanent` among causes; then the longest `RetryLater`;
    then the policy.

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
    text = failure_text(error)
    if permanence_of(error) is Permanence.PERMANENT or policy.is_spent(record.failures + 1):
        return Dead(code, text, own_code)
    later = retry_later_of(error)
    wait_s = policy.delay_s(record.failures, unit) if later is None else bounded_later_s(later.after_s)
    wait_us = round(wait_s * 1e6)
    return Fail(code, text, now_us + wait_us, wait_us, own_code)


def is_failure_of_topic(error: BaseException) -> bool:
    """Whether an error speaks against the handler's surroundings, as a breaker counts them.

    A permanent error is about the one message, and a `RetryLater` is a wait that the handler has under control.
    """
    return permanence_of(error) is not Permanence.PERMANENT and retry_later_of(error) is None


def failure_text(error: BaseException) -> str:
    """The error for the row's list: its type and text, with those of each member of a group."""
    if not isinstance(error, BaseExceptionGroup):
        return _text(error)
    group = cast("BaseExceptionGroup[BaseException]", error)
    members = "; ".join(map(_text, leaves(group)))
    return f"{_text(group)}: {members}"[:_GROUP_CHARACTERS]


def _text(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception as other:
        # The error's class is the user's; telling of it must not fail.
        said = f"(its text cannot be had: {type(other).__name__})"
    return clean_text(f"{type(error).__name__}: {said[:_TEXT_CHARACTERS]}")[:_TEXT_CHARACTERS]
