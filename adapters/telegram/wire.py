"""Answers of the Bot API: bytes to frozen values. Pure."""

from __future__ import annotations

from typing import Final

import attrs

from ...actors.errors import BusError
from ...actors.plain import Plain
from ...actors.strict_json import loads
from .fields import as_object, integer_in, object_in

MOST_WAIT_S: Final = 86_400
"""The longest wait that a server may ask for, seconds: a day."""
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""The longest answer that is read; a page of 100 updates has at most some megabytes."""


@attrs.frozen
class Ok:
    """The call was done.

    Attributes:
        result: What it returned; None where the answer has none.
    """

    result: Plain


@attrs.frozen(kw_only=True)
class Refusal:
    """The server says why it did not do the call.

    Attributes:
        code: `error_code`, else the HTTP status.
        description: For people; decide by it only for the listed answers of code 400.
        retry_after_s: How long to wait, whole seconds, 0 to `MOST_WAIT_S`.
        migrate_to: The chat has become a supergroup with this id.
    """

    code: int
    description: str = ""
    retry_after_s: int | None = None
    migrate_to: int | None = None


Answer = Ok | Refusal


def read_answer(status: int, body: bytes) -> Answer | None:
    """Read a whole answer.

    Args:
        status: Of HTTP.
        body: All of it.
    Returns:
        None where it is no answer of the API: HTML of a proxy, half an object, `ok` missing.
    """
    try:
        answer = as_object(loads(body, limit_bytes=MAX_ANSWER_BYTES))
    except BusError:
        return None
    if answer is None:
        return None
    match answer.get("ok"):
        case True:
            return Ok(answer.get("result"))
        case False:
            told = object_in(answer, "parameters") or {}
            description = answer.get("description")
            return Refusal(
                code=integer_in(answer, "error_code") or status,
                description=description if isinstance(description, str) else "",
                retry_after_s=_wait_s(integer_in(told, "retry_after")),
                migrate_to=integer_in(told, "migrate_to_chat_id"),
            )
        case _:
            return None


def _wait_s(told: int | None) -> int | None:
    return None if told is None else min(max(told, 0), MOST_WAIT_S)


__all__ = ["MAX_ANSWER_BYTES", "MOST_WAIT_S", "Answer", "Ok", "Refusal", "read_answer"]
