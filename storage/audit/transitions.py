"""Which transitions a history may hold: the tables of `runtime/inbox_rules.py` and `runtime/outbox_rules.py` as data.

Storage may not import the runtime; a test walks both rules and compares.
"""

from __future__ import annotations

from typing import Final

_IN: Final = """
    : accept queued, accept+claim running, park parked, refuse refused
    queued: claim running, park parked
    failed: claim running, park parked
    running: done done, fail failed, dead dead, defer failed, release queued, crash queued, blame queued, blame dead
    dead: requeue queued, purge purged
    parked: requeue queued
"""
_OUT: Final = """
    : enqueue ready, enqueue+start flying
    ready: start flying, cancel dead, unhold ready
    failed: start flying, cancel dead
    flying: sent sent, failed failed, dead dead, uncertain uncertain, defer ready, release ready, recover uncertain
    uncertain: start flying, reconcile-sent sent, reconcile-ready ready, resolve-sent sent, resolve-resend ready, resolve-dead dead, drop dead
    dead: requeue ready, purge purged
"""  # noqa: E501

Transition = tuple[str, str, str, str]
"""kind, from, event, to."""


def _read(kind: str, table: str) -> set[Transition]:
    found: set[Transition] = set()
    for line in table.strip().splitlines():
        before, _, moves = line.strip().partition(":")
        for move in moves.split(","):
            event, after = move.split()
            found.add((kind, before, event, after))
    return found


TRANSITIONS: Final[frozenset[Transition]] = frozenset(_read("in", _IN) | _read("out", _OUT))
"""All that the rules allow."""

FINAL: Final = ("done", "refused", "purged", "sent")
"""States that a row never leaves; retention may take such a row away."""
