"""How a journal writes on a thread of its own."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from itertools import repeat, starmap
from queue import Empty, SimpleQueue
from typing import Final, TypeVarTuple, Unpack, cast

import trio

from .drive import CLOSE_LIMIT_S, MAX_BATCH_PARTS, lost_in_hand
from .writing import BatchWriter, Delivery, Entry

_PASS_LIMIT_S: Final = 0.05
"""How long a batch waits for the trio loop to go round: a thousand tasks take less, one that blocks does not count."""

_OVERLAP_PARTS: Final = 128
"""From so many parts on a batch is written in two halves that take turns with the trio loop."""

_LEAST_PARTS: Final = 32
"""So many that wait are a half of their own."""

_LONG_COMMIT_S: Final = 0.01
"""A COMMIT that takes longer is not hidden by what half a batch wakes: one for the whole batch is cheaper."""

Args = TypeVarTuple("Args")


class ThreadDrive:
    """Writes on a thread of its own: while one commit syncs, the next batch collects. One wake-up a commit.

    Under load there are two halves: what the commit before has decided is told right before the next COMMIT, so that
    the trio loop works on it while the disk is waited for. The statements themselves are written while that loop is
    idle, for each of them gives the interpreter lock away and waits to get it back.

    Args:
        writer: Used by the thread alone until `serve` ends.
        deliver: Called on the trio thread.
        passes: How many times the trio loop may go round after a commit has woken it before the next batch is taken:
            what it woke can then join that batch, instead of two half-full ones taking turns. Worth it only where a
            commit is dear (a sync each); 0 turns it off.
        orphaned: Called by the thread if the trio run is gone.
    """

    def __init__(
        self,
        writer: BatchWriter,
        deliver: Callable[[Delivery], None],
        *,
        passes: int,
        orphaned: Callable[[], None],
    ) -> None:
        self.accepts = True
        self._writer = writer
        self._deliver = deliver
        self._passes = passes
        self._orphaned = orphaned
        self._queue: SimpleQueue[Entry | None] = SimpleQueue()
        self.put: Callable[[Entry], None] = self._queue.put
        """See `Drive`."""
        self._in_hand: list[Entry] = []
        self._second: list[Entry] = []
        self._untold: Delivery | None = None
        self._passed: SimpleQueue[int] = SimpleQueue()
        self._commits = 0
        self._awaited = 0
        self._commit_s = 0.0
        self._stopping = False
        self._abandoned = False
        self._ended = trio.Event()
        self._told = 0
        self._server: trio.lowlevel.Task | None = None
        self._error: BaseException | None = None
        self._limit_s = math.inf

    def wind_down(self) -> None:
        """See `Drive`. The thread looks at it after each try."""
        self._limit_s = min(self._limit_s, time.monotonic() + CLOSE_LIMIT_S)

    async def serve(self) -> None:
        """See `Drive`."""
        token = trio.lowlevel.current_trio_token()
        thread = threading.Thread(target=self._work, args=(token,), name="shardline-journal", daemon=True)
        thread.start()
        try:
            while not self._ended.is_set():
                await self._told_or_ended()
                # A task going round costs a fraction of a callback that wakes the loop through its socket.
                for _ in range(self._passes):
                    await trio.lowlevel.cancel_shielded_checkpoint()
                self._passed.put(self._told)
        except GeneratorExit:
            # The trio run was torn down: nobody can be told, and nothing awaited. The thread closes the store.
            self._abandoned = True
            self._stop()
            raise
        except BaseException:
            self._stop()
            with trio.CancelScope(shield=True):
                await self._ended.wait()
            thread.join()
            if self._error is None:
                raise
        thread.join()
        if self._error is not None:
            raise self._error

    def rest(self) -> list[Entry]:
        """See `Drive`."""
        entries = lost_in_hand(self._writer, self._in_hand) + self._second
        while not self._queue.empty():
            entry = self._queue.get_nowait()
            if entry is not None:
                entries.append(entry)
        return entries

    def _stop(self) -> None:
        self.accepts = False
        self._queue.put(None)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._stop()

    def _end(self, error: BaseException | None) -> None:
        self.accepts = False
        self._error = self._error or error
        self._ended.set()
        self._wake_server()

    def _tell(self, delivery: Delivery, commit: int) -> None:
        """On the trio thread: one commit's outcomes, then the passes that they may use."""
        try:
            self._deliver(delivery)
        except Exception as error:
            self._fail(error)
        self._told = commit
        self._wake_server()

    async def _told_or_ended(self) -> None:
        self._server = trio.lowlevel.current_task()

        def leave(_: object) -> trio.lowlevel.Abort:
            self._server = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def _wake_server(self) -> None:
        if self._server is not None:
            trio.lowlevel.reschedule(self._server)
            self._server = None

    # What follows runs on the thread.

    def _work(self, token: trio.lowlevel.TrioToken) -> None:
        error: BaseException | None = None
        try:
            self._write_until_stopped(token)
        except trio.RunFinishedError:
            self._abandoned = True
        except BaseException as reason:
            error = reason
        if not self._abandoned:
            with contextlib.suppress(trio.RunFinishedError):
                _call_soon(token, self._end, error)
                return
        self._orphaned()

    def _write_until_stopped(self, token: trio.lowlevel.TrioToken) -> None:
        writer = self._writer
        while not self._stopping:
            self._write(token, self._first_half(self._gather(writer.wait_s)))
            self._give_up_late(token)
        self.wind_down()
        while writer.held:
            time.sleep(writer.wait_s)
            self._write(token, [])
            self._give_up_late(token)

    def _give_up_late(self, token: trio.lowlevel.TrioToken) -> None:
        if self._writer.held and time.monotonic() >= self._limit_s:
            _call_soon(token, self._tell, self._writer.refuse(), self._commits)

    def _gather(self, wait_s: float) -> list[Entry]:
        """Everything that waits, at least one entry; with a `wait_s` all that comes meanwhile."""
        if self._second:
            entries, self._second = self._second, []
            return entries
        queue = self._queue
        taken: list[Entry | None] = []
        if wait_s:
            due_s = time.monotonic() + wait_s
            while (left_s := due_s - time.monotonic()) > 0 and None not in taken[-1:]:
                try:
                    taken.append(queue.get(timeout=left_s))
                except Empty:
                    break
        else:
            taken.append(queue.get())
        room = MAX_BATCH_PARTS - len(taken)
        # Without a step of the interpreter for each: there are three a message.
        taken += starmap(queue.get_nowait, repeat((), min(queue.qsize(), room)))
        if taken[-1:] != [None]:
            return cast("list[Entry]", taken)
        # Nothing is handed over behind the sign to stop.
        self._stopping = True
        return [entry for entry in taken if entry is not None]

    def _first_half(self, entries: list[Entry]) -> list[Entry]:
        """What is to be written now; the second half of a full batch is gathered next."""
        if (
            len(entries) < _OVERLAP_PARTS
            or not self._passes
            or self._stopping
            or self._untold is not None
            or self._commit_s > _LONG_COMMIT_S
        ):
            return entries
        middle = len(entries) // 2
        self._second = entries[middle:]
        return entries[:middle]

    def _write(self, token: trio.lowlevel.TrioToken, entries: list[Entry]) -> None:
        if not entries and not self._writer.held:
            return
        self._in_hand = [*self._writer.held, *entries]
        begun_s: list[float] = []

        def before_commit() -> None:
            self._tell_next(token)
            begun_s.append(time.perf_counter())

        try:
            delivery = self._writer.write(entries, before_commit)
        finally:
            # Where it did not come as far as a COMMIT.
            self._tell_next(token)
        if begun_s:
            self._commit_s = time.perf_counter() - begun_s[-1]
        self._in_hand = []
        if not delivery.settled:
            return
        self._untold = delivery
        if self._passes and len(entries) >= _LEAST_PARTS and not self._writer.held:
            self._await_pass()
            if self._second or self._queue.qsize() >= _LEAST_PARTS:
                # Told before the COMMIT of those.
                return
        self._tell_next(token)
        if self._passes:
            self._await_pass()

    def _tell_next(self, token: trio.lowlevel.TrioToken) -> None:
        """Have the trio thread told of the last commit, unless it is already."""
        delivery, self._untold = self._untold, None
        if delivery is not None:
            self._commits = commit = self._commits + 1
            _call_soon(token, self._tell, delivery, commit)

    def _await_pass(self) -> None:
        """Wait until the trio loop went round after the last commit that it was told of."""
        commit = self._commits
        if self._awaited == commit:
            return
        self._awaited = commit
        due_s = time.perf_counter() + _PASS_LIMIT_S
        try:
            while self._passed.get(timeout=max(0.0, due_s - time.perf_counter())) < commit:
                pass
        except Empty:
            pass


def _call_soon(token: trio.lowlevel.TrioToken, call: Callable[[Unpack[Args]], object], *args: *Args) -> None:
    """Have the trio thread call something.

    Raises:
        trio.RunFinishedError: the run is gone.
    """
    try:
        token.run_sync_soon(call, *args)
    except OSError as error:
        # trio crashed: it closed its wake-up socket and did not say that it had ended.
        raise trio.RunFinishedError from error
