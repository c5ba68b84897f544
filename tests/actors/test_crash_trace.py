"""A crash is told with the places it came through: bounded, without values, whatever draws the log."""

from __future__ import annotations

from typing import TextIO

import pytest
import structlog
from structlog.typing import ExcInfo
from trio.testing import MockClock

from shardline.actors.crash_trace import crash_trace
from tests.kits.stage import Boom, Stage, running, settle


def draw(_to: TextIO, _error: ExcInfo) -> None:
    pytest.fail("the log was given an exception to draw")


async def test_structlogs_own_renderer_draws_no_traceback_of_a_crash(autojump_clock: MockClock) -> None:
    """With rich installed it shows the values of local variables, and takes about a second for it."""
    stage, lines = Stage(), list[str]()
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=draw)

    def keep(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        lines.append(renderer(logger, method, {**event}))
        return event

    stage.log = structlog.wrap_logger(
        None,
        processors=[structlog.dev.set_exc_info, keep, stage.capture],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    supervisor = stage.supervisor(stage.child("a"))
    async with running(supervisor):
        stage.crash("a", Boom("said \x1b[2J"))
        await settle()

    [traced] = [line for line in lines if "actor.crash_traced" in line]
    assert f"{Stage.__module__}:" in traced
    assert "Boom: 'said \\x1b[2J'" in traced
    assert "\x1b" not in traced


def test_causes_and_members_are_told_and_all_of_it_is_bounded() -> None:
    def fall(depth: int) -> None:
        secret = "s3cret"
        if depth:
            fall(depth - 1)
        raise KeyError(len(secret))

    with pytest.raises(ExceptionGroup) as caught:
        try:
            fall(300)
        except KeyError as error:
            raise ExceptionGroup("both", [ValueError("x" * 9_000), OSError(2, "gone")]) from error
    told = crash_trace(caught.value)

    heads = [line for line in told.splitlines() if not line.startswith("  ")]
    assert [head.split(":")[0] for head in heads] == [
        "ExceptionGroup", "caused by KeyError", "member ValueError", "member FileNotFoundError"
    ]  # fmt: skip
    assert told.count(" in test_causes_and_members_are_told_and_all_of_it_is_bounded.<locals>.fall") == 24
    assert "s3cret" not in told
    assert len(told) < 5_000


def test_rings_crowds_and_errors_without_a_text_are_told() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    one, other = Mute(), ValueError("b")
    one.__cause__, other.__cause__ = other, one
    assert crash_trace(one) == "Mute: its text raised ValueError\ncaused by ValueError: 'b'"

    crowd = ExceptionGroup("all", [ValueError(str(number)) for number in range(1_000)])
    lines = crash_trace(crowd).splitlines()
    assert (len(lines), lines[-1]) == (17, "and more")
