"""Updates as messages: every sample of the channel's fact sheet, and what else the platform sends."""

from __future__ import annotations

import json

import pytest

from shardline.actors.extensions import Attachment, Entity, Kind
from shardline.actors.plain import Plain
from shardline.adapters.base import NO_ADDRESS, UNKNOWN_TOPIC, Inbound
from shardline.adapters.telegram.update import Echo, Me, Reading, read_update
from tests.adapters.telegram import samples

HOW = Reading(me=Me(id=4200, username="Sim_Bot"))


def read(update: samples.Update, how: Reading = HOW) -> Inbound:
    found = read_update(update, how)
    assert isinstance(found, Inbound)
    return found


def changed(update: samples.Update, author: samples.Update | None = None, **fields: Plain) -> samples.Update:
    [name] = [name for name in update if name != "update_id"]
    body: samples.Update = {**samples.body_of(update, name), **fields}
    if author is not None:
        body["from"] = author
    return {**update, name: body}


def test_a_message() -> None:
    inbound = read(samples.MESSAGE)

    assert (inbound.platform_message_id, inbound.address) == ("7000000001:11", "7000000001")
    assert (inbound.text, inbound.sender) == ("hi \U0001f600", "7000000001")
    assert inbound.sent_at == "2025-10-09T08:53:20Z"
    assert inbound.extensions.kind is Kind.NEW
    assert inbound.extensions.chat_type == "private"
    assert inbound.extensions.from_display_name == "Ada"
    assert json.loads(inbound.raw or b"") == samples.MESSAGE


def test_an_edit_has_an_identity_of_its_own() -> None:
    inbound = read(samples.EDITED)

    assert inbound.platform_message_id == "7000000001:11:edit:912000002"
    assert inbound.extensions.kind is Kind.EDIT
    assert inbound.extensions.edited_at_us == 1_760_000_009_000_000
    assert inbound.sent_at == "2025-10-09T08:53:29Z"


@pytest.mark.parametrize(("lanes", "address"), [("topic", "-1001557000001:t40"), ("chat", "-1001557000001")])
def test_a_topic_is_a_conversation_as_the_store_has_it(lanes: str, address: str) -> None:
    how = Reading(me=HOW.me, lanes="topic" if lanes == "topic" else "chat")
    inbound = read(samples.TOPIC, how)

    assert inbound.address == address
    assert inbound.platform_message_id == f"{address}:52"


def test_a_thread_that_is_no_topic_and_the_general_topic_are_the_chat() -> None:
    assert read(changed(samples.TOPIC, is_topic_message=False)).address == "-1001557000001"
    assert read(changed(samples.TOPIC, message_thread_id=1)).address == "-1001557000001"


def test_an_albums_member_is_a_message_with_its_caption() -> None:
    inbound = read(samples.ALBUM)

    assert inbound.text == "before"
    assert inbound.extensions.media_group_id == "13579000000000001"
    assert inbound.extensions.attachments == (Attachment(kind="photo", ref="FAKEfile1", size_bytes=900),)
    assert inbound.extensions.kind is Kind.NEW
    assert read(changed(samples.ALBUM, caption=None)).text == ""


def test_a_migration_says_where_to_from_both_sides() -> None:
    old = read(samples.MIGRATION)
    new = read(
        changed(
            samples.MIGRATION,
            chat={"id": -1001557000002, "type": "supergroup"},
            migrate_to_chat_id=None,
            migrate_from_chat_id=-4001,
        )
    )

    assert (old.address, old.moved_to, old.extensions.kind) == ("-4001", "-1001557000002", Kind.SERVICE)
    assert (new.address, new.moved_from) == ("-1001557000002", "-4001")


def test_a_button() -> None:
    inbound = read(samples.CALLBACK)

    assert inbound.platform_message_id == "callback:44000000000000001"
    assert (inbound.address, inbound.text) == ("7000000001", "ok:1")
    assert inbound.extensions.kind is Kind.CALLBACK
    assert (inbound.extensions.callback_data, inbound.extensions.event_id) == ("ok:1", "44000000000000001")
    assert inbound.extensions.reply_to == "7000000001:12"


def test_a_button_of_an_inline_message_belongs_to_its_sender() -> None:
    assert read(changed(samples.CALLBACK, message=None, inline_message_id="x")).address == "7000000001"


def test_a_business_message_is_a_conversation_of_its_connection() -> None:
    inbound = read(samples.BUSINESS)

    assert inbound.address == "7000000003:bbc-fake-1"
    assert inbound.platform_message_id == "7000000003:bbc-fake-1:3"
    assert inbound.extensions.business_connection_id == "bc-fake-1"


def test_a_channel_post_is_said_by_the_channel() -> None:
    inbound = read(samples.POST)

    assert (inbound.address, inbound.sender, inbound.text) == (
        "-1001557000009",
        "-1001557000009",
        "v1 out",
    )


def test_a_reply_names_what_it_answers_and_a_topic_is_no_reply() -> None:
    assert read(changed(samples.MESSAGE, reply_to_message={"message_id": 9})).reply_to == "7000000001:9"
    assert read(changed(samples.TOPIC, reply_to_message={"message_id": 40})).reply_to is None


def test_mentions_are_the_linked_users_and_the_bot_itself() -> None:
    inbound = read(
        changed(
            samples.MESSAGE,
            text="\U0001f600 @sim_bot, see Bo",
            entities=[
                {"type": "mention", "offset": 3, "length": 8},
                {"type": "text_mention", "offset": 17, "length": 2, "user": {"id": 7000000002}},
                {"type": "bold", "offset": -1, "length": 2},
            ],
        )
    )

    assert inbound.extensions.mention_users == ("7000000002", "4200")
    assert inbound.extensions.entities[0] == Entity(kind="mention", offset_utf16=3, length_utf16=8)
    assert len(inbound.extensions.entities) == 2


def test_echoes_are_told_apart_from_people() -> None:
    own = changed(samples.MESSAGE, {"id": 4200, "is_bot": True})
    other = changed(samples.MESSAGE, {"id": 4300, "is_bot": True})
    anonymous = changed(
        samples.MESSAGE, {"id": 1087968824, "is_bot": True}, sender_chat={"id": -1001557000001}
    )
    through_me = changed(samples.BUSINESS, sender_business_bot={"id": 4200, "is_bot": True})

    assert read_update(own, HOW) == Echo(update_id=912000001, is_own=True)
    assert read_update(other, HOW) == Echo(update_id=912000001, is_own=False)
    assert read_update(through_me, HOW) == Echo(update_id=912000007, is_own=True)
    assert read(other, Reading(me=HOW.me, accepts_bots=True)).sender == "4300"
    assert read(anonymous).sender == "1087968824"


@pytest.mark.parametrize(
    ("update", "address"),
    [
        ({"update_id": 7, "inline_query": {"id": "q1", "from": {"id": 5}, "query": "a"}}, "5"),
        ({"update_id": 7, "poll_answer": {"poll_id": "p1", "user": {"id": 6}, "option_ids": [0]}}, "6"),
        ({"update_id": 7, "poll": {"id": "p1", "question": "?"}}, NO_ADDRESS),
        ({"update_id": 7, "a_kind_of_2030": {"x": 1}}, NO_ADDRESS),
        ({"update_id": 7}, NO_ADDRESS),
        ({"update_id": 7, "message": {"message_id": 1, "chat": {"id": 0}}}, NO_ADDRESS),
        ({"update_id": 7, "message": {"chat": {"id": "x"}, "from": {"id": 8}}}, "8"),
    ],
)
def test_what_there_is_no_word_for_is_kept(update: samples.Update, address: str) -> None:
    inbound = read(update)

    assert (inbound.topic, inbound.address) == (UNKNOWN_TOPIC, address)
    assert inbound.platform_message_id.startswith("update:7:")
    assert json.loads(inbound.raw or b"") == update


def test_two_unknown_updates_of_one_id_are_two() -> None:
    """Update ids may begin anew after a week without any."""
    first, second = read({"update_id": 7, "x": {"a": 1}}), read({"update_id": 7, "x": {"a": 2}})

    assert first.platform_message_id != second.platform_message_id


def test_what_is_no_update_is_none() -> None:
    assert read_update({"message": {}}, HOW) is None
    assert read_update({"update_id": True}, HOW) is None


def test_ids_keep_every_digit() -> None:
    """Field entry 50: ids of up to 52 bits."""
    inbound = read(
        changed(samples.MESSAGE, chat={"id": -(1002**3), "type": "supergroup"}, message_id=2**31 - 1)
    )
    big = read(changed(samples.MESSAGE, chat={"id": 4503599627370495}))

    assert inbound.address == str(-(1002**3))
    assert big.platform_message_id == "4503599627370495:11"
