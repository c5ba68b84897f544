"""The rows of one transaction."""

from __future__ import annotations

from ...actors.errors import BusError, Code
from ..pruning import Prune
from .rows import Row

TimerStep = tuple[str, Row, bool]
"""Statement, what it binds, whether it must change exactly one row."""
PruneStep = tuple[Prune, int, int]
"""What to prune, the change number before those of its emptied rows, when."""
Transition = tuple[int, tuple[str, int, str, str, str, int, int, str | None, int]]
"""shard; kind, identity, from, to, event, claim, at, code, instance."""


class Plan:
    """The rows of one transaction by kind, in the order the kinds are written; timers in the order of their parts."""

    __slots__ = (
        "anchors",
        "controls",
        "emits",
        "events",
        "facts",
        "failed_inbox_moves",
        "failed_outbox_moves",
        "history",
        "inbox",
        "inbox_moves",
        "inbox_purges",
        "inbox_tails",
        "new_inbox",
        "new_outbox",
        "outbox",
        "outbox_moves",
        "outbox_purges",
        "outbox_rewrites",
        "outbox_tails",
        "prunes",
        "purged_steps",
        "relayed",
        "running",
        "shards",
        "states",
        "steps",
        "timers",
    )

    def __init__(self) -> None:
        # Spelled out: one a commit, and attrs takes ten times as long for as many empty lists.
        self.new_inbox: list[Row] = []
        self.inbox: list[Row] = []
        self.events: list[Row] = []
        self.inbox_moves: list[Row] = []
        self.failed_inbox_moves: list[Row] = []
        self.inbox_tails: list[Row] = []
        self.running: list[Row] = []
        self.steps: list[Row] = []
        self.states: dict[str, Row | None] = {}
        self.new_outbox: list[Row] = []
        self.outbox: list[Row] = []
        self.outbox_moves: list[Row] = []
        self.failed_outbox_moves: list[Row] = []
        self.outbox_tails: list[Row] = []
        self.outbox_rewrites: list[Row] = []
        self.emits: list[Row] = []
        self.relayed: list[Row] = []
        self.facts: dict[tuple[str, str], Row | None] = {}
        self.inbox_purges: list[Row] = []
        self.purged_steps: list[Row] = []
        self.outbox_purges: list[Row] = []
        self.controls: list[Row] = []
        self.timers: list[TimerStep] = []
        self.history: list[Row] = []
        self.anchors: list[Row] = []
        self.prunes: list[PruneStep] = []
        self.shards: set[int] = set()


def check_home(row_id: int, home: int, shard: int) -> None:
    """Refuse a row of another shard.

    Raises:
        BusError: IDENTITY_MISMATCH.
    """
    if home != shard:
        raise BusError(
            Code.IDENTITY_MISMATCH,
            f"row {row_id} belongs to shard {home}, not to {shard}",
            row_id=row_id,
            shard=shard,
        )
