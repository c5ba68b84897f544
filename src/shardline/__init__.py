"""A durable actor runtime for chat bots.

Messages come in from channels and are on disk before they are acknowledged; each conversation is handled strictly in
order, thousands side by side; what a handler decides is stored in one commit with "this message is done"; and every
send has an honest end.
"""

from typing import TYPE_CHECKING

from .actors.lazy_names import lazy_names

if TYPE_CHECKING:
    from .actors.content import SendRef
    from .actors.envelope import MessageEnvelope
    from .actors.errors import BusError, Code, Permanence, Permanent, RetryLater, error_code_of
    from .actors.event import Event
    from .actors.extensions import Extensions
    from .actors.homes import shard_of
    from .actors.keys import conversation_key
    from .actors.message import BusMessage, Direction
    from .runtime.app import Runtime
    from .runtime.breaker import Breaker
    from .runtime.context import Context
    from .runtime.exit_code import ExitCode
    from .runtime.handled import Handled
    from .runtime.receipt import Receipt
    from .runtime.recurrence import Cron, Every
    from .runtime.retry import RetryPolicy
    from .runtime.run import run
    from .runtime.sender import Delivered
    from .runtime.status import Status
    from .runtime.timer_rules import ScheduleId
    from .runtime.topology import Topology

__version__ = "0.1.0"

__all__ = [
    "Breaker",
    "BusError",
    "BusMessage",
    "Code",
    "Context",
    "Cron",
    "Delivered",
    "Direction",
    "Event",
    "Every",
    "ExitCode",
    "Extensions",
    "Handled",
    "MessageEnvelope",
    "Permanence",
    "Permanent",
    "Receipt",
    "RetryLater",
    "RetryPolicy",
    "Runtime",
    "ScheduleId",
    "SendRef",
    "Status",
    "Topology",
    "conversation_key",
    "error_code_of",
    "run",
    "shard_of",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {
            "Breaker": "runtime.breaker",
            "BusError": "actors.errors",
            "BusMessage": "actors.message",
            "Code": "actors.errors",
            "Context": "runtime.context",
            "Cron": "runtime.recurrence",
            "Delivered": "runtime.sender",
            "Direction": "actors.message",
            "Event": "actors.event",
            "Every": "runtime.recurrence",
            "ExitCode": "runtime.exit_code",
            "Extensions": "actors.extensions",
            "Handled": "runtime.handled",
            "MessageEnvelope": "actors.envelope",
            "Permanence": "actors.errors",
            "Permanent": "actors.errors",
            "Receipt": "runtime.receipt",
            "RetryLater": "actors.errors",
            "RetryPolicy": "runtime.retry",
            "Runtime": "runtime.app",
            "ScheduleId": "runtime.timer_rules",
            "SendRef": "actors.content",
            "Status": "runtime.status",
            "Topology": "runtime.topology",
            "conversation_key": "actors.keys",
            "error_code_of": "actors.errors",
            "run": "runtime.run",
            "shard_of": "actors.homes",
        },
    )
    del TYPE_CHECKING, lazy_names
