"""All checks and measures, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .base import Check, Measure
from .chain import CHAIN_CHECKS
from .history import HISTORY_CHECKS
from .measures import MEASURES
from .messages import MESSAGE_CHECKS
from .sends import SEND_CHECKS

ALL_CHECKS: Final[Mapping[str, Check]] = {
    check.name: check for check in (*SEND_CHECKS, *MESSAGE_CHECKS, *HISTORY_CHECKS, *CHAIN_CHECKS)
}
ALL_MEASURES: Final[Mapping[str, Measure]] = {measure.name: measure for measure in MEASURES}


class UnknownCheck(Exception):
    """There is no check of that name."""


def pick_checks(names: Sequence[str] | None) -> tuple[Check, ...]:
    """Checks by name; None picks those that are on by default.

    Raises:
        UnknownCheck: there is none of a name.
    """
    if names is None:
        return tuple(check for check in ALL_CHECKS.values() if check.on)
    unknown = [name for name in names if name not in ALL_CHECKS]
    if unknown:
        raise UnknownCheck(f"there is no check {unknown[0]!r}; there are {', '.join(ALL_CHECKS)}")
    return tuple(ALL_CHECKS[name] for name in dict.fromkeys(names))
