"""One child of a supervisor: its declaration, its state, and the life it is in.

States, and who moves a child between them; nothing survives the process:
    waiting -> starting             the supervisor launches it, after those before it and after the back-off
    starting -> running             it calls `task_status.started()`
    starting, running -> stopping   the supervisor decides to stop it, alone or with its siblings
    stopping -> waiting             it has ended and will start again; a temporary one -> ended
    starting, running -> ended      it returned or crashed by itself; -> waiting if it restarts
"""

import enum
from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs
import trio

from .errors import Code, error_code_of
from .leaves import leaves
from .restart import Restart

__all__ = ["Child", "ChildSpec", "ChildState", "ChildStatistics", "Queue", "Start", "crash_in"]


class Start(Protocol):
    """What a child runs: trio's form of a task that tells when it has started."""

    def __call__(self, *, task_status: trio.TaskStatus[None]) -> Awaitable[None]: ...


class ChildState(enum.Enum):
    """Where a child is in its life; the module's text has the moves."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


@attrs.frozen(kw_only=True)
class ChildStatistics:
    """A look at a child.

    Attributes:
        restarts, crashes: Counts since the supervisor was made.
        last_error_type, last_error_code: Of its last crash; None before one, or where the exception has no code.
        mailbox_messages, mailbox_capacity: What waits in front of it, and the most that can; None without a mailbox.
        children: Shape (n,); what it supervises itself, in start order.
    """

    name: str
    state: ChildState
    restarts: int
    crashes: int
    last_error_type: str | None = None
    last_error_code: Code | None = None
    mailbox_messages: int | None = None
    mailbox_capacity: int | None = None
    children: "tuple[ChildStatistics, ...]" = ()


class Queue(Protocol):
    """What waits in front of a child, for a look at it: a mailbox."""

    def __len__(self) -> int: ...
    @property
    def capacity(self) -> int: ...


@attrs.frozen
class ChildSpec:
    """The declaration of a child.

    Attributes:
        name: Unique among its siblings.
        start: Runs the whole life and calls `task_status.started()` when others may rely on it; it may be called
            again after it has ended.
        restart: When it runs again.
        escalates: Which crashes are not answered with a restart, but end the supervisor at once: all, or those that
            a function picks.
        is_excused: Picks the crashes that are nobody's fault: they spend no budget and wait for the longest back-off.
        mailbox: For statistics.
        children: For statistics: what it supervises itself.
    """

    name: str
    start: Start
    restart: Restart = attrs.field(default=Restart.PERMANENT, kw_only=True)
    escalates: bool | Callable[[Exception], bool] = attrs.field(default=False, kw_only=True)
    is_excused: Callable[[Exception], bool] | None = attrs.field(default=None, kw_only=True)
    mailbox: Queue | None = attrs.field(default=None, kw_only=True)
    children: Callable[[], tuple[ChildStatistics, ...]] | None = attrs.field(default=None, kw_only=True)

    def ends_all(self, error: Exception | None) -> bool:
        """Whether this end is not to be answered with a restart; None is an end without an exception."""
        if isinstance(self.escalates, bool):
            return self.escalates
        return error is not None and self.escalates(error)

    def excuses(self, error: Exception | None) -> bool:
        """Whether this end spends no budget."""
        return error is not None and self.is_excused is not None and self.is_excused(error)


class _Life:
    """One run of a child, and the task status it is given."""

    def __init__(self, on_started: Callable[[], None]) -> None:
        # Shielded: the end comes from the supervisor alone, in its order, not from a cancelled scope round all.
        self.scope = trio.CancelScope(shield=True)
        self.settled = trio.Event()
        self.ended = trio.Event()
        self._on_started = on_started

    def started(self, value: None = None) -> None:
        if self.settled.is_set():
            raise RuntimeError("task_status.started() was called before")
        self.settled.set()
        self._on_started()


class Child:
    """The record a supervisor keeps of a child, over all its lives.

    Args:
        spec: The declaration.
        is_added: It came at run time, and is forgotten when it has ended for good.
    """

    def __init__(self, spec: ChildSpec, *, is_added: bool) -> None:
        self.spec = spec
        self.is_added = is_added
        self.state = ChildState.WAITING
        self.crashes = 0
        self._restarts = 0
        self._last_error: tuple[str, Code | None] = ("", None)
        self._life: _Life | None = None

    @property
    def name(self) -> str:
        """Unique among its siblings."""
        return self.spec.name

    @property
    def restarts(self) -> int:
        """How often it was started after the first time."""
        return self._restarts

    @property
    def is_temporary(self) -> bool:
        """Whether it runs once at most."""
        return self.spec.restart is Restart.TEMPORARY

    @property
    def is_alive(self) -> bool:
        """Whether a task of it is running, or is about to."""
        return self.state in {ChildState.STARTING, ChildState.RUNNING, ChildState.STOPPING}

    def statistics(self) -> ChildStatistics:
        """Take a look."""
        mailbox, children = self.spec.mailbox, self.spec.children
        error_type, error_code = self._last_error
        return ChildStatistics(
            name=self.name,
            state=self.state,
            restarts=self._restarts,
            crashes=self.crashes,
            last_error_type=error_type or None,
            last_error_code=error_code,
            mailbox_messages=None if mailbox is None else len(mailbox),
            mailbox_capacity=None if mailbox is None else mailbox.capacity,
            children=() if children is None else children(),
        )

    def note_crash(self, error: Exception) -> None:
        """Count a crash; of the exception only its names are kept, for it holds the frames it passed."""
        self.crashes += 1
        self._last_error = (type(error).__name__, error_code_of(error))

    async def launch(
        self, nursery: trio.Nursery, on_end: Callable[["Child", ChildState, Exception | None], None]
    ) -> None:
        """Begin a life and wait until it has started or ended.

        Args:
            nursery: Where its task lives.
            on_end: Called once when the life is over, with the state it was in and what it raised. A group with one
                exception inside counts as that exception.
        """
        if self._life is not None:
            self._restarts += 1
        self.state = ChildState.STARTING
        life = self._life = _Life(self._note_started)
        nursery.start_soon(self._live, life, on_end, name=self.name)
        await life.settled.wait()

    def mark_stopping(self) -> None:
        """From now on its end, with an exception or without, is nothing to act upon."""
        if self.is_alive:
            self.state = ChildState.STOPPING

    async def stop(self) -> None:
        """Cancel it and wait until it has ended; nothing to do for one that is not alive."""
        if self._life is not None and self.is_alive:
            self.mark_stopping()
            self._life.scope.cancel()
            await self._life.ended.wait()

    def _note_started(self) -> None:
        if self.state is ChildState.STARTING:
            self.state = ChildState.RUNNING

    async def _live(
        self, life: _Life, on_end: Callable[["Child", ChildState, Exception | None], None]
    ) -> None:
        error: Exception | None = None
        try:
            # The scope takes its own Cancelled out of a mixed group; errors beside it stay.
            with life.scope:
                # Not so when it was stopped before its first step.
                if self.state is ChildState.STARTING:
                    await self.spec.start(task_status=life)
            if self.state is ChildState.STARTING:
                error = RuntimeError(f"{self.name} ended without task_status.started()")
        except Exception as exc:
            error = crash_in(exc)
        except BaseException as exc:
            # A foreign Cancelled or a KeyboardInterrupt goes on, with all its company; nothing restarts beside it.
            self.mark_stopping()
            error = crash_in(exc)
            raise
        finally:
            was = self.state
            ends = self.is_temporary or was is not ChildState.STOPPING
            self.state = ChildState.ENDED if ends else ChildState.WAITING
            life.settled.set()
            life.ended.set()
            on_end(self, was, error)


def crash_in(exc: BaseException) -> Exception | None:
    """What counts as the crash: the one ordinary exception inside, however deep, else all of them as a group."""
    errors = [leaf for leaf in leaves(exc) if isinstance(leaf, Exception)]
    if len(errors) == 1:
        return errors[0]
    if isinstance(exc, Exception):
        return exc
    return ExceptionGroup("errors beside a cancellation", errors) if errors else None
