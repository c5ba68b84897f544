"""What a claimed message has to pass before its handler runs: the hop limit and the handler's circuit breaker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.errors import BusError, Code
from .defaults import MAX_HOPS
from .inbox_rules import Dead, Defer
from .reports import report_turn

if TYPE_CHECKING:
    from .services import Services
    from .turn import Turn


def refusal_of(turn: Turn, services: Services) -> Dead | Defer | None:
    """Say why a turn must not start now; None: it starts, and its breaker has been told.

    A message that too many others caused is dead without a run. Sent through again by a person it runs: whether the
    loop is broken is then theirs to know.
    """
    row, breaker = turn.row, turn.breaker
    hops = row.message.hops
    if not hops and breaker is None:
        return None
    if hops > MAX_HOPS and row.record.generation == 0:
        return _over_the_limit(turn, services)
    # Suspects of a crash run apart from everything else, so nothing may make them wait.
    if breaker is None or breaker.admits(turn) or not services.gate.is_open:
        return None
    turn.is_deferred = True
    wait_us = max(1, round(breaker.wait_s * 1e6))
    services.count("deferred")
    services.log.debug(
        "turn.deferred",
        message_id=row.message.id,
        conversation_key=row.record.conversation_key,
        topic=row.record.topic,
        bus_error_code=str(Code.CIRCUIT_OPEN),
        claim=row.record.claim,
        wait_us=wait_us,
    )
    return Defer(services.clock.wall_us() + wait_us, wait_us)


def _over_the_limit(turn: Turn, services: Services) -> Dead:
    hops = turn.row.message.hops
    error = BusError(Code.HOP_LIMIT, f"{hops} messages caused one another, {MAX_HOPS} may", hops=hops)
    event = Dead(str(error.code), str(error), ran=False)
    report_turn(turn, error, event, services)
    return event
