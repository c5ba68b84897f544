"""The address of an actor: how others tell it things and ask it questions."""

from collections.abc import Callable
from typing import Generic, NoReturn, Protocol, TypeVar

import trio
from trio.lowlevel import Abort, Task, current_task, reschedule, wait_task_rescheduled

from .errors import BusError, Code
from .mailbox import Mailbox

__all__ = ["ActorRef", "OpenAsks", "Reply"]

# Who may receive an A or a B may be told an A.
M = TypeVar("M", contravariant=True)  # noqa: PLC0105
R = TypeVar("R")


def _no_answer() -> NoReturn:
    raise RuntimeError("read before it was answered")


class Reply(Generic[R]):
    """One answer, given at most once: the first counts, later ones and those to a gone asker are ignored.

    It travels inside a message, and belongs to the trio loop of its asker.
    """

    __slots__ = ("_answer", "_asker", "_is_open")

    def __init__(self) -> None:
        self._is_open = True
        self._answer: Callable[[], R] = _no_answer
        self._asker: Task | None = None

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits for the answer."""
        return self._is_open

    def set(self, value: R) -> None:
        """Answer with a value."""
        self._settle(lambda: value)

    def fail(self, error: Exception) -> None:
        """Answer with an exception, raised where the question was asked."""

        def answer() -> NoReturn:
            raise error

        self._settle(answer)

    def _settle(self, answer: Callable[[], R]) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._answer = answer
        if self._asker is not None:
            reschedule(self._asker)

    async def wait(self) -> R:
        """Wait for the answer; once, by the one who asks. A cancelled call gives the question up.

        Raises:
            Exception: What the actor answered with `fail`.
        """
        if self._is_open:
            self._asker = current_task()
            await wait_task_rescheduled(self._give_up)
        return self._answer()

    def _give_up(self, _: object) -> Abort:
        self._is_open = False
        return Abort.SUCCEEDED


class _CanFail(Protocol):
    def fail(self, error: Exception) -> None: ...


class OpenAsks:
    """The questions to one actor that wait for an answer; their end when the actor ends.

    An actor is *up* from its making on, *down* between the end of a run and the next one.
    """

    __slots__ = ("_is_down", "_name", "_replies")

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_down = False
        self._replies: set[_CanFail] = set()

    def __len__(self) -> int:
        """Count the questions without an answer."""
        return len(self._replies)

    def add(self, reply: _CanFail) -> None:
        """Count a question in.

        Raises:
            BusError: BUS_CLOSED, the actor is down.
        """
        if self._is_down:
            raise self._closed()
        self._replies.add(reply)

    def discard(self, reply: _CanFail) -> None:
        """Count a question out."""
        self._replies.discard(reply)

    def go_up(self) -> None:
        """Take questions (again)."""
        self._is_down = False

    def go_down(self, cause: BaseException | None) -> None:
        """Answer every question with BUS_CLOSED and take no more; `cause` is what ended the actor, if known."""
        self._is_down = True
        for reply in self._replies:
            error = self._closed()
            error.__cause__ = cause
            reply.fail(error)
        self._replies.clear()

    def _closed(self) -> BusError:
        return BusError(Code.BUS_CLOSED, "the actor has ended", actor=self._name)


class ActorRef(Generic[M]):
    """What others hold of an actor. It stays good across restarts: the mailbox is kept."""

    __slots__ = ("_asks", "_mailbox", "_name")

    def __init__(self, name: str, mailbox: Mailbox[M], asks: OpenAsks) -> None:
        self._name = name
        self._mailbox = mailbox
        self._asks = asks

    def __repr__(self) -> str:
        return f"<ActorRef {self._name}>"

    @property
    def name(self) -> str:
        """The actor's name."""
        return self._name

    def tell(self, message: M) -> None:
        """Leave a message, without waiting for anything.

        Raises:
            BusError: QUEUE_FULL, the mailbox has no room now; BUS_CLOSED, it takes no more.
        """
        self._mailbox.put_nowait(message)

    async def ask(self, make_message: Callable[[Reply[R]], M], *, timeout_s: float) -> R:
        """Leave a message and wait for its answer.

        Args:
            make_message: Builds the message round the `Reply` that the actor answers.
            timeout_s: The longest wait, seconds, >= 0.
        Returns:
            What the actor set.
        Raises:
            BusError: QUEUE_FULL, the mailbox has no room now; BUS_CLOSED, it takes no more, or the actor is down or
                ended before it answered; HANDLER_TIMEOUT, no answer in time. After the last two, and after a
                cancellation, the message may have been handled, or may be yet.
            Exception: What the actor answered with `Reply.fail`.
        """
        reply = Reply[R]()
        self._asks.add(reply)
        try:
            self._mailbox.put_nowait(make_message(reply))
            with trio.move_on_after(timeout_s):
                return await reply.wait()
            raise BusError(Code.HANDLER_TIMEOUT, "no answer in time", actor=self._name, timeout_s=timeout_s)
        finally:
            self._asks.discard(reply)
