"""A requeue that is asked for again: what an earlier decision of the same actor has done, or is still to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...actors.errors import BusError, Code
from ...storage.records import ControlStatus, InboxStatus, OutboxState
from ...storage.sqlite.listing import controls
from ...storage.sqlite.look import Look
from ..control.execute import ControlResult
from ..control.steps import progress_of
from ..control.verbs import Requeue, RowRef, read_verb
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


def already_requeued(
    asking: Asking, results: Sequence[ControlResult], refused: Iterable[Mapping[object, object]]
) -> frozenset[str]:
    """Which of the refused rows another decision of this actor has sent through: asked twice, done once.

    Of another actor's it stays a refusal: of two people who decide over a row one hears that he was not the first.
    """
    rows = {str(row["row"]) for row in refused if row.get("code") == str(Code.INVALID_TRANSITION)}
    if not rows:
        return frozenset()
    actor, own = actor_of(asking), {result.id for result in results}
    requeued: set[str] = set()
    with looking(asking.store) as look:
        for one in controls(look, None, limit=_LOOKED_AT, offset=0):
            if one.verb == _VERB and one.actor == actor and one.id not in own:
                told = progress_of(one).get("requeued")
                requeued.update(str(row) for row in (told if isinstance(told, list) else ()))
        return frozenset(row for row in rows & requeued if not _is_purged(look, RowRef.parse(row)))


def _is_purged(look: Look, row: RowRef) -> bool:
    """It was emptied since then, which no requeue undoes."""
    if row.kind == "in":
        message = look.ask(lambda reader: reader.inbox(row.id))
        return message is None or message.record.status is InboxStatus.PURGED
    send = look.ask(lambda reader: reader.outbox(row.id))
    return send is None or send.record.state is OutboxState.PURGED


__all__ = ["already_requeued", "cut_off"]
