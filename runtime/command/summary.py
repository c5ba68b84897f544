"""What a demo run came to: pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs

from ...adapters.transcript import Tally
from ...storage.records import InboxStatus, OutboxState
from ..status import Status


@attrs.frozen(kw_only=True)
class Summary:
    """Totals of the store, and beside each what this run added (`run_…`).

    Attributes:
        accepted: Messages in the store.
        duplicates: Lines of the log that were in the store already. Not stored, so both numbers are this run's.
        refused: Bad lines of the log, and messages that were refused.
        handled: Messages whose turn is done.
        sent: Answers that the store records as sent.
        retried: Turns and sends that were tried again.
        uncertain: Sends whose result nobody knows, waiting for a decision.
        dead: Messages and sends that gave up.
        order_violations: Lines of the sink whose turn is below an earlier one of their conversation.
        messages_per_s: Messages handled a second in this run.
        run_seconds: How long this run took.
    """

    accepted: int
    duplicates: int
    refused: int
    handled: int
    sent: int
    retried: int
    uncertain: int
    dead: int
    order_violations: int
    messages_per_s: float
    run_accepted: int
    run_duplicates: int
    run_refused: int
    run_handled: int
    run_sent: int
    run_retried: int
    run_uncertain: int
    run_dead: int
    run_order_violations: int
    run_seconds: float

    @property
    def is_clean(self) -> bool:
        """Nothing waits for a person."""
        return not self.dead and not self.uncertain


class Counted(Protocol):
    """What a store holds, by status."""

    @property
    def inbox(self) -> Mapping[InboxStatus, int]:
        """Messages."""
        ...

    @property
    def outbox(self) -> Mapping[OutboxState, int]:
        """Sends."""
        ...

    @property
    def retried(self) -> tuple[int, int]:
        """Turns and sends that were tried again."""
        ...


def summarize(
    before: Counted | None, after: Status, tally: Tally, *, violations: tuple[int, int], seconds: float
) -> Summary:
    """Compare the end of a run with its start.

    Args:
        before: The store as the run found it; None where there was none.
        after: As the run left it.
        tally: Of the log.
        violations: Order violations in the sink before and after.
        seconds: How long it took.
    """
    refused = after.run.get("refused", 0)
    # What was settled and is neither new nor refused was in the store already.
    duplicates = max(0, tally.settled - tally.known_bad - tally.accepted - refused)
    ended = _totals(after)
    begun = dict.fromkeys(ended, 0) if before is None else _totals(before)
    handled = ended["handled"] - begun["handled"]
    return Summary(
        **ended,
        duplicates=duplicates,
        refused=after.inbox.get(InboxStatus.REFUSED, 0)
        + tally.known_bad
        + (refused - after.run.get("refused_stored", 0)),
        order_violations=violations[1],
        messages_per_s=round(handled / seconds, 1) if seconds > 0 else 0.0,
        run_accepted=ended["accepted"] - begun["accepted"],
        run_duplicates=duplicates,
        run_refused=refused,
        run_handled=handled,
        run_sent=ended["sent"] - begun["sent"],
        run_retried=ended["retried"] - begun["retried"],
        # What recovery found uncertain and this run settled is no negative number of new ones.
        run_uncertain=max(0, ended["uncertain"] - begun["uncertain"]),
        run_dead=ended["dead"] - begun["dead"],
        run_order_violations=violations[1] - violations[0],
        run_seconds=round(seconds, 3),
    )


def _totals(status: Counted) -> Mapping[str, int]:
    inbox, outbox = status.inbox, status.outbox
    return {
        "accepted": sum(inbox.values()) - inbox.get(InboxStatus.REFUSED, 0),
        "handled": inbox.get(InboxStatus.DONE, 0),
        "sent": outbox.get(OutboxState.SENT, 0),
        "retried": sum(status.retried),
        "uncertain": outbox.get(OutboxState.UNCERTAIN, 0),
        "dead": inbox.get(InboxStatus.DEAD, 0) + outbox.get(OutboxState.DEAD, 0),
    }


__all__ = ["Summary", "summarize"]
