"""How a journal writes: on a thread of its own, or inline on the trio thread."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from itertools import repeat, starmap
from queue import Empty, SimpleQueue
from typing import Final, Protocol, TypeVarTuple, Unpack, cast

import trio

from .writing import BatchWriter, Delivery, Entry

MAX_BATCH_PARTS: Final = 1_024

CLOSE_LIMIT_S: Final = 10.0
"""How long a store that winds down, or stops, goes on offering what a full or busy disk does not take."""

_PASS_LIMIT_S: Final = 0.002


Args = TypeVarTuple("Args")


class Drive(Protocol):
    """The loop between those who submit and the writer."""

    accepts: bool
    """False once it has begun to stop."""

    def put(self, entry: Entry, /) -> None:
        """Hand an entry over, on the trio thread, while it accepts."""
        ...

    def wind_down(self) -> None:
        """See `Store.wind_down`."""
        ...

    async def serve(self) -> None:
        """Write until cancelled, then finish what was handed over; never returns normally.

        Raises:
            Exception: it cannot go on. What is open then is the writer's `held`, and `rest`.
        """
        ...

    def rest(self) -> list[Entry]:
        """Take what was handed over but never reached the writer."""
        ...


class InlineDrive:
    """Writes on the trio thread; every task that can run joins the batch first."""

    def __init__(self, writer: BatchWriter, deliver: Callable[[Delivery], None]) -> None:
        self.accepts = True
        self._writer = writer
        self._deliver = deliver
        self._entries: list[Entry] = []
        self._in_hand: list[Entry] = []
        self._parked: trio.lowlevel.Task | None = None
        self._limit_s = math.inf

    def put(self, entry: Entry) -> None:
        """See `Drive`."""
        self._entries.append(entry)
        task, self._parked = self._parked, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def wind_down(self) -> None:
        """See `Drive`."""
        self._limit_s = min(self._limit_s, trio.current_time() + CLOSE_LIMIT_S)

    async def serve(self) -> None:
        """See `Drive`."""
        try:
            while True:
                await trio.lowlevel.checkpoint_if_cancelled()
                if self._writer.held:
                    await trio.sleep(self._writer.wait_s)
                elif not self._entries:
                    await self._park()
                await trio.lowlevel.cancel_shielded_checkpoint()
                self._step()
        except (trio.Cancelled, KeyboardInterrupt):
            self.accepts = False
            with trio.CancelScope(shield=True):
                await self._drain()
            raise
        finally:
            self.accepts = False

    def rest(self) -> list[Entry]:
        """See `Drive`."""
        entries, self._entries = self._entries, []
        return lost_in_hand(self._writer, self._in_hand) + entries

    def _step(self) -> None:
        entries = self._entries[:MAX_BATCH_PARTS]
        del self._entries[:MAX_BATCH_PARTS]
        self._in_hand = [*self._writer.held, *entries]
        delivery = self._writer.write(entries)
        self._in_hand = []
        self._deliver(delivery)
        if self._writer.held and trio.current_time() >= self._limit_s:
            self._deliver(self._writer.refuse())

    async def _drain(self) -> None:
        self.wind_down()
        while self._entries or self._writer.held:
            if self._writer.held:
                await trio.sleep(self._writer.wait_s)
            self._step()

    async def _park(self) -> None:
        self._parked = trio.lowlevel.current_task()

        def leave(_: object) -> trio.lowlevel.Abort:
            self._parked = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)


class ThreadDrive:
    """Writes on a thread of its own: while one commit syncs, the next batch collects. One wake-up a commit.

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
        self._passed: SimpleQueue[int] = SimpleQueue()
        self._commits = 0
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
        entries = lost_in_hand(self._writer, self._in_hand)
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
            self._write(token, self._gather(writer.wait_s))
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

    def _write(self, token: trio.lowlevel.TrioToken, entries: list[Entry]) -> None:
        if not entries and not self._writer.held:
            return
        self._in_hand = [*self._writer.held, *entries]
        delivery = self._writer.write(entries)
        self._in_hand = []
        if not delivery.settled:
            return
        self._commits = commit = self._commits + 1
        _call_soon(token, self._tell, delivery, commit)
        if self._passes:
            self._await_pass(commit)

    def _await_pass(self, commit: int) -> None:
        due_s = time.perf_counter() + _PASS_LIMIT_S
        try:
            while self._passed.get(timeout=max(0.0, due_s - time.perf_counter())) < commit:
                pass
        except Empty:
            pass


def lost_in_hand(writer: BatchWriter, in_hand: list[Entry]) -> list[Entry]:
    """What a writer had in hand when a bug ended it, unless it keeps it itself: nobody else can answer these."""
    return [] if writer.held else list(in_hand)


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
