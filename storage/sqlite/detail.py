"""What happened to one row."""

from __future__ import annotations

from typing import Final, cast

import apsw
import attrs

from .filters import Kind
from .listing import RowId
from .look import Look

_TRANSITIONS: Final = (
    'SELECT at, event, "from", "to", claim, code, instance FROM history'
    " WHERE kind = ? AND identity = ? ORDER BY id"
)


_STEPS: Final = "SELECT name, length(value), claim, at FROM step WHERE inbox_id = ? ORDER BY at, name"


@attrs.frozen
class StepLine:
    """A stored result of a step, without the result.

    Attributes:
        claim: The run that stored it.
    """

    name: str
    bytes: int
    claim: int
    at_us: int


@attrs.frozen
class Transition:
    """One line of the history."""

    at_us: int
    event: str
    before: str
    after: str
    claim: int
    code: str | None
    instance: int


def transitions(look: Look, row: RowId) -> list[Transition]:
    """The history of a row, oldest first. It reads the whole history of the store."""

    def ask(connection: apsw.Connection) -> list[tuple[int, str, str, str, int, str | None, int]]:
        kind: Kind = row.kind
        return cast(
            "list[tuple[int, str, str, str, int, str | None, int]]",
            connection.execute(_TRANSITIONS, (kind, row.number)).fetchall(),
        )

    return [Transition(*found) for found in look.read(ask)]


def stored_steps(look: Look, row: RowId) -> list[StepLine]:
    """The results that a message's steps left, oldest first."""

    def ask(connection: apsw.Connection) -> list[tuple[str, int, int, int]]:
        return cast("list[tuple[str, int, int, int]]", connection.execute(_STEPS, (row.number,)).fetchall())

    return [StepLine(*found) for found in look.read(ask)]
