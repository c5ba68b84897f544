"""An edge that takes messages without a runtime behind it: what a channel's own tests read from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import trio

from ...actors.errors import BusError
from ...actors.message import validate_message
from ...runtime.arrival import CONTENT_CODES, message_of
from ...runtime.edge_report import EdgeState
from ..base import Inbound, Stored

_STORE_UUID = "0194f5c0-8f6e-7000-8000-000000000001"
_NOW_US = 1_767_225_600_000_000


class FakeEdge:
    """Accepts as a runtime does: checks every rule, knows duplicates, keeps facts with their message.

    It outlives the adapters that read into it, as a store does: give it to the next one, and that is a restart.

    Args:
        before_commit: Awaited by each accept before it counts: how a test makes it slow, or holds it.
        after_commit: Awaited when it counts and has not returned yet.
        channel, prefix: Of the adapter.
        linear: As in its caps: whether a message that breaks a rule is counted (`refusals`), or raises.

    Attributes:
        offered: Every message that came to `accept`, in order.
        accepted: Those that are new, in the order of their commits.
        duplicates: How many were known already.
        refusals: Why messages were not taken.
        bad: What `refused` was told.
        reports: What `report` was told.
        facts: As stored last.
        peak: Most accepts under way at once.
        overlaps: Conversations that had two accepts under way at once.
        fails_after: So many accepts work; the next one raises `error`.
    """

    def __init__(
        self,
        before_commit: Callable[[Inbound], Awaitable[None]] | None = None,
        *,
        after_commit: Callable[[Inbound], Awaitable[None]] | None = None,
        channel: str = "fake",
        prefix: str = "fake",
        linear: bool = True,
    ) -> None:
        self.before_commit = before_commit
        self.after_commit = after_commit
        self.offered: list[Inbound] = []
        self.accepted: list[Inbound] = []
        self.duplicates = 0
        self.refusals: list[BusError] = []
        self.bad: list[tuple[str, str]] = []
        self.reports: list[tuple[EdgeState, str]] = []
        self.facts: dict[str, str] = {}
        self.peak = 0
        self.overlaps: list[str] = []
        self.fails_after: int | None = None
        self.error: BusError | None = None
        self._channel = channel
        self._prefix = prefix
        self._linear = linear
        self._known: set[str] = set()
        self._busy: set[str] = set()
        self._waiting = trio.lowlevel.ParkingLot()

    async def accept(self, inbound: Inbound, *, facts: Mapping[str, str] | None = None) -> Stored | None:
        """See `Edge.accept`."""
        self.offered.append(inbound)
        if inbound.address in self._busy:
            self.overlaps.append(inbound.address)
        self._busy.add(inbound.address)
        self.peak = max(self.peak, len(self._busy))
        self.changed()
        try:
            await trio.lowlevel.checkpoint()
            if self.before_commit is not None:
                await self.before_commit(inbound)
        finally:
            self._busy.discard(inbound.address)
        if self.error is not None and self.fails_after is not None and len(self.accepted) >= self.fails_after:
            raise self.error
        stored = self._store(inbound, facts or {})
        self.changed()
        if self.after_commit is not None:
            await self.after_commit(inbound)
        return stored

    def fact(self, key: str) -> str | None:
        """See `Edge.fact`."""
        return self.facts.get(key)

    def refused(self, reason: str, *, where: str) -> None:
        """See `Edge.refused`."""
        self.bad.append((reason, where))
        self.changed()

    def report(self, state: EdgeState, text: str = "", *, action: str = "") -> None:
        """See `Edge.report`."""
        self.reports.append((state, text))
        self.changed()

    def by_conversation(self) -> dict[str, list[str]]:
        """The accepted platform ids of each conversation, in order."""
        found: dict[str, list[str]] = {}
        for inbound in self.accepted:
            found.setdefault(inbound.address, []).append(inbound.platform_message_id)
        return found

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for what accepts bring about."""
        while not condition():
            await self._waiting.park()

    def changed(self) -> None:
        """Have every `wait_until` look again."""
        self._waiting.unpark_all()

    def _store(self, inbound: Inbound, facts: Mapping[str, str]) -> Stored | None:
        try:
            validate_message(
                message_of(
                    inbound,
                    channel=self._channel,
                    prefix=self._prefix,
                    store_uuid=_STORE_UUID,
                    store_made_at_us=_NOW_US,
                    now_us=_NOW_US,
                )
            )
        except BusError as error:
            self.refusals.append(error)
            if error.code not in CONTENT_CODES or not self._linear:
                raise
            # It is stored, as refused.
            self.facts.update(facts)
            return None
        # Also beside a duplicate, as a store does.
        self.facts.update(facts)
        if inbound.platform_message_id in self._known:
            self.duplicates += 1
            return None
        self._known.add(inbound.platform_message_id)
        self.accepted.append(inbound)
        number = len(self.accepted)
        return Stored(id=number, seq=number, offset=number, claimed=False)


__all__ = ["FakeEdge"]
