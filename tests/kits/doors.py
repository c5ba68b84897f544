"""Hostile values, and what a public verb may do with them: work, or refuse with a BusError that says why."""

# What is handed over here has no types: that is the point.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import attrs

from shardline import BusError
from tests.kits.bad_input import LONE, deep


class OwnText(str):
    """A text of somebody's own class."""

    __slots__ = ()


class Mute:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise ValueError("no words")


def _one() -> int:
    return 1


HOSTILE: Final[Mapping[str, Callable[[], object]]] = {
    "None": lambda: None,
    "5": lambda: 5,
    "-1": lambda: -1,
    "0": lambda: 0,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "1e300": lambda: 1e300,
    "10**400": lambda: 10**400,
    "-10**400": lambda: -(10**400),
    "5,001 digits": lambda: 10**5_000,
    "2**63": lambda: 2**63,
    "bytes": lambda: b"x",
    "no text": lambda: "",
    "blank": lambda: " ",
    "surrogate": lambda: LONE,
    "key of a surrogate": lambda: f"fake:{LONE}",
    "NUL": lambda: "\0",
    "long": lambda: "x" * 1_000_000,
    "a text": lambda: "x",
    "another alphabet": lambda: "\u00b2\u0663:\u0663\u0663",
    "own text": lambda: OwnText("x"),
    "list": list,
    "list of 1": lambda: [1],
    "map": dict,
    "map of 1": lambda: {1: 2},
    "map of a surrogate": lambda: {LONE: LONE},
    "set": lambda: {1},
    "tuple": lambda: (1,),
    "object": object,
    "mute object": Mute,
    "deep": lambda: deep(5_000),
    "True": lambda: True,
    "naive time": lambda: datetime(2026, 1, 1),  # noqa: DTZ001 (that is the point)
    "time of year 1": lambda: datetime(1, 1, 1, tzinfo=UTC),
    "class": lambda: Mute,
    "function": lambda: _one,
}
"""By name; made anew for each call."""


@attrs.frozen
class Door:
    """A public verb.

    Attributes:
        call: It, with every argument by name.
        good: Arguments that it takes.
        also: Names of arguments that it can do without.
    """

    call: Callable[..., object]
    good: Mapping[str, object] = attrs.field(factory=dict[str, object])
    also: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """All that are tried."""
        return (*self.good, *(name for name in self.also if name not in self.good))


async def knock(door: Door, argument: str, value: object) -> str | None:
    """Try one value for one argument; None where the door keeps the rule, else what it did instead."""
    try:
        done = door.call(**{**door.good, argument: value})
        if inspect.isawaitable(done):
            await done
    except BusError as error:
        return _fault_in(error)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


async def faults_of(door: Door) -> list[str]:
    """What a door did wrong, for every argument and value."""
    faults: list[str] = []
    for argument in door.arguments:
        for name, make in HOSTILE.items():
            fault = await knock(door, argument, make())
            if fault is not None:
                faults.append(f"{argument}={name}: {fault}")
    return faults


def public_verbs(kind: type) -> set[str]:
    """The public methods of a class: what somebody else may call."""
    return {
        name
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and callable(member) and not isinstance(member, type)
    }


def _fault_in(error: BusError) -> str | None:
    """A refusal has words that a terminal, a log and a row can hold."""
    try:
        words = str(error).encode()
    except UnicodeEncodeError:
        return f"{error.code} with words that cannot be written"
    if not error.message.strip():
        return f"{error.code} without a word"
    return f"{error.code} with {len(words)} bytes of words" if len(words) > 1_000 else None
