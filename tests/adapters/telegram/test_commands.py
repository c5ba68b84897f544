"""Commands in texts: what begins with one, what does not, and to whom it is said."""

from __future__ import annotations

import pytest

from shardline.adapters.telegram import Command, command_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/start", Command("start")),
        ("/start ", Command("start")),
        ("/start \n\t", Command("start")),
        ("/START now", Command("start", "now")),
        ("/start  a  b ", Command("start", "a  b")),
        ("/start\nline 1\nline 2\n", Command("start", "line 1\nline 2")),
        ("/start\r\nline", Command("start", "line")),
        ("/start /stop", Command("start", "/stop")),
        ("/start @Ada_bot", Command("start", "@Ada_bot")),
        ("/start@Ada_bot", Command("start", bot="Ada_bot")),
        ("/start@Ada_bot now", Command("start", "now", "Ada_bot")),
        ("/start@Ada_bot\nnow", Command("start", "now", "Ada_bot")),
        ("/add_2 größer \U0001f600", Command("add_2", "größer \U0001f600")),
        ("/7", Command("7")),
        ("/" + "a" * 32, Command("a" * 32)),
        ("/a@" + "b" * 32, Command("a", bot="b" * 32)),
    ],
)
def test_a_command_is_read_with_its_bot_and_its_rest(text: str, expected: Command) -> None:
    assert command_in(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "//start",
        "/ start",
        " /start",
        "\n/start",
        "start",
        "and /start",
        "@Ada_bot /start",
        "/start!",
        "/start,now",
        "/start-now",
        "/größer",
        "/\u0661",
        "/start@",
        "/start@ Ada_bot",
        "/start@ab",
        "/start@Ada-bot",
        "/start@Ada_bot@Bo_bot",
        "/start@Ada_bot,now",
        "/" + "a" * 33,
        "/a@" + "b" * 33,
    ],
)
def test_what_begins_with_no_command_is_none(text: str) -> None:
    assert command_in(text) is None


@pytest.mark.parametrize(
    ("text", "is_mine"),
    [("/a", True), ("/a@Ada_bot", True), ("/a@ADA_BOT x", True), ("/a@Bo_bot", False), ("/a@Ada_bo", False)],
)
def test_a_command_in_a_group_may_be_for_another_bot(text: str, is_mine: bool) -> None:
    found = command_in(text)

    assert found is not None
    assert found.is_for("ada_bot") is is_mine


def test_a_long_text_is_read_in_one_go() -> None:
    """No number of blanks or line breaks makes it slow."""
    found = command_in("/a" + " \n" * 500_000 + "x" + " " * 1_000_000)

    assert found == Command("a", "x")
    assert command_in("/a@ab" + " " * 1_000_000) is None
