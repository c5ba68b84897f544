"""What a channel has learned of its recipients: where their chats have moved to, and whom it cannot reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

from ..storage.commands import Fact
from ..storage.records import OutboxRecord, OutboxState
from .aliases import ALIAS_PREFIX, Aliases
from .channel import Inbound, NotSent, SendOutcome, Sent
from .pauses import NAMESPACE
from .unreachable import MARKING_CODES, UNREACHABLE_PREFIX, Unreachable

if TYPE_CHECKING:
    from ..storage.port import Reader


class Recipients:
    """The recipients of one channel. What is learned is in force at once, and stored by whoever learned it.

    A message that taught something and was not stored (its conversation is full, the store has no room, the call was
    cancelled) comes again, and teaches nothing new then: what it taught is owed, and the next message stores it.

    Args:
        channel: Its name.
        prefix: Of its conversation keys.
    """

    def __init__(self, channel: str, prefix: str) -> None:
        self.aliases = Aliases(channel, prefix)
        self.unreachable = Unreachable(channel)
        self._prefix = prefix
        self._owed: dict[str, Fact] = {}

    def address_of(self, conversation_key: str) -> str:
        """Where the conversation's sends go now."""
        address = conversation_key.partition(":")[2]
        return self.aliases.current(address) if self.aliases.moves else address

    def concern(self, inbound: Inbound) -> bool:
        """Whether `arriving` has something to say of a message: almost never."""
        return bool(
            self.aliases.moves
            or self.unreachable.marks
            or inbound.moved_from is not None
            or inbound.moved_to is not None
            or self._owed
        )

    def arriving(self, inbound: Inbound, now_us: int) -> tuple[Inbound, tuple[Fact, ...]]:
        """Learn from a message that comes in.

        Args:
            inbound: As read.
            now_us: Wall clock, microseconds since 1970 UTC.
        Returns:
            The message under the address of its conversation, and what to store with it.
        """
        address = inbound.address
        if not _is_text(address):
            return inbound, ()
        facts = self._take_owed()
        if inbound.moved_from is not None:
            facts += self.aliases.move(inbound.moved_from, address, now_us)
        if inbound.moved_to is not None:
            facts += self.aliases.move(address, inbound.moved_to, now_us)
        origin = self.aliases.origin(address)
        if origin != address:
            inbound = attrs.evolve(inbound, address=origin)
        return inbound, facts + self.unreachable.clear(f"{self._prefix}:{origin}")

    def owe(self, facts: tuple[Fact, ...]) -> None:
        """What `arriving` wanted stored may not be on disk: its message was not taken."""
        self._owed.update((fact.key, fact) for fact in facts)

    def moved(
        self, outcome: SendOutcome | None, conversation_key: str, sent_to: str, now_us: int
    ) -> tuple[Fact, ...] | None:
        """Learn from the outcome of a send that the chat has moved.

        Args:
            outcome: Of the send.
            conversation_key: Whose send it was.
            sent_to: The address it went to.
            now_us: Wall clock, microseconds since 1970 UTC.
        Returns:
            What to store with the row, which goes again to the new address; None where the outcome counts as it is.
        """
        if not isinstance(outcome, NotSent) or outcome.moved_to is None:
            return None
        facts = self.aliases.move(sent_to, outcome.moved_to, now_us)
        return None if self.address_of(conversation_key) == sent_to else facts

    def note(self, outcome: SendOutcome | None, after: OutboxRecord, now_us: int) -> tuple[Fact, ...]:
        """Learn from the outcome of a send whether its conversation can be reached.

        Args:
            outcome: Of the send.
            after: Its row as it will be stored.
            now_us: Wall clock, microseconds since 1970 UTC.
        Returns:
            What to store with the row.
        """
        key = after.conversation_key
        if isinstance(outcome, Sent):
            return self.unreachable.clear(key) if key in self.unreachable.marks else ()
        if not isinstance(outcome, NotSent) or outcome.code not in MARKING_CODES:
            return ()
        return self.unreachable.mark(key, outcome.code, now_us) if after.state is OutboxState.DEAD else ()

    def forget(self, what: Literal["unreachable", "alias"], name: str) -> None:
        """What a person says is not so any more; what is stored of it is `learned_fact`."""
        if what == "alias":
            self.aliases.forget(name)
        else:
            self.unreachable.clear(name)

    def restore(self, reader: Reader, now_us: int) -> tuple[Fact, ...]:
        """Take up what is stored.

        Returns:
            What to store: the end of what is over.
        """
        self.aliases.restore(reader)
        return self.unreachable.restore(reader, now_us)

    def _take_owed(self) -> tuple[Fact, ...]:
        """All that is owed, but for what has become otherwise since."""
        if not self._owed:
            return ()
        owed, self._owed = self._owed, {}
        return tuple(fact for fact in owed.values() if self._is_so(fact))

    def _is_so(self, fact: Fact) -> bool:
        name = fact.key.split(":", 2)[2]
        return name not in self.unreachable.marks if fact.value is None else name in self.aliases.moves


def learned_fact(what: Literal["unreachable", "alias"], channel: str, name: str) -> Fact:
    """The end of a stored mark (`name` is the conversation key) or move (`name` is the address before it)."""
    prefix = ALIAS_PREFIX if what == "alias" else UNREACHABLE_PREFIX
    return Fact(NAMESPACE, f"{prefix}{channel}:{name}", None)


def _is_text(address: object) -> bool:
    """Typed, yet what an adapter really passes is refused only later."""
    return isinstance(address, str)


__all__ = ["Recipients", "learned_fact"]
