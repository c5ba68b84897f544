"""Whether the store is well, in words for whoever is woken by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..actors.errors import Code
from ..actors.value import value
from .defaults import LOG_WARN_BYTES

if TYPE_CHECKING:
    from ..storage.condition import LogState, StoreCondition
    from .intake import IntakeStatus

_MIB: Final = 1024 * 1024

_TROUBLES: Final = {
    Code.STORE_FULL: "the disk is full: free space, all goes on by itself",
    Code.STORE_BUSY: "another process holds the store's write lock: end it, all goes on by itself",
}


@value(kw_only=True)
class StoreHealth:
    """Whether the store is well.

    Attributes:
        problems: What is wrong, one sentence each; empty if nothing.
        waiting: Commits that the disk has not taken yet.
        log_bytes: Length of the write-ahead log.
    """

    problems: tuple[str, ...]
    waiting: int
    log_bytes: int

    @property
    def is_ok(self) -> bool:
        """Nothing is wrong."""
        return not self.problems


def pinned_by(log: LogState) -> str:
    """Whose reader keeps a log from being begun anew, and for how long it has."""
    return f"for {log.pinned_s:.0f} s {'a read of this bot' if log.is_own else 'a reader of another process'}"


def store_health(condition: StoreCondition, intake: IntakeStatus) -> StoreHealth:
    """Put in words how the store is.

    Args:
        condition: As the store says.
        intake: As intake has met it.
    """
    problems: list[str] = []
    code = condition.code or intake.store_code
    if code is not None:
        trouble = _TROUBLES.get(code, f"the disk fails ({code}): it is tried again")
        waiting = f"{condition.waiting:,} commits wait" if condition.waiting else "no message is taken in"
        problems.append(f"{code}: {trouble}; {waiting}")
    log = condition.log
    if log.pinned_s and log.size_bytes >= LOG_WARN_BYTES:
        problems.append(
            f"the log has grown to {log.size_bytes // _MIB:,} MiB: {pinned_by(log)} has kept a transaction open;"
            + (" restart the bot, and report it" if log.is_own else " end that reader")
        )
    return StoreHealth(
        problems=tuple(problems), waiting=condition.waiting, log_bytes=condition.log.size_bytes
    )


__all__ = ["StoreHealth", "pinned_by", "store_health"]
