"""Commits from inside a turn that goes on: fenced by its claim, and waited for even when the turn is cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from ..actors.errors import BusError, Code
from ..storage.commands import Commit, Committed, InTurn, Outcome, Refused, StepWrite
from .turn import QueuedRow

if TYPE_CHECKING:
    from ..actors.message import BusMessage
    from ..storage.records import InboxRecord
    from .effects import SendEffect
    from .services import Services

_SETTLE_S: Final = 5.0
"""How long a cancelled turn still waits for what it has handed over: a store that is full may take for ever."""


class _Outcome:
    """What becomes of one commit; the journal tells it."""

    def __init__(self) -> None:
        self._settled = trio.Event()
        self._outcome: Outcome | None = None

    def settle(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._settled.set()

    async def wait(self) -> None:
        """Return once it is on disk.

        Raises:
            BusError: STALE_CLAIM, the turn is over; other refusals by their codes.
            trio.Cancelled: after the outcome is known, or `_SETTLE_S`. What was handed over cannot be taken back.
        """
        try:
            await self._settled.wait()
        except trio.Cancelled:
            with trio.move_on_after(_SETTLE_S, shield=True):
                await self._settled.wait()
            raise
        outcome = self._outcome
        if isinstance(outcome, Refused):
            error = outcome.error
            if error.code is Code.FENCED:
                raise BusError(
                    Code.STALE_CLAIM, "another run of the shard has taken this turn's message"
                ) from error
            raise BusError(error.code, error.message, **error.context) from error


async def commit_step(services: Services, record: InboxRecord, step: StepWrite) -> None:
    """Store the result of a step.

    Raises:
        BusError: STALE_CLAIM, the turn is over; TOO_LARGE; BUS_CLOSED, STORE_IO.
    """
    shard = services.shards[record.shard]
    commit = Commit(
        shard=shard.number,
        epoch=shard.epoch,
        at_us=services.clock.wall_us(),
        turn=InTurn(record, (step,)),
    )
    outcome = _Outcome()
    services.store.submit(commit, outcome.settle)
    await outcome.wait()


async def commit_send(
    services: Services, record: InboxRecord, message: BusMessage, effect: SendEffect
) -> None:
    """Store a send to the message's own conversation, and let it start while the turn goes on.

    Raises:
        BusError: STALE_CLAIM, the turn is over; BUS_CLOSED, STORE_IO.
    """
    shard = services.shards[record.shard]
    outbox = shard.outbox
    planned = outbox.plan(QueuedRow(record, message, holds_token=False), [effect])
    commit = Commit(
        shard=shard.number,
        epoch=shard.epoch,
        at_us=services.clock.wall_us(),
        new_outbox=planned.new_outbox,
        turn=InTurn(record),
    )

    def then(committed: Committed) -> None:
        outbox.placed(planned, committed)

    def refused(_: BusError) -> None:
        outbox.unplanned(planned)

    outcome = _Outcome()
    try:
        shard.submit(commit, then, refused, told=outcome.settle)
    except BaseException:
        # It is the handler that fails, not the shard: what was reserved has to go back here.
        outbox.unplanned(planned)
        raise
    await outcome.wait()
