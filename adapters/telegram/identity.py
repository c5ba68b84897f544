"""Who the bot is, and that the store is this bot's: asked before anything is read or sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...actors.errors import BusError, Code
from ..base import Edge
from .address import Lanes
from .api import Api
from .fields import as_object, integer_in, text_in
from .update import Me
from .wire import Ok, Refusal

ACCOUNT: Final = "account"
LANES: Final = "lanes"
"""Names of facts."""


async def ask_me(api: Api) -> Me | Refusal:
    """Ask who the token belongs to.

    Returns:
        The refusal where it is one that may pass: too many requests, an error of the server.
    Raises:
        BusError: BAD_TOKEN, it belongs to nobody.
        CallFailed: There was no complete answer.
    """
    answer = await api.call("getMe", {})
    if isinstance(answer, Refusal):
        if answer.code in {401, 404}:
            raise BusError(
                Code.BAD_TOKEN,
                "the server knows no bot with this token: take a new one from @BotFather, or correct the API's base",
            )
        return answer
    told = as_object(answer.result) or {}
    number = integer_in(told, "id")
    if number is None:
        return Refusal(code=500, description="getMe told no id")
    return Me(id=number, username=text_in(told, "username"))


async def ask_webhook(api: Api) -> str | None:
    """Ask for the web hook that is set; None where there is none, or the server does not tell."""
    answer = await api.call("getWebhookInfo", {})
    return text_in(as_object(answer.result) or {}, "url") if isinstance(answer, Ok) else None


def check_account(edge: Edge, me: Me, lanes: Lanes, *, adopts: bool) -> Mapping[str, str]:
    """Check that the store is this bot's.

    Args:
        edge: Into the store.
        me: The bot.
        lanes: What one conversation is, by the settings.
        adopts: Another bot takes the store over.
    Returns:
        The facts to store with the next message.
    Raises:
        BusError: STORE_MISMATCH, another bot's, or made with other lanes.
    """
    account, stored_lanes = edge.fact(ACCOUNT), edge.fact(LANES)
    if account is not None and account != str(me.id) and not adopts:
        raise BusError(
            Code.STORE_MISMATCH,
            f"the store belongs to the bot {account}, the token to {me.id}: use that bot's token, or another store;"
            " if the bot has changed on purpose, start once with adopt_account=True (--adopt-account)",
            stored=account,
            given=str(me.id),
        )
    if stored_lanes is not None and stored_lanes != lanes:
        raise BusError(
            Code.STORE_MISMATCH,
            f"the store was made with lanes={stored_lanes!r}, which is fixed for its life; the settings say {lanes!r}",
            stored=stored_lanes,
            given=lanes,
        )
    if account == str(me.id) and stored_lanes is not None:
        return {}
    return {ACCOUNT: str(me.id), LANES: lanes}


__all__ = ["ACCOUNT", "LANES", "ask_me", "ask_webhook", "check_account"]
