"""What a runtime does before anything else: settle what the last one left in flight."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ..storage.commands import Commit, InboxMove, OutboxMove
from ..storage.records import OnUncertain, StoredOutbox
from .gate import Gate
from .outbox_holds import is_drop, moves_of_drop
from .retry import RetryPolicy
from .send_outcome import SendPolicy, found_moves
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
    over = [
        fact
        for delivery in services.deliveries.values()
        for known in (delivery.pauses, delivery.recipients)
        for fact in known.restore(reader, now_us)
    ]
    if over:
        await store.commit(Commit(shard=0, epoch=store.epochs[0], at_us=now_us, facts=tuple(over)))
    if recovery.suspects:
        services.gate = Gate(
            (record.id for record in recovery.suspects), at_once=recovery.at_once, changed=services.flush_all
        )
        for record in recovery.suspects:
            services.shards[record.shard].inbox.lanes.open(record.conversation_key)
    if found or flying:
        services.log.warning(
            "runtime.recovered",
            claimed=len(found),
            requeued=len(found) - len(recovery.crash_looped),
            suspects=len(recovery.suspects),
            crash_looped=len(recovery.crash_looped),
            flying=len(flying),
        )
    undecided = reader.count_undecided()
    if undecided:
        services.log.warning(
            "outbox.found_uncertain", uncertain=undecided, look="shardline outbox list state=uncertain"
        )


def _found_flying(row: StoredOutbox, services: Services, now_us: int) -> tuple[OutboxMove, ...]:
    """A send that may have left: looked up, sent again, left to a person or given up, as its channel allows."""
    delivery = services.deliveries.get(row.record.channel)
    if delivery is None:
        # Without its channel nobody can look it up or send it.
        policy = SendPolicy(RetryPolicy(), row.content.on_uncertain or OnUncertain.PARK, can_look_up=False)
    else:
        policy = delivery.policy_of(row.content)
    moves = found_moves(row.record, policy, now_us=now_us, unit=services.random.random())
    if is_drop(moves[-1]):
        moves = (*moves, *moves_of_drop(moves[-1], services.store.reader, now_us=now_us))
    return moves
