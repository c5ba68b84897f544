"""`shardline status`: what a store holds and how its owner is."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import attrs
import click

from ...actors.plain import Plain
from ...storage.records import OutboxState
from ...storage.sqlite.overview import DeadCount, Overview, Waiting, overview
from ..exit_code import ExitCode
from .arguments import now_us
from .health import health_record, is_well, show_health
from .live import Live, read_live, show_channels, show_store, show_turns
from .looking import looking
from .options import json_option, store_option
from .output import age, echo_lines, moment, record_of, show_fields, show_json, show_table, when
from .safe_text import safe_text


@click.command("status")
@store_option
@click.option(
    "--health",
    "health_alone",
    is_flag=True,
    help="Only how the owner is; exit code 1 unless it is ok or degraded.",
)
@json_option
def command(store: Path, health_alone: bool, as_json: bool) -> None:
    """Count what a store holds; say who owns it.

    And what waits: longest, dead, or for a decision.
    """
    with looking(store) as look:
        found = overview(look)
    now = now_us()
    live = read_live(found, now)
    if health_alone:
        if as_json:
            show_json([{"store": str(store), **health_record(live)}])
        else:
            show_health(live, now)
        if not is_well(live):
            sys.exit(ExitCode.FAILURE)
        return
    if as_json:
        show_json([status_record(store, found, live, now)])
        return
    _show(store, found, live, now)


def status_record(store: Path, found: Overview, live: Live | None, now: int) -> dict[str, object]:
    """The status as programs get it."""
    meta, owner = found.meta, found.owner
    return {
        "store": str(store),
        "uuid": meta.uuid,
        "schema": meta.schema,
        "shard_count": meta.shard_count,
        "created_at": when(meta.created_at_us),
        "commits": meta.commit_seq,
        "last_transition_at": when(found.last_transition_at_us),
        "owner": {
            "held": owner.held,
            "holder_pid": owner.holder_pid,
            **({} if owner.last is None else record_of(owner.last)),
        },
        "inbox": found.inbox,
        "outbox": found.outbox,
        "retried": {"turns": found.retried[0], "sends": found.retried[1]},
        "timers": {"count": found.timers, "next_at": when(found.next_timer_at_us)},
        "dead": [attrs.asdict(one) for one in found.dead],
        "oldest": {
            name: None if row is None else {**record_of(row), "age_s": (now - row.since_us) / 1_000_000}
            for name, row in _oldest(found)
        },
        "live": None
        if live is None or found.live is None
        else {"age_s": live.age_s, "stale": live.is_stale, "said": dict(live.said)},
    }


def _oldest(found: Overview) -> tuple[tuple[str, Waiting | None], ...]:
    return (
        ("message", found.oldest_message),
        ("send", found.oldest_send),
        ("uncertain", found.oldest_uncertain),
    )


def _show(store: Path, found: Overview, live: Live | None, now: int) -> None:
    show_fields(
        [
            ("store", str(store)),
            ("schema", f"{found.meta.schema}, {found.meta.shard_count} shards"),
            ("created", when(found.meta.created_at_us)),
            ("commits", f"{found.meta.commit_seq:,}"),
            ("last change", moment(found.last_transition_at_us, now)),
            ("owner", owner_line(found, now)),
            ("tried again", "{:,} turns, {:,} sends".format(*found.retried)),
            ("timers", _timers(found, now)),
        ]
    )
    echo_lines("\nmessages")
    show_table([f"{name}#" for name in found.inbox], [[f"{count:,}" for count in found.inbox.values()]])
    echo_lines("\nsends")
    show_table([f"{name}#" for name in found.outbox], [[f"{count:,}" for count in found.outbox.values()]])
    waiting = [(name, row) for name, row in _oldest(found) if row is not None]
    if waiting:
        echo_lines("\nwaiting longest")
        show_table(
            ("what", "id", "age#", "state", "key"),
            [(name, row.id, age(row.since_us, now), row.state, row.key) for name, row in waiting],
        )
    if found.dead:
        echo_lines("\ndead")
        show_table(
            ("what", "count#", "code", "own code"),
            [(_kind(one), f"{one.count:,}", one.code, one.own_code) for one in found.dead],
        )
    if live is not None and found.live is not None:
        _show_live(live)
    _show_tasks(found)


def _timers(found: Overview, now: int) -> str:
    if found.next_timer_at_us is None:
        return "none"
    return (
        f"{found.timers:,}, the next {when(found.next_timer_at_us)} ({_until(found.next_timer_at_us, now)})"
    )


def _until(at_us: int, now: int) -> str:
    gone = age(at_us, now)
    return gone if gone.startswith("in ") else f"{gone} late"


def _show_live(live: Live) -> None:
    said_ago = "at an unknown time" if live.age_s is None else f"{live.age_s:.0f} s ago"
    echo_lines(f"\nthe owner {'says' if live.end is None else 'said'}, {said_ago}{live.mark}")
    apart = {"at_us", "channels", "health", "oldest_turns", "store"}
    show_fields(
        [
            (f"  {name.removesuffix('_us')}", _short(name, value))
            for name, value in live.said.items()
            if name not in apart
        ]
    )
    show_store(live)
    show_channels(live)
    show_turns(live)
    echo_lines("")
    show_health(live, now_us())


def _short(name: str, value: Plain) -> Plain:
    if name.endswith("_at_us") and isinstance(value, int) and not isinstance(value, bool):
        return when(value) or ""
    if isinstance(value, Mapping):
        return (
            " ".join(f"{_compact(key)}={_compact(_short(name, inner))}" for key, inner in value.items())
            or "none"
        )
    if isinstance(value, list | tuple) and not value:
        return "none"
    return _compact(value)


def _compact(value: Plain) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _show_tasks(found: Overview) -> None:
    uncertain = found.oldest_uncertain
    dead = sum(one.count for one in found.dead)
    if uncertain is not None or dead:
        echo_lines("\nto decide")
    if uncertain is not None:
        count = found.outbox[OutboxState.UNCERTAIN]
        echo_lines(
            f"  {count:,} uncertain: look into the chat, then"
            f" `shardline outbox resolve {uncertain.id} --sent|--resend|--dead`"
        )
    if dead:
        echo_lines(f"  {dead:,} dead: `shardline dlq list`, then `shardline dlq requeue ID` or `dlq purge`")


def owner_line(found: Overview, now: int) -> str:
    """Who has the store open, for people."""
    owner, last = found.owner, found.owner.last
    if last is None:
        return "never opened"
    who = f"process {last.pid} on {safe_text(last.host)}"
    match owner.held:
        case "yes" if owner.holder_pid in {None, last.pid}:
            return f"{who}, since {moment(last.opened_at_us, now)}"
        case "yes":
            return f"process {owner.holder_pid} holds the lock; the last opening was by {who}"
        case "no" if last.clean:
            return f"none; closed properly by {who}, {moment(last.closed_at_us, now)}"
        case "no":
            return f"none; {who} ended without closing, opened {moment(last.opened_at_us, now)}"
        case _:
            return (
                f"cannot be told from here; the last opening was by {who}, {moment(last.opened_at_us, now)}"
            )


def _kind(one: DeadCount) -> str:
    return "messages" if one.kind == "in" else "sends"


__all__ = ["command", "owner_line", "status_record"]
