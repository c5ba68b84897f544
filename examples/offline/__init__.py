"""What Telegram would say and answer, for the examples that run beside its libraries."""

from typing import Final

CHAT: Final[dict[str, object]] = {"id": 7, "type": "private"}
ME: Final[dict[str, object]] = {"id": 1, "is_bot": True, "first_name": "bot", "username": "bot"}


def update_of(number: int, text: str) -> dict[str, object]:
    """Somebody says something."""
    return {"update_id": number, "message": {"message_id": number, "date": 0, "chat": CHAT, "text": text}}
