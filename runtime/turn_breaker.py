"""The circuit breaker of one handler, in its runtime: who may start, who waits, and who is woken.

The rules are in `breaker.py`. A message whose claim is on disk already when the circuit is open is deferred there
(failed, with the time, nothing counted); all others stay as they are, and their lanes wait here without a message in
memory, without a token, and without a commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from ..actors.errors import Code
from .breaker import CLOSED, Breaker, Circuit, CircuitState, abandon, admit, fail, may_start, succeed
from .turn_failure import is_failure_of_topic

if TYPE_CHECKING:
    from .services import Services
    from .turn import Turn


@attrs.frozen(kw_only=True)
class BreakerStatus:
    """Where the breaker of one handler, or of one channel's sends, stands.

    Attributes:
        topic, channel: The handler; channel None takes what no other handler of the topic names. Topic None is the
            sends of the channel.
        state: `closed`, `open` or `half_open`.
        failures: Conversations whose failure counts now.
        opened: How often it has opened in this run.
        waiting: Conversations that wait for it in memory; of many more only their places on disk are known.
        retry_in_s: Seconds until an open one lets a message try; 0 otherwise.
    """

    topic: str | None
    channel: str | None
    state: CircuitState
    failures: int
    opened: int
    waiting: int
    retry_in_s: float

    @property
    def name(self) -> str:
        """What it holds, in a word or two: `topic`, `topic/channel`, or `channel sends`."""
        if self.topic is None:
            return f"{self.channel} sends"
        return self.topic if self.channel is None else f"{self.topic}/{self.channel}"


class TurnBreaker:
    """One handler's breaker.

    Args:
        topic, channel: The handler.
        rules: When it opens.
        services: The runtime's parts.
    """

    def __init__(self, topic: str, channel: str | None, rules: Breaker, services: Services) -> None:
        self._topic = topic
        self._channel = channel
        self._rules = rules
        self._services = services
        self._circuit: Circuit = CLOSED
        self._probe: Turn | None = None
        self._is_asked_for = False
        self._waiting: deque[Callable[[], bool]] = deque()
        self._alarm = 0
        self._is_armed = False
        self._opened = 0

    @property
    def is_closed(self) -> bool:
        """Whether everything may start."""
        return self._circuit.state is CircuitState.CLOSED

    @property
    def status(self) -> BreakerStatus:
        """Where it stands."""
        circuit = self._circuit
        is_open = circuit.state is CircuitState.OPEN
        return BreakerStatus(
            topic=self._topic,
            channel=self._channel,
            state=circuit.state,
            failures=len(circuit.failed),
            opened=self._opened,
            waiting=len(self._waiting),
            retry_in_s=max(0.0, circuit.until_s - trio.current_time()) if is_open else 0.0,
        )

    def passes(self) -> bool:
        """Whether a lane may ask for a slot: while the circuit is not closed one lane at a time, to probe."""
        if self._circuit.state is CircuitState.CLOSED:
            return True
        if self._is_asked_for or not may_start(self._circuit, now_s=trio.current_time()):
            return False
        self._is_asked_for = True
        return True

    def admits(self, turn: Turn) -> bool:
        """Whether a claimed turn may start; in a circuit that is not closed it is the probe then."""
        circuit = self._circuit
        if circuit.state is CircuitState.CLOSED:
            return True
        after = admit(circuit, now_s=trio.current_time())
        if after is None:
            return False
        self._circuit = after
        self._probe = turn
        self._is_asked_for = False
        return True

    @property
    def wait_s(self) -> float:
        """Seconds after which a deferred message may ask again."""
        rest_s = self._circuit.until_s - trio.current_time()
        return rest_s if rest_s > 0 else self._rules.open_s

    def wait(self, wake: Callable[[], bool]) -> None:
        """Let a lane wait. `wake` answers False where the lane has gone meanwhile."""
        if self.is_closed:
            wake()
            return
        self._waiting.append(wake)
        if not self._is_armed:
            self._arm(self._rules.open_s)

    def ended(self, turn: Turn, error: BaseException | None, *, timed_out: bool, cancelled: bool) -> None:
        """A turn that was admitted has ended."""
        if error is None and not timed_out and not cancelled and self._circuit is CLOSED:
            return
        is_probe = turn is self._probe
        if is_probe:
            self._probe = None
        if cancelled:
            self._circuit = abandon(self._circuit, is_probe=is_probe)
            if is_probe:
                self._wake_one()
        elif timed_out or (error is not None and is_failure_of_topic(error)):
            self._fail(turn, is_probe=is_probe)
        else:
            was_closed = self.is_closed
            self._circuit = succeed(self._circuit, is_probe=is_probe)
            if self.is_closed and not was_closed:
                self._close()

    def _fail(self, turn: Turn, *, is_probe: bool) -> None:
        before = self._circuit
        self._circuit = fail(
            before, self._rules, key=turn.lane.key, now_s=trio.current_time(), is_probe=is_probe
        )
        if self._circuit.state is CircuitState.OPEN and before.state is not CircuitState.OPEN:
            self._opened += 1
            self._is_asked_for = False
            self._services.count("breakers_opened")
            self._services.log.warning(
                "breaker.opened",
                topic=self._topic,
                channel=self._channel,
                bus_error_code=str(Code.CIRCUIT_OPEN),
                open_s=self._rules.open_s,
                was_probe=is_probe,
            )
            self._arm(self._rules.open_s)

    def _close(self) -> None:
        self._is_armed = False
        self._is_asked_for = False
        self._services.log.info(
            "breaker.closed", topic=self._topic, channel=self._channel, waiting=len(self._waiting)
        )
        waiting, self._waiting = self._waiting, deque()
        for wake in waiting:
            wake()

    def _arm(self, wait_s: float) -> None:
        self._alarm += 1
        self._is_armed = True
        self._services.alarms.after(wait_s, partial(self._ring, self._alarm))

    def _ring(self, alarm: int) -> None:
        if alarm != self._alarm or self.is_closed:
            return
        self._is_armed = False
        # Whoever asked last may be stuck behind others: the next one asks too.
        self._is_asked_for = False
        if self._probe is None:
            self._wake_one()
        if self._waiting:
            self._arm(self._rules.open_s)

    def _wake_one(self) -> None:
        while self._waiting and not self._waiting.popleft()():
            pass
