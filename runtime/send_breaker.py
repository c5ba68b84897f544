"""The circuit breaker of one channel's sends, in its runtime: while it is open no send starts, and no attempt is spent.

The rules are in `breaker.py`. Nothing is taken back and nothing is written: what may not start stays as it is, its
conversation keeps its order, and the channel's line lets one send through when it is time to try.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from ..actors.errors import Code, Permanence
from .breaker import CLOSED, Breaker, Circuit, CircuitState, fail, succeed
from .channel import NotSent, SendOutcome, Sent
from .turn_breaker import BreakerStatus

if TYPE_CHECKING:
    import structlog.typing

    from .alarms import Alarms
    from .pool import WorkerPool
    from .send import Send
    from .send_line import SendLine

_NO_SENDS: Final[frozenset[Send]] = frozenset()


class SendBreaker:
    """The breaker of one channel.

    Args:
        channel: Its name.
        rules: When it opens.
        pool: Where its sends run.
        line: Where they wait.
        alarms: Rings when it is time to try.
        count: Counts an event of the run.
        log: For what happens to it.
    """

    def __init__(
        self,
        channel: str,
        rules: Breaker,
        pool: WorkerPool[Send],
        line: SendLine[Send],
        *,
        alarms: Alarms,
        count: Callable[[str], None],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._channel = channel
        self._rules = rules
        self._pool = pool
        self._line = line
        self._alarms = alarms
        self._count = count
        self._log = log
        self._circuit: Circuit = CLOSED
        self._begun_before = _NO_SENDS
        self._is_watched = False
        self._opened = 0

    @property
    def is_open(self) -> bool:
        """Whether the channel is held to be down; while one send tries it again too."""
        return self._circuit.state is not CircuitState.CLOSED

    @property
    def status(self) -> BreakerStatus:
        """Where it stands."""
        rest_s = max(0.0, self._circuit.until_s - trio.current_time())
        state = self._circuit.state
        if state is CircuitState.OPEN and not rest_s:
            state = CircuitState.HALF_OPEN
        return BreakerStatus(
            topic=None,
            channel=self._channel,
            state=state,
            failures=len(self._circuit.failed),
            opened=self._opened,
            waiting=self._line.waiting,
            retry_in_s=rest_s if state is CircuitState.OPEN else 0.0,
        )

    def ended(self, send: Send, outcome: SendOutcome) -> None:
        """A send of the channel has ended, by itself or by its time limit."""
        if isinstance(outcome, Sent) and self._circuit is CLOSED:
            return
        before = self._circuit
        now_s = trio.current_time()
        # What was under way when it opened, or about to be, decides nothing more.
        is_probe = now_s >= before.until_s and send not in self._begun_before
        if not is_failure_of_channel(outcome):
            self._circuit = succeed(before, is_probe=is_probe)
            if self._circuit.state is not before.state:
                self._close()
            return
        key = send.row.record.conversation_key
        self._circuit = fail(before, self._rules, key=key, now_s=now_s, is_probe=is_probe)
        if self._circuit is not before and self._circuit.state is CircuitState.OPEN:
            self._open(was_probe=before.state is not CircuitState.CLOSED)

    def _open(self, *, was_probe: bool) -> None:
        self._opened += 1
        self._begun_before = frozenset(self._pool.all_jobs)
        self._count("breakers_opened")
        self._log.warning(
            "breaker.opened",
            topic=None,
            channel=self._channel,
            bus_error_code=str(Code.CIRCUIT_OPEN),
            open_s=self._rules.open_s,
            was_probe=was_probe,
        )
        self._line.hold(self._rules.open_s)
        self._watch()

    def _close(self) -> None:
        self._begun_before = _NO_SENDS
        self._log.info("breaker.closed", topic=None, channel=self._channel, waiting=self._line.waiting)
        self._line.let_go()

    def _watch(self) -> None:
        if not self._is_watched:
            self._is_watched = True
            self._alarms.after(self._rules.open_s, self._look)

    def _look(self) -> None:
        """A start that was let through may never come to a send (its actor crashed): then another one may try."""
        self._is_watched = False
        if self._circuit.state is CircuitState.CLOSED:
            return
        probes = (send for send in self._pool.all_jobs if send not in self._begun_before)
        if all(send.is_lookup for send in probes):
            self._line.let_one()
        self._watch()


def is_failure_of_channel(outcome: SendOutcome) -> bool:
    """Whether an outcome speaks against the channel: a later try may be well, and no wait was asked for. Pure."""
    if isinstance(outcome, NotSent):
        if outcome.code in {Code.RATE_LIMITED, Code.BAD_TOKEN} or outcome.moved_to is not None:
            return False
        return outcome.permanence is not Permanence.PERMANENT
    return not isinstance(outcome, Sent)


__all__ = ["SendBreaker", "is_failure_of_channel"]
