"""An export at a real terminal tells how far it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command.test_terminals import at_terminal
from tests.kits.operated import make_store


def test_an_export_shows_how_far_it_is(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
    make_store(tmp_path / "bot.db")

    code, said = at_terminal("audit", "export", str(tmp_path / "bot.db"), "--to", str(tmp_path / "x"))

    assert code == 0, said
    assert "Traceback" not in said
    assert re.search(r"(\d+)/\1 ", said)
