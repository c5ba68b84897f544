"""How the owner of a store is, in its own words: `shardline status --health`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs
import click

from ...actors.plain import Plain
from ..health import store_failing
from .live import Live
from .output import age, coloured, echo_lines, moment, when
from .safe_text import safe_text

_COLOURS: Final = {
    "ok": "green",
    "degraded": "yellow",
    "failing": "red",
    "stale": "red",
    "stopped": "cyan",
    "crashed": "red",
}


def state_of(live: Live | None) -> str:
    """`ok`, `degraded`, `failing`; `stopped`, `crashed`: nobody owns the store; `stale`: the owner is silent."""
    if live is not None and live.end is not None:
        return live.end
    if live is not None and live.trouble is not None:
        # On a full disk its note grows old, and this does not.
        return "failing"
    if live is None or live.is_stale:
        return "stale"
    said = live.said.get("health")
    state = said.get("state") if isinstance(said, Mapping) else None
    return state if isinstance(state, str) and state in _COLOURS else "stale"


def is_well(live: Live | None) -> bool:
    """Whether a watchdog may be content: the owner works, be it degraded."""
    return state_of(live) in {"ok", "degraded"}


def health_record(live: Live | None) -> dict[str, object]:
    """The same as programs get it."""
    return {
        "state": state_of(live),
        "age_s": None if live is None else live.age_s,
        "reasons": [
            {
                "word": _text(reason, "word"),
                "about": _text(reason, "about"),
                "state": _text(reason, "state"),
                "text": _text(reason, "text"),
                "action": _text(reason, "action"),
                "since": when(_since(reason)),
            }
            for reason in _reasons(live)
        ],
    }


def show_health(live: Live | None, now: int) -> None:
    """The same for people."""
    state = state_of(live)
    click.echo(f"health  {coloured(state, _COLOURS[state])}")
    if state == "stale":
        nothing = (
            "nothing yet, it may still be starting"
            if live is None or live.age_s is None
            else f"nothing for {live.age_s:,.0f} s"
        )
        echo_lines(f"  the owner of the store has said {nothing}: `shardline status` says who it is")
    if state == "stopped":
        ended = moment(None if live is None else live.ended_us, now)
        echo_lines(f"  the bot was stopped in good order, {ended}: the next start goes on where it was")
    if state == "crashed":
        echo_lines(
            "  the bot ended without closing the store: the next start goes on, and nothing accepted is lost"
        )
    reasons = [] if state == "stopped" else list(_reasons(live))
    if state in {"stale", "crashed"} and reasons:
        echo_lines("  the last that it said:")
    for reason in reasons:
        about = f" {_text(reason, 'about')}" if _text(reason, "about") else ""
        since = _since(reason)
        # Before the clock was set back: for how long nobody knows.
        ago = "" if since is None or since > now else f", since {age(since, now)}"
        echo_lines(f"  {safe_text(_text(reason, 'word') + about)}: {safe_text(_text(reason, 'text'))}{ago}")
        echo_lines(f"    {safe_text(_text(reason, 'action'))}")


def _reasons(live: Live | None) -> Iterator[Mapping[str, Plain]]:
    trouble = None if live is None else live.trouble
    if trouble is not None:
        failing = store_failing(trouble.code, trouble.since_us)
        yield {**attrs.asdict(failing), "state": str(failing.state)}
    said = None if live is None else live.said.get("health")
    reasons = said.get("reasons") if isinstance(said, Mapping) else None
    if isinstance(reasons, list | tuple):
        for reason in reasons:
            if isinstance(reason, Mapping) and (trouble is None or reason.get("word") != "store_failing"):
                yield reason


def _text(reason: Mapping[str, Plain], name: str) -> str:
    value = reason.get(name)
    return value if isinstance(value, str) else ""


def _since(reason: Mapping[str, Plain]) -> int | None:
    value = reason.get("since_us")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


__all__ = ["health_record", "is_well", "show_health", "state_of"]
