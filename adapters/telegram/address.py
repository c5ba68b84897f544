"""What names a conversation of Telegram: a chat, one of its topics, or a chat of a business connection. Pure.

A channel's direct messages are one chat with a topic for each person who writes to it.
"""

from __future__ import annotations

import re
from typing import Literal

import attrs

from ...runtime.rates import Chat

Lanes = Literal["topic", "chat"]
"""What is one conversation: each topic of a forum, or the whole chat."""

_ADDRESS = re.compile(r"(-?[1-9][0-9]{0,18})(?::t([1-9][0-9]{0,18})|:b([^:\s]+)|:d([1-9][0-9]{0,18}))?")
_MESSAGE = re.compile(r"(-?[1-9][0-9]{0,18})(?::[tbd][^:\s]+)?:([1-9][0-9]{0,18})(?::edit:[0-9]+)?")


@attrs.frozen
class Address:
    """Where a message belongs.

    Attributes:
        chat: The chat's id, not 0; negative for groups and channels.
        thread: The topic of a forum.
        connection: The business connection.
        direct: The topic of one person among a channel's direct messages.
    """

    chat: int
    thread: int | None = None
    connection: str | None = None
    direct: int | None = None

    def __str__(self) -> str:
        if self.thread is not None:
            return f"{self.chat}:t{self.thread}"
        if self.direct is not None:
            return f"{self.chat}:d{self.direct}"
        return str(self.chat) if self.connection is None else f"{self.chat}:b{self.connection}"


def read_address(text: str) -> Address | None:
    """Read the address of a conversation key; None where it is none of Telegram's."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return None
    chat, thread, connection, direct = found.groups()
    return Address(
        int(chat),
        None if thread is None else int(thread),
        connection,
        None if direct is None else int(direct),
    )


def chat_of(address: str) -> Chat:
    """Whom the platform counts: topics of one group share its rate."""
    read = read_address(address)
    if read is None:
        return Chat(address)
    return Chat(str(read.chat), is_group=read.chat < 0)


def message_name(address: Address, message: int) -> str:
    """A message's id, unique in the channel: message ids of Telegram count inside one chat."""
    return f"{address}:{message}"


def message_in(name: str) -> tuple[int, int] | None:
    """The chat and the message id of a `message_name`, also of an edit's; None where it is none."""
    found = _MESSAGE.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))


__all__ = ["Address", "Lanes", "chat_of", "message_in", "message_name", "read_address"]
