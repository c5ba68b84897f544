"""`shardline outbox aliases`, `unreachable` and `forget`: chats that moved, and whom nothing is sent to for a while."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, cast

import apsw
import attrs
import click

from ...storage.sqlite.look import Look
from ..aliases import ALIAS_PREFIX, read_alias
from ..control.verbs import Forget
from ..pauses import NAMESPACE
from ..unreachable import UNREACHABLE_PREFIX, read_mark
from .arguments import now_us
from .confirm import confirm
from .deciding import Asking, answer, decide, deciding
from .looking import looking
from .options import TEXT, json_option, limit_option, offset_option, store_option, yes_option
from .output import age, record_of, show_json, show_table
from .screen import notice


@attrs.frozen
class AliasLine:
    """One move of a chat; the time is microseconds since 1970 UTC."""

    channel: str
    old: str
    new: str
    moved_at_us: int


@attrs.frozen
class UnreachableLine:
    """A conversation that is sent nothing until it writes, or until then: microseconds since 1970 UTC."""

    channel: str
    key: str
    code: str
    until_us: int


@click.command("aliases")
@store_option
@limit_option
@offset_option
@json_option
def aliases(store: Path, limit: int, offset: int, as_json: bool) -> None:
    """List the chats that moved to another address, by channel and old address."""
    with looking(store) as look:
        found = [
            AliasLine(channel, old, alias.address, alias.at_us)
            for channel, old, value in _facts(look, ALIAS_PREFIX, limit, offset)
            if (alias := read_alias(value)) is not None
        ]
    if as_json:
        show_json(record_of(line) for line in found)
        return
    if not found:
        notice("no chat has moved")
        return
    now = now_us()
    show_table(
        ("channel", "from", "to", "age#"),
        [(line.channel, line.old, line.new, age(line.moved_at_us, now)) for line in found],
    )


@click.command("unreachable")
@store_option
@limit_option
@offset_option
@json_option
def unreachable(store: Path, limit: int, offset: int, as_json: bool) -> None:
    """List the conversations that are sent nothing for a while, by channel and key.

    A mark is over with the first message that comes in from its conversation, and in any case at its time.
    """
    now = now_us()
    with looking(store) as look:
        found = [
            UnreachableLine(channel, key, str(mark[1]), mark[0])
            for channel, key, value in _facts(look, UNREACHABLE_PREFIX, limit, offset)
            if (mark := read_mark(value)) is not None and mark[0] > now
        ]
    if as_json:
        show_json(record_of(line) for line in found)
        return
    if not found:
        notice("nobody is marked as unreachable")
        return
    show_table(
        ("channel", "key", "code", "until#"),
        [(line.channel, line.key, line.code, age(line.until_us, now)) for line in found],
    )


# The address of a group of Telegram begins with a minus: it is no option.
@click.command("forget", context_settings={"ignore_unknown_options": True})
@click.argument("what", type=click.Choice(["unreachable", "alias"]))
@click.argument("channel", type=TEXT)
@click.argument("name", type=TEXT)
@store_option
@yes_option
@deciding
@json_option
def forget(
    what: Literal["unreachable", "alias"],
    channel: str,
    name: str,
    store: Path,
    yes: bool,
    actor: str | None,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Forget that a conversation cannot be reached, or that a chat moved.

    NAME is the key that `outbox unreachable` shows, or the address (`from`) that `outbox aliases` shows.
    """
    confirm(f"forget the {what} {name} of {channel}?", yes=yes)
    asking = Asking(store=store, actor=actor, timeout_s=timeout_s, as_json=as_json)
    answer(asking, decide(asking, Forget(what, channel, name)), f"{what} {name} is forgotten")


def _facts(look: Look, prefix: str, limit: int, offset: int) -> Iterator[tuple[str, str, bytes]]:
    """The facts under a prefix, each with its channel and the rest of its key."""

    def ask(connection: apsw.Connection) -> list[tuple[str, bytes]]:
        bindings = (NAMESPACE, prefix, f"{prefix[:-1]};", limit, min(offset, 2**62))
        rows = connection.execute(
            "SELECT key, value FROM fact WHERE namespace = ? AND key >= ? AND key < ? ORDER BY key"
            " LIMIT ? OFFSET ?",
            bindings,
        ).fetchall()
        return cast("list[tuple[str, bytes]]", rows)

    for key, value in look.read(ask):
        channel, _, rest = key.removeprefix(prefix).partition(":")
        yield channel, rest, value


__all__ = ["AliasLine", "UnreachableLine", "aliases", "forget", "unreachable"]
