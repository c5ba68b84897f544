"""Which messages of a conversation are one album, and how long its first one waits for the others. Pure.

An album (`media_group_id`) comes as messages of its own, without a word that it is complete. Each is an inbox row at
once. With `album_s` its handler takes them in one turn: the first one waits in its lane until `album_s` after its own
acceptance, and takes along what then stands right behind it and joins. Both are a matter of what is stored, so
a restart, a kill and every retry come to the same answer; and since nothing is passed over, no order changes.

In the terms of a lane an album is one head of several rows: claimed in one commit, ended in one commit, each row with
numbers and a history of its own.
"""

from __future__ import annotations

from typing import Protocol

from ..actors.extensions import Kind
from ..actors.message import BusMessage
from ..storage.records import InboxRecord
from .defaults import ALBUM_MESSAGES
from .retry import rest_us


class Part(Protocol):
    """What the rule reads of a queued row."""

    @property
    def record(self) -> InboxRecord:
        """The row."""
        ...

    @property
    def message(self) -> BusMessage:
        """What it brings."""
        ...


def album_of(message: BusMessage) -> str | None:
    """The album a message is a part of; an edit of a part is a message by itself."""
    extensions = message.extensions
    return extensions.media_group_id if extensions.kind is Kind.NEW else None


def joins(head: Part, other: Part, *, held: int, album_us: int) -> bool:
    """Whether a row goes into the turn of the album that `head` begins.

    Args:
        head: The first row of the turn; part of an album.
        other: The row that stands right behind those taken so far.
        held: How many are taken, `head` among them.
        album_us: How long after `head` a part may be accepted, microseconds. One from before it, by a clock that was
            set back, joins.
    """
    first, second = head.record, other.record
    return (
        held < ALBUM_MESSAGES
        and album_of(other.message) == album_of(head.message)
        and (second.topic, second.channel) == (first.topic, first.channel)
        and second.accepted_at_us - first.accepted_at_us <= album_us
    )


def wait_us(head: Part, *, album_us: int, now_us: int) -> int:
    """How long the first row of an album has to wait still: never longer than `album_us`, whatever the clock says."""
    return rest_us(head.record.accepted_at_us + album_us, album_us, now_us)


__all__ = ["album_of", "joins", "wait_us"]
