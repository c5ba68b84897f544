"""A requeue that was cut off: what an earlier decision of the same actor is still to do."""

from __future__ import annotations

from ...actors.errors import BusError
from ...storage.records import ControlStatus
from ...storage.sqlite.listing import controls
from ..control.verbs import Requeue, read_verb
from .deciding import Asking, actor_of
from .looking import looking

_LOOKED_AT = 1_000
"""The newest decisions; among them an earlier one is looked for."""
_VERB = "requeue"


def cut_off(asking: Asking) -> dict[str, Requeue]:
    """The requeues of this actor that wait, the oldest first, by id: who asked was cut off, or gave up waiting."""
    actor = actor_of(asking)
    with looking(asking.store) as look:
        waiting = controls(look, ControlStatus.WAITING, limit=_LOOKED_AT, offset=0)
    found: dict[str, Requeue] = {}
    for one in reversed(waiting):
        if one.verb != _VERB or one.actor != actor:
            continue
        try:
            verb = read_verb(one.verb, one.args)
        except BusError:
            # A foreign writer's: whoever carries it out refuses it.
            continue
        if isinstance(verb, Requeue):
            found[one.id] = verb
    return found
