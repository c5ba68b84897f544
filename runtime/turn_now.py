"""What a handler does before its turn ends: steps whose results stay, and sends that do not wait."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

import trio

from ..actors.codec import pack_plain, unpack_plain
from ..actors.errors import BusError, Code
from ..actors.names import canonical
from .defaults import MAX_EFFECTS, STEP_BYTES
from .loops import check_trio_task

if TYPE_CHECKING:
    from ..actors.content import SendRef
    from ..actors.message import BusMessage
    from ..storage.records import InboxRecord
    from .context import Context
    from .effects import SendEffect

T = TypeVar("T")

_MAX_NAME_CHARS: Final = 128


class EarlyCommits(Protocol):
    """What a turn looks up and commits before its end."""

    def stored_step(self, record: InboxRecord, name: str) -> bytes | None:
        """The stored result of a step of the message."""
        ...

    async def store_step(self, record: InboxRecord, name: str, value: bytes) -> None:
        """Store the result of a step; STALE_CLAIM where the message no longer runs under this claim."""
        ...

    def has_send(self, ref: SendRef) -> bool:
        """Whether a send is stored."""
        ...

    async def send_now(self, record: InboxRecord, message: BusMessage, effect: SendEffect) -> None:
        """Store a send of a turn that goes on; STALE_CLAIM as in `store_step`."""
        ...


class TurnNow:
    """The names that a turn has given to its steps and early sends, and what stands under them.

    A name is taken while its call runs and once it has come to something; a call that raised gives it back.

    Args:
        context: The turn.
        surroundings: Where things are looked up and stored.
    """

    __slots__ = ("_context", "_looks_up", "_names", "_surroundings")

    def __init__(self, context: Context, surroundings: EarlyCommits) -> None:
        self._context = context
        self._surroundings = surroundings
        self._names: set[tuple[str, str]] = set()
        # A first run has nothing behind it: no look-up for most messages.
        self._looks_up = context.claim > 1

    @property
    def count(self) -> int:
        """Steps and early sends so far."""
        return len(self._names)

    async def step(self, name: str, fn: Callable[[], T | Awaitable[T]]) -> T:
        """See `Context.step`."""
        record, surroundings = self._context.record, self._surroundings
        if not callable(fn):
            raise BusError(Code.INVALID_MESSAGE, "a step takes a function without arguments", step=name)
        with self._taken("step", name):
            stored = surroundings.stored_step(record, name) if self._looks_up else None
            if stored is not None:
                await trio.lowlevel.checkpoint()
                return cast("T", unpack_plain(stored, limit_bytes=STEP_BYTES))
            result = fn()
            if inspect.isawaitable(result):
                result = await cast("Awaitable[T]", result)
            packed = pack_plain(result, limit_bytes=STEP_BYTES, what=f"the result of step {name}")
            # Also past the time limit, and no checkpoint before it: what the turn has paid for is kept for the next
            # run. Whether the turn still is the one that may store it, the store decides by its claim.
            await surroundings.store_step(record, name, packed)
            return cast("T", unpack_plain(packed, limit_bytes=STEP_BYTES))

    async def send(self, name: str, effect: SendEffect) -> None:
        """See `Context.send_now`."""
        surroundings = self._surroundings
        with self._taken("now", name):
            await trio.lowlevel.checkpoint()
            if not self._looks_up or not surroundings.has_send(effect.ref):
                await surroundings.send_now(self._context.record, self._context.message, effect)

    @contextmanager
    def _taken(self, verb: str, name: str) -> Generator[None]:
        check_trio_task()
        context, names = self._context, self._names
        if trio.current_time() >= context.deadline_s:
            raise BusError(Code.STALE_CLAIM, "the turn's time is over", step=name)
        if (verb, name) in names:
            raise BusError(Code.INVALID_MESSAGE, f"the name {name!r} is taken in this turn", name=name)
        if len(names) + len(context.effects) >= MAX_EFFECTS:
            raise BusError(Code.TOO_LARGE, f"a turn has at most {MAX_EFFECTS} effects", limit=MAX_EFFECTS)
        names.add((verb, name))
        try:
            yield
        except BaseException:
            names.discard((verb, name))
            # Cut off while it was being stored, it may be there: whoever takes the name again looks.
            self._looks_up = True
            raise


def check_name(name: str) -> str:
    """Check the name of a step or an early send: canonical, at most 128 characters.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    canonical(name, "name")
    if len(name) > _MAX_NAME_CHARS:
        raise BusError(
            Code.INVALID_MESSAGE, f"a name has at most {_MAX_NAME_CHARS} characters", length=len(name)
        )
    return name
