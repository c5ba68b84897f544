"""Stores that a check opens, runs, closes and opens again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path

import attrs
import trio

from ...actors.errors import BusError, Code
from ..commands import Outcome, Part, Refused
from ..port import Caps, Store
from .rows import Hand

OpenStore = Callable[[Path], Store]
"""Opens the store of a folder, anew after it was closed."""

Trouble = Callable[[Path], AbstractContextManager[None]]
"""While it is entered, the store of a folder takes no commit that needs room: a full disk, or a lock of somebody's."""

_LIMIT_S = 30.0


@attrs.frozen
class StoreContract:
    """What each part of the contract needs.

    Attributes:
        open: Opens the store of a folder.
        caps: What it is to claim.
        trouble: Brings the store of a folder into trouble; None leaves unproved what it does then.
    """

    open: OpenStore
    caps: Caps
    trouble: Trouble | None = None


@asynccontextmanager
async def running(store: Store) -> AsyncGenerator[Hand]:
    """Run a store until the block ends, then stop it in good order; what the block raises comes out as it is."""
    failed: Exception | None = None
    with trio.fail_after(_LIMIT_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(store.run)
            try:
                yield Hand(store)
            except Exception as error:
                failed = error
            nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def submit_all(hand: Hand, *parts: Part) -> list[Outcome]:
    """Submit parts without a checkpoint between, so that they meet in one batch; their outcomes, in order.

    They must also settle in that order.
    """
    outcomes: list[Outcome] = []
    order: list[int] = []
    done = trio.Event()
    for index, part in enumerate(parts):

        def settle(outcome: Outcome, index: int = index) -> None:
            outcomes.append(outcome)
            order.append(index)
            if len(outcomes) == len(parts):
                done.set()

        hand.store.submit(part, settle)
    await done.wait()
    assert order == list(range(len(parts)))
    return outcomes


@contextmanager
def refused(code: Code) -> Generator[None]:
    """Expect a BusError of exactly this code."""
    caught: BusError | None = None
    try:
        yield
    except BusError as error:
        caught = error
    assert caught is not None, f"not refused with {code}"
    assert caught.code is code, caught


def refusal(outcome: Outcome) -> BusError:
    """The error of a refused part."""
    assert isinstance(outcome, Refused), outcome
    return outcome.error


def refusal_code(outcome: Outcome) -> Code:
    """The code of a refused part."""
    return refusal(outcome).code


__all__ = [
    "OpenStore",
    "StoreContract",
    "Trouble",
    "refusal",
    "refusal_code",
    "refused",
    "running",
    "submit_all",
]
