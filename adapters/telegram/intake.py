"""Hands updates to the runtime: side by side, within a conversation one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import trio

from ...actors.plain import Plain
from ..base import Edge, Inbound
from .buttons import Buttons
from .fields import as_object, integer_in
from .update import Echo, Reading, read_update


@attrs.define
class Tally:
    """What came in, in this run of the process.

    Attributes:
        updates: Read from the platform, repeats included.
        own: Dropped: written by this bot.
        bots: Dropped: written by other bots.
        unreadable: Refused: not even an id could be found.
    """

    updates: int = 0
    own: int = 0
    bots: int = 0
    unreadable: int = 0


class Intake:
    """One channel's way in.

    Args:
        edge: Of the runtime.
        how: How updates are read.
        facts: To be stored with the first message.
        tally: To count in.
        buttons: Are answered once they are on disk; None leaves them alone.
    """

    def __init__(
        self,
        edge: Edge,
        how: Reading,
        facts: Mapping[str, str],
        tally: Tally,
        buttons: Buttons | None = None,
    ) -> None:
        self._edge = edge
        self._how = how
        self._facts = dict(facts)
        self._tally = tally
        self._buttons = buttons

    async def take_page(self, page: Sequence[Plain]) -> int | None:
        """Store a page; return when all of it is on disk.

        Args:
            page: Updates, in order.
        Returns:
            The id of the last update, None where none has one.
        """
        found = [inbound for one in page if (inbound := self._read(one)) is not None]
        if any(one.moved_to is not None or one.moved_from is not None for one in found) or self._facts:
            # What follows a move in the page belongs to the conversation that the move has made.
            for inbound in found:
                await self.take(inbound)
        else:
            lanes: dict[str, list[Inbound]] = {}
            for inbound in found:
                lanes.setdefault(inbound.address, []).append(inbound)
            async with trio.open_nursery() as nursery:
                for lane in lanes.values():
                    nursery.start_soon(self._take_lane, lane)
        return _last_id(page)

    async def take_one(self, update: Plain) -> None:
        """Store one update."""
        inbound = self._read(update)
        if inbound is not None:
            await self.take(inbound)

    async def take(self, inbound: Inbound) -> None:
        """Store one message."""
        query = None if self._buttons is None else self._buttons.expect(inbound)
        if query is None or self._buttons is None:
            await self._accept(inbound)
            return
        try:
            await self._accept(inbound)
        except BaseException:
            self._buttons.forget(query)
            raise
        self._buttons.begin(query)

    async def _accept(self, inbound: Inbound) -> None:
        facts = self._facts
        await self._edge.accept(inbound, facts=facts or None)
        self._facts = {}

    async def _take_lane(self, lane: Sequence[Inbound]) -> None:
        for inbound in lane:
            await self.take(inbound)

    def _read(self, update: Plain) -> Inbound | None:
        self._tally.updates += 1
        told = as_object(update)
        read = None if told is None else read_update(told, self._how)
        match read:
            case Inbound():
                return read
            case Echo(is_own=True):
                self._tally.own += 1
            case Echo():
                self._tally.bots += 1
            case None:
                self._tally.unreadable += 1
                self._edge.refused("it is no update", where=f"update {self._tally.updates}")
        return None


def _last_id(page: Sequence[Plain]) -> int | None:
    """The cursor follows the page, not the largest id: ids may begin anew, lower, after a quiet week."""
    ids = [number for one in page if (number := integer_in(as_object(one) or {}, "update_id")) is not None]
    return ids[-1] if ids else None


__all__ = ["Intake", "Tally"]
