"""A question to a shard, asked again while the shard is starting anew after a crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from ..actors.errors import BusError, Code
from .defaults import CONTROL_CRASHES

if TYPE_CHECKING:
    from ..actors.ref import Reply
    from .services import Services
    from .shard_messages import ShardMessage

ASK_TIMEOUT_S: Final = 30.0
_PAUSE_S: Final = 0.05


async def ask_shard(
    services: Services, shard: int, make_message: Callable[[Reply[int]], ShardMessage]
) -> None:
    """Have a shard carry out what a person decided.

    Args:
        shard: Its number.
        make_message: Builds the message; the shard refuses it with INVALID_TRANSITION once it is carried out.
    Raises:
        BusError: BUS_CLOSED, the runtime stops, or the shard crashed each time it carried this out; HANDLER_TIMEOUT;
            what the shard refuses it with.
    """
    ends_s = trio.current_time() + ASK_TIMEOUT_S
    crashes = 0
    while True:
        left_s = max(0.0, ends_s - trio.current_time())
        try:
            await services.shards[shard].ref.ask(make_message, timeout_s=left_s)
        except BusError as error:
            if crashes and error.code is Code.INVALID_TRANSITION:
                # Committed by the run that crashed before it could answer.
                return
            if error.code is not Code.BUS_CLOSED or services.draining or not left_s:
                raise
            crashes += isinstance(error.__cause__, Exception)
            if crashes >= CONTROL_CRASHES:
                raise
        else:
            return
        await trio.sleep(_PAUSE_S)
