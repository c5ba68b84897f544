"""A send as one call of the Bot API. Pure."""

from __future__ import annotations

import re
from typing import Final, Literal

import attrs

from ...actors.content import Action, Delete, Edit, Media, Text
from ...actors.errors import Code, Permanence
from ...actors.plain import Plain
from ...runtime.split import length_of
from ..base import NotSent, Outbound
from .address import Address, message_in, read_address

Quote = Literal["never", "groups", "always"]
"""Which answers quote the message that they answer."""
ParseMode = Literal["HTML", "MarkdownV2", "Markdown"]

MAX_CAPTION: Final = 1_024
GENERAL_THREAD: Final = 1

_METHOD = re.compile(r"[a-z][A-Za-z]{2,63}")
_NEVER = frozenset({"getUpdates", "setWebhook", "deleteWebhook", "logOut", "close"})
"""They would take the bot's own input away."""
_WITHOUT_CHAT = re.compile(r"(answer|setMy|deleteMy|get).*")
_REPEATABLE = re.compile(r"(edit|delete|set|pin|unpin|answer|ban|unban|restrict|get|sendChatAction).*")
_MEDIA_METHODS: Final = {
    "photo": "sendPhoto",
    "video": "sendVideo",
    "animation": "sendAnimation",
    "audio": "sendAudio",
    "voice": "sendVoice",
    "document": "sendDocument",
    "sticker": "sendSticker",
}


@attrs.frozen
class Upload:
    """A file that goes along.

    Attributes:
        field: The parameter it is.
        path: Where it lies.
        name: What the receiver sees; None for the name of the path.
    """

    field: str
    path: str
    name: str | None = None


@attrs.frozen(kw_only=True)
class Call:
    """One request.

    Attributes:
        method: Of the Bot API.
        fields: Its parameters.
        upload: A file among them.
        address: Where the send goes.
        is_repeatable: A second such call does no harm.
    """

    method: str
    fields: dict[str, Plain]
    address: Address
    upload: Upload | None = None
    is_repeatable: bool = False


def call_of(out: Outbound, *, quote: Quote = "groups", parse_mode: ParseMode | None = None) -> Call | NotSent:
    """Make the call that a send is.

    Args:
        out: The send.
        quote: Which answers quote.
        parse_mode: Of texts, captions and edits.
    Returns:
        The refusal of what cannot be one.
    """
    address = read_address(out.address)
    if address is None:
        return _refused(Code.RECIPIENT_NOT_FOUND, f"{out.address[:80]} is no chat of Telegram")
    target = _target(address)
    mode: dict[str, Plain] = {} if parse_mode is None else {"parse_mode": parse_mode}
    match out.content:
        case Text():
            fields = {**target, "text": out.text, **_quote(out, address, quote), **mode}
            return _called("sendMessage", fields, address, out)
        case Media() as media:
            if length_of(media.caption, "utf16") > MAX_CAPTION:
                return _refused(Code.TOO_LARGE, f"a caption has at most {MAX_CAPTION} UTF-16 units")
            fields = {**target, **_quote(out, address, quote)}
            if media.caption:
                fields |= {"caption": media.caption, **mode}
            upload = None
            if media.file_id is not None:
                fields[media.kind] = media.file_id
            elif media.path is not None:
                upload = Upload(media.kind, media.path, media.name)
            return _called(_MEDIA_METHODS[media.kind], fields, address, out, upload)
        case Edit():
            return _about("editMessageText", {"text": out.text, **mode}, address, out)
        case Delete():
            return _about("deleteMessage", {}, address, out)
        case Action() as action:
            return call_of_action(action, address, out, target)


def call_of_action(
    action: Action, address: Address, out: Outbound | None = None, target: dict[str, Plain] | None = None
) -> Call | NotSent:
    """Make the call that an action is: `typing`, `answer_callback`, or a method of the Bot API by its name.

    Args:
        action: Its data are the parameters; `chat_id` is the conversation's if they have none.
        address: The conversation.
        out: The send that it is; None for an ephemeral call.
        target: The parameters that name the conversation.
    """
    fields = dict(action.data)
    method = action.name
    target = _target(address) if target is None else target
    if method == "typing":
        method = "sendChatAction"
        fields = dict[str, Plain](action="typing")
    elif method == "answer_callback":
        method = "answerCallbackQuery"
        if "id" in fields:
            fields["callback_query_id"] = fields.pop("id")
    if _METHOD.fullmatch(method) is None or method in _NEVER:
        return _refused(Code.CONTENT_REFUSED, f"{method[:80]} is no method that an action may call")
    if _WITHOUT_CHAT.fullmatch(method) is None and "chat_id" not in fields:
        fields = target | fields
    return _called(method, fields, address, out)


def _target(address: Address) -> dict[str, Plain]:
    fields: dict[str, Plain] = {"chat_id": address.chat}
    if address.thread is not None and address.thread != GENERAL_THREAD:
        fields["message_thread_id"] = address.thread
    if address.connection is not None:
        fields["business_connection_id"] = address.connection
    if address.direct is not None:
        fields["direct_messages_topic_id"] = address.direct
    return fields


def _quote(out: Outbound, address: Address, quote: Quote) -> dict[str, Plain]:
    if out.reply_to is None or out.part or quote == "never" or (quote == "groups" and address.chat > 0):
        return {}
    answered = message_in(out.reply_to)
    # Ids count inside one chat: those of a group are none in the supergroup that it became.
    if answered is None or answered[0] != address.chat:
        return {}
    return {"reply_parameters": {"message_id": answered[1]}}


def _about(method: str, fields: dict[str, Plain], address: Address, out: Outbound) -> Call | NotSent:
    named = None if out.target is None else message_in(out.target)
    if named is None:
        return _refused(Code.NOT_FOUND, "the platform gave the message that this is about no id")
    about: dict[str, Plain] = {"chat_id": named[0], "message_id": named[1]}
    if address.connection is not None:
        about["business_connection_id"] = address.connection
    return _called(method, about | fields, address, out)


def _called(
    method: str,
    fields: dict[str, Plain],
    address: Address,
    out: Outbound | None,
    upload: Upload | None = None,
) -> Call:
    match None if out is None else out.degraded:
        case "thread":
            fields.pop("message_thread_id", None)
        case "reply":
            fields.pop("reply_parameters", None)
        case "formatting":
            for name in ("parse_mode", "entities", "caption_entities"):
                fields.pop(name, None)
        case None:
            pass
    return Call(
        method=method,
        fields=fields,
        address=address,
        upload=upload,
        is_repeatable=_REPEATABLE.fullmatch(method) is not None,
    )


def _refused(code: Code, text: str) -> NotSent:
    return NotSent(code, Permanence.PERMANENT, text=text)


__all__ = [
    "GENERAL_THREAD",
    "MAX_CAPTION",
    "Call",
    "ParseMode",
    "Quote",
    "Upload",
    "call_of",
    "call_of_action",
]
