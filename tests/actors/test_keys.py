import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.actors.errors import Code
from shardline.actors.keys import (
    check_conversation_key,
    conversation_key,
    discord_key,
    fnv1a32,
    maep_key,
    prefix_of,
    shard_of,
    slack_key,
    split_key,
    telegram_key,
)
from shardline.actors.names import WHITE_SPACE
from tests.kits.words import refused

GOLDEN = {
    "tg:-1001": 15,
    "tg:12345": 9,
    "slack:T111:C222": 13,
    "maep:12D3KooWpeerA": 5,
    "discord:987": 11,
}


def test_golden_shards() -> None:
    keys = [
        telegram_key(-1001),
        telegram_key("12345"),
        slack_key("T111", "C222"),
        maep_key("12D3KooWpeerA"),
        discord_key(987),
    ]

    assert {key: shard_of(key, 16) for key in keys} == GOLDEN


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)],
    ids=["empty", "a", "foobar"],
)
def test_fnv1a_published_vectors(data: bytes, value: int) -> None:
    assert fnv1a32(data) == value


def test_two_keys_of_the_field_share_a_shard() -> None:
    assert shard_of("tg:1001", 8) == shard_of("tg:1009", 8)


@given(key=st.text(min_size=1), shard_count=st.integers(1, 64))
def test_every_key_has_one_shard(key: str, shard_count: int) -> None:
    assert 0 <= shard_of(key, shard_count) < shard_count


@pytest.mark.parametrize(
    ("prefix", "address"), [("ln", "room-1"), ("ws", "a:b:c"), ("x-1_y", "é"), ("9", "1")]
)
def test_general_keys_split_again(prefix: str, address: str) -> None:
    key = conversation_key(prefix, address)

    assert key == f"{prefix}:{address}"
    assert split_key(key) == (prefix, address)
    assert prefix_of(key) == prefix


@pytest.mark.parametrize("prefix", ["", "Tg", "t:g", "t g", "-a", "a" * 33, "é"])
def test_bad_prefix(prefix: str) -> None:
    with refused(Code.INVALID_MESSAGE, "prefix"):
        conversation_key(prefix, "1")


@pytest.mark.parametrize("space", WHITE_SPACE)
def test_no_white_space_anywhere(space: str) -> None:
    for address in (f"{space}a", f"a{space}b", f"a{space}"):
        with refused(Code.INVALID_MESSAGE, "white space"):
            conversation_key("ws", address)


@pytest.mark.parametrize("key", ["", "tg", ":1", "tg:", "TG:1", "tg: 1", "ws:\ud800"])
def test_malformed_keys(key: str) -> None:
    with refused(Code.INVALID_MESSAGE):
        check_conversation_key(key)


@pytest.mark.parametrize("key", ["", "tg", ":1", "tg:"])
def test_keys_without_two_sides_do_not_split(key: str) -> None:
    with refused(Code.INVALID_MESSAGE):
        split_key(key)


def test_telegram_user_name_is_refused_with_the_way_out() -> None:
    with refused(Code.INVALID_MESSAGE, "numeric chat id"):
        conversation_key("tg", "@ada")
    with refused(Code.INVALID_MESSAGE, "numeric chat id"):
        telegram_key("@ada")
    with refused(Code.INVALID_MESSAGE, "numeric chat id"):
        check_conversation_key("tg:@ada")
    assert conversation_key("ws", "@ada") == "ws:@ada"


def test_telegram_forms() -> None:
    assert telegram_key(7000000001) == "tg:7000000001"
    assert telegram_key("-1001557000001", thread=40) == "tg:-1001557000001:t40"
    assert telegram_key(-1001557000001, thread="40") == "tg:-1001557000001:t40"
    assert telegram_key(7000000003, connection="bc-fake-1") == "tg:7000000003:bbc-fake-1"
    assert telegram_key(-1001557000005, direct=7000000001) == "tg:-1001557000005:d7000000001"


@pytest.mark.parametrize("chat", [0, "0", "-0", "007", "", " 1", "1.0", "1e3", "abc", True, "١"])
def test_bad_telegram_chat(chat: int | str) -> None:
    with refused(Code.INVALID_MESSAGE, "chat"):
        telegram_key(chat)


@pytest.mark.parametrize("thread", [0, -1, "", "a", True])
def test_bad_telegram_thread(thread: int | str) -> None:
    with refused(Code.INVALID_MESSAGE, "thread"):
        telegram_key(1, thread=thread)
    with refused(Code.INVALID_MESSAGE, "thread"):
        telegram_key(1, direct=thread)


def test_bad_telegram_connection() -> None:
    for connection in ("", "a b", "a:b"):
        with refused(Code.INVALID_MESSAGE, "connection"):
            telegram_key(1, connection=connection)
    with refused(Code.INVALID_MESSAGE, "one of"):
        telegram_key(1, thread=2, connection="bc")
    with refused(Code.INVALID_MESSAGE, "one of"):
        telegram_key(1, thread=2, direct=3)


def test_slack_forms() -> None:
    assert slack_key("T0FAKE01", "C0FAKE01") == "slack:T0FAKE01:C0FAKE01"
    assert (
        slack_key("T0FAKE01", "C0FAKE01", "1760000000.000100") == "slack:T0FAKE01:C0FAKE01:1760000000.000100"
    )


@pytest.mark.parametrize(
    ("team", "channel", "thread"),
    [
        ("", "C", None),
        ("T", "", None),
        ("T:C", "C", None),
        ("T", "C D", None),
        ("T", "C", ""),
        ("T", "C", "1760"),
    ],
)
def test_bad_slack(team: str, channel: str, thread: str | None) -> None:
    with refused(Code.INVALID_MESSAGE, "slack"):
        slack_key(team, channel, thread)


@pytest.mark.parametrize("snowflake", ["1497549923779084389", "9223372036854775808", "18446744073709551615"])
def test_snowflakes_keep_every_digit(snowflake: str) -> None:
    """F50: 64-bit ids stay text; neither a float nor a signed integer on the path."""
    assert discord_key(snowflake) == discord_key(int(snowflake)) == f"discord:{snowflake}"


@pytest.mark.parametrize("snowflake", [0, -1, "", "01", "1.0", "18446744073709551616", 1.5e18, True])
def test_bad_snowflakes(snowflake: int | str) -> None:
    with refused(Code.INVALID_MESSAGE, "snowflake"):
        discord_key(snowflake)


@pytest.mark.parametrize("peer", ["", "maep:12D3KooWpeerA", "12D3KooW0", "12D3 KooW", "l"])
def test_bad_peers(peer: str) -> None:
    with refused(Code.INVALID_MESSAGE, "peer"):
        maep_key(peer)
