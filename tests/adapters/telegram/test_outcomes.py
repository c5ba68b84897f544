"""Every line of the table of refusals, and what a send is as a call."""

from __future__ import annotations

import attrs
import pytest

from shardline.actors.errors import Code, Permanence
from shardline.adapters.base import Degradation, NotSent, Outbound, Sent, Uncertain
from shardline.adapters.telegram import answer_callback, button, inline_keyboard, message
from shardline.adapters.telegram.address import Address, chat_of
from shardline.adapters.telegram.calls import Call, Quote, call_of
from shardline.adapters.telegram.outcomes import outcome_of, outcome_unknown
from shardline.adapters.telegram.wire import Ok, Refusal, read_answer
from shardline.content import Action, Content, Delete, Edit, Media, SendRef, Text

CHAT = Address(7000000001)
PERMANENT, TRANSIENT = Permanence.PERMANENT, Permanence.TRANSIENT


@pytest.mark.parametrize(
    ("code", "description", "expected", "permanence", "degrade"),
    [
        (400, "Bad Request: chat not found", Code.RECIPIENT_NOT_FOUND, PERMANENT, None),
        (400, "Bad Request: private chat not found", Code.RECIPIENT_NOT_FOUND, PERMANENT, None),
        (400, "Bad Request: message thread not found", Code.CONTENT_REFUSED, PERMANENT, "thread"),
        (400, "Bad Request: message to be replied not found", Code.CONTENT_REFUSED, PERMANENT, "reply"),
        (
            400,
            "Bad Request: can't parse entities: Can't find end",
            Code.CONTENT_REFUSED,
            PERMANENT,
            "formatting",
        ),
        (400, "Bad Request: message is too long", Code.TOO_LARGE, PERMANENT, None),
        (400, "Bad Request: Text is too long", Code.TOO_LARGE, PERMANENT, None),
        (400, "Bad Request: message text is empty", Code.CONTENT_REFUSED, PERMANENT, "formatting"),
        (
            400,
            "Bad Request: not enough rights to send text messages to the chat",
            Code.NO_ACCESS,
            PERMANENT,
            None,
        ),
        (400, "Bad Request: have no rights to send a message", Code.NO_ACCESS, PERMANENT, None),
        (400, "Bad Request: query is too old and response timeout expired", Code.EXPIRED, PERMANENT, None),
        (400, "Bad Request: a text of 2030", Code.CONTENT_REFUSED, PERMANENT, None),
        (401, "Unauthorized", Code.BAD_TOKEN, PERMANENT, None),
        (403, "Forbidden: bot was blocked by the user", Code.RECIPIENT_BLOCKED, PERMANENT, None),
        (403, "Forbidden: user is deactivated", Code.RECIPIENT_NOT_FOUND, PERMANENT, None),
        (403, "Forbidden: bot was kicked from the supergroup chat", Code.NO_ACCESS, PERMANENT, None),
        (403, "Forbidden: bot is not a member of the channel chat", Code.NO_ACCESS, PERMANENT, None),
        (
            403,
            "Forbidden: bot can't initiate conversation with a user",
            Code.RECIPIENT_BLOCKED,
            PERMANENT,
            None,
        ),
        (403, "Forbidden: the group chat was deleted", Code.RECIPIENT_NOT_FOUND, PERMANENT, None),
        (404, "Not Found", Code.DELIVERY_PERMANENT, PERMANENT, None),
        (413, "Request Entity Too Large", Code.TOO_LARGE, PERMANENT, None),
        (500, "Internal Server Error: restart", Code.DELIVERY_PERMANENT, TRANSIENT, None),
        # The text of another class changes nothing: the code decides first.
        (400, "Bad Request: network unreachable timeout 429", Code.CONTENT_REFUSED, PERMANENT, None),
    ],
)
def test_every_refusal_has_its_outcome(
    code: int, description: str, expected: Code, permanence: Permanence, degrade: str | None
) -> None:
    outcome = outcome_of(Refusal(code=code, description=description), CHAT)

    assert isinstance(outcome, NotSent)
    assert (outcome.code, outcome.permanence, outcome.degrade) == (expected, permanence, degrade)
    assert outcome.text == description


def test_a_flood_waits_as_long_as_the_platform_says() -> None:
    outcome = outcome_of(
        Refusal(code=429, description="Too Many Requests: retry after 7", retry_after_s=7), CHAT
    )

    assert isinstance(outcome, NotSent)
    assert (outcome.code, outcome.retry_after_s, outcome.scope) == (Code.RATE_LIMITED, 7.0, "chat")


def test_a_supergroup_is_gone_to_with_topic_and_all() -> None:
    refusal = Refusal(code=400, description="group chat was upgraded", migrate_to=-1001557000002)

    for address, moved in ((Address(-4001), "-1001557000002"), (Address(-4001, 7), "-1001557000002:t7")):
        outcome = outcome_of(refusal, address)
        assert isinstance(outcome, NotSent)
        assert outcome.moved_to == moved


@pytest.mark.parametrize("description", ["message is not modified: x", "message to delete not found"])
def test_a_repeat_that_found_its_work_done_is_sent(description: str) -> None:
    assert outcome_of(Refusal(code=400, description=f"Bad Request: {description}"), CHAT) == Sent(
        None, deduped=True
    )


def test_an_unknown_end_is_uncertain_but_for_what_may_be_repeated() -> None:
    assert outcome_unknown("no answer", is_repeatable=False) == Uncertain("no answer")
    repeated = outcome_unknown("no answer", is_repeatable=True)
    assert isinstance(repeated, NotSent)
    assert repeated.permanence is TRANSIENT


def test_sent_has_the_id_that_a_reply_to_it_will_name() -> None:
    assert outcome_of(Ok({"message_id": 5}), Address(1, 4)) == Sent("1:t4:5")
    assert outcome_of(Ok([{"message_id": 5}, {"message_id": 6}]), CHAT) == Sent("7000000001:5")
    assert outcome_of(Ok(True), CHAT) == Sent(None)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>502</html>", b"[]", b'{"ok":tr', b'{"result":1}', b'{"ok":1}', b'{"ok":true,"r":NaN}'],
)
def test_what_is_no_answer_of_the_api_is_none(body: bytes) -> None:
    assert read_answer(502, body) is None


def test_answers_are_read_with_their_parameters() -> None:
    flood = b'{"ok":false,"error_code":429,"description":"Too Many","parameters":{"retry_after":7}}'

    assert read_answer(429, flood) == Refusal(code=429, description="Too Many", retry_after_s=7)
    assert read_answer(200, b'{"ok":true,"result":[]}') == Ok([])
    assert read_answer(503, b'{"ok":false}') == Refusal(code=503)


def out(
    address: str,
    text: str = "hi",
    *,
    reply_to: str | None = None,
    content: Content | None = None,
    target: str | None = None,
    part: int = 0,
    degraded: Degradation | None = None,
) -> Outbound:
    return Outbound(
        id=1,
        channel="telegram",
        conversation_key=f"tg:{address}",
        address=address,
        text=text,
        idempotency_key="k",
        part=part,
        claim=1,
        attempt=1,
        reply_to=reply_to,
        content=Text(text) if content is None else content,
        target=target,
        degraded=degraded,
    )


def call(made: Outbound, quote: Quote = "groups", mode: bool = False) -> Call:
    found = call_of(made, quote=quote, parse_mode="HTML" if mode else None)
    assert isinstance(found, Call)
    return found


def test_a_text_names_chat_topic_and_connection() -> None:
    assert call(out("12")).fields == {"chat_id": 12, "text": "hi"}
    assert call(out("-10012:t40")).fields == {"chat_id": -10012, "message_thread_id": 40, "text": "hi"}
    assert call(out("-10012:t1")).fields == {"chat_id": -10012, "text": "hi"}
    assert call(out("12:bbc-1")).fields == {"chat_id": 12, "business_connection_id": "bc-1", "text": "hi"}
    direct = call(out("-10012:d7001")).fields
    assert direct == {"chat_id": -10012, "direct_messages_topic_id": 7001, "text": "hi"}


@pytest.mark.parametrize(
    ("address", "reply_to", "quote", "message_id"),
    [
        ("-12", "-12:7", "groups", 7),
        ("-12", "-12:7:edit:912000002", "groups", 7),
        ("-12:t4", "-12:t4:7", "groups", 7),
        ("12", "12:7", "groups", None),
        ("12", "12:7", "always", 7),
        ("-12", "-12:7", "never", None),
        ("-12", "callback:44", "always", None),
        # The group has become a supergroup: its old ids are none there.
        ("-10012", "-12:7", "always", None),
    ],
)
def test_an_answer_quotes_where_it_is_wanted_and_can_be(
    address: str, reply_to: str, quote: Quote, message_id: int | None
) -> None:
    fields = call(out(address, reply_to=reply_to), quote).fields

    assert fields.get("reply_parameters") == (None if message_id is None else {"message_id": message_id})


def test_the_further_parts_of_a_text_quote_nothing() -> None:
    assert "reply_parameters" not in call(out("-12", reply_to="-12:7", part=1000)).fields


def test_degraded_is_without_what_was_refused() -> None:
    made = out("-12:t4", reply_to="-12:t4:7")
    whole = {"chat_id", "message_thread_id", "reply_parameters", "parse_mode", "text"}

    assert call(made, mode=True).fields.keys() == whole
    lacks: dict[Degradation, str] = {
        "thread": "message_thread_id",
        "reply": "reply_parameters",
        "formatting": "parse_mode",
    }
    for what, field in lacks.items():
        assert call(attrs.evolve(made, degraded=what), mode=True).fields.keys() == whole - {field}


def test_media_by_id_and_by_path() -> None:
    known = call(out("12", "look", content=Media("photo", file_id="F1", caption="look")))
    own = call(out("12", "", content=Media("document", path="/tmp/a.pdf", name="b.pdf")))
    long = call_of(out("12", "x", content=Media("photo", file_id="F1", caption="x" * 1025)))

    assert (known.method, known.fields) == ("sendPhoto", {"chat_id": 12, "photo": "F1", "caption": "look"})
    assert own.method == "sendDocument"
    assert own.upload is not None
    assert (own.upload.field, own.upload.path, own.upload.name) == ("document", "/tmp/a.pdf", "b.pdf")
    assert isinstance(long, NotSent)
    assert long.code is Code.TOO_LARGE


def test_an_edit_and_a_deletion_name_their_message() -> None:
    ref = SendRef("telegram", "k")
    edit = call(out("12", "new", content=Edit(ref, "new"), target="12:5"))
    delete = call(out("12", "", content=Delete(ref), target="12:5"))
    lost = call_of(out("12", "", content=Delete(ref), target=None))

    assert (edit.method, edit.fields) == ("editMessageText", {"chat_id": 12, "message_id": 5, "text": "new"})
    assert (delete.method, delete.fields) == ("deleteMessage", {"chat_id": 12, "message_id": 5})
    assert edit.is_repeatable
    assert delete.is_repeatable
    assert not call(out("12")).is_repeatable
    assert isinstance(lost, NotSent)
    assert lost.code is Code.NOT_FOUND


def test_actions_are_methods_by_their_names() -> None:
    keyboard = inline_keyboard([button("Yes", data="ok:1")])
    said = call(out("-12:t4", "", content=message("*hi*", parse_mode="MarkdownV2", keyboard=keyboard)))
    typing = call(out("12", "", content=Action("typing")))
    answered = call(out("12", "", content=answer_callback("44", "done")))

    assert said.method == "sendMessage"
    assert said.fields == {
        "chat_id": -12,
        "message_thread_id": 4,
        "text": "*hi*",
        "parse_mode": "MarkdownV2",
        "reply_markup": {"inline_keyboard": [[{"text": "Yes", "callback_data": "ok:1"}]]},
    }
    assert (typing.method, typing.fields) == ("sendChatAction", {"chat_id": 12, "action": "typing"})
    assert answered.method == "answerCallbackQuery"
    assert answered.fields == {"callback_query_id": "44", "text": "done", "show_alert": False}
    for name in ("getUpdates", "setWebhook", "logOut", "close", "../getMe", "Send"):
        assert isinstance(call_of(out("12", "", content=Action(name))), NotSent)


def test_what_is_no_chat_is_refused_without_a_call() -> None:
    for address in ("@ada", "0", "12:x4", "~none", "12:t0"):
        refused = call_of(out(address))
        assert isinstance(refused, NotSent)
        assert refused.code is Code.RECIPIENT_NOT_FOUND


def test_topics_share_their_groups_rate() -> None:
    assert chat_of("-12:t4") == chat_of("-12")
    assert chat_of("-12").is_group
    assert not chat_of("12:bbc-1").is_group
