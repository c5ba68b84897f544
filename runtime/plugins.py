"""Adapters of other packages: found by their entry point, loaded only when one is named."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

import attrs

from ..actors.errors import BusError, Code
from ..actors.names import shown
from .channel import Adapter, Reconciles

GROUP: Final = "shardline.adapters"
"""The entry-point group; each entry is a callable that takes the settings and returns an adapter."""

_NO_WORD = re.compile(r"[^A-Z0-9]")


@attrs.frozen
class KnownAdapter:
    """An adapter that a distribution offers; nothing of it has been imported.

    Attributes:
        name: What it is loaded by.
        distribution: Who brings it, with its version: `lines-plugin 1.0`.
        target: What would be loaded: `lines_plugin:Lines.from_settings`.
    """

    name: str
    distribution: str
    target: str


def known_adapters() -> tuple[KnownAdapter, ...]:
    """What is installed, by name; reads metadata and imports nothing."""
    return tuple(sorted((_known(entry) for entry in entry_points(group=GROUP)), key=attrs.astuple))


def settings_of(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of one adapter: each `SHARDLINE_<NAME>_<SETTING>` is `setting`, in lower case.

    Args:
        name: The adapter's; in the variable it is in upper case, and what is no letter or digit is `_`.
        environ: Usually `os.environ`.

    >>> settings_of("my-lines", {"SHARDLINE_MY_LINES_SOURCE": "in.txt", "SHARDLINE_GRACE_S": "5"})
    {'source': 'in.txt'}
    """
    prefix = f"SHARDLINE_{_NO_WORD.sub('_', name.upper())}_"
    return {
        variable.removeprefix(prefix).lower(): value
        for variable, value in environ.items()
        if variable.startswith(prefix) and variable != prefix
    }


def load_adapter(name: str, settings: Mapping[str, str]) -> Adapter:
    """Import the adapter of this name, and no other, and make it.

    Args:
        name: That of its entry point in the group `shardline.adapters`.
        settings: Given to it as they are; see `settings_of`.
    Raises:
        BusError: UNKNOWN_ADAPTER: nobody or more than one distribution offers the name, it cannot be imported, or
            what it makes is no adapter. What the adapter says of its settings passes through.
    """
    entry = _entry(name)
    origin = _known(entry).distribution
    make = _imported(entry, origin)
    try:
        made = make(dict(settings))
    except BusError:
        raise
    except Exception as error:
        raise _unusable(
            entry,
            origin,
            f"fails with {type(error).__name__} as it is made: check its settings, then report it to its authors",
        ) from error
    if inspect.iscoroutine(made):
        made.close()
    if not isinstance(made, Adapter):
        raise _unusable(
            entry,
            origin,
            f"makes {type(made).__name__}, no adapter: it needs name, prefix, caps, run and send",
        )
    if made.caps.reconciles and not isinstance(made, Reconciles):
        raise _unusable(entry, origin, "declares reconciles=True and has no method reconcile")
    return made


def _entry(name: str) -> EntryPoint:
    found = sorted(entry_points(group=GROUP, name=name), key=lambda entry: attrs.astuple(_known(entry)))
    if not found:
        known = sorted({known.name for known in known_adapters()})
        raise BusError(
            Code.UNKNOWN_ADAPTER,
            f"no adapter {shown(name)} is installed; known: {', '.join(known) or 'none'}",
            adapter=name,
            known=known,
        )
    if len(found) > 1:
        origins = [_known(entry).distribution for entry in found]
        raise BusError(
            Code.UNKNOWN_ADAPTER,
            f"{' and '.join(origins)} both offer an adapter {name}; remove all but one of them",
            adapter=name,
            distributions=origins,
        )
    return found[0]


def _imported(entry: EntryPoint, origin: str) -> Callable[[Mapping[str, str]], object]:
    try:
        loaded = cast("object", entry.load())
    except Exception as error:
        raise _unusable(
            entry,
            origin,
            f"cannot be imported ({type(error).__name__}): install what it needs, or a release of it that fits",
        ) from error
    if not callable(loaded):
        raise _unusable(
            entry, origin, f"is {type(loaded).__name__}, nothing to call: report it to its authors"
        )
    return loaded


def _known(entry: EntryPoint) -> KnownAdapter:
    origin = "a package without metadata" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    return KnownAdapter(entry.name, origin, entry.value)


def _unusable(entry: EntryPoint, origin: str, why: str) -> BusError:
    return BusError(
        Code.UNKNOWN_ADAPTER,
        f"adapter {entry.name} ({entry.value}, from {origin}) {why}",
        adapter=entry.name,
        distribution=origin,
    )


__all__ = ["GROUP", "KnownAdapter", "known_adapters", "load_adapter", "settings_of"]
