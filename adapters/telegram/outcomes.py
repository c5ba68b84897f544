"""What became of a send: the platform's refusals as outcomes, by code and parameters first. Pure.

Texts decide only among answers of code 400 and 403, and only by the beginnings and words of the table in
docs/reference/telegram.md: descriptions are no contract.
"""

from __future__ import annotations

from typing import Final

import attrs

from ...actors.errors import Code, Permanence
from ..base import Degradation, NotSent, SendOutcome, Sent, Uncertain
from .address import Address, message_name
from .fields import as_object, integer_in
from .wire import Ok, Refusal

_PERMANENT: Final = Permanence.PERMANENT
_TRANSIENT: Final = Permanence.TRANSIENT
FLOOD_S: Final = 5
"""How long to wait where a 429 does not say, seconds."""


@attrs.frozen
class Rule:
    """One line of the table: a description that holds `words` (in small letters) means `code`."""

    words: str
    code: Code
    degrade: Degradation | None = None


DONE: Final = ("message is not modified", "message to delete not found")
"""Refusals of a repeat: what was asked for is so."""

RULES_400: Final = (
    Rule("message thread not found", Code.CONTENT_REFUSED, "thread"),
    Rule("message to be replied not found", Code.CONTENT_REFUSED, "reply"),
    Rule("message to reply not found", Code.CONTENT_REFUSED, "reply"),
    Rule("can't parse entities", Code.CONTENT_REFUSED, "formatting"),
    Rule("message text is empty", Code.CONTENT_REFUSED, "formatting"),
    Rule("message is too long", Code.TOO_LARGE),
    Rule("text is too long", Code.TOO_LARGE),
    Rule("caption is too long", Code.TOO_LARGE),
    Rule("chat not found", Code.RECIPIENT_NOT_FOUND),
    Rule("user not found", Code.RECIPIENT_NOT_FOUND),
    Rule("peer_id_invalid", Code.RECIPIENT_NOT_FOUND),
    Rule("not enough rights", Code.NO_ACCESS),
    Rule("have no rights", Code.NO_ACCESS),
    Rule("chat_write_forbidden", Code.NO_ACCESS),
    Rule("query is too old", Code.EXPIRED),
    Rule("message to edit not found", Code.NOT_FOUND),
)
RULES_403: Final = (
    Rule("blocked by the user", Code.RECIPIENT_BLOCKED),
    Rule("user is deactivated", Code.RECIPIENT_NOT_FOUND),
    Rule("was deleted", Code.RECIPIENT_NOT_FOUND),
    Rule("initiate conversation", Code.RECIPIENT_BLOCKED),
    Rule("kicked", Code.NO_ACCESS),
    Rule("not a member", Code.NO_ACCESS),
)


def outcome_of(answer: Ok | Refusal, address: Address) -> SendOutcome:
    """Judge a complete answer to a send.

    Args:
        answer: Of the server.
        address: Where the send went.
    Returns:
        Never Uncertain: who answers knows.
    """
    if isinstance(answer, Ok):
        return Sent(_name_of(answer, address))
    if answer.migrate_to is not None:
        moved = attrs.evolve(address, chat=answer.migrate_to)
        return NotSent(Code.RECIPIENT_NOT_FOUND, _PERMANENT, text=answer.description, moved_to=str(moved))
    match answer.code:
        case 429:
            wait_s = FLOOD_S if answer.retry_after_s is None else answer.retry_after_s
            return NotSent(
                Code.RATE_LIMITED,
                _TRANSIENT,
                retry_after_s=float(wait_s),
                scope="chat",
                text=answer.description,
            )
        case 401:
            return NotSent(Code.BAD_TOKEN, _PERMANENT, text=answer.description)
        case 403:
            return _by_words(answer, RULES_403, Code.NO_ACCESS)
        case 413:
            return NotSent(Code.TOO_LARGE, _PERMANENT, text=answer.description)
        case 400 if any(words in answer.description.lower() for words in DONE):
            return Sent(None, deduped=True)
        case 400:
            return _by_words(answer, RULES_400, Code.CONTENT_REFUSED)
        case code if code >= 500 or code == 409:
            return NotSent(Code.DELIVERY_PERMANENT, _TRANSIENT, text=answer.description)
        case _:
            # 404 among them: the token was good at the start, so there is no such method on this server.
            return NotSent(Code.DELIVERY_PERMANENT, _PERMANENT, text=answer.description)


def outcome_unsent(reason: str) -> NotSent:
    """No byte of the call left."""
    return NotSent(Code.DELIVERY_PERMANENT, _TRANSIENT, text=reason)


def outcome_unknown(reason: str, *, is_repeatable: bool) -> SendOutcome:
    """Bytes may have left, and no complete answer came.

    Args:
        reason: What happened, for people.
        is_repeatable: A second call does no harm (an edit, a deletion): it is tried again.
    """
    return outcome_unsent(reason) if is_repeatable else Uncertain(reason)


def _by_words(refusal: Refusal, rules: tuple[Rule, ...], otherwise: Code) -> NotSent:
    told = refusal.description.lower()
    for rule in rules:
        if rule.words in told:
            return NotSent(rule.code, _PERMANENT, text=refusal.description, degrade=rule.degrade)
    return NotSent(otherwise, _PERMANENT, text=refusal.description)


def _name_of(answer: Ok, address: Address) -> str | None:
    result = answer.result
    if isinstance(result, list) and result:
        result = result[0]
    told = as_object(result)
    message = None if told is None else integer_in(told, "message_id")
    return None if message is None else message_name(address, message)


__all__ = [
    "DONE",
    "FLOOD_S",
    "RULES_400",
    "RULES_403",
    "Rule",
    "outcome_of",
    "outcome_unknown",
    "outcome_unsent",
]
