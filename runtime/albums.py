"""The albums of one shard: who waits for the rest of one, and which rows a turn takes. The rules: `album_rules.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..storage.commands import InboxMove
from ..storage.records import InboxStatus
from .album_rules import album_of, joins, wait_us
from .defaults import ALBUM_MESSAGES
from .inbox_rules import InboxEvent, inbox_move
from .lane import Lane
from .lanes import Lanes
from .turn import AlbumRow, QueuedRow

if TYPE_CHECKING:
    from .services import Services

FreeToken = Callable[[Lane[QueuedRow], QueuedRow], None]


class Albums:
    """Decides over the heads of lanes.

    Args:
        lanes: All lanes of this run of the shard.
        services: The runtime's parts.
        free_token: Gives a row's token back.
    """

    def __init__(self, lanes: Lanes[QueuedRow], services: Services, free_token: FreeToken) -> None:
        self._lanes = lanes
        self._services = services
        self._free_token = free_token

    def is_part(self, row: QueuedRow) -> bool:
        """Whether the row may not be claimed on sight: it is part of an album, and its handler takes albums whole."""
        return self._album_us(row) is not None

    def wait_us(self, row: QueuedRow) -> int:
        """How long the head of a lane waits for the rest of its album, microseconds; 0 for no album."""
        album_us = self._album_us(row)
        if album_us is None:
            return 0
        return wait_us(row, album_us=album_us, now_us=self._services.clock.wall_us())

    def gather(self, lane: Lane[QueuedRow], head: QueuedRow) -> QueuedRow:
        """Take the rest of its album out of a busy lane whose head was taken."""
        album_us = self._album_us(head)
        if album_us is None:
            return head
        lanes, rest = self._lanes, list[QueuedRow]()
        while lane.queue or (lane.more and lanes.read_on(lane, ALBUM_MESSAGES)):
            if not joins(head, lane.queue[0], held=1 + len(rest), album_us=album_us):
                break
            rest.append(lanes.take(lane))
        return AlbumRow(head, rest) if rest else head

    def settle(self, lane: Lane[QueuedRow], row: QueuedRow, status: InboxStatus) -> None:
        """The rest of an album has come to what its first part has come to; that is on disk."""
        services = self._services
        for part in row.rest:
            services.gate.leave(part.record.id)
        if status is InboxStatus.QUEUED or status is InboxStatus.FAILED:
            _put_rest_back(self._lanes, lane, row)
            return
        for part in row.rest:
            self._lanes.release(part)
            self._free_token(lane, part)
        if status is InboxStatus.DONE:
            services.count("handled", len(row.rest))

    def _album_us(self, row: QueuedRow) -> int | None:
        if album_of(row.message) is None:
            return None
        record = row.record
        handler = self._services.topology.handler_of(record.topic, record.channel)
        if handler is None or handler.album_s is None:
            return None
        return round(handler.album_s * 1e6)


def rest_moves(row: QueuedRow, event: InboxEvent, *, now_us: int) -> tuple[InboxMove, ...]:
    """How the turn that a row began ends for the rows it took along, each under its own claim."""
    return tuple(inbox_move(part.record, event, now_us=now_us, claim=part.record.claim) for part in row.rest)


def follow(row: QueuedRow, moves: tuple[InboxMove, ...]) -> None:
    """What a row took along is where these moves, now on disk, have brought it."""
    for part, move in zip(row.rest, moves, strict=True):
        part.record = move.after


def put_back(lanes: Lanes[QueuedRow], lane: Lane[QueuedRow], row: QueuedRow) -> None:
    """A row taken becomes the head again, and in front of its old followers what it took along."""
    _put_rest_back(lanes, lane, row)
    lanes.put_back(lane, row)


def _put_rest_back(lanes: Lanes[QueuedRow], lane: Lane[QueuedRow], row: QueuedRow) -> None:
    if isinstance(row, AlbumRow):
        for part in reversed(row.rest):
            lanes.put_back(lane, part)
        row.rest = ()


def albums_of(lanes: Lanes[QueuedRow], services: Services, free_token: FreeToken) -> Albums | None:
    """None where no handler takes albums whole: no message is looked at for it then."""
    handlers = [spec for by_channel in services.topology.handlers.values() for spec in by_channel.values()]
    return Albums(lanes, services, free_token) if any(spec.album_s is not None for spec in handlers) else None


__all__ = ["Albums", "albums_of", "follow", "put_back", "rest_moves"]
