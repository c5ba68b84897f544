"""The actor that carries emits to their homes, for a store that cannot do it in the same transaction.

Per source shard, in order: publish the emit under its number, then remove it in a Commit of the source. A crash between
the two repeats the publish, and the number makes the repeat a duplicate. There is no order between sources: a timer
that is taken back while it still waits at its own source is removed there, and never set.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from ..actors.errors import BusError, Code
from ..storage.commands import Commit, DropTimer, EmitNumber, Publish
from .emits import publish_row
from .pending_timers import pending_timer

if TYPE_CHECKING:
    from .services import Services

_PAGE = 64


class Relay:
    """Relays the stored emits of all shards; with an atomic store it has nothing to do.

    Args:
        services: The runtime's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._due: set[int] = set(range(services.store.info.shard_count))
        self._wake = trio.Event()

    @property
    def is_quiet(self) -> bool:
        """No emit waits."""
        return not self._due

    def nudge(self, shard: int) -> None:
        """A Commit of this shard has stored emits."""
        self._due.add(shard)
        self._wake.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Relay until cancelled."""
        task_status.started()
        if self._services.store.caps.emits == "atomic":
            self._due.clear()
            await trio.sleep_forever()
        while True:
            self._wake = trio.Event()
            while self._due:
                shard = min(self._due)
                await self._relay(shard)
                self._due.discard(shard)
                self._services.activity.changed()
            await self._wake.wait()

    async def _relay(self, shard: int) -> None:
        services = self._services
        while page := services.store.reader.emits(shard, _PAGE):
            for number, part in page:
                row = part.row
                taken: EmitNumber | None = None
                if isinstance(row, DropTimer) and (taken := pending_timer(services.store, row.id)):
                    await self._remove(taken)
                await self._publish(number, part)
                await self._remove(number)
                if taken is not None:
                    # It may be further down this page.
                    break

    async def _publish(self, number: EmitNumber, part: Publish) -> None:
        services = self._services
        try:
            await services.intake.store.offer(partial(publish_row, part, services))
        except BusError as error:
            if error.code is not Code.IDENTITY_MISMATCH:
                raise
            # Its key is taken, in another home than the turn that chose it could see. It would be refused for ever.
            services.count("emits_refused")
            services.log.error(
                "emit.refused", shard=number.shard, seq=number.seq, bus_error_code=str(error.code)
            )

    async def _remove(self, number: EmitNumber) -> None:
        services = self._services
        await services.store.commit(
            Commit(
                shard=number.shard,
                epoch=services.shards[number.shard].epoch,
                at_us=services.clock.wall_us(),
                relayed=(number,),
            )
        )
