"""aiogram without a network."""

from collections.abc import AsyncGenerator
from typing import cast

from aiogram import Bot
from aiogram.client.session.base import BaseSession
from aiogram.methods import SendMessage, TelegramMethod
from aiogram.methods.base import TelegramType
from aiogram.types import Message

from . import CHAT


class Session(BaseSession):
    """Prints what the bot sends."""

    async def close(self) -> None:
        """There is nothing open."""

    async def make_request(
        self,
        bot: Bot,
        method: TelegramMethod[TelegramType],
        timeout: int | None = None,  # noqa: ASYNC109 (aiogram's signature)
    ) -> TelegramType:
        """Answer as Telegram does."""
        text = method.text if isinstance(method, SendMessage) else ""
        print(type(method).__name__, text)
        said = Message.model_validate({"message_id": 100, "date": 0, "chat": CHAT, "text": text})
        return cast("TelegramType", said)

    async def stream_content(
        self,
        url: str,
        headers: dict[str, object] | None = None,
        timeout: int = 30,  # noqa: ASYNC109
        chunk_size: int = 65536,
        raise_for_status: bool = True,
    ) -> AsyncGenerator[bytes, None]:
        """No files here."""
        yield b""
