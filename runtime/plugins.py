"""Channel plug-ins: found by name among the installed distributions, loaded only when named.

A distribution offers one by an entry point of the group `shardline.adapters`: a name, and a callable that is given the
settings and returns the adapter. Nothing is imported for a list of names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from ..actors.errors import BusError, Code
from ..actors.names import shown
from .argument_checks import check_kind, check_words
from .channel import Adapter

GROUP: Final = "shardline.adapters"
"""The entry-point group."""

_NO_LETTER = re.compile(r"[^A-Z0-9]")
_SETTING = re.compile(r"[A-Z0-9][A-Z0-9_]*")


def known_adapters() -> tuple[str, ...]:
    """The names under which adapters are installed, sorted; none is loaded."""
    return tuple(sorted(entry_points(group=GROUP).names))


def settings_of(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of one adapter in an environment: `SHARDLINE_<NAME>_<SETTING>`.

    Args:
        name: Of the adapter; in the variables in capitals, with `_` for every character that is no letter or digit.
        environ: The environment.
    Raises:
        BusError: INVALID_MESSAGE.
    Returns:
        Settings by name, in small letters. Settings of an adapter whose name begins with this one's and `_` cannot be
        told apart, and are among them.

    >>> environ = {"SHARDLINE_LINES_POLL_S": "0.5", "SHARDLINE_STORE": "bot.db", "HOME": "/"}
    >>> settings_of("lines", environ)
    {'poll_s': '0.5'}
    """
    check_words(name, "name")
    check_kind(environ, Mapping, "environ", "a map of texts")
    prefix = variable_of(name, "")
    return {
        variable.removeprefix(prefix).lower(): value
        for variable, value in environ.items()
        if _is_text(variable)
        and variable.startswith(prefix)
        and _SETTING.fullmatch(variable.removeprefix(prefix))
    }


def variable_of(name: str, setting: str) -> str:
    """The environment variable of one setting.

    >>> variable_of("my-lines", "poll_s")
    'SHARDLINE_MY_LINES_POLL_S'
    """
    return f"SHARDLINE_{_NO_LETTER.sub('_', name.upper())}_{setting.upper()}"


def load_adapter(name: str, settings: Mapping[str, str]) -> Adapter:
    """Import the one plug-in of this name and make its adapter. No other plug-in is imported.

    Args:
        name: Of the entry point.
        settings: Handed to it as they are.
    Raises:
        BusError: INVALID_MESSAGE; UNKNOWN_ADAPTER, none of this name is installed, or two are; it cannot be imported;
            it raised, or made no adapter. What the plug-in refuses with a BusError of its own comes out as it is.
    """
    check_words(name, "name")
    check_kind(settings, Mapping, "settings", "a map of texts")
    point = _find(name)
    make = _load(point)
    if not callable(make):
        raise _unusable(point, f"{point.value} is no callable that takes the settings")
    try:
        made: object = make(settings)
    except BusError:
        raise
    except KeyError as error:
        setting = error.args[0] if error.args else None
        if not isinstance(setting, str) or setting in settings:
            raise _unusable(point, "it raised KeyError when it was given its settings") from error
        raise _unusable(
            point, f"it needs the setting {setting}: set {variable_of(name, setting)}", setting=setting
        ) from error
    except Exception as error:
        # Without the exception's text: a setting may be a secret, and its text may repeat it.
        raise _unusable(
            point,
            f"it raised {type(error).__name__} when it was given its settings: see the traceback, correct them",
            error_type=type(error).__name__,
        ) from error
    if isinstance(made, type) or not isinstance(made, Adapter):
        kind = f"the class {made.__name__}" if isinstance(made, type) else f"a {type(made).__name__}"
        raise _unusable(
            point,
            f"{point.value} returned {kind}, which is no adapter: it needs name, prefix, caps, run and send",
        )
    return made


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _find(name: str) -> EntryPoint:
    found = list(entry_points(group=GROUP, name=name))
    if not found:
        known = ", ".join(known_adapters())
        raise BusError(
            Code.UNKNOWN_ADAPTER,
            f"no adapter {shown(name)} is installed; there is {known}"
            if known
            else f"no adapter {shown(name)} is installed, nor any other: install the distribution that offers it",
            adapter=name,
            known=known_adapters(),
        )
    if len(found) > 1:
        offers = ", ".join(sorted(f"{_distribution(point)} ({point.value})" for point in found))
        raise BusError(
            Code.UNKNOWN_ADAPTER,
            f"the adapter {shown(name)} is offered more than once, by {offers}: uninstall all but one",
            adapter=name,
        )
    return found[0]


def _load(point: EntryPoint) -> object:
    try:
        return cast("object", point.load())
    except Exception as error:
        kind = type(error).__name__
        raise _unusable(
            point,
            f"{point.value} cannot be imported, {kind}: {error}; install what is missing, or another release of it",
            error_type=kind,
        ) from error


def _unusable(point: EntryPoint, why: str, **context: object) -> BusError:
    return BusError(
        Code.UNKNOWN_ADAPTER,
        f"the adapter {point.name} of {_distribution(point)} cannot be used: {why}",
        adapter=point.name,
        distribution=_distribution(point),
        **context,
    )


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown distribution"


__all__ = ["GROUP", "known_adapters", "load_adapter", "settings_of", "variable_of"]
