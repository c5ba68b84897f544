"""Which kinds of fail point a part passes; asked only while some are armed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from .commands import Commit, NewInbox, NewOutbox, Part, Publish
from .records import OutboxStatus

_INBOX_KINDS: Final = {
    "done": "done",
    "fail": "retry",
    "dead": "dead",
    "requeue": "requeue",
    "crash": "recovery",
    "blame": "recovery",
}
_OUTBOX_KINDS: Final = {
    "start": ("send-start",),
    "sent": ("send-result",),
    "failed": ("send-result", "retry"),
    "uncertain": ("send-result",),
    "release": ("send-result",),
    "resplit": ("send-result",),
    "dead": ("send-result", "dead"),
    "drop": ("dead",),
    "requeue": ("requeue",),
}


def labels(part: Part) -> frozenset[str]:
    """The kinds of `actors.failpoints.KINDS` that a part is of."""
    if isinstance(part, Publish):
        return frozenset(_publish_kinds(part))
    if isinstance(part, Commit):
        return frozenset(_commit_kinds(part))
    return frozenset()


def labels_of(parts: Iterable[Part]) -> frozenset[str]:
    """The kinds of all the parts of one transaction."""
    return frozenset[str]().union(*map(labels, parts))


def _publish_kinds(part: Publish) -> Iterator[str]:
    if isinstance(part.row, NewInbox):
        yield "accept"
    if isinstance(part.row, NewOutbox) and part.claim is not None:
        yield "send-start"
    if part.relayed is not None:
        yield "relay"


def _commit_kinds(part: Commit) -> Iterator[str]:
    for move in part.inbox:
        if move.event in _INBOX_KINDS:
            yield _INBOX_KINDS[move.event]
    for send in part.outbox:
        yield from _OUTBOX_KINDS.get(send.event, ())
    for rewrite in part.rewrites:
        yield from _OUTBOX_KINDS.get(rewrite.move.event, ())
    for new in part.new_outbox:
        if new.record.status is OutboxStatus.PENDING and new.record.in_flight:
            yield "send-start"
    if part.turn is not None:
        if part.turn.steps:
            yield "step"
        if part.new_outbox:
            yield "send-now"
    if part.emits:
        yield "emit"
    if part.control is not None:
        yield "control"
    if part.arrivals:
        yield "timer"
