"""Conversation keys and shards: `<prefix>:<address>`, the unit of ordering, and its fixed hash."""

import re
from functools import lru_cache

from .errors import BusError, Code
from .given import shown
from .names import WHITE_SPACE

__all__ = [
    "check_conversation_key",
    "conversation_key",
    "discord_key",
    "fnv1a32",
    "maep_key",
    "prefix_of",
    "shard_of",
    "slack_key",
    "split_key",
    "telegram_key",
]

_PREFIX = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_KEY = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,31}}:[^{WHITE_SPACE}\ud800-\udfff]+")
_PART = re.compile(rf"[^:{WHITE_SPACE}\ud800-\udfff]+")
_INTEGER = re.compile(r"-?[1-9][0-9]{0,18}")
_POSITIVE = re.compile(r"[1-9][0-9]{0,18}")
_SNOWFLAKE = re.compile(r"[1-9][0-9]{0,19}")
_SLACK_TS = re.compile(r"[0-9]+\.[0-9]+")
_BASE58 = re.compile(r"[1-9A-HJ-NP-Za-km-z]+")
_TELEGRAM_NAME = "tg:@"

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193


def conversation_key(prefix: str, id: str) -> str:
    """Join a channel's prefix and an address, in general; the channels below have stricter constructors.

    Args:
        prefix: `[a-z0-9][a-z0-9_-]{0,31}`, such as `tg`.
        id: The address in the channel's words: not empty, no white space anywhere.
    Raises:
        BusError: INVALID_MESSAGE.
    """
    if not _is_text(prefix) or _PREFIX.fullmatch(prefix) is None:
        raise BusError(
            Code.INVALID_MESSAGE, f"prefix {shown(prefix)} must be 1 to 32 of [a-z0-9_-]", field="prefix"
        )
    if not _is_text(id):
        raise _bad_part("id", id, "text")
    return check_conversation_key(f"{prefix}:{id}")


def check_conversation_key(key: str) -> str:
    """Check the form of a ready key.

    Returns:
        `key`, unchanged.
    Raises:
        BusError: INVALID_MESSAGE, not `<prefix>:<address>`, or it holds white space, or it is `tg:@name`.
    """
    if not _is_text(key) or _KEY.fullmatch(key) is None:
        raise BusError(
            Code.INVALID_MESSAGE,
            f"conversation_key {shown(key)} must be <prefix>:<address> without white space",
            field="conversation_key",
        )
    if key.startswith(_TELEGRAM_NAME):
        raise BusError(
            Code.INVALID_MESSAGE,
            f"conversation_key {shown(key)} is never deliverable: a bot cannot write to a user name;"
            " use the numeric chat id from a message of that chat, tg:<chat_id>",
            field="conversation_key",
        )
    return key


def telegram_key(
    chat_id: int | str,
    *,
    thread: int | str | None = None,
    connection: str | None = None,
    direct: int | str | None = None,
) -> str:
    """Name a Telegram chat, one of its topics, or a business connection's chat.

    Args:
        chat_id: Non-zero integer, negative for groups, as number or decimal text.
        thread: message_thread_id of a forum topic, > 0.
        connection: business_connection_id.
        direct: topic_id of one person's messages to a channel, > 0. Of the three at most one.
    Returns:
        `tg:<chat>`, `tg:<chat>:t<thread>`, `tg:<chat>:b<connection>` or `tg:<chat>:d<direct>`.
    Raises:
        BusError: INVALID_MESSAGE.
    """
    chat = str(chat_id)
    if chat.startswith("@"):
        check_conversation_key(f"tg:{chat}")
    if _INTEGER.fullmatch(chat) is None:
        raise _bad_part("telegram chat", chat_id, "a non-zero integer")
    if sum(part is not None for part in (thread, connection, direct)) > 1:
        raise BusError(Code.INVALID_MESSAGE, "a telegram key has one of thread, connection and direct")
    for letter, topic in (("t", thread), ("d", direct)):
        if topic is not None:
            if _POSITIVE.fullmatch(str(topic)) is None:
                raise _bad_part("telegram thread", topic, "a positive integer")
            return f"tg:{chat}:{letter}{topic}"
    if connection is not None:
        return f"tg:{chat}:b{_part('telegram connection', connection)}"
    return f"tg:{chat}"


def slack_key(team: str, channel: str, thread: str | None = None) -> str:
    """Name a Slack channel or one of its threads (`thread` = thread_ts, a decimal text).

    Raises:
        BusError: INVALID_MESSAGE.
    """
    key = f"slack:{_part('slack team', team)}:{_part('slack channel', channel)}"
    if thread is None:
        return key
    if _SLACK_TS.fullmatch(thread) is None:
        raise _bad_part("slack thread", thread, "a timestamp such as 1760000000.000100")
    return f"{key}:{thread}"


def discord_key(snowflake: int | str) -> str:
    """Name a Discord channel or thread by its snowflake, 1 … 2⁶⁴-1; as text no digit is lost.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    channel = str(snowflake)
    if _SNOWFLAKE.fullmatch(channel) is None or int(channel) >= 2**64:
        raise _bad_part("discord channel", snowflake, "a snowflake, a positive integer below 2**64")
    return f"discord:{channel}"


def maep_key(peer: str) -> str:
    """Name a MAEP peer by its peer id (base58, without the `maep:` of a node id).

    Raises:
        BusError: INVALID_MESSAGE.
    """
    if _BASE58.fullmatch(peer) is None:
        raise _bad_part("maep peer", peer, "a base58 peer id")
    return f"maep:{peer}"


def prefix_of(key: str) -> str:
    """Return the prefix of a key, which names its channel.

    Raises:
        BusError: INVALID_MESSAGE, `key` is no `<prefix>:<address>`.
    """
    return split_key(key)[0]


def split_key(key: str) -> tuple[str, str]:
    """Split a key into prefix and address; the address may hold more colons.

    Raises:
        BusError: INVALID_MESSAGE, `key` is no `<prefix>:<address>`.
    """
    prefix, colon, address = key.partition(":") if _is_text(key) else ("", "", "")
    if not prefix or not colon or not address:
        raise BusError(Code.INVALID_MESSAGE, f"conversation_key {shown(key)} must be <prefix>:<address>")
    return prefix, address


def fnv1a32(data: bytes) -> int:
    """Hash bytes with FNV-1a, 32 bits: the same number in every process and release."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return value


# Bounded: an idle conversation must not cost an object for ever. The loop above costs 15 times the look-up.
@lru_cache(maxsize=16_384)
def shard_of(key: str, shard_count: int) -> int:
    """Return the shard that owns a conversation: `fnv1a32(utf8(key)) % shard_count`.

    Args:
        key: A checked conversation key.
        shard_count: >= 1, fixed for the life of a store.
    """
    return fnv1a32(key.encode()) % shard_count


def _is_text(value: object) -> bool:
    # Typed as text, yet handlers and adapters are not all checked for types.
    return isinstance(value, str)


def _part(what: str, value: str) -> str:
    if _PART.fullmatch(value) is None:
        raise _bad_part(what, value, "not empty, without white space and ':'")
    return value


def _bad_part(what: str, value: object, wanted: str) -> BusError:
    return BusError(Code.INVALID_MESSAGE, f"{what} {shown(value)} must be {wanted}", field=what)
