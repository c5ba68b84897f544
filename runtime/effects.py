"""What a handler decides during its turn: buffered, and committed together with the end of the turn."""

from __future__ import annotations

from typing import Literal

from ..actors.content import Rich, SendRef
from ..actors.plain import Plain
from ..actors.value import value
from ..storage.records import OnUncertain
from .recurrence import Recurrence


@value
class SendEffect:
    """A send to a conversation, this one's or another's."""

    ref: SendRef
    conversation_key: str
    text: str
    reply_to: str | None
    on_uncertain: OnUncertain | None
    is_bulk: bool = False
    rich: Rich | None = None


@value
class MessageEffect:
    """An inbound message for a conversation, made by a handler."""

    topic: str
    conversation_key: str
    text: str


@value
class EventEffect:
    """An event for an event topic."""

    topic: str
    payload: Plain
    key: str | None
    headers: dict[str, str]
    idem_key: str | None


@value
class TimerPlace:
    """Where a timer fires into: a conversation of a topic, or the log of an event topic."""

    kind: Literal["message", "event"]
    topic: str
    key: str | None
    shard: int
    partition: int


@value(kw_only=True)
class TimerEffect:
    """Something to arrive later: after a pause from the end of the turn, at a time, or again and again."""

    id: str
    place: TimerPlace
    payload: Plain
    headers: dict[str, str]
    after_us: int | None
    at_us: int | None
    rule: Recurrence | None


@value
class CancelEffect:
    """A timer to take back."""

    id: str
    shard: int


Effect = SendEffect | MessageEffect | EventEffect | TimerEffect | CancelEffect
