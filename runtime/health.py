"""How a runtime is, in plain words: what is wrong, since when, and what to do about it.

The rules are pure; `HealthWatch` asks the parts of the runtime, and remembers since when each thing has been so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final, Literal

import attrs

from ..actors.child import ChildState, ChildStatistics
from ..actors.errors import Code
from .breaker import CircuitState
from .defaults import LOG_WARN_BYTES, TURN_OVERDUE_S
from .store_health import pinned_by

if TYPE_CHECKING:
    from ..storage.condition import LogState, Moved
    from .channel_status import ChannelStatus
    from .edge_report import EdgeReport
    from .intake import IntakeStatus
    from .turn_breaker import BreakerStatus

Word = Literal[
    "store_failing",
    "store_moved",
    "log_grown",
    "intake_paused",
    "turns_overdue",
    "suspects_first",
    "breaker_open",
    "channel_stopped",
    "channel_paused",
    "channel_reports",
    "edge_down",
    "sends_uncertain",
    "letters_dead",
]


@unique
class HealthState(StrEnum):
    """How bad it is."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILING = "failing"


@attrs.frozen(kw_only=True)
class Reason:
    """One thing that is not as it should be.

    Attributes:
        word: What it is, for programs.
        about: The channel or handler it is about; empty for the whole runtime.
        state: How bad it is; `ok` is said, and changes nothing.
        text: What it is, for people.
        action: What to do.
        since_us: When it was first seen so, microseconds since 1970 UTC.
    """

    word: Word
    about: str = ""
    state: HealthState
    text: str
    action: str
    since_us: int = 0


@attrs.frozen
class Health:
    """How a runtime is; `state` is that of the worst reason."""

    state: HealthState
    reasons: tuple[Reason, ...]


@attrs.frozen(kw_only=True)
class Facts:
    """What health is judged by.

    Attributes:
        trouble: What keeps the store from writing.
        moved: Which of its files is no longer at its path.
        log: The store's write-ahead log.
        edges: Adapters by name, as their supervisor sees them, and what they say of themselves.
        suspects: Messages of before a crash that run before all others, which wait for them.
        dead: Messages and sends that died in this run.
    """

    trouble: Code | None
    moved: Moved | None
    log: LogState
    intake: IntakeStatus
    overdue_turns: int
    suspects: int
    breakers: tuple[BreakerStatus, ...]
    channels: Mapping[str, ChannelStatus]
    edges: tuple[ChildStatistics, ...]
    reports: Mapping[str, EdgeReport]
    uncertain: int
    dead: int


_MIB: Final = 1024 * 1024
_MOVED: Final[Mapping[Moved, Reason]] = {
    "file": Reason(
        word="store_moved",
        state=HealthState.FAILING,
        text="the store's file was moved, replaced or deleted: the next start will not find what is stored now",
        action="Put the very file back (`mv`, no copy) while the bot runs; leave the files beside it where they are.",
    ),
    "lock": Reason(
        word="store_moved",
        state=HealthState.FAILING,
        text="the store's lock file (.lock) was moved or deleted: another process can open the store beside this one",
        action="Start nothing else on the store; stop the bot in good order, then start it again.",
    ),
    "log": Reason(
        word="store_moved",
        state=HealthState.FAILING,
        text="the store's log (-wal) was moved or deleted: a crash now would lose what it holds",
        action="Stop the bot in good order, which copies the log into the store; then start it again.",
    ),
}
_WORST: Final = (HealthState.OK, HealthState.DEGRADED, HealthState.FAILING)


def judge(facts: Facts) -> Iterator[Reason]:
    """What is wrong, the whole runtime's first."""
    if facts.trouble is not None:
        yield store_failing(facts.trouble)
    if facts.moved is not None:
        yield _MOVED[facts.moved]
    # A log that grew in a burst is given back by itself; only one that a reader keeps is a fault.
    if facts.log.pinned_s and facts.log.size_bytes > LOG_WARN_BYTES:
        yield Reason(
            word="log_grown",
            state=HealthState.DEGRADED,
            text=f"the store's log has {facts.log.size_bytes // _MIB:,} MiB: {pinned_by(facts.log)}"
            " has kept it from being begun anew",
            action="Stop the bot in good order and start it again; then report it."
            if facts.log.is_own
            else "End the reader: a shell, an export or a backup that has the store open for long.",
        )
    if facts.intake.is_paused:
        yield Reason(
            word="intake_paused",
            state=HealthState.DEGRADED,
            text=f"{facts.intake.backlog:,} messages wait: the channels read nothing",
            action="`shardline inbox list status=queued` shows what waits; it goes on once a tenth is worked off.",
        )
    if facts.overdue_turns:
        yield Reason(
            word="turns_overdue",
            state=HealthState.DEGRADED,
            text=f"{_counted(facts.overdue_turns, 'turn runs', 'turns run')} longer than"
            f" {TURN_OVERDUE_S:.0f} s or their limit",
            action="`shardline status` names them; look at what their handlers wait for, and set `timeout_s`.",
        )
    if facts.suspects:
        yield Reason(
            word="suspects_first",
            state=HealthState.DEGRADED,
            text=f"the bot crashed more than once: of its messages {facts.suspects:,} may be why; these run first,"
            " and all others wait",
            action="Nothing; it goes on once each has run. `shardline status` names what runs.",
        )
    yield from _breakers(facts.breakers)
    for name, channel in facts.channels.items():
        yield from _channel(name, channel)
    for edge in facts.edges:
        yield from _edge(edge)
    for name, report in facts.reports.items():
        yield Reason(
            word="channel_reports",
            about=name,
            state=HealthState(report.state),
            text=report.text,
            action=report.action or "Look at the channel's own settings and log lines.",
        )
    if facts.uncertain:
        yield Reason(
            word="sends_uncertain",
            state=HealthState.DEGRADED,
            text=_counted(facts.uncertain, "send waits", "sends wait")
            + f" for a decision: nobody knows whether {'it' if facts.uncertain == 1 else 'they'} arrived",
            action="`shardline outbox list state=uncertain`, then `shardline outbox resolve`.",
        )
    if facts.dead:
        yield Reason(
            word="letters_dead",
            state=HealthState.OK,
            text=f"{_counted(facts.dead, 'message or send', 'messages and sends')} died since the start",
            action="`shardline dlq list`, then `shardline dlq requeue` or `dlq purge`.",
        )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def store_failing(code: Code, since_us: int = 0) -> Reason:
    """The store takes nothing, for this reason."""
    return Reason(
        word="store_failing",
        state=HealthState.FAILING,
        text=f"the store takes nothing: {code}",
        action=code.action,
        since_us=since_us,
    )


def health_of(reasons: Iterable[Reason]) -> Health:
    """The state of the worst reason, and all of them, the worst first."""
    found = sorted(reasons, key=lambda reason: -_WORST.index(reason.state))
    return Health(found[0].state if found else HealthState.OK, tuple(found))


def _breakers(breakers: Iterable[BreakerStatus]) -> Iterator[Reason]:
    for breaker in breakers:
        if breaker.state is not CircuitState.CLOSED:
            is_of_sends = breaker.topic is None
            yield Reason(
                word="breaker_open",
                about=breaker.name,
                state=HealthState.DEGRADED,
                text=f"its {'sends' if is_of_sends else 'turns'} fail one after another and pause;"
                f" {breaker.waiting:,} {'sends' if is_of_sends else 'conversations'} wait",
                action="See to the platform and the network; a send is tried by itself now and then."
                if is_of_sends
                else "Mend what the handler calls; a message is tried by itself now and then.",
            )


def _channel(name: str, channel: ChannelStatus) -> Iterator[Reason]:
    if channel.is_stopped:
        yield Reason(
            word="channel_stopped",
            about=name,
            state=HealthState.FAILING,
            text=f"the channel refuses the bot ({channel.code}): it reads and sends nothing",
            action="Set valid credentials, and start the bot again.",
        )
    elif channel.paused_s > 0:
        yield Reason(
            word="channel_paused",
            about=name,
            state=HealthState.DEGRADED,
            text=f"the platform asks for a pause of all sends, {channel.paused_s:,.0f} s more",
            action="Nothing; if it comes again and again, send less.",
        )


def _edge(edge: ChildStatistics) -> Iterator[Reason]:
    if edge.crashes and edge.state in {ChildState.WAITING, ChildState.STARTING}:
        why = edge.last_error_code or edge.last_error_type or "an error"
        yield Reason(
            word="edge_down",
            about=edge.name.removeprefix("edge-"),
            state=HealthState.DEGRADED,
            text=f"the channel reads nothing: it failed with {why} and starts again",
            action="The log line `actor.crashed` has the place; it goes on by itself where the cause passes.",
        )


__all__ = ["Facts", "Health", "HealthState", "Reason", "Word", "health_of", "judge", "store_failing"]
