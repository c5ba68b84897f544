"""`shardline status --health`, in words: an owner that has said nothing yet is not one that has fallen silent."""

from __future__ import annotations

import pytest

from shardline.runtime.command.health import show_health


def test_an_owner_that_has_said_nothing_may_be_starting(capsys: pytest.CaptureFixture[str]) -> None:
    show_health(None, 0)

    assert "health  stale" in capsys.readouterr().out.replace("\x1b[31m", "").replace("\x1b[0m", "")
    show_health(None, 0)
    assert "has said nothing yet, it may still be starting: `shardline status`" in capsys.readouterr().out
