"""A durable actor runtime for chat bots.

Messages come in from channels and are on disk before they are acknowledged; each conversation is handled strictly in
order, thousands side by side; what a handler decides is stored in one commit with "this message is done"; and every
send has an honest end.
"""

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
from .runtime.handled import Handled
from .runtime.receipt import Receipt
from .runtime.recurrence import Cron, Every
from .runtime.retry import RetryPolicy
from .runtime.run import ExitCode, run
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
