"""Where a conversation's chat has moved to: a durable chain of addresses, told by the channel from either side, once.

A conversation keeps its key, so its order and its state; rows never move. What is sent goes to the last address of the
chain, what comes in from any of them belongs to the first one's conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeGuard

from ..actors.codec import pack_plain, unpack_plain
from ..actors.errors import BusError
from ..actors.keys import check_conversation_key
from ..actors.value import value
from ..storage.commands import Fact
from .defaults import MAX_MOVES
from .pauses import NAMESPACE

if TYPE_CHECKING:
    from ..storage.port import Reader

ALIAS_PREFIX: Final = "alias:"
_FACT_BYTES: Final = 4_096
_MAX_CHARS: Final = 1_000
"""Of an address: it has to fit into a fact, four bytes a character."""
_MOST: Final = 1_000_000


class Aliases:
    """The moves of one channel's chats.

    Args:
        channel: Its name.
        prefix: Of its conversation keys.

    Attributes:
        moves: The next address of each that was left; changed by the methods alone.
    """

    def __init__(self, channel: str, prefix: str) -> None:
        self._begin = f"{ALIAS_PREFIX}{channel}:"
        self._prefix = prefix
        self.moves: dict[str, str] = {}
        self._previous: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.moves)

    def current(self, address: str) -> str:
        """Where the chat that had this address is now."""
        while (later := self.moves.get(address)) is not None:
            address = later
        return address

    def origin(self, address: str) -> str:
        """The address that names the conversation of this chat."""
        while (earlier := self._previous.get(address)) is not None:
            address = earlier
        return address

    def move(self, old: object, new: object, now_us: int) -> tuple[Fact, ...]:
        """Put in force that a chat has moved.

        Args:
            old: Any address it had.
            new: Where it is.
            now_us: Wall clock, microseconds since 1970 UTC.
        Returns:
            What to store; nothing where that is known, goes back to where the chat was before, or is no address.
        """
        if not self._is_address(old) or not self._is_address(new):
            return ()
        end = self.current(old)
        if self.current(new) == end or self._length(old) + self._length(new) >= MAX_MOVES:
            return ()
        self._link(end, new)
        packed = pack_plain([new, now_us], limit_bytes=_FACT_BYTES, what="alias")
        return (Fact(NAMESPACE, self._begin + end, packed),)

    def forget(self, old: str) -> None:
        """The chat is at this address again; what comes from the one behind it is another conversation's."""
        new = self.moves.pop(old, None)
        if new is None or self._previous.get(new) != old:
            return
        del self._previous[new]
        # Two chats that became one: now it belongs to the other that went there.
        for earlier, later in self.moves.items():
            if later == new:
                self._previous[new] = earlier
                break

    def restore(self, reader: Reader) -> None:
        """Take up what is stored."""
        found = [
            (alias, key.removeprefix(self._begin))
            for key, stored in reader.facts(NAMESPACE, self._begin, _MOST)
            if (alias := read_alias(stored)) is not None
        ]
        for alias, old in sorted(found, key=lambda one: one[0].at_us):
            if self.current(alias.address) != old:
                self._link(old, alias.address)

    def _link(self, old: str, new: str) -> None:
        self.moves[old] = new
        # Two chats that became one: what comes from there belongs to the first that went.
        self._previous.setdefault(new, old)

    def _length(self, address: str) -> int:
        """How many moves the chain has that this address is part of."""
        length, at = 0, self.origin(address)
        while (later := self.moves.get(at)) is not None:
            length, at = length + 1, later
        return length

    def _is_address(self, address: object) -> TypeGuard[str]:
        if not isinstance(address, str) or len(address) > _MAX_CHARS:
            return False
        try:
            check_conversation_key(f"{self._prefix}:{address}")
        except BusError:
            return False
        return True


@value
class Alias:
    """A stored move: where to, and when it was learned, microseconds since 1970 UTC."""

    address: str
    at_us: int


def read_alias(stored: bytes) -> Alias | None:
    """Read a fact; None where it cannot be read."""
    try:
        match unpack_plain(stored, limit_bytes=_FACT_BYTES):
            case [str(address), int(at_us)]:
                return Alias(address, at_us)
            case _:
                return None
    except BusError:
        return None


__all__ = ["ALIAS_PREFIX", "Alias", "Aliases", "read_alias"]
