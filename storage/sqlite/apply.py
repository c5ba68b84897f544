"""Write a plan inside an open transaction, kind by kind, each with its exact count of changed rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import apsw

from . import sql
from .numbers import Numbers
from .plan import Plan
from .prune import prune
from .rows import Row


class MismatchError(Exception):
    """Fewer rows changed than were meant to: some move met another claim, status or generation than it names."""


def apply_plan(database: apsw.Connection, plan: Plan) -> None:
    """Write the rows of a plan.

    Args:
        database: In a transaction.
        plan: From one `Planner`.
    Raises:
        MismatchError: the transaction must be rolled back.
        apsw.Error: the same.
    """
    if plan.new_inbox:
        _write(database, sql.INSERT_NEW_INBOX, plan.new_inbox)
    if plan.inbox:
        _write(database, sql.INSERT_INBOX, plan.inbox)
    if plan.events:
        _write(database, sql.INSERT_EVENT, plan.events)
    if plan.inbox_moves:
        _write(database, sql.MOVE_INBOX, plan.inbox_moves)
    if plan.failed_inbox_moves:
        # Behind the others: a row has errors from its first failure on, until it goes to the tail.
        _write(database, sql.MOVE_FAILED_INBOX, plan.failed_inbox_moves)
    if plan.inbox_tails:
        _write(database, sql.MOVE_INBOX_TO_TAIL, plan.inbox_tails)
    if plan.running:
        # Behind the moves: a turn that ends in this very batch has ended.
        found = database.executemany(sql.IS_RUNNING, plan.running).fetchall()
        if len(found) != len(plan.running):
            raise MismatchError(sql.IS_RUNNING)
    if plan.steps:
        _write(database, sql.INSERT_STEP, plan.steps)
    if plan.states:
        _write(database, sql.WRITE_STATE, [row for row in plan.states.values() if row is not None])
        # Not counted, here and below: what is to go may never have been there.
        database.executemany(sql.DROP_STATE, [(key,) for key, row in plan.states.items() if row is None])
    if plan.new_outbox:
        _write(database, sql.INSERT_NEW_OUTBOX, plan.new_outbox)
    if plan.outbox:
        _write(database, sql.INSERT_OUTBOX, plan.outbox)
    if plan.outbox_moves:
        _write(database, sql.MOVE_OUTBOX, plan.outbox_moves)
    if plan.failed_outbox_moves:
        _write(database, sql.MOVE_FAILED_OUTBOX, plan.failed_outbox_moves)
    if plan.outbox_tails:
        _write(database, sql.MOVE_OUTBOX_TO_TAIL, plan.outbox_tails)
    if plan.outbox_rewrites:
        _write(database, sql.REWRITE_OUTBOX, plan.outbox_rewrites)
    if plan.emits:
        _write(database, sql.INSERT_EMIT, plan.emits)
    if plan.relayed:
        database.executemany(sql.DROP_EMIT, plan.relayed)
    if plan.facts:
        _write(database, sql.WRITE_FACT, [row for row in plan.facts.values() if row is not None])
        database.executemany(sql.DROP_FACT, [key for key, row in plan.facts.items() if row is None])
    if plan.inbox_purges:
        _write(database, sql.PURGE_INBOX, plan.inbox_purges)
        database.executemany(sql.DROP_STEPS, plan.purged_steps)
    if plan.outbox_purges:
        _write(database, sql.PURGE_OUTBOX, plan.outbox_purges)
    if plan.controls:
        _write(database, sql.MOVE_CONTROL, plan.controls)
    for statement, bindings, exact in plan.timers:
        database.execute(statement, bindings)
        if exact and database.changes() != 1:
            raise MismatchError(statement)
    if plan.history:
        _write(database, sql.INSERT_HISTORY, plan.history)
    if plan.anchors:
        _write(database, sql.INSERT_ANCHOR, plan.anchors)
    # Behind the anchors of this batch. Not counted: what is to go may have gone.
    for step in plan.prunes:
        prune(database, *step)


def apply_numbers(
    database: apsw.Connection, numbers: Numbers, shards: Collection[int], instance: int
) -> None:
    """Write where the counters stand: the touched shards, then the store."""
    _write(
        database,
        sql.MOVE_SHARD,
        [
            (
                numbers.epochs[shard],
                instance,
                numbers.seqs[shard],
                numbers.hseqs[shard],
                numbers.heads[shard],
                shard,
            )
            for shard in shards
        ],
    )
    _write(
        database,
        sql.MOVE_STORE,
        [
            (
                numbers.commit_seq,
                numbers.change_seq,
                numbers.next_inbox_id,
                numbers.next_outbox_id,
                numbers.next_event_id,
                numbers.retried_turns,
                numbers.retried_sends,
            )
        ],
    )


def _write(database: apsw.Connection, statement: str, rows: Sequence[Row]) -> None:
    before = database.total_changes()
    database.executemany(statement, rows)
    if database.total_changes() - before != len(rows):
        raise MismatchError(statement)
