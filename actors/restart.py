"""The restart rules of a supervisor, apart from its tasks: who restarts, how often, after which delay.

Words: *permanent* children always run on, *transient* ones end well on their own, *temporary* ones run once.
A *budget* bounds the restarts of a period; what exceeds it escalates to the supervisor's own parent.
"""

import enum
import math
from collections.abc import Sequence

import attrs

__all__ = ["Backoff", "Restart", "RestartBudget", "Strategy", "affected", "should_restart", "spend"]


class Restart(enum.Enum):
    """When a child that has ended runs again."""

    PERMANENT = "permanent"
    TRANSIENT = "transient"
    TEMPORARY = "temporary"


class Strategy(enum.Enum):
    """Which children share a crash."""

    ONE_FOR_ONE = "one_for_one"
    ONE_FOR_ALL = "one_for_all"
    REST_FOR_ONE = "rest_for_one"


@attrs.frozen
class RestartBudget:
    """At most `intensity` restarts in any `period_s` seconds; an intensity of 0 escalates the first crash."""

    intensity: int = attrs.field(default=5, validator=attrs.validators.ge(0))
    period_s: float = attrs.field(default=30.0, validator=attrs.validators.gt(0))


@attrs.frozen
class Backoff:
    """The delay before a restart, seconds: `initial_s`, then times `multiplier`, never over `max_s`."""

    initial_s: float = attrs.field(default=0.1, validator=attrs.validators.gt(0))
    max_s: float = attrs.field(default=5.0, validator=attrs.validators.gt(0))
    multiplier: float = attrs.field(default=2.0, validator=attrs.validators.ge(1))

    def delay_s(self, n: int) -> float:
        """Tell how long to wait when `n` restarts came shortly before.

        >>> [Backoff().delay_s(n) for n in range(7)]
        [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]

        Args:
            n: >= 0.
        Returns:
            Seconds, > 0 and <= `max_s`.
        """
        # Compared as logarithms: a power of a large n is past every float.
        if n * math.log(self.multiplier) >= math.log(self.max_s / self.initial_s):
            return self.max_s
        return self.initial_s * self.multiplier**n


def spend(restarts_s: tuple[float, ...], now_s: float, budget: RestartBudget) -> tuple[float, ...] | None:
    """Take one restart from the budget.

    >>> spend((0.0, 20.0), 31.0, RestartBudget(intensity=2, period_s=30.0))
    (20.0, 31.0)
    >>> spend((10.0, 20.0), 31.0, RestartBudget(intensity=2, period_s=30.0)) is None
    True

    Args:
        restarts_s: Shape (n,); what the last call returned, () at first; monotonic seconds, ascending.
        now_s: Monotonic seconds, >= the last of `restarts_s`.
        budget: The bound.
    Returns:
        The restarts less than a period old, this one last: at most `intensity`. None: the budget is spent, escalate.
    """
    recent_s = tuple(at_s for at_s in restarts_s if now_s - at_s < budget.period_s)
    return None if len(recent_s) >= budget.intensity else (*recent_s, now_s)


def affected(strategy: Strategy, names: Sequence[str], failed: str) -> tuple[str, ...]:
    """Name the children that stop and start again when one fails, in child order.

    >>> affected(Strategy.REST_FOR_ONE, ["journal", "inbox", "shards"], "inbox")
    ('inbox', 'shards')

    Args:
        strategy: Who shares a crash.
        names: Shape (n,); all children in start order, unique.
        failed: One of `names`.
    Returns:
        Shape (1 ... n,); `failed` is always among them.
    Raises:
        ValueError: `failed` is no child.
    """
    at = names.index(failed)
    match strategy:
        case Strategy.ONE_FOR_ONE:
            return (failed,)
        case Strategy.ONE_FOR_ALL:
            return tuple(names)
        case Strategy.REST_FOR_ONE:
            return tuple(names[at:])


def should_restart(restart: Restart, crashed: bool) -> bool:
    """Say whether a child that has ended runs again; `crashed` is False for an end without an exception."""
    match restart:
        case Restart.PERMANENT:
            return True
        case Restart.TRANSIENT:
            return crashed
        case Restart.TEMPORARY:
            return False
