"""A fake channel that notes when each send reached it."""

from __future__ import annotations

import attrs
import trio

from shardline.adapters.base import Chat, Outbound, SendOutcome
from shardline.testing import FakeChannel


@attrs.define
class TimedChannel(FakeChannel):
    """Notes (seconds since it was made, conversation's address, text) of each attempt.

    Attributes:
        groups: Addresses whose chat is a group; a conversation `a/b` belongs to chat `a`.
        answers: By text, what to answer instead of the script, in order.
    """

    wire: list[tuple[float, str, str]] = attrs.field(factory=list[tuple[float, str, str]])
    groups: frozenset[str] = frozenset()
    answers: dict[str, list[SendOutcome]] = attrs.field(factory=dict[str, list[SendOutcome]])
    begun_s: float = attrs.field(factory=trio.current_time)

    def chat_of(self, address: str) -> Chat:
        chat = address.partition("/")[0]
        return Chat(chat, chat in self.groups)

    async def send(self, out: Outbound) -> SendOutcome:
        self.wire.append((round(trio.current_time() - self.begun_s, 3), out.address, out.text))
        answers = self.answers.get(out.text)
        if answers:
            await trio.lowlevel.checkpoint()
            self.attempts.append(out)
            return answers.pop(0)
        return await FakeChannel.send(self, out)

    def at(self, address: str) -> list[float]:
        """When sends reached one conversation."""
        return [at for at, to, _ in self.wire if to == address]
