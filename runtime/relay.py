"""The actor that carries emits to their homes, for a store that cannot do it in the same transaction.

Per source shard, in order: publish the emit under its number, then remove it in a Commit of the source. A crash between
the two repeats the publish, and the number makes the repeat a duplicate.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from ..storage.commands import Commit
from .emits import publish_row

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
                await services.intake.store.offer(partial(publish_row, part, services))
                await services.store.commit(
                    Commit(
                        shard=shard,
                        epoch=services.shards[shard].epoch,
                        at_us=services.clock.wall_us(),
                        relayed=(number,),
                    )
                )
