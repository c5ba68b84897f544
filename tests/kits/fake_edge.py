"""An edge that takes messages without a runtime behind it: what a channel's own tests read from."""

from collections.abc import Awaitable, Callable, Mapping

import trio

from shardline.actors.errors import BusError
from shardline.adapters.base import Inbound
from shardline.storage.commands import Stored


class FakeEdge:
    """Accepts at once; knows duplicates; keeps facts as a store would, with their message.

    Attributes:
        before_commit: Awaited by each accept: how a test makes it slow.
        accepted: In the order of their commits.
        peak: Most accepts under way at once.
        overlaps: Conversations that had two accepts under way at once.
        fails_after: So many accepts work; the next one raises `error`.
    """

    def __init__(self, before_commit: Callable[[Inbound], Awaitable[None]] | None = None) -> None:
        self.before_commit = before_commit
        self.accepted: list[Inbound] = []
        self.duplicates = 0
        self.bad: list[tuple[str, str]] = []
        self.facts: dict[str, str] = {}
        self.peak = 0
        self.overlaps: list[str] = []
        self.fails_after: int | None = None
        self.error: BusError | None = None
        self._known: set[str] = set()
        self._busy: set[str] = set()

    async def accept(self, inbound: Inbound, *, facts: Mapping[str, str] | None = None) -> Stored | None:
        if inbound.address in self._busy:
            self.overlaps.append(inbound.address)
        self._busy.add(inbound.address)
        self.peak = max(self.peak, len(self._busy))
        try:
            await trio.lowlevel.checkpoint()
            if self.before_commit is not None:
                await self.before_commit(inbound)
        finally:
            self._busy.discard(inbound.address)
        if self.error is not None and self.fails_after is not None and len(self.accepted) >= self.fails_after:
            raise self.error
        if inbound.platform_message_id in self._known:
            self.duplicates += 1
            return None
        self._known.add(inbound.platform_message_id)
        self.accepted.append(inbound)
        self.facts.update(facts or {})
        number = len(self.accepted)
        return Stored(id=number, seq=number, offset=number, claimed=False)

    def fact(self, key: str) -> str | None:
        return self.facts.get(key)

    def refused(self, reason: str, *, where: str) -> None:
        self.bad.append((reason, where))

    def by_conversation(self) -> dict[str, list[str]]:
        """The accepted platform ids of each conversation, in order."""
        found: dict[str, list[str]] = {}
        for inbound in self.accepted:
            found.setdefault(inbound.address, []).append(inbound.platform_message_id)
        return found
