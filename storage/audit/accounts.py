"""Whose accounts a store has: two bots on one platform are not two hands on one conversation."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, cast

import apsw

from ...actors.codec import unpack_plain
from ...actors.errors import BusError

ACCOUNT_FACT: Final = "account"
"""A channel's own fact: what it is to its platform, such as a bot's number."""
_MOST_BYTES: Final = 64 * 1024
# As bytes: one text that is no UTF-8 would keep all from being read.
_FACTS: Final = "SELECT CAST(namespace AS BLOB), value FROM fact WHERE key = ?"


def read_accounts(database: apsw.Connection) -> dict[str, str]:
    """By channel, its account; a channel that stores none is left out."""
    facts = database.execute(_FACTS, (ACCOUNT_FACT,)).fetchall()
    accounts: dict[str, str] = {}
    for channel, packed in cast("list[tuple[bytes, bytes]]", facts):
        # Nobody but a channel writes there, and what cannot be read names nobody.
        with suppress(BusError, UnicodeDecodeError):
            account = unpack_plain(packed, limit_bytes=_MOST_BYTES)
            if isinstance(account, str):
                accounts[channel.decode()] = account
    return accounts
