"""What can happen to an outbox row: one small frozen value an event, and its word in the history."""

from __future__ import annotations

from ..actors.errors import Code
from ..actors.value import value


@value
class Identity:
    """What an outbox row is known by outside."""

    channel: str
    idempotency_key: str
    part: int


@value
class Start:
    """Begin a send.

    Attributes:
        head: The row is the head of its conversation.
        held: It is a part behind a part that is uncertain or dead.
        waited: The caller has waited out the row's back-off itself; the wall clock, which may have been set back
            meanwhile, is not asked.
    """

    head: bool = True
    held: bool = False
    waited: bool = False


@value
class Resend:
    """Begin the send of an uncertain row again, by policy. The fields are those of `Start`."""

    head: bool = True
    held: bool = False
    waited: bool = False


@value
class Sent:
    """The channel has it; `deduped` says it had it before. `degraded` names what was given up to get it out."""

    platform_message_id: str | None
    deduped: bool = False
    degraded: str | None = None


@value
class Failed:
    """The channel does not have it. Without `retry_at_us` (error permanent, or budget spent) the row is dead."""

    code: str
    text: str
    retry_at_us: int | None = None
    wait_us: int | None = None


@value
class Uncertain:
    """Nobody knows. With `next_at_us` the policy sends it again then; without, the row is parked."""

    reason: str
    next_at_us: int | None = None
    wait_us: int | None = None


@value
class Defer:
    """Not now, by no fault of the row (429, bad token). The attempt is taken back.

    `until_us` is None where only the channel's own state says when (a bad token).
    """

    until_us: int | None = None
    wait_us: int | None = None
    code: str = Code.RATE_LIMITED


@value
class Release:
    """A clean stop before a byte left. The attempt is taken back."""


@value
class Resplit:
    """The channel finds the text too long, and says so for the first time: the row keeps the first piece of it.

    The attempt is taken back. The other pieces are new rows behind it, of the same commit.
    """

    code: str = Code.TOO_LARGE


@value
class FoundAtStart:
    """Recovery found the row flying. `next_at_us`: when the policy sends it again; None parks it."""

    next_at_us: int | None = None
    wait_us: int | None = None


@value
class ReconciledSent:
    """The adapter looked the send up: the channel has it."""

    platform_message_id: str | None


@value
class ReconciledNotSent:
    """The adapter looked the send up: the channel does not have it."""


@value
class ResolveSent:
    """A person says that it was sent."""

    platform_message_id: str | None = None


@value
class ResolveResend:
    """A person wants it sent again: a new arrival at the tail of its conversation, with a new budget."""


@value
class ResolveDead:
    """A person gives it up."""

    code: str = Code.DELIVERY_UNCERTAIN
    text: str = "given up by a person"


@value
class Drop:
    """The policy gives an uncertain row up."""


@value
class Cancel:
    """Take a waiting row back; `code` says why."""

    code: str
    text: str = "cancelled"


@value
class Unhold:
    """The part in front was settled: a held part is a new arrival at the tail of its conversation."""


@value
class Requeue:
    """A person sends a dead row through again, as a new arrival at the tail of its conversation."""


@value
class Purge:
    """A person empties a dead row: what it said goes, its identity stays."""


OutboxEvent = (
    Start
    | Resend
    | Sent
    | Failed
    | Uncertain
    | Defer
    | Release
    | Resplit
    | FoundAtStart
    | ReconciledSent
    | ReconciledNotSent
    | ResolveSent
    | ResolveResend
    | ResolveDead
    | Drop
    | Cancel
    | Unhold
    | Requeue
    | Purge
)

SEND_EVENTS = (Sent, Failed, Uncertain, Defer, Release, Resplit)
"""Outcomes of a send: they must name the claim it was started under."""

TAIL_EVENTS = (Requeue, ResolveResend, Unhold)
"""New arrivals: the row gets a new `seq`."""

_WORDS: dict[type[OutboxEvent], str] = {
    Start: "start",
    Resend: "start",
    Sent: "sent",
    Failed: "failed",
    Uncertain: "uncertain",
    Defer: "defer",
    Release: "release",
    Resplit: "resplit",
    FoundAtStart: "recover",
    ReconciledSent: "reconcile-sent",
    ReconciledNotSent: "reconcile-ready",
    ResolveSent: "resolve-sent",
    ResolveResend: "resolve-resend",
    ResolveDead: "resolve-dead",
    Drop: "drop",
    Cancel: "cancel",
    Unhold: "unhold",
    Requeue: "requeue",
    Purge: "purge",
}


def event_word(event: OutboxEvent) -> str:
    """The word for `event` in the history."""
    return "dead" if isinstance(event, Failed) and event.retry_at_us is None else _WORDS[type(event)]
