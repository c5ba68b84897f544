"""Builders and strategies for the words: messages, events, plain values."""

import copy
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

import attrs
import pytest
from hypothesis import strategies as st

from shardline.actors.envelope import MessageEnvelope
from shardline.actors.errors import BusError, Code
from shardline.actors.extensions import EMPTY, Attachment, Entity, Extensions, Kind
from shardline.actors.instants import MAX_AT_US
from shardline.actors.message import BusMessage, Direction
from shardline.actors.names import WHITE_SPACE
from shardline.actors.plain import Plain

SESSION = "0194f5c0-8f6e-7d9d-a4d7-6d8d4f35f456"
MESSAGE_ID = "0194f5c0-8f6e-7000-8000-000000000001"


T = TypeVar("T")


@contextmanager
def refused(code: Code, words: str = "") -> Generator[None]:
    """Expect a BusError of exactly this code whose message holds `words`."""
    with pytest.raises(BusError) as caught:
        yield
    assert caught.value.code is code, caught.value
    assert words in caught.value.message


def refusal_of(call: Callable[[], object]) -> Code | None:
    """The code with which a call is refused, None if it is not; all else is raised."""
    try:
        call()
    except BusError as error:
        return error.code
    return None


def spoiled(value: T, **fields: object) -> T:
    """A copy of a frozen value with fields of any type, as an untyped caller would build it."""
    twin = copy.copy(value)
    for name, bad in fields.items():
        object.__setattr__(twin, name, bad)
    return twin


def make_envelope() -> MessageEnvelope:
    return MessageEnvelope(message_id="11", text="hi", sent_at="2026-02-16T11:12:00Z", session_id=SESSION)


def make_message() -> BusMessage:
    """An ordinary inbound chat message that keeps every rule."""
    return BusMessage(
        id=MESSAGE_ID,
        direction=Direction.INBOUND,
        channel="telegram",
        topic="chat.message",
        conversation_key="tg:7000000001",
        participant_key="tg:7000000001",
        idempotency_key="telegram:7000000001:11",
        correlation_id=MESSAGE_ID,
        payload=make_envelope(),
        created_at_us=1_760_000_000_000_000,
        extensions=Extensions(platform_message_id="7000000001:11", from_user_id="7000000001"),
        raw=b"{}",
    )


def with_text(message: BusMessage, text: str) -> BusMessage:
    return attrs.evolve(message, payload=attrs.evolve(message.payload, text=text))


def plain_values() -> st.SearchStrategy[Plain]:
    """Every kind of plain value, nested a little."""
    leaves: st.SearchStrategy[Plain] = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=20),
        st.binary(max_size=20),
    )
    return _nested(leaves)


def json_values() -> st.SearchStrategy[Plain]:
    """Every kind of value that JSON can say, integers of any size."""
    leaves: st.SearchStrategy[Plain] = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**40), 10**40),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=20),
    )
    return _nested(leaves)


def messages() -> st.SearchStrategy[BusMessage]:
    """Valid messages with every optional field now there, now not; `raw` is None."""
    ids = st.text(
        st.characters(exclude_characters=WHITE_SPACE, exclude_categories=["Cs"]), min_size=1, max_size=12
    )
    maybe_id = st.none() | ids
    maybe_text = st.none() | st.text(max_size=12)
    instants = st.integers(0, MAX_AT_US)
    extensions = st.just(EMPTY) | st.builds(
        Extensions,
        platform_message_id=maybe_id,
        reply_to=maybe_id,
        session_id=st.sampled_from([None, SESSION]),
        chat_type=maybe_text,
        from_user_id=maybe_id,
        from_username=maybe_text,
        from_first_name=maybe_text,
        from_last_name=maybe_text,
        from_display_name=maybe_text,
        team_id=maybe_id,
        channel_id=maybe_id,
        from_user_ref=maybe_text,
        thread_ts=maybe_id,
        event_id=maybe_id,
        mention_users=st.lists(ids, max_size=3).map(tuple),
        kind=st.sampled_from(Kind),
        attachments=st.lists(
            st.builds(
                Attachment,
                kind=ids,
                ref=ids,
                name=maybe_text,
                mime_type=maybe_text,
                size_bytes=st.none() | st.integers(0, 2**40),
            ),
            max_size=2,
        ).map(tuple),
        callback_data=maybe_text,
        media_group_id=maybe_id,
        edited_at_us=st.none() | instants,
        entities=st.lists(
            st.builds(
                Entity,
                kind=ids,
                offset_utf16=st.integers(0, 9000),
                length_utf16=st.integers(1, 9000),
                url=maybe_text,
                user_id=maybe_id,
            ),
            max_size=2,
        ).map(tuple),
        business_connection_id=maybe_id,
    )
    return st.builds(
        BusMessage,
        id=st.just(MESSAGE_ID) | ids.map(lambda text: "m-" + text),
        direction=st.just(Direction.INBOUND),
        channel=st.sampled_from([None, "telegram", "ws"]),
        topic=st.sampled_from(["chat.message", "dm.reply.v1", "order.shipped"]),
        conversation_key=ids.map(lambda text: "ws:" + text),
        participant_key=maybe_id,
        idempotency_key=ids,
        correlation_id=ids.map(lambda text: "c-" + text),
        causation_id=st.none() | ids.map(lambda text: "m-" + text),
        payload=st.builds(
            MessageEnvelope,
            message_id=ids,
            text=st.text(min_size=1, max_size=40),
            sent_at=st.just("2026-02-16T11:12:00.5+02:00"),
            session_id=st.just(SESSION),
            reply_to=maybe_id,
        ),
        created_at_us=instants,
        hops=st.integers(0, 64),
        extensions=extensions,
    )


def _nested(leaves: st.SearchStrategy[Plain]) -> st.SearchStrategy[Plain]:
    def wider(inner: st.SearchStrategy[Plain]) -> st.SearchStrategy[Plain]:
        lists: st.SearchStrategy[Plain] = st.lists(inner, max_size=4)
        maps: st.SearchStrategy[Plain] = st.dictionaries(st.text(max_size=6), inner, max_size=4)
        return lists | maps

    return st.recursive(leaves, wider, max_leaves=12)
