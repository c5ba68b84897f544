"""Plans the emptying of dead rows: what they said goes, their identity and history stay."""

from __future__ import annotations

from ...actors.codec import CODEC_VERSION, pack_message
from ..commands import InboxPurge, OutboxPurge
from .numbers import Numbers
from .plan import Plan, Transition, check_home
from .rows import CONTENT_CODEC, pack_content


def plan_purge(
    purge: InboxPurge | OutboxPurge, shard: int, at_us: int, instance: int, plan: Plan, numbers: Numbers
) -> Transition:
    """Add one purge to a plan.

    Returns:
        The transition, for the history.
    Raises:
        BusError: IDENTITY_MISMATCH, the row is another shard's.
    """
    numbers.change_seq = change = numbers.change_seq + 1
    if isinstance(purge, InboxPurge):
        before, after = purge.move.before, purge.move.after
        check_home(after.id, before.shard, shard)
        body = pack_message(purge.message)
        plan.inbox_purges.append(
            (change, CODEC_VERSION, body, before.id, shard, before.claim, before.generation)
        )
        plan.purged_steps.append((after.id,))
        return (
            shard,
            ("in", after.id, before.status, after.status, purge.move.event, after.claim, at_us, None, instance),
        )  # fmt: skip
    sent, emptied = purge.move.before, purge.move.after
    check_home(emptied.id, sent.shard, shard)
    content = pack_content(purge.content)
    plan.outbox_purges.append(
        (
            emptied.purged_at_us, at_us, change, CONTENT_CODEC, content, sent.id, shard, sent.claim,
            sent.generation,
        )
    )  # fmt: skip
    return (
        shard,
        ("out", emptied.id, sent.state, emptied.state, purge.move.event, emptied.claim, at_us, None, instance),
    )  # fmt: skip
