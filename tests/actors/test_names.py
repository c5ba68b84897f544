import pytest

from shardline.actors.errors import Code
from shardline.actors.names import (
    WHITE_SPACE,
    canonical,
    check_name,
    check_topic,
    shown,
)
from tests.kits.words import refused


def test_white_space_is_the_unicode_property() -> None:
    assert len(set(WHITE_SPACE)) == len(WHITE_SPACE) == 25
    assert [char for char in WHITE_SPACE if not char.isspace()] == []


@pytest.mark.parametrize("space", WHITE_SPACE)
def test_outer_white_space_is_refused(space: str) -> None:
    assert canonical(f"a{space}b", "id") == f"a{space}b"
    for bad in (f"{space}a", f"a{space}", space):
        with refused(Code.INVALID_MESSAGE, "id"):
            canonical(bad, "id")


@pytest.mark.parametrize("char", ["\u001c", "\u001d", "\u001e", "\u001f", "\u200b", "\ufeff"])
def test_what_only_python_or_nobody_calls_space_stays(char: str) -> None:
    assert canonical(char, "id") == char


@pytest.mark.parametrize("bad", ["", "a\ud800", 5, None, b"a"])
def test_not_canonical(bad: str) -> None:
    with refused(Code.INVALID_MESSAGE, "key"):
        canonical(bad, "key")


@pytest.mark.parametrize(
    "topic",
    [
        "chat.message",
        "share.proactive.v1",
        "a",
        "a-b_c.0",
        "1.2.3.4.5.6.7.8",
        "1.2.3.4.5.6.7.8.DLQ",
        "a" * 128,
        "a" * 128 + ".DLQ",
        "systemic.load",
        "my.system.load",
    ],
)
def test_good_topics(topic: str) -> None:
    assert check_topic(topic) == topic


@pytest.mark.parametrize(
    "topic",
    [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "A",
        "chat.Message",
        "a b",
        " a",
        "a\n",
        "é",
        "a*",
        "1.2.3.4.5.6.7.8.9",
        "a" * 129,
        "a.dlq.DLQ.DLQ",
        ".DLQ",
        "DLQ",
        "a.DLQ.b",
        "system",
        "system.metrics",
        "system.bus.DLQ",
        7,
    ],
)
def test_bad_topics(topic: str) -> None:
    with refused(Code.INVALID_TOPIC):
        check_topic(topic)


def test_system_topics_are_for_the_runtime() -> None:
    assert check_topic("system.metrics", allow_system=True) == "system.metrics"
    with refused(Code.INVALID_TOPIC):
        check_topic("system..metrics", allow_system=True)


@pytest.mark.parametrize("name", ["a", "0", "billing", "a_b.c-d", "a" * 64, "v1."])
def test_good_names(name: str) -> None:
    assert check_name(name, "group") == name


@pytest.mark.parametrize(
    "name",
    ["", "a" * 65, "_a", ".a", "-a", "a__b", "a..b", "A", "a/b", "../a", "a b", "a\n", "a\x00", "é", 1],
)
def test_bad_names(name: str) -> None:
    with refused(Code.INVALID_MESSAGE, "group"):
        check_name(name, "group")


def test_refused_values_are_shown_escaped_and_short() -> None:
    assert shown("a\n\x1b[31m") == r"'a\n\x1b[31m'"
    assert len(shown("a" * 1_000)) == 80
