"""The how-tos about Telegram: the program of the web hook starts as it is written, the names of the table exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import cast

import pytest

import shardline
from shardline import Context, Topology
from shardline.adapters import telegram
from tests.adapters.telegram.samples import TOKEN
from tests.kits.pages import ROOT, code_blocks, tables, with_pages

pytestmark = with_pages

HOOK = ROOT / "docs/how-to/telegram-webhook.md"
OTHERS = ROOT / "docs/how-to/telegram-from-other-libraries.md"
LEAST_NAMES = 7
"""So many names of ours the table of the other libraries has at least."""


def test_the_program_of_the_web_hook_starts_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[Topology, Sequence[object]]] = []

    def run(topology: Topology, *, store: str, adapters: Sequence[object]) -> None:
        assert store == "bot.db"
        started.append((topology, adapters))

    monkeypatch.setattr(shardline, "run", run)
    monkeypatch.setenv("HOOK_SECRET", "a-secret")
    monkeypatch.setenv("SHARDLINE_TELEGRAM_TOKEN", TOKEN)
    names: dict[str, object] = {}
    exec(compile(code_blocks(HOOK, "python")[0], str(HOOK), "exec"), names)  # noqa: S102 (a page of our own)
    cast("Callable[[], None]", names["main"])()

    [(topology, [adapter])] = started
    assert list(topology.freeze().handlers) == ["chat.message"]
    assert isinstance(adapter, telegram.Telegram)


def test_what_the_table_of_other_libraries_names_exists() -> None:
    [table] = tables(OTHERS)
    spans = [span for _, _, ours in table[1:] for span in re.findall(r"`([^`]+)`", ours)]
    called = {
        node.func.id
        for span in spans
        if re.match(r"[\w.]+\(", span)
        for node in ast.walk(ast.parse(span.replace("…", "...")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    methods = {name for span in spans for name in re.findall(r"\bctx\.(\w+)", span)}

    assert len(called) + len(methods) >= LEAST_NAMES
    for name in called:
        assert hasattr(telegram, name) or hasattr(shardline, name) or name == "Edit"
    for name in methods:
        assert hasattr(Context, name)
