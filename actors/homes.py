"""Which shard owns a conversation, for programs: as `keys.shard_of`, whose arguments are checked already."""

from . import keys
from .errors import BusError, Code
from .given import is_whole, shown

__all__ = ["shard_of"]


def shard_of(key: str, shard_count: int) -> int:
    """Return the shard that owns a conversation: `fnv1a32(utf8(key)) % shard_count`.

    Args:
        key: A conversation key.
        shard_count: Of the store, >= 1.
    Raises:
        BusError: INVALID_MESSAGE.
    """
    if not is_whole(shard_count, lowest=1):
        raise BusError(Code.INVALID_MESSAGE, f"shard_count must be an integer >= 1, not {shown(shard_count)}")
    return keys.shard_of(keys.check_conversation_key(key), shard_count)
