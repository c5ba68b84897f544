"""All checks and measures, by name; also those that other distributions offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from ..tables import TABLES
from .base import Check, Measure
from .chain import CHAIN_CHECKS
from .history import HISTORY_CHECKS
from .logs import LOG_CHECKS
from .measures import MEASURES
from .messages import MESSAGE_CHECKS
from .sends import SEND_CHECKS

GROUP: Final = "shardline.audit_checks"
"""The entry-point group of checks that other distributions offer."""

ALL_CHECKS: Final[Mapping[str, Check]] = {
    check.name: check
    for check in (*SEND_CHECKS, *MESSAGE_CHECKS, *LOG_CHECKS, *HISTORY_CHECKS, *CHAIN_CHECKS)
}
ALL_MEASURES: Final[Mapping[str, Measure]] = {measure.name: measure for measure in MEASURES}


class UnknownCheck(Exception):
    """There is no check of that name, or one that another distribution offers cannot be used."""


def known_checks() -> dict[str, Check]:
    """All checks: those of this package, then those of others, which are imported.

    A distribution offers one by an entry point of the group `GROUP`: a `Check`, or several in a tuple or list.

    Raises:
        UnknownCheck: one cannot be imported, is no `Check`, or has the name of another one.
    """
    found = dict(ALL_CHECKS)
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        for check in _load(point):
            if check.name in found:
                raise UnknownCheck(f"{point.value} offers a check {check.name!r}, which there is already")
            if not set(check.tables) <= TABLES.keys():
                raise UnknownCheck(
                    f"the check {check.name!r} of {point.value} reads tables that no export has"
                )
            found[check.name] = check
    return found


def pick_checks(names: Sequence[str] | None, known: Mapping[str, Check] = ALL_CHECKS) -> tuple[Check, ...]:
    """Checks by name; None picks those that are on by default.

    Raises:
        UnknownCheck: there is none of a name.
    """
    if names is None:
        return tuple(check for check in known.values() if check.on)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UnknownCheck(f"there is no check {unknown[0]!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(names))


def _load(point: EntryPoint) -> tuple[Check, ...]:
    try:
        loaded = cast("object", point.load())
    except Exception as error:
        raise UnknownCheck(
            f"the checks of {point.value} cannot be imported, {type(error).__name__}: {error}"
        ) from error
    many = cast("Sequence[object]", loaded) if isinstance(loaded, tuple | list) else (loaded,)
    checks = tuple(check for check in many if isinstance(check, Check))
    if len(checks) != len(many):
        raise UnknownCheck(f"{point.value} is no Check, nor a tuple or list of them")
    return checks
