"""A runtime as an asyncio program sees it: opened, called, stopped from the program's own tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar, Unpack, cast, overload

import structlog
import trio

from ...actors.errors import BusError, Code
from ..app import Runtime
from ..topic_handler import is_in_turn
from .crossing import HostTask, TrioCall, tell, wait_through
from .guest import Guest, find_guest, host_loop, tenant
from .trio_handlers import WatchedTopology

if TYPE_CHECKING:
    from ...actors.event import Event
    from ...actors.message import BusMessage
    from ...storage.port import StoreInfo
    from ..handled import Handled
    from ..health import Health
    from ..receipt import Receipt
    from ..sender import Delivered
    from ..status import Status
    from ..topology import Topology
    from .options import Options

T = TypeVar("T")


class AsyncioRuntime:
    """One open runtime in an asyncio program. Made by `runtime` or `open_runtime`.

    Every call comes from the loop it was opened on; a trio task, or another loop, is WRONG_LOOP. A call that is
    cancelled ends before `CancelledError` is raised: what it had stored by then stays.
    """

    def __init__(self, topology: Topology, options: Options) -> None:
        loop = host_loop()
        self.host_tasks: set[HostTask[object]] = set()
        self.ended: asyncio.Future[None] = loop.create_future()
        """Done once nothing of it runs any more. For waiting; `close` raises what ended it."""
        self._topology = WatchedTopology(topology)
        self._options = options
        self._opened: asyncio.Future[None] = loop.create_future()
        self._guest: Guest | None = None
        self._native: Runtime | None = None
        self._failure: BaseException | None = None
        self.calls: set[TrioCall[object]] = set()
        self._leave = trio.Event()
        self._opening = trio.CancelScope()
        self._is_over = False

    # --- what a program asks -----------------------------------------------------------------------------------

    @property
    def native(self) -> Runtime:
        """The same runtime for trio tasks: handlers that are no asyncio ones, adapters.

        Its plain methods and properties can be called from asyncio too.
        """
        if self._native is None:
            raise BusError(Code.BUS_CLOSED, "the runtime has not opened")
        return self._native

    @property
    def info(self) -> StoreInfo:
        """The store."""
        return self.native.info

    @property
    def counters(self) -> Mapping[str, int]:
        """See `Runtime.counters`."""
        return self.native.counters

    @property
    def failure(self) -> BaseException | None:
        """What ended the runtime, if it was no stop."""
        return self._failure

    @property
    def has_cancelled_work(self) -> bool:
        """See `Runtime.has_cancelled_work`."""
        return self.native.has_cancelled_work

    def status(self) -> Status:
        """See `Runtime.status`."""
        self._check_open()
        return self.native.status()

    def health(self) -> Health:
        """See `Runtime.health`."""
        self._check_open()
        return self.native.health()

    @overload
    async def publish(
        self, message: BusMessage | Event, *, timeout_s: float | None = None, wait: None = None
    ) -> Receipt: ...
    @overload
    async def publish(
        self, message: BusMessage, *, timeout_s: float | None = None, wait: Literal["handled"]
    ) -> Handled: ...
    async def publish(
        self,
        message: BusMessage | Event,
        *,
        timeout_s: float | None = None,
        wait: Literal["handled"] | None = None,
    ) -> Receipt | Handled:
        """See `Runtime.publish`. Cancelled, it may be stored or not: the same key again tells."""
        if wait is None:
            return await self.call(lambda native: native.publish(message, timeout_s=timeout_s))
        # An event is refused with its reason.
        told: BusMessage = message  # type: ignore[assignment]
        return await self.call(lambda native: native.publish(told, timeout_s=timeout_s, wait=wait))

    async def publish_validated(self, message: BusMessage, *, timeout_s: float | None = None) -> Receipt:
        """See `Runtime.publish_validated`."""
        return await self.call(lambda native: native.publish_validated(message, timeout_s=timeout_s))

    async def send(
        self, channel: str, key: str, text: str, idempotency_key: str, *, timeout_s: float | None = None
    ) -> Delivered:
        """See `Sender.send`."""
        return await self.call(
            lambda native: native.sender.send(channel, key, text, idempotency_key, timeout_s=timeout_s)
        )

    async def wait_drained(self) -> None:
        """See `Runtime.wait_drained`."""
        await self.call(lambda native: native.wait_drained())

    async def wait_quiet(self) -> None:
        """Wait until nothing is queued, running, in back-off or on its way."""
        await self.call(lambda native: native.wait_until(lambda: native.is_quiet))

    async def call(self, verb: Callable[[Runtime], Awaitable[T]]) -> T:
        """Await any other verb of the runtime: `await bot.call(lambda native: native.dead_letters.requeue(7))`.

        Args:
            verb: Called in a trio task with the native runtime; what it awaits is trio's.
        Raises:
            BusError: WRONG_LOOP; BUS_CLOSED; what the verb raises.
        """
        self._check_open()
        return await self._here.call(partial(verb, self.native), self.calls)

    # --- its end -----------------------------------------------------------------------------------------------

    def request_stop(self) -> None:
        """See `Runtime.request_stop`."""
        self._here.check_host()
        if not self._is_over:
            self.native.request_stop()

    async def serve(self) -> None:
        """Wait until a stop is asked for; the end of the block, or `close`, is the stop.

        Raises:
            BusError: what ended the runtime meanwhile.
        """
        self._here.check_host()
        if not self._is_over:
            try:
                await self.call(lambda native: native.serve())
            except BusError as error:
                if error.code is not Code.BUS_CLOSED:
                    raise
        self._raise_failure()

    async def close(self) -> None:
        """Stop in good order and wait until all is on disk and the file is closed. Closing twice is fine.

        Cancelled while it waits, it gives what is under way no more time; it ends all the same.

        Raises:
            BusError: what ended the runtime before; WOULD_DEADLOCK, called in a turn of this very runtime, which the
                stop would wait for: there it is `request_stop`.
        """
        guest = self._here
        guest.check_host()
        if is_in_turn() and tenant.get() is self:
            raise BusError(
                Code.WOULD_DEADLOCK, "a turn cannot wait for the end of its runtime: call request_stop"
            )
        self._leave.set()
        await self._wait_over(guest)
        self._raise_failure()

    # --- inside ------------------------------------------------------------------------------------------------

    @property
    def _here(self) -> Guest:
        if self._guest is None:
            raise BusError(Code.BUS_CLOSED, "the runtime has not opened")
        return self._guest

    def _check_open(self) -> None:
        self._here.check_host()
        if self._is_over:
            raise BusError(Code.BUS_CLOSED, "the runtime has ended") from self._failure

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def start(self) -> None:
        """Open it."""
        self._guest = guest = await find_guest(self)
        guest.spawn(self._live)
        try:
            await wait_through(self._opened, self._opening.cancel)
            self._raise_failure()
        except BaseException:
            await self._wait_over(guest)
            raise

    async def _wait_over(self, guest: Guest) -> None:
        try:
            await wait_through(self.ended, self.hurry)
        finally:
            if guest.is_leaving:
                await wait_through(guest.over, self.hurry)

    def hurry(self) -> None:
        """Stop, and give what is under way no time."""
        self._leave.set()
        self._opening.cancel()
        if self._native is not None and not self._is_over:
            self._native.request_stop()
            self._native.request_stop()

    def lost(self, error: BaseException) -> None:
        """The trio run has ended."""
        self._end(error)

    async def _live(self) -> None:
        """The runtime's life, as a task of the guest run."""
        tenant.set(self)
        failure: BaseException | None = None
        with_stuck = trio.CancelScope(shield=True)
        async with trio.open_nursery() as nursery:
            try:
                with self._opening:
                    async with Runtime.open(self._topology, **self._options) as native:
                        self._native = native
                        nursery.start_soon(self._leave_stuck, native, with_stuck)
                        tell(self._opened)
                        await self._leave.wait()
            except trio.Cancelled:
                # What cuts the whole run off is known when it has ended: see `lost`.
                raise
            except BaseException as error:
                # It is the asyncio side that it must reach.
                failure = error
            finally:
                with_stuck.cancel()
        self._end(failure)

    async def _leave_stuck(self, native: Runtime, scope: trio.CancelScope) -> None:
        """Go on without asyncio tasks that ignore their cancellation: a stop has an end."""
        with scope:
            await native.wait_stuck()
            while self.host_tasks:
                stuck = list(self.host_tasks)
                structlog.get_logger("shardline").error("host.task_abandoned", tasks=len(stuck))
                for task in stuck:
                    task.lose()
                await trio.lowlevel.checkpoint()

    def _end(self, failure: BaseException | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        if failure is None and self._native is None:
            failure = BusError(Code.BUS_CLOSED, "the opening was cancelled")
        self._failure = failure
        for call in list(self.calls):
            call.scope.cancel()
        if self._guest is not None:
            self._guest.leave(self)
        tell(self._opened)
        tell(self.ended)


async def open_runtime(topology: Topology, **options: Unpack[Options]) -> AsyncioRuntime:
    """Open a runtime in the running asyncio program; whoever opens it closes it (`close`).

    For programs whose framework has hooks for its start and its end. Where a block fits, `runtime` is better: it
    cannot be forgotten, and it ends the block where the runtime fails. Here `serve` and `close` raise that.

    Args:
        topology: What is handled. Handlers that are asyncio coroutines are declared with `asyncio_handler`.
        options: Those of `Runtime.open`, without `signals`: signals are the program's.
    Raises:
        BusError: what `Runtime.open` raises; WRONG_LOOP, no asyncio loop runs here.
    """
    bot = AsyncioRuntime(topology, options)
    await bot.start()
    return bot


@asynccontextmanager
async def runtime(topology: Topology, **options: Unpack[Options]) -> AsyncGenerator[AsyncioRuntime]:
    """Open a runtime in the running asyncio program until the block ends; then stop in good order.

    Where the runtime fails, the block is cancelled and the error raised out of it.

    Args:
        topology, options: As in `open_runtime`.
    Raises:
        BusError: what `Runtime.open` raises.
    """
    bot = await open_runtime(topology, **options)
    # Opening needs a running loop, and awaits.
    owner = cast("asyncio.Task[object]", asyncio.current_task())
    was_cancelled = owner.cancelling()
    is_inside, is_cut = True, False

    def cut(_: object) -> None:
        nonlocal is_cut
        if is_inside and bot.failure is not None:
            is_cut = True
            owner.cancel("the runtime has failed")

    def is_ours() -> bool:
        """Whether nobody but `cut` has cancelled the block."""
        nonlocal is_cut
        was_cut, is_cut = is_cut, False
        return was_cut and owner.uncancel() <= was_cancelled

    bot.ended.add_done_callback(cut)
    try:
        yield bot
    except asyncio.CancelledError:
        if not is_ours():
            raise
    finally:
        is_inside = False
        try:
            await bot.close()
        except asyncio.CancelledError:
            if bot.failure is None or not is_ours():
                raise
            raise bot.failure from None


__all__ = ["AsyncioRuntime", "open_runtime", "runtime"]
