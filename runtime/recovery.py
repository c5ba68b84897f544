"""What a runtime does before anything else: settle what the last one left in flight."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..actors.codec import pack_plain, unpack_plain
from ..storage.commands import Commit, Fact, InboxMove, OutboxMove
from ..storage.records import OnUncertain, StoredOutbox
from .gate import Gate
from .outbox_holds import is_drop, moves_of_drop
from .pauses import NAMESPACE
from .retry import RetryPolicy
from .send_outcome import SendPolicy, found_moves
from .suspects import recover

if TYPE_CHECKING:
    from ..storage.port import Reader
    from .services import Services

_UNDER_WAY: Final = "recovery"
_FACT_BYTES: Final = 64


async def settle_last_run(services: Services) -> None:
    """Count crashes, make flying sends uncertain, name the suspects: one Commit for each shard concerned.

    Nothing else is touched, so the cost does not grow with the backlog. A kill between two of the Commits leaves some
    rows as they were found; how many turns the crash met stays on disk until the last one, so that the next start does
    not take them for all there was.

    Raises:
        BusError: STORE_IO and the like; the runtime does not start then.
    """
    store, now_us = services.store, services.clock.wall_us()
    reader = store.reader
    found = reader.claimed()
    recovery = recover(found, waiting=reader.crashed(), now_us=now_us, settled=_turns_under_way(reader))
    inbox: dict[int, list[InboxMove]] = defaultdict(list)
    outbox: dict[int, list[OutboxMove]] = defaultdict(list)
    for move in recovery.moves:
        inbox[move.before.shard].append(move)
    flying = reader.flying()
    for row in flying:
        outbox[row.record.shard].extend(_found_flying(row, services, now_us))
    await _commit_each(inbox, outbox, services, now_us=now_us, turns=recovery.turns)
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


async def _commit_each(
    inbox: Mapping[int, Sequence[InboxMove]],
    outbox: Mapping[int, Sequence[OutboxMove]],
    services: Services,
    *,
    now_us: int,
    turns: int,
) -> None:
    store = services.store
    shards = sorted(inbox.keys() | outbox.keys())
    begun = pack_plain(turns, limit_bytes=_FACT_BYTES, what=_UNDER_WAY)
    for shard in shards:
        value = None if shard == shards[-1] else begun
        await store.commit(
            Commit(
                shard=shard,
                epoch=store.epochs[shard],
                at_us=now_us,
                inbox=tuple(inbox.get(shard, ())),
                outbox=tuple(outbox.get(shard, ())),
                facts=(Fact(NAMESPACE, _UNDER_WAY, value),),
            )
        )


def _turns_under_way(reader: Reader) -> int:
    """How many turns the last crash met, where the start after it was cut off before it had counted all of them."""
    value = reader.fact(NAMESPACE, _UNDER_WAY)
    turns = 0 if value is None else unpack_plain(value, limit_bytes=_FACT_BYTES)
    return turns if isinstance(turns, int) else 0


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
