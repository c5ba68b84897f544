"""What the owner of a store last said of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import attrs

from ...actors.codec import unpack_plain
from ...actors.plain import Plain
from ...storage.sqlite.overview import Overview
from ...storage.sqlite.trouble import Trouble
from ..defaults import STALE_S, TURN_OVERDUE_S
from ..health import store_failing
from .checks import Finding, Outcome
from .output import echo_lines, show_table

STALE_AFTER_US: Final = round(STALE_S * 1_000_000)
"""What an owner says of itself is stale from then on; it says it every 5 s."""
MAX_LIVE_BYTES: Final = 64 * 1024


@attrs.frozen(kw_only=True)
class Live:
    """What the owner last said of itself.

    Attributes:
        age_s: How old that is; None where nobody knows.
        is_stale: It is too old to be believed, or nobody owns the store.
        said: All of it, by name.
        end: How the owner ended, where nobody owns the store any more.
        ended_us: When, where that is known.
        trouble: What keeps it from writing; it says that beside the store, so at once.
    """

    age_s: float | None
    is_stale: bool
    said: Mapping[str, Plain]
    end: Literal["stopped", "crashed"] | None = None
    ended_us: int | None = None
    trouble: Trouble | None = None

    @property
    def mark(self) -> str:
        """What to write behind a heading over it: that it is no news."""
        if self.end is not None:
            return f" (before it {self.end})"
        return " (stale)" if self.is_stale else ""


def read_live(found: Overview, now: int) -> Live | None:
    """What the owner said of itself: nothing yet, where it has just opened the store; None if nobody can be asked."""
    if found.live is None and found.owner.last is None:
        return None
    said = {} if found.live is None else unpack_plain(found.live, limit_bytes=MAX_LIVE_BYTES)
    if not isinstance(said, Mapping):
        return None
    at_us = said.get("at_us")
    us = now - at_us if isinstance(at_us, int) else None
    if us is not None and us < -STALE_AFTER_US:
        # The clock was set back since then: how old it is nobody knows, and it would not grow stale for as long.
        us = None
    is_over, last = found.owner.held == "no", found.owner.last
    return Live(
        age_s=None if us is None else max(us, 0) / 1_000_000,
        is_stale=us is None or us > STALE_AFTER_US or is_over,
        said=said,
        end=None if not is_over or last is None else "stopped" if last.clean else "crashed",
        ended_us=None if last is None else last.closed_at_us,
        trouble=found.owner.trouble,
    )


def show_store(live: Live) -> None:
    """What is wrong with the store, for people; nothing if it is well."""
    for problem in _problems(live.said):
        echo_lines(f"\nstore: {problem}")


def show_turns(live: Live) -> None:
    """The turns that run, the oldest first, for people."""
    turns = list(_turns(live))
    if not turns:
        return
    echo_lines(f"\nrunning turns{live.mark}")
    show_table(
        ("id", "age#", "limit#", "topic", "key", ""),
        [
            (
                _text(turn, "id"),
                _seconds(turn.get("age_s")),
                _seconds(turn.get("limit_s")),
                _text(turn, "topic"),
                _text(turn, "key"),
                "overdue" if turn.get("overdue") is True else "",
            )
            for turn in turns
        ],
    )


def show_channels(live: Live) -> None:
    """How the sending side of each channel stands, for people."""
    channels = dict(_channels(live))
    if not channels:
        return
    echo_lines(f"\nchannels{live.mark}")
    show_table(
        ("channel", "sends", "running#", "waiting#", "paused chats#"),
        [
            (
                name,
                _sends(said),
                _count(said, "running"),
                _count(said, "waiting"),
                _count(said, "paused_chats"),
            )
            for name, said in channels.items()
        ],
    )


def check_live(live: Live | None, *, is_owned: bool) -> Iterator[Finding]:
    """Whether a running owner can write, takes messages in, and whether its handlers end; nothing where nobody runs."""
    if live is None:
        return
    if live.trouble is not None:
        reason = store_failing(live.trouble.code)
        yield Finding("store", Outcome.WARN, reason.text, reason.action)
    if live.is_stale:
        if is_owned and live.trouble is None:
            text = "the owner has said nothing" + ("" if live.age_s is None else f" for {live.age_s:,.0f} s")
            action = (
                "It cannot write, or hangs: look at the room, at who holds the file, and at the owner's log."
            )
            yield Finding("store", Outcome.WARN, text, action)
        return
    said = live.said
    yield from _check_store(live)
    if said.get("intake") == "paused":
        text = f"paused: {_count(said, 'backlog')} messages wait, and the channels read again at nine tenths"
        action = "`shardline inbox list status=queued` shows what waits; it goes on by itself once it is worked off."
        yield Finding("intake", Outcome.WARN, text, action)
    else:
        yield Finding("intake", Outcome.OK, f"open, {_count(said, 'backlog')} messages wait or run")
    overdue = said.get("overdue_turns")
    if isinstance(overdue, int) and overdue > 0:
        nobody: Mapping[str, Plain] = {}
        oldest = next(_turns(live), nobody)
        turns = "1 turn runs" if overdue == 1 else f"{overdue:,} turns run"
        text = (
            f"{turns} longer than {TURN_OVERDUE_S:.0f} s; {_text(oldest, 'key')} is busy since"
            f" {_seconds(oldest.get('age_s'))}"
        )
        action = "Others go on; look at what its handler waits for, and give it a `timeout_s`."
        yield Finding("turns", Outcome.WARN, text, action)
    else:
        yield Finding("turns", Outcome.OK, f"{_count(said, 'running_turns')} run, none is overdue")
    for name, channel in _channels(live):
        if channel.get("is_stopped") is True:
            text = f"{name} sends and reads nothing: {_text(channel, 'code')}"
            yield Finding(
                "channels", Outcome.FAIL, text, "Give it other credentials and start the bot again."
            )


def _check_store(live: Live) -> Iterator[Finding]:
    found = _problems(live.said)
    for problem in found:
        yield Finding("store", Outcome.WARN, problem, "docs/how-to/when-the-store-fails.md has the steps.")
    if not found and live.trouble is None and "store" in live.said:
        yield Finding("store", Outcome.OK, "the owner writes it")


def _problems(said: Mapping[str, Plain]) -> list[str]:
    store = said.get("store")
    problems = store.get("problems") if isinstance(store, Mapping) else None
    return [one for one in problems if isinstance(one, str)] if isinstance(problems, list | tuple) else []


def _turns(live: Live) -> Iterator[Mapping[str, Plain]]:
    turns = live.said.get("oldest_turns")
    if isinstance(turns, list | tuple):
        yield from (turn for turn in turns if isinstance(turn, Mapping))


def _channels(live: Live) -> Iterator[tuple[str, Mapping[str, Plain]]]:
    channels = live.said.get("channels")
    if isinstance(channels, Mapping):
        yield from ((name, said) for name, said in channels.items() if isinstance(said, Mapping))


def _sends(said: Mapping[str, Plain]) -> str:
    if said.get("is_stopped") is True:
        return f"stopped: {_text(said, 'code')}"
    paused = said.get("paused_s")
    return f"paused, {_seconds(paused)}" if isinstance(paused, int | float) and paused > 0 else "open"


def _text(turn: Mapping[str, Plain], name: str) -> str:
    value = turn.get(name)
    return value if isinstance(value, str) else ""


def _seconds(value: Plain) -> str:
    return f"{value:,.1f} s" if isinstance(value, int | float) else ""


def _count(said: Mapping[str, Plain], name: str) -> str:
    count = said.get(name)
    return f"{count:,}" if isinstance(count, int) else "an unknown number of"


__all__ = [
    "MAX_LIVE_BYTES",
    "STALE_AFTER_US",
    "Live",
    "check_live",
    "read_live",
    "show_channels",
    "show_store",
    "show_turns",
]
