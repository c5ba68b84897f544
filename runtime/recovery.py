"""What a runtime does before anything else: settle what the last one left in flight."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ..storage.commands import Commit, InboxMove, OutboxMove
from ..storage.records import OnUncertain, StoredOutbox
from .gate import Gate
from .outbox_rules import Drop, FoundAtStart, outbox_move
from .suspects import recover

if TYPE_CHECKING:
    from .services import Services


async def settle_last_run(services: Services) -> None:
    """Count crashes, make flying sends uncertain, name the suspects: one Commit for each shard concerned.

    Nothing else is touched, so the cost does not grow with the backlog.

    Raises:
        BusError: STORE_IO and the like; the runtime does not start then.
    """
    store, now_us = services.store, services.clock.wall_us()
    reader = store.reader
    found = reader.claimed()
    recovery = recover(found, waiting=reader.crashed(), now_us=now_us)
    inbox: dict[int, list[InboxMove]] = defaultdict(list)
    outbox: dict[int, list[OutboxMove]] = defaultdict(list)
    for move in recovery.moves:
        inbox[move.before.shard].append(move)
    flying = reader.flying()
    for row in flying:
        outbox[row.record.shard].extend(_found_flying(row, services, now_us))
    for shard in sorted(inbox.keys() | outbox.keys()):
        await store.commit(
            Commit(
                shard=shard,
                epoch=store.epochs[shard],
                at_us=now_us,
                inbox=tuple(inbox[shard]),
                outbox=tuple(outbox[shard]),
            )
        )
    if recovery.suspects:
        services.gate = Gate(
            (record.id for record in recovery.suspects), at_once=recovery.at_once, changed=services.flush_all
        )
        for record in recovery.suspects:
            services.shards[record.shard].inbox.lanes.open(record.conversation_key)
    if found or flying or not store.info.clean:
        services.log.warning(
            "runtime.recovered",
            claimed=len(found),
            flying=len(flying),
            suspects=len(recovery.suspects),
            crash_looped=len(recovery.crash_looped),
        )


def _found_flying(row: StoredOutbox, services: Services, now_us: int) -> tuple[OutboxMove, ...]:
    """A send that may have left: looked up, sent again, left to a person or given up, as its channel allows."""
    record = row.record
    delivery = services.deliveries.get(record.channel)
    if delivery is None:
        return (outbox_move(record, FoundAtStart(), now_us=now_us, claim=record.claim),)
    if delivery.can_look_up:
        return (outbox_move(record, FoundAtStart(now_us, 0), now_us=now_us, claim=record.claim),)
    policy = row.content.on_uncertain or delivery.adapter.caps.on_uncertain
    if policy is OnUncertain.RESEND and not delivery.retry.is_spent(record.attempts):
        wait_us = round(delivery.retry.delay_s(max(0, record.attempts - 1), services.random.random()) * 1e6)
        return (outbox_move(record, FoundAtStart(now_us + wait_us, wait_us), now_us=now_us, claim=record.claim),)
    first = outbox_move(record, FoundAtStart(), now_us=now_us, claim=record.claim)
    if policy is not OnUncertain.DROP:
        return (first,)
    return (first, outbox_move(first.after, Drop(), now_us=now_us, claim=record.claim))
