"""Plug-ins by entry point: found without an import, loaded by name, refused with a code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from shardline.actors.errors import BusError, Code
from shardline.plugins import KnownAdapter, known_adapters, load_adapter, settings_of
from shardline.testing import FakeChannel
from tests.kits.words import refused

GOOD = """
from shardline.testing import FakeChannel

def make(settings):
    return FakeChannel(name=settings.get("as", "good"))
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    monkeypatch.syspath_prepend(  # pyright: ignore[reportUnknownMemberType]
        str(tmp_path)
    )
    return tmp_path


def install(site: Path, distribution: str, code: str, *entries: str, module: str | None = None) -> str:
    """Put a package there as an installer would; returns the name of its module."""
    module = module or f"plugin_{distribution.replace('-', '_')}"
    (site / f"{module}.py").write_text(code)
    sys.modules.pop(module, None)
    info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = "".join(f"{entry}\n" for entry in entries).replace("MODULE", module)
    (info / "entry_points.txt").write_text(f"[shardline.adapters]\n{lines}")
    return module


def test_an_adapter_is_made_from_its_settings(site: Path) -> None:
    install(site, "good-one", GOOD, "good = MODULE:make")
    adapter = load_adapter("good", {"as": "telegram"})

    assert isinstance(adapter, FakeChannel)
    assert adapter.prefix == "tg"


def test_what_is_not_named_is_not_imported(site: Path) -> None:
    good = install(site, "good-one", GOOD, "good = MODULE:make")
    bad = install(site, "bad-one", "raise SystemExit(7)", "bad = MODULE:make")
    mine = {known for known in known_adapters() if known.name in {"good", "bad"}}
    load_adapter("good", {})

    assert mine == {
        KnownAdapter("bad", "bad-one 1.0", f"{bad}:make"),
        KnownAdapter("good", "good-one 1.0", f"{good}:make"),
    }
    assert good in sys.modules
    assert bad not in sys.modules


def test_known_adapters_are_sorted(site: Path) -> None:
    install(site, "one", GOOD, "zulu = MODULE:make", "alpha = MODULE:make")
    names = [known.name for known in known_adapters()]

    assert {"alpha", "zulu"} <= set(names)
    assert names == sorted(names)


def test_a_settings_map_belongs_to_its_adapter(site: Path) -> None:
    code = GOOD.replace("return", "settings.clear()\n    return")
    install(site, "good-one", code, "good = MODULE:make")
    settings = {"as": "slack"}
    load_adapter("good", settings)

    assert settings == {"as": "slack"}


@pytest.mark.parametrize("name", ["nobody", "", "good ", "../good", "\x1b[31m"])
def test_an_unknown_name_is_refused_with_those_that_are_known(site: Path, name: str) -> None:
    install(site, "good-one", GOOD, "good = MODULE:make")

    with refused(Code.UNKNOWN_ADAPTER, "known: good"):
        load_adapter(name, {})


def test_a_refused_name_is_shown_escaped(site: Path) -> None:
    with pytest.raises(BusError) as caught:
        load_adapter("\x1b[31m", {})

    assert "\x1b" not in caught.value.message


def test_two_distributions_of_one_name_are_refused_with_both(site: Path) -> None:
    install(site, "good-one", GOOD, "good = MODULE:make")
    install(site, "good-two", GOOD, "good = MODULE:make")
    with pytest.raises(BusError) as caught:
        load_adapter("good", {})

    assert caught.value.code is Code.UNKNOWN_ADAPTER
    assert "good-one 1.0 and good-two 1.0" in caught.value.message


@pytest.mark.parametrize(
    ("code", "target", "words"),
    [
        ("import no_such_module_anywhere", "make", "cannot be imported (ModuleNotFoundError)"),
        ("def make(:", "make", "cannot be imported (SyntaxError)"),
        ("1 / 0", "make", "cannot be imported (ZeroDivisionError)"),
        (GOOD, "other", "cannot be imported (AttributeError)"),
        ("make = 5", "make", "is int, nothing to call"),
        ("def make(settings): return settings", "make", "makes dict, no adapter"),
        ("async def make(settings): ...", "make", "makes coroutine, no adapter"),
        ("def make(settings): return settings['token']", "make", "fails with KeyError"),
        (
            "from shardline.adapters.base import ChannelCaps\n"
            "class make:\n"
            "    name, prefix, caps = 'a', 'a', ChannelCaps(reconciles=True)\n"
            "    def __init__(self, settings): ...\n"
            "    async def run(self, edge, *, task_status=None): ...\n"
            "    async def send(self, out): ...\n",
            "make",
            "has no method reconcile",
        ),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_refused_with_whose_it_is(
    site: Path, code: str, target: str, words: str
) -> None:
    install(site, "bad-one", code, f"bad = MODULE:{target}")
    with pytest.raises(BusError) as caught:
        load_adapter("bad", {"secret": "s3cr3t"})

    assert caught.value.code is Code.UNKNOWN_ADAPTER
    assert words in caught.value.message
    assert "bad-one 1.0" in caught.value.message
    assert "s3cr3t" not in f"{caught.value.message} {caught.value.context}"


def test_a_refusal_of_its_settings_passes_through(site: Path) -> None:
    code = (
        "from shardline import BusError, Code\n"
        "def make(settings):\n    raise BusError(Code.BAD_TOKEN, 'no token', setting='token')\n"
    )
    install(site, "strict-one", code, "strict = MODULE:make")
    with pytest.raises(BusError) as caught:
        load_adapter("strict", {})

    assert caught.value.code is Code.BAD_TOKEN
    assert caught.value.context == {"setting": "token"}


@pytest.mark.parametrize(
    ("name", "environ", "settings"),
    [
        (
            "lines",
            {"SHARDLINE_LINES_SOURCE": "a", "SHARDLINE_LINES_SEND_TO": "b"},
            {"source": "a", "send_to": "b"},
        ),
        ("lines", {"SHARDLINE_LINE_SOURCE": "a", "LINES_SOURCE": "b", "shardline_lines_source": "c"}, {}),
        ("lines", {"SHARDLINE_LINES_": "a", "SHARDLINE_LINES": "b"}, {}),
        ("lines", {"SHARDLINE_LINES_TOKEN": ""}, {"token": ""}),
        ("my.own-lines", {"SHARDLINE_MY_OWN_LINES_SOURCE": "a"}, {"source": "a"}),
        # Nothing tells a longer name from a longer setting.
        ("lines", {"SHARDLINE_LINES_TWO_SOURCE": "a"}, {"two_source": "a"}),
    ],
)
def test_settings_come_from_the_environment(
    name: str, environ: Mapping[str, str], settings: Mapping[str, str]
) -> None:
    assert settings_of(name, environ) == settings
