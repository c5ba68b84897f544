"""One step of writing: a batch goes in, what may be told comes out, what must not be lost stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, Protocol

import attrs

from ..actors.errors import BusError, Code
from ..actors.value import value
from .commands import Outcome, Part, Publish, Refused
from .labels import labels_of
from .port import Settle

Entry = tuple[Part, Settle]
"""A part as submitted, and whom to tell."""

# A batch is taken apart without a step of the interpreter for each entry.
_PART: Final[Callable[[Entry], Part]] = itemgetter(0)
_SETTLE: Final[Callable[[Entry], Settle]] = itemgetter(1)

_FIRST_WAIT_S: Final = 0.1
_MAX_WAIT_S: Final = 5.0


def nothing() -> None:
    """Do nothing."""


class NotStoredError(Exception):
    """Nothing of the batch is stored, for sure; `error` says why, STORE_BUSY or STORE_FULL."""

    def __init__(self, error: BusError) -> None:
        super().__init__(error)
        self.error = error


class OpenError(Exception):
    """Whether the batch is stored is not known yet: it must be tried again as it is, with nothing before it."""

    def __init__(self, error: BusError) -> None:
        super().__init__(error)
        self.error = error


class Applies(Protocol):
    """What stores batches."""

    @property
    def open_messages(self) -> int:
        """How many inbox rows on disk are open."""
        ...

    def apply(self, parts: Sequence[Part], before_commit: Callable[[], None] = nothing) -> list[Outcome]:
        """Store a batch, whole and in order.

        Args:
            parts: As they were submitted. After an `OpenError` the same parts; more may follow them.
            before_commit: Called when all is written but the COMMIT; again at each try, and not where none gets there.
        Returns:
            One outcome a part; all of them are on disk.
        Raises:
            NotStoredError, OpenError: try again later.
            BusError: STORE_IO or STORE_CORRUPT, the store cannot go on.
        """
        ...


@value
class Delivery:
    """Outcomes to tell, in order; `kinds` only while fail points are armed.

    `open_messages` is how many inbox rows were open after the batch; None where nothing of it was stored.
    """

    settled: list[tuple[Settle, Outcome]]
    kinds: frozenset[str] | None
    open_messages: int | None = None


def _tell_nobody(_: Code | None) -> None:
    """Nobody looks on."""


@attrs.define
class BatchWriter:
    """Keeps what is submitted until it is stored or refused.

    While the store is full or busy, publishes are refused: nothing has happened yet for them. Everything else records
    what has happened already; it is kept, in order, and tried again after `wait_s`. Of a full store's parts those that
    still fit are stored, so that work which needs no room goes on; the parts of one shard keep their order.

    Args:
        backend: Stores batches.
        labelled: Whether a delivery says its kinds.
        tell: Called when what keeps the store from writing has changed; None for nothing.

    Attributes:
        held: What is kept, oldest first.
        wait_s: When to try again; 0 while nothing is kept.
        error: Why it is kept.
        gave_up: Something kept was refused in the end: nothing that comes after it is written.
    """

    _backend: Applies
    _labelled: bool
    _tell: Callable[[Code | None], None] = attrs.field(default=_tell_nobody)
    held: list[Entry] = attrs.field(factory=list[Entry], init=False)
    wait_s: float = attrs.field(default=0.0, init=False)
    error: BusError | None = attrs.field(default=None, init=False)
    gave_up: bool = attrs.field(default=False, init=False)
    _is_open: bool = attrs.field(default=False, init=False)
    _told: Code | None = attrs.field(default=None, init=False)

    def write(self, entries: list[Entry], before_commit: Callable[[], None] = nothing) -> Delivery:
        """Store what is kept and `entries` behind it.

        Args:
            entries: In the order they were handed over.
            before_commit: See `Applies.apply`.
        Returns:
            What can be told now.
        Raises:
            BusError: the store cannot go on; `held` has everything that is open.
        """
        batch = self.held + entries if self.held else entries
        self.held = batch
        if self.gave_up:
            return self.refuse()
        try:
            outcomes = self._backend.apply(list(map(_PART, batch)), before_commit)
        except NotStoredError as refusal:
            self._is_open = False
            return self._keep(batch, refusal.error)
        except OpenError as unknown:
            self._is_open = True
            self._back_off(unknown.error)
            return Delivery([], None)
        self.held = []
        self.wait_s = 0.0
        self._is_open = False
        if self._told is not None:
            self._say(None)
        kinds = labels_of(part for part, _ in batch) if self._labelled else None
        settled = list(zip(map(_SETTLE, batch), outcomes, strict=True))
        return Delivery(settled, kinds, self._backend.open_messages)

    def refuse(self, error: BusError | None = None) -> Delivery:
        """Give up what is kept, with `error` or with what kept it; STORE_IO where it may be stored all the same."""
        reason = error or self.error or BusError(Code.STORE_IO, "the store ended")
        if error is None and self._is_open:
            reason = BusError(
                Code.STORE_IO, f"the store ended; nobody knows whether this is stored: {reason}"
            )
        refused = Refused(reason)
        held, self.held = self.held, []
        self.gave_up = self.gave_up or bool(held)
        self.wait_s = 0.0
        return Delivery([(settle, refused) for _, settle in held], None)

    def _keep(self, batch: list[Entry], error: BusError) -> Delivery:
        """Refuse the publishes of a batch, keep the rest; where there is no room, store of it what fits."""
        told: list[Outcome | None] = [
            Refused(error) if isinstance(part, Publish) else None for part, _ in batch
        ]
        stored: list[Part] = []
        self._back_off(error)
        if error.code is Code.STORE_FULL and len(batch) > 1:
            stored = self._store_apart(batch, told)
        if not self._is_open:
            self.held = [entry for entry, outcome in zip(batch, told, strict=True) if outcome is None]
        if not self.held:
            self.wait_s = 0.0
        settled = [
            (entry[1], outcome) for entry, outcome in zip(batch, told, strict=True) if outcome is not None
        ]
        if not stored:
            return Delivery(settled, None)
        return Delivery(settled, labels_of(stored) if self._labelled else None, self._backend.open_messages)

    def _store_apart(self, batch: list[Entry], told: list[Outcome | None]) -> list[Part]:
        """Store part by part what needs no more room than there is; nothing passes a part of its own shard.

        Args:
            batch: What does not fit as a whole.
            told: By entry; filled in.
        Returns:
            The parts that are stored.
        Raises:
            BusError: the store cannot go on; nobody is told of this batch but that.
        """
        stored: list[Part] = []
        stuck: set[int] = set()
        for number, (part, _) in enumerate(batch):
            if isinstance(part, Publish) or part.shard in stuck:
                continue
            try:
                (told[number],) = self._backend.apply([part])
            except NotStoredError:
                stuck.add(part.shard)
            except OpenError as unknown:
                self._is_open = True
                self.error = unknown.error
                rest = [one for one, outcome in zip(batch, told, strict=True) if outcome is None]
                # Whether it is stored is decided first of all.
                self.held = [batch[number], *(one for one in rest if one is not batch[number])]
                break
            else:
                stored.append(part)
        return stored

    def _back_off(self, error: BusError) -> None:
        self.error = error
        self.wait_s = min(_MAX_WAIT_S, self.wait_s * 2 or _FIRST_WAIT_S)
        self._say(error.code)

    def _say(self, trouble: Code | None) -> None:
        if trouble is not self._told:
            self._told = trouble
            self._tell(trouble)
