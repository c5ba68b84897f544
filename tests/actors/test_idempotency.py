import itertools
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.actors.errors import Code
from shardline.actors.idempotency import (
    manual_contact_key,
    message_envelope_key,
    proactive_share_key,
    turn_key,
)
from shardline.actors.names import WHITE_SPACE, canonical
from tests.kits.words import refused

PAIRS: list[Callable[[str, str], str]] = [manual_contact_key, proactive_share_key]
ids = st.text(
    st.characters(exclude_characters=WHITE_SPACE, exclude_categories=["Cs"]), min_size=1, max_size=80
)


def test_keys_are_readable_and_fixed() -> None:
    # Golden: rows and peers remember them for weeks.
    assert message_envelope_key("msg_1") == "envelope:msg_1:08f411d0db4d9d9ee0be"
    assert manual_contact_key("tg:7000000001", "req-1") == "manual:tg_7000000001:req-1:1d9040a8a7fb625a4e62"
    assert (
        proactive_share_key("maep:12D3KooWpeerA", "item_9/a")
        == "share:maep_12D3KooWpeerA:item_9_a:649903c3950f22ec90b3"
    )


@pytest.mark.parametrize("make", PAIRS)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "A"), ("A", "a")),
        (("a", "a"), ("a", "A")),
        (("a:b", "c"), ("a", "b:c")),
        (("a_b", "c"), ("a/b", "c")),
        (("1:a", "b"), ("1", "a:b")),
        (("x" * 60 + "1", "c"), ("x" * 60 + "2", "c")),
        (("a", "b" * 49), ("a", "b" * 50)),
        (("é", "c"), ("e\u0301", "c")),
    ],
)
def test_different_ids_never_share_a_key(
    make: Callable[[str, str], str], one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert make(*one) != make(*other)


@given(pairs=st.lists(st.tuples(ids, ids), unique=True, max_size=6))
def test_keys_differ_as_their_ids_do(pairs: list[tuple[str, str]]) -> None:
    made = {make(*pair) for pair in pairs for make in PAIRS} | {message_envelope_key(one) for one, _ in pairs}

    assert len(made) == 2 * len(pairs) + len({one for one, _ in pairs})


@given(one=ids, other=ids)
def test_keys_are_canonical_and_bounded(one: str, other: str) -> None:
    key = manual_contact_key(one, other)

    assert canonical(key, "idempotency_key") == key
    assert re.fullmatch(r"manual:[A-Za-z0-9._-]{1,48}:[A-Za-z0-9._-]{1,48}:[0-9a-f]{20}", key)


def test_empty_ids_need_a_key() -> None:
    for make, args in itertools.product(PAIRS, [("", "a"), ("a", "")]):
        with refused(Code.IDEMPOTENCY_KEY_REQUIRED):
            make(*args)
    with refused(Code.IDEMPOTENCY_KEY_REQUIRED):
        message_envelope_key("")


def test_ids_must_be_canonical() -> None:
    for bad in (" a", "a\n", "a\ud800"):
        with refused(Code.INVALID_MESSAGE):
            message_envelope_key(bad)


def reply_key(
    inbound_id: int = 7,
    generation: int = 0,
    verb: str = "reply",
    name: str = "0",
    key: str = "tg:1",
    store: str = "",
) -> str:
    return turn_key(
        inbound_id=inbound_id,
        generation=generation,
        verb=verb,
        name=name,
        conversation_key=key,
        store_uuid=store,
    )


def test_turn_keys_are_readable_and_fixed() -> None:
    assert reply_key() == reply_key() == "7.0.reply.0.5d1142e58514ecec"
    assert reply_key(verb="now", name="note") == "7.0.now.note.67e90416b2039a54"


def test_every_part_of_a_turn_key_counts() -> None:
    keys = {
        reply_key(),
        reply_key(inbound_id=8),
        reply_key(generation=1),
        reply_key(verb="now"),
        reply_key(name="1"),
        reply_key(key="tg:2"),
        reply_key(store="0194f5c0-8f6e-7d9d-a4d7-6d8d4f35f456"),
        reply_key(name="a.b"),
        reply_key(name="a/b"),
        reply_key(name="a b"),
        reply_key(name="a_b"),
        reply_key(name="0\ntg:1"),
        reply_key(name="0", key="1\ntg:1"),
    }

    assert len(keys) == 13


@given(name=st.text(st.characters(), min_size=1))
def test_turn_keys_are_canonical_and_bounded(name: str) -> None:
    key = reply_key(name=name)

    assert re.fullmatch(r"7\.0\.reply\.[A-Za-z0-9._-]{1,48}\.[0-9a-f]{16}", key)
