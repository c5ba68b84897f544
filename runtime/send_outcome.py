"""What the outcome of a send means for its row. Pure: the adapter has classified, nothing here looks at texts."""

from __future__ import annotations

from ..actors.errors import Code, Permanence
from ..actors.value import value
from ..storage.commands import OutboxMove
from ..storage.records import OnUncertain, OutboxRecord, OutboxState
from .channel import Degradation, NotSent, SendOutcome, Sent, Uncertain
from .defaults import MIN_DELAY_S, PAUSE_JITTER_S
from .outbox_rules import Defer, Drop, Failed, FoundAtStart, OutboxEvent, Release, outbox_move, sent_move
from .outbox_rules import Sent as SentEvent
from .outbox_rules import Uncertain as UncertainEvent
from .retry import RetryPolicy


@value
class SendPolicy:
    """What decides over one send.

    Attributes:
        retry: Of the channel.
        on_uncertain: The message's own policy, or the channel's.
        can_look_up: The adapter can be asked whether a send went out.
    """

    retry: RetryPolicy
    on_uncertain: OnUncertain
    can_look_up: bool


def outcome_moves(
    record: OutboxRecord,
    outcome: SendOutcome | None,
    policy: SendPolicy,
    *,
    now_us: int,
    unit: float,
    degraded: Degradation | None = None,
) -> tuple[OutboxMove, ...]:
    """The transitions of a flying row; only an uncertain send that the policy drops takes two.

    Args:
        record: The row, flying.
        outcome: What the adapter said; None means that no byte left.
        policy: Of this send.
        now_us: Wall clock, microseconds since 1970 UTC.
        unit: A number drawn evenly from [0, 1), for the jitter.
        degraded: What was given up in the call that this is the outcome of.
    """
    if isinstance(outcome, Sent):
        sent = SentEvent(outcome.platform_message_id, outcome.deduped, degraded)
        return (sent_move(record, sent, now_us=now_us),)
    wait_us = retry_wait_us(record, policy, unit)
    event: OutboxEvent
    match outcome:
        case None:
            event = Release()
        case NotSent(code=Code.BAD_TOKEN as code):
            event = Defer(code=str(code))
        case NotSent(code=Code.RATE_LIMITED as code, retry_after_s=after_s):
            rest_us = wait_us if after_s is None else pause_us(after_s, unit)
            event = Defer(now_us + rest_us, rest_us, str(code))
        case NotSent(permanence=Permanence.UNCERTAIN, code=code):
            return _unknown(record, str(code), policy, now_us, wait_us)
        case NotSent(code=code, permanence=permanence, retry_after_s=after_s, text=text):
            said = text or code.meaning
            wait_us = wait_us if after_s is None else max(wait_us, pause_us(after_s, unit))
            is_hopeless = permanence is Permanence.PERMANENT or code is Code.TOO_LARGE
            if is_hopeless or policy.retry.is_spent(record.attempts):
                event = Failed(str(code), said)
            else:
                event = Failed(str(code), said, now_us + wait_us, wait_us)
        case Uncertain(reason=reason):
            return _unknown(record, reason, policy, now_us, wait_us)
    return (outbox_move(record, event, now_us=now_us, claim=record.claim),)


def found_moves(
    record: OutboxRecord, policy: SendPolicy, *, now_us: int, unit: float
) -> tuple[OutboxMove, ...]:
    """The transitions of a row found flying at start: nobody knows whether it went out."""
    due_us, wait_us = _next_try(record, policy, now_us, retry_wait_us(record, policy, unit))
    first = outbox_move(record, FoundAtStart(due_us, wait_us), now_us=now_us, claim=record.claim)
    return _with_drop(first, policy, now_us)


def retry_wait_us(record: OutboxRecord, policy: SendPolicy, unit: float) -> int:
    """How long to wait after the attempt that the record counts last, microseconds."""
    return round(policy.retry.delay_s(max(0, record.attempts - 1), unit) * 1e6)


def lets_next_go(record: OutboxRecord) -> bool:
    """Whether the next row of the conversation may start: this one has ended, or waits for a person."""
    state = record.state
    return (
        state is OutboxState.SENT
        or state is OutboxState.DEAD
        or (state is OutboxState.UNCERTAIN and record.next_attempt_at_us is None)
    )


def pause_us(after_s: float, unit: float) -> int:
    """What a platform asks for, a little longer so that not all come back at once; never nothing, whatever it asks."""
    return round(max(MIN_DELAY_S, after_s + unit * PAUSE_JITTER_S) * 1e6)


def _unknown(
    record: OutboxRecord, reason: str, policy: SendPolicy, now_us: int, wait_us: int
) -> tuple[OutboxMove, ...]:
    due_us, wait = _next_try(record, policy, now_us, wait_us)
    first = outbox_move(record, UncertainEvent(reason, due_us, wait), now_us=now_us, claim=record.claim)
    return _with_drop(first, policy, now_us)


def _next_try(
    record: OutboxRecord, policy: SendPolicy, now_us: int, wait_us: int
) -> tuple[int | None, int | None]:
    """When an uncertain row is looked up or sent again; (None, None) leaves it to a person."""
    if policy.can_look_up:
        return now_us, 0
    if policy.on_uncertain is OnUncertain.RESEND and not policy.retry.is_spent(record.attempts):
        return now_us + wait_us, wait_us
    return None, None


def _with_drop(first: OutboxMove, policy: SendPolicy, now_us: int) -> tuple[OutboxMove, ...]:
    if policy.can_look_up or policy.on_uncertain is not OnUncertain.DROP:
        return (first,)
    return (first, outbox_move(first.after, Drop(), now_us=now_us, claim=first.after.claim))
