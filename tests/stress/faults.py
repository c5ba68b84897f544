"""Faults of the product itself, one at a time: what a run with one of them leaves has to be found out."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Final

import attrs

from shardline.actors.value import changed
from shardline.runtime import recovery as recovery_module
from shardline.runtime.channel import Sent
from shardline.runtime.context import Context
from shardline.runtime.delivery import DeliveryActor
from shardline.runtime.edge import EdgeActor
from shardline.runtime.lane import Lane
from shardline.runtime.lanes import Lanes
from shardline.runtime.pool import WorkerPool
from shardline.runtime.send import PendingRow, Send
from shardline.runtime.suspects import Recovery
from shardline.runtime.tokens import Tokens
from shardline.runtime.turn import QueuedRow, Turn
from shardline.storage.records import InboxStatus

LEAK_BYTES: Final = 40_000

Wrapper = Callable[..., object]
Fault = Callable[["Once"], None]


class Once:
    """True at one call, counted from 1."""

    def __init__(self, at: int) -> None:
        self._left = at

    def __call__(self) -> bool:
        self._left -= 1
        return self._left == 0


def _replace(owner: type | ModuleType, method: str, make: Callable[[Wrapper], Wrapper]) -> None:
    real: Wrapper = getattr(owner, method)
    setattr(owner, method, wraps(real)(make(real)))


def lose_at_recovery(is_now: Once) -> None:
    """A message found running is taken for done."""

    def make(real: Wrapper) -> Wrapper:
        def recover(*args: object, **kwargs: object) -> object:
            recovery = real(*args, **kwargs)
            assert isinstance(recovery, Recovery)
            if not recovery.moves or not is_now():
                return recovery
            first, *others = recovery.moves
            done = attrs.evolve(first, after=changed(first.after, status=InboxStatus.DONE))
            return attrs.evolve(recovery, moves=(done, *others), suspects=())

        return recover

    _replace(recovery_module, "recover", make)


def _swap(kind: type[QueuedRow | PendingRow], is_now: Once) -> None:
    def make(real: Wrapper) -> Wrapper:
        def take(lanes: object, lane: Lane[QueuedRow | PendingRow]) -> object:
            if len(lane.queue) > 1 and isinstance(lane.queue[0], kind) and is_now():
                lane.queue[0], lane.queue[1] = lane.queue[1], lane.queue[0]
            return real(lanes, lane)

        return take

    _replace(Lanes, "take", make)


def swap_messages(is_now: Once) -> None:
    """The second message of a lane goes before the first."""
    _swap(QueuedRow, is_now)


def swap_sends(is_now: Once) -> None:
    """The second send of a lane goes before the first."""
    _swap(PendingRow, is_now)


def send_twice(is_now: Once) -> None:
    """A channel is called a second time for one start."""

    def make(real: Wrapper) -> Wrapper:
        async def work(actor: DeliveryActor, send: Send) -> None:
            await real(actor, send)  # type: ignore[misc]  # it is `_work`
            # Only of what did arrive the second one shows, and only where no channel drops it as a repeat.
            is_first = not send.is_lookup and send.row.record.claim == 1
            if is_first and isinstance(send.answer, Sent) and is_now():
                await real(actor, send)  # type: ignore[misc]

        return work

    _replace(DeliveryActor, "_work", make)


def _skip(owner: type, method: str, is_now: Once) -> None:
    def make(real: Wrapper) -> Wrapper:
        def skipped(*args: object, **kwargs: object) -> object:
            return None if is_now() else real(*args, **kwargs)

        return skipped

    _replace(owner, method, make)


def lose_token(is_now: Once) -> None:
    """A token is not given back."""
    _skip(Tokens, "give_back", is_now)


def lose_slot(is_now: Once) -> None:
    """A slot of a pool is not given back."""
    _skip(WorkerPool, "give_back", is_now)


def forget_state(is_now: Once) -> None:
    """A turn's change of the state is not stored."""
    _skip(Context, "seal", is_now)


def answer_early(is_now: Once) -> None:
    """A channel is told that a message is there, and it is not."""

    def make(real: Wrapper) -> Wrapper:
        async def accept(*args: object, **kwargs: object) -> object:
            return None if is_now() else await real(*args, **kwargs)  # type: ignore[misc]  # it is `accept`

        return accept

    _replace(EdgeActor, "accept", make)


def leak(_: Once) -> None:
    """Every turn leaves something in memory."""
    left: list[bytearray] = []

    def make(real: Wrapper) -> Wrapper:
        def ended(*args: object, **kwargs: object) -> object:
            left.append(bytearray(LEAK_BYTES))
            return real(*args, **kwargs)

        return ended

    _replace(Turn, "ended", make)


FAULTS: Final[dict[str, Fault]] = {
    "lose-at-recovery": lose_at_recovery,
    "swap-messages": swap_messages,
    "swap-sends": swap_sends,
    "send-twice": send_twice,
    "lose-token": lose_token,
    "lose-slot": lose_slot,
    "forget-state": forget_state,
    "answer-early": answer_early,
    "leak": leak,
}
