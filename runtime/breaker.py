"""The rules of a circuit breaker, for a topic or a channel. Pure: times and keys are arguments.

States, and who moves a circuit on:

    closed      everything may start. Too many failures in the window open it.
    open        nothing starts until `until_s`.
    half open   one start, the probe, is let through at a time. Its success closes the circuit, its failure opens it.

A failure counts once for each conversation, and any success clears the count: while one conversation gets through,
another one that fails holds up nobody. What was under way when the circuit opened decides nothing more.

A circuit lives in memory: after a crash it is closed, and failures open it again.
"""

from __future__ import annotations

from enum import StrEnum, unique

import attrs

from ..actors.errors import BusError, Code
from ..actors.given import is_number, is_whole, shown
from .defaults import BREAKER_FAILURES, BREAKER_OPEN_S, BREAKER_WINDOW_S


@attrs.frozen(kw_only=True)
class Breaker:
    """When a circuit opens, and for how long.

    Attributes:
        failures: Conversations that have to fail within the window, without a success in between, >= 1.
        window_s: Seconds in which failures count, > 0.
        open_s: Seconds until an open circuit lets one message try, > 0.
    Raises:
        BusError: INVALID_MESSAGE, at the declaration; `field` and `value` are in its context.
    """

    failures: int = BREAKER_FAILURES
    window_s: float = BREAKER_WINDOW_S
    open_s: float = BREAKER_OPEN_S

    def __attrs_post_init__(self) -> None:
        _check("failures", self.failures, _is_count(self.failures))
        _check("window_s", self.window_s, _is_length(self.window_s))
        _check("open_s", self.open_s, _is_length(self.open_s))


@unique
class CircuitState(StrEnum):
    """Where a circuit stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@attrs.frozen(kw_only=True)
class Circuit:
    """What a breaker remembers.

    Attributes:
        failed: While closed: conversations that failed, each with the time of its last failure, oldest first.
        until_s: When an open circuit lets a probe through, seconds of the caller's monotonic clock.
        is_probing: While half open: a probe is under way.
    """

    state: CircuitState = CircuitState.CLOSED
    failed: tuple[tuple[str, float], ...] = ()
    until_s: float = 0.0
    is_probing: bool = False


CLOSED = Circuit()
"""A circuit without a failure."""


def may_start(circuit: Circuit, *, now_s: float) -> bool:
    """Whether something may start now; `admit` then says so to the circuit."""
    match circuit.state:
        case CircuitState.CLOSED:
            return True
        case CircuitState.OPEN:
            return now_s >= circuit.until_s
        case CircuitState.HALF_OPEN:
            return not circuit.is_probing


def admit(circuit: Circuit, *, now_s: float) -> Circuit | None:
    """Let something start.

    Returns:
        The circuit after it; half open if this start is the probe. None: it may not start.
    """
    if not may_start(circuit, now_s=now_s):
        return None
    if circuit.state is CircuitState.CLOSED:
        return circuit
    return Circuit(state=CircuitState.HALF_OPEN, is_probing=True)


def succeed(circuit: Circuit, *, is_probe: bool) -> Circuit:
    """Something that was let through has succeeded, or failed in a way that does not count."""
    return CLOSED if circuit.state is CircuitState.CLOSED or is_probe else circuit


def fail(circuit: Circuit, rules: Breaker, *, key: str, now_s: float, is_probe: bool) -> Circuit:
    """Something that was let through has failed.

    Args:
        circuit: Before it.
        rules: When it opens.
        key: The conversation.
        now_s: Seconds of the caller's monotonic clock.
        is_probe: Whether it was the probe.
    """
    opened = Circuit(state=CircuitState.OPEN, until_s=now_s + rules.open_s)
    if circuit.state is not CircuitState.CLOSED:
        return opened if is_probe else circuit
    recent = (
        (other, at_s) for other, at_s in circuit.failed if other != key and now_s - at_s < rules.window_s
    )
    failed = (*recent, (key, now_s))
    return opened if len(failed) >= rules.failures else Circuit(failed=failed)


def abandon(circuit: Circuit, *, is_probe: bool) -> Circuit:
    """Something that was let through was stopped before it could tell."""
    return Circuit(state=CircuitState.HALF_OPEN) if is_probe else circuit


# Declarations come from settings files too, where the annotations do not hold.
def _is_count(value: object) -> bool:
    return is_whole(value, lowest=1)


def _is_length(value: object) -> bool:
    return is_number(value) and value > 0


def _check(field: str, value: object, holds: bool) -> None:
    if not holds:
        raise BusError(
            Code.INVALID_MESSAGE,
            f"breaker: {field} must be greater than 0 (failures a whole number), not {shown(value)}",
            field=field,
            value=value,
        )
