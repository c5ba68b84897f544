"""What a text of Telegram can have beyond its words, as an `Action` that `ctx.reply` takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...actors.content import Action
from ...actors.errors import BusError, Code
from ...actors.plain import Plain
from ...runtime.split import length_of
from .calls import ParseMode

_MAX_TEXT = 4_096
_MAX_DATA_BYTES = 64

Button = Mapping[str, Plain]
Keyboard = Mapping[str, Plain]


def message(
    text: str,
    *,
    parse_mode: ParseMode | None = None,
    entities: Sequence[Mapping[str, Plain]] | None = None,
    keyboard: Keyboard | None = None,
    reply_to: int | None = None,
    silent: bool = False,
    link_preview: bool = True,
    **more: Plain,
) -> Action:
    """A text with formatting, a keyboard or a quote: `ctx.reply(message("*hi*", parse_mode="MarkdownV2"))`.

    Args:
        text: At most 4,096 UTF-16 units; it is not cut.
        parse_mode: How the text is to be read; where it cannot be, it is sent once more as it is.
        entities: Instead of a parse mode.
        keyboard: What `inline_keyboard`, `reply_keyboard` or `remove_keyboard` made.
        reply_to: The message id that is quoted.
        silent: Without a sound.
        link_preview: Show what a link leads to.
        more: Any other parameter of sendMessage.
    Raises:
        BusError: INVALID_MESSAGE, an empty text; TOO_LARGE.
    """
    if not text.strip():
        raise BusError(Code.INVALID_MESSAGE, "a text needs at least one visible character", field="text")
    if length_of(text, "utf16") > _MAX_TEXT:
        raise BusError(Code.TOO_LARGE, f"a text has at most {_MAX_TEXT} UTF-16 units", limit=_MAX_TEXT)
    data: dict[str, Plain] = {"text": text, **more}
    if parse_mode is not None:
        data["parse_mode"] = parse_mode
    if entities is not None:
        data["entities"] = [dict(one) for one in entities]
    if keyboard is not None:
        data["reply_markup"] = dict(keyboard)
    if reply_to is not None:
        data["reply_parameters"] = {"message_id": reply_to}
    if silent:
        data["disable_notification"] = True
    if not link_preview:
        data["link_preview_options"] = {"is_disabled": True}
    return Action("sendMessage", data)


def button(text: str, *, data: str | None = None, url: str | None = None) -> Button:
    """A button below a message: it sends `data` back (1 to 64 bytes), or opens `url`.

    Raises:
        BusError: INVALID_MESSAGE, neither or both, or the data are too long.
    """
    if (data is None) == (url is None):
        raise BusError(Code.INVALID_MESSAGE, "a button has data or a url")
    if data is None:
        return {"text": text, "url": url}
    if not 1 <= len(data.encode()) <= _MAX_DATA_BYTES:
        raise BusError(
            Code.INVALID_MESSAGE, f"a button's data are 1 to {_MAX_DATA_BYTES} bytes", field="data"
        )
    return {"text": text, "callback_data": data}


def inline_keyboard(*rows: Sequence[Button]) -> Keyboard:
    """Buttons below a message, row by row."""
    return {"inline_keyboard": [[dict(one) for one in row] for row in rows]}


def reply_keyboard(*rows: Sequence[str], one_time: bool = False) -> Keyboard:
    """Keys that write their own text, instead of the keyboard of letters."""
    keys: list[Plain] = [[{"text": one} for one in row] for row in rows]
    return {"keyboard": keys, "resize_keyboard": True, "one_time_keyboard": one_time}


def remove_keyboard() -> Keyboard:
    """Take `reply_keyboard` away."""
    return {"remove_keyboard": True}


def answer_callback(query_id: str, text: str = "", *, alert: bool = False) -> Action:
    """The end of a button's waiting sign, for `ctx.ephemeral`; `query_id` is the message's `extensions.event_id`."""
    data: dict[str, Plain] = {"id": query_id}
    if text:
        data |= {"text": text, "show_alert": alert}
    return Action("answer_callback", data)


__all__ = [
    "Button",
    "Keyboard",
    "answer_callback",
    "button",
    "inline_keyboard",
    "message",
    "remove_keyboard",
    "reply_keyboard",
]
