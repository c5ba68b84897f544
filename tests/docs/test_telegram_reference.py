"""The reference page of the Telegram channel has every setting, and its default."""

from __future__ import annotations

import inspect

from shardline.adapters.telegram import LIMITS, Telegram
from shardline.adapters.telegram.update import ALLOWED_UPDATES
from tests.kits.pages import ROOT, tables, with_pages

pytestmark = with_pages

PAGE = ROOT / "docs/reference/telegram.md"
IN_WORDS: dict[str, object] = {
    "none": None,
    "no": False,
    "messages, edits, posts, business messages, buttons": ALLOWED_UPDATES,
    "1/s a chat (3 at once), 20 a minute a group (5 at once), 30/s in all": LIMITS,
}
"""How the page tells a default that is no number and no text."""


def in_code(told: str) -> object:
    """The default that a cell of the table tells."""
    if told in IN_WORDS:
        return IN_WORDS[told]
    return told.strip('`"') if told.startswith("`") else float(told)


def test_every_setting_is_in_the_table_with_its_default() -> None:
    [table] = [table for table in tables(PAGE) if table[0][0] == "setting"]
    settings = list(inspect.signature(Telegram).parameters.values())

    assert [one.name for one in settings if one.kind is not one.KEYWORD_ONLY] == ["token"]
    assert [(row[0], in_code(row[1])) for row in table[1:]] == [
        (f"`{one.name}`", one.default) for one in settings[1:]
    ]


def test_what_is_asked_for_by_default_is_as_the_page_says() -> None:
    """In words: each kind belongs to one of them, and each of them has one."""
    words = {
        "messages": {"message"},
        "edits": {"edited_message", "edited_channel_post", "edited_business_message"},
        "posts": {"channel_post"},
        "business messages": {"business_message", "deleted_business_messages"},
        "buttons": {"callback_query"},
    }
    [told] = [told for told, value in IN_WORDS.items() if value is ALLOWED_UPDATES]

    assert told.split(", ") == list(words)
    assert set[str]().union(*words.values()) == set(ALLOWED_UPDATES)


def test_the_limits_are_as_the_page_says() -> None:
    assert LIMITS.chat is not None
    assert LIMITS.group is not None
    assert LIMITS.bot is not None
    assert (LIMITS.chat.per_s, LIMITS.chat.burst) == (1, 3)
    assert (LIMITS.group.per_s * 60, LIMITS.group.burst) == (20, 5)
    assert LIMITS.bot.per_s == 30
