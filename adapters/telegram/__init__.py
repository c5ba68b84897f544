"""The Telegram channel, of the extra `shardline[telegram]`."""

from .actor import Telegram
from .commands import Command, command_in
from .limits import LIMITS
from .markup import (
    Button,
    Keyboard,
    answer_callback,
    button,
    inline_keyboard,
    message,
    remove_keyboard,
    reply_keyboard,
)
from .webhook import Webhook

__all__ = [
    "LIMITS",
    "Button",
    "Command",
    "Keyboard",
    "Telegram",
    "Webhook",
    "answer_callback",
    "button",
    "command_in",
    "inline_keyboard",
    "message",
    "remove_keyboard",
    "reply_keyboard",
]
