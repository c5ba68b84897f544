"""A channel without a network: poses as any other, and does what a test scripted."""

from __future__ import annotations

from collections import deque

import attrs
import trio

from ...actors.names import check_name
from ...runtime.argument_checks import check_kind, check_words
from ..base import ChannelCaps, Edge, Inbound, NotSent, Outbound, SendOutcome, Sent

PREFIXES = {"telegram": "tg", "slack": "slack", "discord": "discord", "maep": "maep"}
"""Key prefixes of the channels the fake can pose as; any other channel's prefix is its name."""


@attrs.define
class FakeChannel:
    """An adapter that keeps what it is given.

    Attributes:
        name: The channel it poses as.
        caps: What it claims to be able to do.
        attempts: Every send that reached it, in order.
        delivered: The sends it answered with Sent.
        lookups: Sends it was asked to look up, in order.
    """

    name: str = "fake"
    caps: ChannelCaps = attrs.field(factory=ChannelCaps)
    attempts: list[Outbound] = attrs.field(factory=list[Outbound], init=False)
    delivered: list[Outbound] = attrs.field(factory=list[Outbound], init=False)
    lookups: list[Outbound] = attrs.field(factory=list[Outbound], init=False)
    _script: deque[SendOutcome | Exception] = attrs.field(factory=deque[SendOutcome | Exception], init=False)
    _lookup_answer: Sent | NotSent | None = attrs.field(default=None, init=False)
    _edge: Edge | None = attrs.field(default=None, init=False)
    _is_cut: bool = attrs.field(default=False, init=False)
    _said: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        check_name(self.name, "channel")
        check_kind(self.caps, ChannelCaps, "caps", "ChannelCaps")

    @property
    def edge(self) -> Edge | None:
        """What it reads into, while it is open."""
        return self._edge

    @property
    def prefix(self) -> str:
        """Of its conversation keys."""
        return PREFIXES.get(self.name, self.name)

    def script(self, *outcomes: SendOutcome | Exception) -> None:
        """Answer the next sends with these, in order; an exception is raised. After them every send is Sent."""
        self._script.extend(outcomes)

    def answer_lookups(self, answer: Sent | NotSent | None) -> None:
        """What `reconcile` answers from now on."""
        self._lookup_answer = answer

    async def say(
        self, address: str, text: str, *, sender: str = "somebody", platform_message_id: str | None = None
    ) -> bool:
        """Let somebody write into a conversation; returns once it is on disk.

        Args:
            address: The conversation, without prefix.
            text: What is said.
            sender: Who says it.
            platform_message_id: The platform's id; None makes a new one.
        Returns:
            False for a duplicate or a refused message.
        """
        check_words(address, "address")
        if platform_message_id is None:
            self._said += 1
            platform_message_id = f"{address}:{self._said}"
        return await self.read(
            Inbound(platform_message_id=platform_message_id, address=address, text=text, sender=sender)
        )

    async def read(self, inbound: Inbound) -> bool:
        """Let any message come in, as an adapter would read it; the result is that of `say`."""
        check_kind(inbound, Inbound, "inbound", "an Inbound")
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._edge is None:
            raise RuntimeError("the fake channel is not open; use it inside a runtime or Harness")
        return await self._edge.accept(inbound) is not None

    def cut(self) -> None:
        """The process that uses it dies: what it still sends reaches nobody."""
        self._is_cut = True

    def mend(self) -> None:
        """The next process has a line of its own."""
        self._is_cut = False

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the edge for `say`."""
        self._edge = edge
        try:
            task_status.started()
            await trio.sleep_forever()
        finally:
            self._edge = None

    async def send(self, out: Outbound) -> SendOutcome:
        """Do what the script says."""
        await trio.lowlevel.checkpoint()
        if self._is_cut:
            await trio.sleep_forever()
        self.attempts.append(out)
        outcome = self._script.popleft() if self._script else Sent(str(len(self.attempts)))
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, Sent):
            self.delivered.append(out)
        return outcome

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        """Answer as `answer_lookups` says."""
        await trio.lowlevel.checkpoint()
        self.lookups.append(out)
        return self._lookup_answer


__all__ = ["PREFIXES", "FakeChannel"]
