"""What a turn commits while it goes on: its fence, and the results of its steps."""

from __future__ import annotations

from typing import Final, cast

from ...actors.errors import BusError, Code
from ..commands import InTurn
from .plan import Plan, check_home
from .rows import Row, check_size

STEP_CODEC: Final = 1
"""Version of a step's value, stored beside each: msgpack."""

MAX_STEP_BYTES: Final = 256 * 1024


def plan_in_turn(turn: InTurn, shard: int, at_us: int, plan: Plan) -> None:
    """Add to a plan that the turn's row must be running under its claim, and what its steps came to.

    Raises:
        BusError: IDENTITY_MISMATCH, the row is another shard's; TOO_LARGE.
    """
    record = turn.record
    check_home(record.id, record.shard, shard)
    plan.running.append((record.id, shard, record.claim))
    for step in turn.steps:
        check_size("a step's result", step.value, MAX_STEP_BYTES)
        plan.steps.append((record.id, step.name, record.claim, at_us, STEP_CODEC, step.value))


def read_step(row: Row) -> bytes:
    """A row of `codec, value`.

    Raises:
        BusError: SCHEMA_TOO_NEW, an unknown version.
    """
    codec, value = cast("tuple[int, bytes]", row)
    if codec != STEP_CODEC:
        raise BusError(Code.SCHEMA_TOO_NEW, f"a stored step has codec version {codec}", version=codec)
    return value
