"""The journal: the single writer of a store, and the `Store` that the runtime sees.

Parts go to a drive, which collects what waits into one batch; the batch is one transaction; each part's `settle` is
called on the trio thread after the COMMIT that holds it, in the order of submission.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence
from typing import Final, Literal, Protocol, cast

import attrs
import structlog
import trio

from ..actors.clock import Clock
from ..actors.errors import BusError, Code, error_code_of
from ..actors.failpoints import NO_FAILPOINTS, FailPointError, FailPoints
from .commands import Commit, Committed, Duplicate, Leased, Outcome, Part, Publish, Refused, Stored, TakeLease
from .condition import LogState, Moved, StoreCondition
from .drive import Drive, InlineDrive
from .port import Caps, Reader, Settle, StoreInfo
from .thread_drive import ThreadDrive
from .writing import Applies, BatchWriter, Delivery

Mode = Literal["thread", "inline"]

DEFAULT_PASSES: Final = 3
"""Rounds of the trio loop after a synced commit; see `ThreadDrive`."""

_log: Final[structlog.typing.FilteringBoundLogger] = structlog.get_logger()


class Files(Protocol):
    """What a journal closes when it ends."""

    def log(self) -> LogState:
        """How the write-ahead log is; at once, without the disk."""
        ...

    def moved(self) -> Moved | None:
        """Which file is no longer at its path; at once."""
        ...

    def tell(self, trouble: Code | None) -> None:
        """Say to those who look from outside what keeps the store from writing; None for nothing. May block."""
        ...

    def close_reader(self) -> None:
        """End the reads; on the trio thread."""
        ...

    def close(self, *, closed_at_us: int | None) -> None:
        """Close the rest and unlock; with a time the opening ended properly. May block. Closing twice is fine."""
        ...


@attrs.frozen
class NextIds:
    """The first ids that no stored row has."""

    inbox: int
    outbox: int
    event: int


class Journal:
    """One open store; `run` writes.

    Args:
        backend: Stores batches; used by the drive alone.
        reader: On the trio thread.
        files: Closed at the end.
        caps, info, epochs, ids, open_messages: As opened.
        clock: Gives the time of closing.
        mode: "thread", or "inline" on the trio thread.
        passes: See `ThreadDrive`.
        failpoints: `before_wake` is hit here.
    """

    def __init__(
        self,
        backend: Applies,
        reader: Reader,
        files: Files,
        *,
        caps: Caps,
        info: StoreInfo,
        epochs: Sequence[int],
        ids: NextIds,
        open_messages: int,
        clock: Clock,
        mode: Mode,
        passes: int = DEFAULT_PASSES,
        failpoints: FailPoints = NO_FAILPOINTS,
    ) -> None:
        self._reader = reader
        self._files = files
        self._caps = caps
        self._info = info
        self._epochs = tuple(epochs)
        self._inbox_id = ids.inbox
        self._outbox_id = ids.outbox
        self._event_id = ids.event
        self._open_messages = open_messages
        self._clock = clock
        self._mode: Mode = mode
        self._failpoints = failpoints
        self._pid = os.getpid()
        self._started = False
        self._writer = BatchWriter(backend, failpoints.armed, files.tell)
        self._drive: Drive = (
            InlineDrive(self._writer, self._deliver)
            if mode == "inline"
            else ThreadDrive(self._writer, self._deliver, passes=passes, orphaned=self._close_orphaned)
        )

    @property
    def caps(self) -> Caps:
        """See `Store`."""
        return self._caps

    @property
    def info(self) -> StoreInfo:
        """See `Store`."""
        return self._info

    @property
    def reader(self) -> Reader:
        """See `Store`."""
        return self._reader

    @property
    def epochs(self) -> Sequence[int]:
        """See `Store`."""
        return self._epochs

    @property
    def open_messages(self) -> int:
        """See `Store`."""
        return self._open_messages

    @property
    def condition(self) -> StoreCondition:
        """See `Store`."""
        writer = self._writer
        # The writer may work on another thread; each of these is read whole.
        waiting, error = len(writer.held), writer.error
        code = error.code if waiting and error is not None else None
        files = self._files
        return StoreCondition(code=code, waiting=waiting if code else 0, log=files.log(), moved=files.moved())

    def next_inbox_id(self) -> int:
        """See `Store`."""
        self._inbox_id = row_id = self._inbox_id + 1
        return row_id - 1

    def next_outbox_id(self) -> int:
        """See `Store`."""
        self._outbox_id = row_id = self._outbox_id + 1
        return row_id - 1

    def next_event_id(self) -> int:
        """See `Store`."""
        self._event_id = row_id = self._event_id + 1
        return row_id - 1

    def submit(self, part: Part, settle: Settle) -> None:
        """See `Store`.

        Raises:
            BusError: FORKED, in a child process.
        """
        if os.getpid() != self._pid:
            raise BusError(Code.FORKED, "a store belongs to the process that opened it")
        if self._drive.accepts:
            self._drive.put((part, settle))
        else:
            refused = Delivery([(settle, Refused(BusError(Code.BUS_CLOSED, "the store is closing")))], None)
            trio.lowlevel.current_trio_token().run_sync_soon(self._deliver_late, refused)

    def wind_down(self) -> None:
        """See `Store`."""
        self._drive.wind_down()

    async def publish(self, part: Publish) -> Stored | Duplicate:
        """See `Store`."""
        return cast("Stored | Duplicate", await self._wait(part))

    async def commit(self, part: Commit) -> Committed:
        """See `Store`."""
        return cast("Committed", await self._wait(part))

    async def take_lease(self, shard: int) -> Leased:
        """See `Store`."""
        return cast("Leased", await self._wait(TakeLease(shard)))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See `Store`. Runs once.

        Raises:
            BusError: STORE_IO, STORE_CORRUPT; STORE_MISMATCH, mode "thread" under a clock that is not the machine's;
                BUS_CLOSED, it was closed.
        """
        if self._started:
            raise BusError(Code.BUS_CLOSED, "the store ran already")
        self._started = True
        try:
            if self._mode == "thread":
                check_clock()
            task_status.started()
            await self._drive.serve()
        except GeneratorExit:
            # The trio run was torn down. A thread sees that and closes; without one it is done here.
            if self._mode == "inline":
                self._close_orphaned()
            raise
        except BaseException as error:
            self._drive.accepts = False
            stopped = isinstance(error, trio.Cancelled | KeyboardInterrupt)
            if not stopped:
                self._refuse_open(error)
            await self._close(clean=stopped and not self._writer.gave_up)
            raise

    def close(self) -> None:
        """Close a store that never ran. After `run` has ended it does nothing."""
        if not self._started:
            self._started = True
            self._drive.accepts = False
            self._files.close_reader()
            self._files.close(closed_at_us=self._clock.wall_us())

    async def _wait(self, part: Part) -> Stored | Duplicate | Committed | Leased:
        # Cancelled before the hand-over: nothing is stored. After it the outcome is waited for, whatever happens.
        await trio.lowlevel.checkpoint_if_cancelled()
        task = trio.lowlevel.current_task()
        told: list[Outcome] = []

        def settle(outcome: Outcome) -> None:
            told.append(outcome)
            trio.lowlevel.reschedule(task)

        self.submit(part, settle)
        await trio.lowlevel.wait_task_rescheduled(_never)
        outcome = told[0]
        if isinstance(outcome, Refused):
            # Nobody waits for this any more, and a runtime that stops has nothing to learn from it.
            await trio.lowlevel.checkpoint_if_cancelled()
            error = outcome.error
            # One refusal may answer many: each caller gets an exception of its own.
            raise BusError(error.code, error.message, **error.context) from error
        return outcome

    def _deliver(self, delivery: Delivery) -> None:
        """Tell every outcome; a callback that raises keeps none of the others from theirs.

        Raises:
            Exception: the first that a callback raised, after all were told.
            FailPointError: `before_wake`; nobody was told.
        """
        if delivery.open_messages is not None:
            self._open_messages = delivery.open_messages
        if delivery.kinds is not None:
            try:
                self._failpoints.hit("before_wake", delivery.kinds)
            except FailPointError as error:
                self._tell([(settle, Refused(_ended(error))) for settle, _ in delivery.settled])
                raise
        self._tell(delivery.settled)

    def _tell(self, settled: list[tuple[Settle, Outcome]]) -> None:
        first: Exception | None = None
        for settle, outcome in settled:
            try:
                settle(outcome)
            except Exception as error:
                _log.error("journal.settle_failed", error=repr(error), bus_error_code=error_code_of(error))
                first = first or error
        if first is not None:
            raise first

    def _deliver_late(self, delivery: Delivery) -> None:
        """As `_deliver`, where nobody is left to raise to: the callback's failure is in the log."""
        with contextlib.suppress(Exception):
            self._deliver(delivery)

    def _refuse_open(self, error: BaseException) -> None:
        """Answer everything that is open with the error that ended the journal."""
        refusal = error if isinstance(error, BusError) else _ended(error)
        self._writer.held += self._drive.rest()
        _log.error(
            "journal.ended", bus_error_code=refusal.code, error=repr(error), open_parts=len(self._writer.held)
        )
        self._deliver_late(self._writer.refuse(refusal))

    async def _close(self, *, clean: bool) -> None:
        closed_at_us = self._clock.wall_us() if clean else None
        self._files.close_reader()
        close = functools.partial(self._files.close, closed_at_us=closed_at_us)
        if self._mode == "inline":
            close()
            return
        with trio.CancelScope(shield=True):
            # A limiter of its own: threads that user code never ends must not keep the store locked.
            await trio.to_thread.run_sync(close, limiter=trio.CapacityLimiter(1))

    def _close_orphaned(self) -> None:
        self._files.close_reader()
        self._files.close(closed_at_us=None)


def check_clock() -> None:
    """Refuse a clock that may jump while the writer's thread works.

    Raises:
        BusError: STORE_MISMATCH, under a mock clock.
    """
    clock = trio.lowlevel.current_clock()
    # The machine's clock sleeps a second for a second; a mock clock sleeps for ever, or for another time.
    if not 0.5 < clock.deadline_to_sleep_time(clock.current_time() + 1.0) <= 1.0:
        raise BusError(
            Code.STORE_MISMATCH,
            'a mock clock needs a store with mode="inline"',
            setting="mode",
            stored="thread",
        )


def _never(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


def _ended(error: BaseException) -> BusError:
    return BusError(Code.STORE_IO, f"the journal ended: {error!r}")
