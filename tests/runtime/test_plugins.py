"""Plug-ins as they are installed: metadata in a folder that Python searches, modules beside it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shardline.actors.errors import BusError, Code
from shardline.plugins import known_adapters, load_adapter, settings_of
from shardline.runtime.channel import Adapter

Install = Callable[..., None]

MODULE = """
from collections.abc import Mapping
from shardline.actors.errors import BusError, Code
from shardline.adapters.base import ChannelCaps, Sent

class Good:
    name, prefix, caps = "good", "good", ChannelCaps()
    def __init__(self, settings):
        self.settings = settings
    async def run(self, edge, *, task_status): ...
    async def send(self, out):
        return Sent(None)

class Half:
    name, prefix, caps = "half", "half", ChannelCaps()
    def __init__(self, settings): ...

def the_class(settings):
    return Good

def needs_a_path(settings):
    return Good(settings["path"])

def stumbles_over_its_own(settings):
    return {}["path"]

def repeats_a_secret(settings):
    return int(settings["token"])

def refuses(settings):
    raise BusError(Code.BAD_TOKEN, "the token is from last year")

constant = 3
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution with entry points, as pip would leave it."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def install(distribution: str, *points: str, **modules: str) -> None:
        for module, text in modules.items():
            (tmp_path / f"{module}.py").write_text(text)
            monkeypatch.delitem(sys.modules, module, raising=False)
        info = tmp_path / f"{distribution}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text("\n".join(["[shardline.adapters]", *points, ""]))
        importlib.invalidate_caches()

    return install


def refusal(name: str, **settings: str) -> BusError:
    with pytest.raises(BusError) as caught:
        load_adapter(name, settings)
    return caught.value


def test_an_adapter_is_made_of_its_settings(install: Install) -> None:
    install("good-plugin", "good = plug_good:Good", plug_good=MODULE)
    adapter = load_adapter("good", {"path": "x"})

    assert isinstance(adapter, Adapter)
    assert adapter.name == "good"
    assert vars(adapter) == {"settings": {"path": "x"}}


def test_names_are_listed_and_nothing_is_imported_that_is_not_named(install: Install) -> None:
    install("loud-plugin", "loud = plug_loud:make", "also.loud = plug_loud:make", plug_loud="1 / 0")
    install("good-plugin", "good = plug_good:Good", plug_good=MODULE)
    load_adapter("good", {})

    assert {"also.loud", "good", "loud"} <= set(known_adapters())
    assert list(known_adapters()) == sorted(known_adapters())
    assert "plug_good" in sys.modules
    assert "plug_loud" not in sys.modules


def test_a_name_that_is_not_there_is_refused_with_those_that_are(install: Install) -> None:
    install("good-plugin", "good = plug_good:Good", "better = plug_good:Good", plug_good=MODULE)
    error = refusal("goood")

    assert error.code is Code.UNKNOWN_ADAPTER
    assert "'goood'" in error.message
    assert ", ".join(known_adapters()) in error.message
    assert {"better", "good"} <= set(known_adapters())


def test_a_name_that_two_offer_is_refused_with_both(install: Install) -> None:
    install("one-plugin", "good = plug_good:Good", plug_good=MODULE)
    install("other-plugin", "good = plug_other:Good", plug_other="1 / 0")
    error = refusal("good")

    assert error.code is Code.UNKNOWN_ADAPTER
    assert "one-plugin 1.2 (plug_good:Good), other-plugin 1.2 (plug_other:Good)" in error.message
    assert "plug_good" not in sys.modules


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("import no_such_module_of_anybody", "ModuleNotFoundError: No module named"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def", "SyntaxError"),
        ("", "AttributeError"),
    ],
)
def test_what_cannot_be_imported_names_its_distribution(install: Install, module: str, words: str) -> None:
    install("sad-plugin", "sad = plug_sad:Sad", plug_sad=module)
    error = refusal("sad")

    assert error.code is Code.UNKNOWN_ADAPTER
    assert "sad-plugin 1.2" in error.message
    assert words in error.message
    assert error.__cause__ is not None


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("constant", "no callable"),
        ("Half", "a Half, which is no adapter"),
        ("the_class", "the class Good, which is no adapter"),
        ("needs_a_path", "needs the setting path: set SHARDLINE_MY_BAD_PATH"),
        ("stumbles_over_its_own", "raised KeyError"),
        ("repeats_a_secret", "raised ValueError"),
    ],
)
def test_what_makes_no_adapter_is_refused_and_no_secret_told(
    install: Install, target: str, words: str
) -> None:
    install("bad-plugin", f"my-bad = plug_bad:{target}", plug_bad=MODULE)
    settings = {"token": "s3cr3t"} | ({} if target == "needs_a_path" else {"path": "x"})
    error = refusal("my-bad", **settings)

    assert error.code is Code.UNKNOWN_ADAPTER
    assert "bad-plugin 1.2" in error.message
    assert words in error.message
    assert "s3cr3t" not in str(error) + str(error.context)


def test_a_refusal_of_the_plug_in_comes_out_as_it_is(install: Install) -> None:
    install("bad-plugin", "bad = plug_bad:refuses", plug_bad=MODULE)

    assert refusal("bad").code is Code.BAD_TOKEN
    assert refusal("bad").message == "the token is from last year"


@pytest.mark.parametrize(
    ("name", "variable", "setting"),
    [
        ("lines", "SHARDLINE_LINES_PATH", "path"),
        ("lines", "SHARDLINE_LINES_POLL_S", "poll_s"),
        ("my-lines.v2", "SHARDLINE_MY_LINES_V2_PATH", "path"),
        ("lines", "SHARDLINE_LINES_", None),
        ("lines", "SHARDLINE_LINES__PATH", None),
        ("lines", "SHARDLINE_LINES", None),
        ("lines", "SHARDLINE_STORE", None),
        ("lines", "shardline_lines_path", None),
        ("lines", "SHARDLINE_LINES_path", None),
        ("lines", "MY_SHARDLINE_LINES_PATH", None),
    ],
)
def test_settings_are_read_from_their_variables(name: str, variable: str, setting: str | None) -> None:
    wanted = {} if setting is None else {setting: " as it is "}

    assert settings_of(name, {variable: " as it is ", "OTHER": "1"}) == wanted
