import io
import re

import pytest

from shardline import Status
from shardline.adapters.transcript import Tally
from shardline.runtime.command.screen import show_table
from shardline.runtime.command.summary import Summary, summarize
from shardline.runtime.intake import IntakeStatus
from shardline.runtime.store_health import StoreHealth
from shardline.storage.records import InboxStatus, OutboxState


def status(
    inbox: dict[InboxStatus, int],
    outbox: dict[OutboxState, int],
    *,
    retried: tuple[int, int] = (0, 0),
    refused: int = 0,
) -> Status:
    return Status(
        breakers=(),
        inbox=inbox,
        outbox=outbox,
        retried=retried,
        run={"refused": refused},
        tokens_free=0,
        running_turns=0,
        channels={},
        actors=(),
        lanes=0,
        running_sends=0,
        overdue_turns=0,
        oldest_turns=(),
        store=StoreHealth(problems=(), waiting=0, log_bytes=0),
        intake=IntakeStatus(
            is_paused=False, backlog=0, resume_at=900, max_backlog=1_000, max_lane_backlog=100
        ),
    )


def summary_of(after: Status, tally: Tally, before: Status | None = None) -> Summary:
    return summarize(before or status({}, {}), after, tally, violations=(0, 0), seconds=2.0)


def test_a_first_run() -> None:
    after = status({InboxStatus.DONE: 10}, {OutboxState.SENT: 10}, refused=2)
    found = summary_of(after, Tally(total=12, settled=12, accepted=10, bad=2))

    assert (found.accepted, found.handled, found.sent, found.refused, found.duplicates) == (10, 10, 10, 2, 0)
    assert (found.run_accepted, found.run_refused, found.messages_per_s) == (10, 2, 5.0)
    assert found.is_clean


def test_the_same_again() -> None:
    before = status({InboxStatus.DONE: 10}, {OutboxState.SENT: 10})
    tally = Tally(total=12, known=8, known_bad=1, settled=12, accepted=0, bad=2)
    found = summary_of(status({InboxStatus.DONE: 10}, {OutboxState.SENT: 10}, refused=1), tally, before)

    assert (found.accepted, found.run_accepted, found.run_handled, found.run_sent) == (10, 0, 0, 0)
    assert (found.duplicates, found.run_duplicates) == (10, 10)
    assert (found.refused, found.run_refused) == (2, 1)
    assert found.messages_per_s == 0


def test_every_line_is_counted_once() -> None:
    for known, known_bad, accepted, new_bad, again in ((0, 0, 7, 3, 2), (20, 4, 9, 0, 5), (20, 0, 0, 0, 0)):
        tally = Tally(
            total=known + accepted + new_bad + again,
            known=known,
            known_bad=known_bad,
            settled=known + accepted + new_bad + again,
            accepted=accepted,
            bad=known_bad + new_bad,
        )
        found = summary_of(status({InboxStatus.DONE: accepted}, {}, refused=new_bad), tally)

        assert found.run_accepted + found.duplicates + found.refused == tally.total


def test_dead_and_uncertain_are_not_clean() -> None:
    tally = Tally()

    assert not summary_of(status({InboxStatus.DEAD: 1}, {}), tally).is_clean
    assert not summary_of(status({}, {OutboxState.DEAD: 1}), tally).is_clean
    assert not summary_of(status({}, {OutboxState.UNCERTAIN: 1}), tally).is_clean
    assert summary_of(status({InboxStatus.PARKED: 1}, {}), tally).is_clean


def test_totals_are_of_the_store_and_run_is_the_difference() -> None:
    before = status(
        {InboxStatus.DONE: 3, InboxStatus.DEAD: 1, InboxStatus.QUEUED: 2},
        {OutboxState.SENT: 3},
        retried=(1, 1),
    )
    after = status(
        {InboxStatus.DONE: 5, InboxStatus.DEAD: 2, InboxStatus.REFUSED: 4},
        {OutboxState.SENT: 5, OutboxState.DEAD: 1, OutboxState.UNCERTAIN: 1},
        retried=(2, 5),
    )
    found = summarize(before, after, Tally(), violations=(1, 3), seconds=4.0)

    assert (found.accepted, found.handled, found.sent, found.retried) == (7, 5, 5, 7)
    assert (found.dead, found.uncertain, found.refused, found.order_violations) == (3, 1, 4, 3)
    assert (found.run_accepted, found.run_handled, found.run_retried) == (1, 2, 5)
    assert (found.run_dead, found.run_uncertain, found.run_order_violations) == (2, 1, 2)
    assert (found.messages_per_s, found.run_seconds) == (0.5, 4.0)


def test_uncertain_sends_that_were_settled_are_not_counted_as_new() -> None:
    before = status({InboxStatus.DONE: 3}, {OutboxState.UNCERTAIN: 3})
    found = summary_of(status({InboxStatus.DONE: 3}, {OutboxState.SENT: 3}), Tally(), before)

    assert (found.uncertain, found.run_uncertain, found.run_sent) == (0, 0, 3)


@pytest.mark.parametrize("columns", ["30", "200"])
def test_a_narrow_terminal_breaks_the_names_and_not_the_figures(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    found = summary_of(status({InboxStatus.DONE: 28_376}, {OutboxState.SENT: 28_375}), Tally())
    said = io.StringIO()
    show_table(found, said)

    assert max(map(len, said.getvalue().splitlines())) <= int(columns)
    for count in ("28,376", "28,375"):
        assert re.search(rf"{count} │ +{count} │", said.getvalue())
    assert "…" not in said.getvalue()
