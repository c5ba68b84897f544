"""The settings of a program that runs a bot, and where each comes from: argument, else environment, else file.

A library that opens a `Runtime` itself passes arguments; nothing in its environment changes them.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from ..actors.errors import BusError, Code
from ..actors.names import shown
from .defaults import (
    DEDUPE_HORIZON_S,
    GRACE_S,
    HISTORY_S,
    MAX_BACKLOG,
    MAX_INFLIGHT,
    MAX_LANE_BACKLOG,
    RETENTION_S,
    SHARD_COUNT,
)

PREFIX: Final = "SHARDLINE_"
CONFIG: Final = "SHARDLINE_CONFIG"
"""The environment variable that names the file."""

METRICS_TOKEN: Final = "SHARDLINE_METRICS_TOKEN"  # noqa: S105 (its name)
"""The environment variable that holds the token of the metrics; never in a file, never shown."""

_MAX_FILE_BYTES: Final = 1 << 20
_INTEGER: Final = re.compile(r"[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?")

Value = int | float | str


@attrs.frozen
class Setting:
    """One setting.

    Attributes:
        lowest, highest: What a number may be.
        choices: What a word may be; empty for a number.
    """

    name: str
    default: Value
    lowest: float = 0
    highest: float = math.inf
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return PREFIX + self.name.upper()

    @property
    def allowed(self) -> str:
        """What it may be, for people."""
        if self.choices:
            return " or ".join(self.choices)
        kind = "an integer" if isinstance(self.default, int) else "a number of seconds"
        return f"{kind}, {self.lowest:,.10g} to {self.highest:,.10g}"


SETTINGS: Final = (
    Setting("durability", "full", choices=("full", "normal")),
    Setting("shard_count", SHARD_COUNT, 1, 1_024),
    Setting("max_inflight", MAX_INFLIGHT, 1, 1_000_000),
    Setting("max_lane_backlog", MAX_LANE_BACKLOG, 1, 1_000_000_000),
    Setting("max_backlog", MAX_BACKLOG, 1, 1_000_000_000),
    Setting("grace_s", GRACE_S, 0, 86_400),
    Setting("metrics_port", 0, 0, 65_535),
    Setting("metrics_access", "token", choices=("token", "open")),
    Setting("retention_s", RETENTION_S, 1, 9_999_999_999),
    Setting("dedupe_horizon_s", DEDUPE_HORIZON_S, 1, 9_999_999_999),
    Setting("history_s", HISTORY_S, 1, 9_999_999_999),
    Setting("unsafe_filesystem", "refuse", choices=("refuse", "allow")),
)
"""All of them."""


@attrs.frozen
class Effective:
    """A setting as it holds; `source` is `argument`, the name of a variable or of a file, or `default`."""

    setting: Setting
    value: Value
    source: str


def load_settings(
    arguments: Mapping[str, Value | None], environ: Mapping[str, str], *, config: Path | None = None
) -> dict[str, Effective]:
    """Decide every setting.

    Args:
        arguments: By name; None was not given.
        environ: The environment.
        config: A TOML file with settings by name; None takes what `SHARDLINE_CONFIG` names, if it is there.
    Returns:
        All of `SETTINGS`, by name, in their order.
    Raises:
        BusError: INVALID_MESSAGE: a value that is not allowed, a name in the file that is no setting, or a file that
            cannot be read. It names the setting, where it came from, and what is allowed.
    """
    path = config or (Path(environ[CONFIG]) if environ.get(CONFIG) else None)
    stored = {} if path is None else _read_file(path)
    found: dict[str, Effective] = {}
    for setting in SETTINGS:
        given = arguments.get(setting.name)
        if given is not None:
            found[setting.name] = Effective(setting, _checked(setting, given, "argument"), "argument")
        elif environ.get(setting.variable):
            text = environ[setting.variable]
            found[setting.name] = Effective(setting, _parsed(setting, text), setting.variable)
        elif setting.name in stored:
            found[setting.name] = Effective(
                setting, _checked(setting, stored[setting.name], str(path)), str(path)
            )
        else:
            found[setting.name] = Effective(setting, setting.default, "default")
    return found


def _read_file(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise _unreadable(path, f"it has more than {_MAX_FILE_BYTES} bytes")
        stored: dict[str, object] = tomllib.loads(data.decode())
    except (OSError, ValueError, RecursionError) as error:
        # Not UTF-8, not TOML; a path with a NUL or a lone surrogate is a ValueError too.
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise _unreadable(path, why or type(error).__name__) from error
    known = [setting.name for setting in SETTINGS]
    for name in stored:
        if name not in known:
            raise BusError(
                Code.INVALID_MESSAGE,
                f"{path} has the unknown setting {shown(name)}; there are: {', '.join(known)}",
                setting=name,
                source=str(path),
            )
    return stored


def _unreadable(path: Path, why: str) -> BusError:
    where = str(path)[:200]
    return BusError(Code.INVALID_MESSAGE, f"the settings file {where} cannot be read: {why}", source=where)


def _parsed(setting: Setting, text: str) -> Value:
    """A value of the environment, which has texts alone."""
    if setting.choices:
        return _checked(setting, text, setting.variable)
    pattern = _INTEGER if isinstance(setting.default, int) else _NUMBER
    if pattern.fullmatch(text) is None:
        raise _refused(setting, text, setting.variable)
    number: Value = int(text) if isinstance(setting.default, int) else float(text)
    return _checked(setting, number, setting.variable)


def _checked(setting: Setting, value: object, source: str) -> Value:
    if setting.choices:
        if isinstance(value, str) and value in setting.choices:
            return value
        raise _refused(setting, value, source)
    wanted = int if isinstance(setting.default, int) else int | float
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise _refused(setting, value, source)
    # NaN fails the comparison.
    if not setting.lowest <= value <= setting.highest:
        raise _refused(setting, value, source)
    return value if isinstance(setting.default, int) else float(value)


def _refused(setting: Setting, value: object, source: str) -> BusError:
    where = setting.name if source == "argument" else f"{setting.name} ({source})"
    return BusError(
        Code.INVALID_MESSAGE,
        f"the setting {where} is {shown(value)}; it must be {setting.allowed}",
        setting=setting.name,
        source=source,
    )


__all__ = ["CONFIG", "METRICS_TOKEN", "SETTINGS", "Effective", "Setting", "Value", "load_settings"]
