"""Settings of a program: argument, else environment, else file, else default; what is not allowed is named."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from shardline.actors.errors import BusError, Code
from shardline.runtime.defaults import GRACE_S
from shardline.runtime.settings import SETTINGS, Value, load_settings
from tests.kits.operated import operate
from tests.kits.pages import ROOT, tables, with_pages


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "bot.toml"
    path.write_text('grace_s = 5\nmax_inflight = 7\ndurability = "normal"\n')
    return path


def test_each_layer_goes_before_the_next(config: Path) -> None:
    found = load_settings(
        {"grace_s": 1.5, "max_inflight": None},
        {"SHARDLINE_GRACE_S": "2", "SHARDLINE_MAX_INFLIGHT": "9", "SHARDLINE_CONFIG": str(config)},
    )

    assert {name: (one.value, one.source) for name, one in found.items()} == {
        "durability": ("normal", str(config)),
        "shard_count": (16, "default"),
        "max_inflight": (9, "SHARDLINE_MAX_INFLIGHT"),
        "max_lane_backlog": (10_000, "default"),
        "max_backlog": (1_000_000, "default"),
        "grace_s": (1.5, "argument"),
    }


def test_an_empty_variable_is_none_and_an_argument_names_the_file_first(tmp_path: Path, config: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("grace_s = 0.5\n")
    environ = {"SHARDLINE_GRACE_S": "", "SHARDLINE_CONFIG": str(config)}

    assert load_settings({}, environ)["grace_s"].value == 5.0
    assert load_settings({}, environ, config=other)["grace_s"].value == 0.5
    assert load_settings({}, {"SHARDLINE_CONFIG": ""})["grace_s"].value == GRACE_S


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("grace_s", "soon"),
        ("grace_s", "-1"),
        ("grace_s", "nan"),
        ("grace_s", "inf"),
        ("grace_s", "1e3"),
        ("grace_s", "86401"),
        ("grace_s", " 5"),
        ("grace_s", "\udcff"),
        ("max_inflight", "0"),
        ("max_inflight", "1.5"),
        ("max_inflight", "٣"),
        ("max_inflight", "9" * 5_000),
        ("shard_count", "1025"),
        ("durability", "FULL"),
    ],
)
def test_what_a_variable_may_not_be_is_named_with_what_it_may(name: str, text: str) -> None:
    with pytest.raises(BusError) as refused:
        load_settings({}, {f"SHARDLINE_{name.upper()}": text})

    error = refused.value
    assert error.code is Code.INVALID_MESSAGE
    assert error.context == {"setting": name, "source": f"SHARDLINE_{name.upper()}"}
    (setting,) = (setting for setting in SETTINGS if setting.name == name)
    assert f"SHARDLINE_{name.upper()}" in error.message
    assert setting.allowed in error.message
    assert len(error.message) < 300


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "5"])
def test_an_argument_is_checked_too(value: Value) -> None:
    with pytest.raises(BusError, match="the setting grace_s is"):
        load_settings({"grace_s": value}, {})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b"grace = 5",
            "unknown setting 'grace'; there are: durability, shard_count, max_inflight, max_lane_backlog, max_backlog,"
            " grace_s",
        ),
        (b"grace_s = '5'", "grace_s"),
        (b"grace_s = nan", "grace_s"),
        (b"grace_s = true", "grace_s"),
        (b"max_inflight = 1.0", "max_inflight"),
        (b"[grace_s]", "grace_s"),
        (b"grace_s = 1\ngrace_s = 2", "cannot be read"),
        (b"grace_s = ", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"\0", "cannot be read"),
        (b"a = " + b"[" * 20_000, "cannot be read"),
        (b"#" * 1_100_000, "more than"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_none_is_one_typed_error(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "bot.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BusError) as refused:
        load_settings({}, {}, config=path)

    assert refused.value.code is Code.INVALID_MESSAGE
    assert words in refused.value.message
    assert str(path) in refused.value.message


def test_the_command_shows_what_holds_and_where_it_comes_from(config: Path) -> None:
    ended = operate("settings", "--config", config, "--json", env={"SHARDLINE_GRACE_S": "2.5"})

    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {one["name"]: (one["value"], one["source"]) for one in found} == {
        "durability": ("normal", str(config)),
        "shard_count": (16, "default"),
        "max_inflight": (7, str(config)),
        "max_lane_backlog": (10_000, "default"),
        "max_backlog": (1_000_000, "default"),
        "grace_s": (2.5, "SHARDLINE_GRACE_S"),
    }
    assert "SHARDLINE_GRACE_S" in operate("settings", env={"SHARDLINE_GRACE_S": "2.5"}).stdout


@pytest.mark.parametrize("how", ["settings", "run", "script"])
def test_a_bad_one_ends_a_program_with_2_and_touches_nothing(tmp_path: Path, how: str) -> None:
    bot = (
        "from shardline import Topology, run\nfrom shardline.testing import FakeChannel\n"
        "topology = Topology()\nadapters = [FakeChannel()]\n"
        '@topology.on("chat.message")\nasync def answer(ctx, message): ...\n'
        'if __name__ == "__main__": run(topology, store="bot.db", adapters=adapters)\n'
    )
    (tmp_path / "bot.py").write_text(bot)
    command = {
        "settings": ["-m", "shardline", "settings"],
        "run": ["-m", "shardline", "run", "bot", "--store", "bot.db"],
        "script": ["bot.py"],
    }[how]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path, env={"SHARDLINE_GRACE_S": "never"}, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "shardline: the setting grace_s (SHARDLINE_GRACE_S) is 'never';"
        " it must be a number of seconds, 0 to 86,400\n"
    )
    assert not (tmp_path / "bot.db").exists()


@with_pages
def test_every_setting_is_on_the_page() -> None:
    (table,) = (found for found in tables(ROOT / "docs/reference/defaults.md") if found[0][0] == "setting")

    assert table[1:] == [[f"`{one.name}`", f"`{one.variable}`", one.allowed] for one in SETTINGS]
