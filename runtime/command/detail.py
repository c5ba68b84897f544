"""One row in full: for `show`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from ...actors.extension_record import extensions_to_record
from ...actors.plain import Plain
from ...storage.records import Failure, StoredInbox, StoredOutbox
from ...storage.sqlite.detail import StepLine, Transition, stored_steps, transitions
from ...storage.sqlite.listing import RowId, find_sends
from ...storage.sqlite.look import Look
from ..exit_code import ExitCode
from ..outbox_holds import is_held
from .arguments import parse_row
from .looking import looking
from .output import echo_lines, json_line, record_of, show_fields, show_json, show_table, when
from .problem import Problem
from .safe_text import safe_text

Fields = dict[str, Plain]

_ID = re.compile(r"(id=)?(out-[0-9]{1,18})")


def show_message(store: Path, row: RowId, *, with_history: bool, as_json: bool) -> None:
    """Show a message.

    Raises:
        Problem: exit code 1, there is no such one.
    """
    with looking(store) as look:
        stored = look.ask(lambda reader: reader.inbox(row.number))
        past = transitions(look, row) if with_history else None
        kept = stored_steps(look, row)
    if stored is None:
        raise Problem(f"there is no message {row}", ExitCode.FAILURE)
    fields = message_fields(stored)
    fields["steps"] = [step_fields(step) for step in kept]
    _show([(fields, stored.record.errors, past)], as_json=as_json)


def show_sends(store: Path, key: str, *, with_history: bool, as_json: bool) -> None:
    """Show the send of an id, or all of an idempotency key.

    Raises:
        Problem: exit code 1, there is none.
    """
    with looking(store) as look:
        rows = rows_of(look, key)
        found = [_send(look, row) for row in rows]
        held = [stored is not None and _is_held(look, stored) for stored in found]
        past = [transitions(look, row) if with_history else None for row in rows]
    shown = [
        (send_fields(stored, held=waits), stored.record.errors, told)
        for stored, waits, told in zip(found, held, past, strict=True)
        if stored is not None
    ]
    if not shown:
        raise Problem(f"there is no send {key}", ExitCode.FAILURE)
    _show(shown, as_json=as_json)


def _send(look: Look, row: RowId) -> StoredOutbox | None:
    return look.ask(lambda reader: reader.outbox(row.number))


def _is_held(look: Look, stored: StoredOutbox) -> bool:
    return look.ask(lambda reader: is_held(stored.record, reader))


def rows_of(look: Look, key: str) -> list[RowId]:
    """The sends that a person may mean: `out-7`, an idempotency key, which may look the same, or `id=out-7`.

    Whether `out-7` exists is not looked at.
    """
    match = _ID.fullmatch(key)
    rows = [] if match is None else [parse_row(match[2], "out")]
    if match is None or not match[1]:
        rows += [RowId("out", number) for number in find_sends(look, key)]
    return list(dict.fromkeys(rows))


def message_fields(stored: StoredInbox) -> Fields:
    """A message's fields, by the names programs get them under."""
    record, message = stored.record, stored.message
    newest = record.errors[-1] if record.errors else None
    return {
        "id": f"in-{record.id}",
        "key": record.conversation_key,
        "topic": record.topic,
        "channel": record.channel,
        "status": record.status.value,
        "part": record.partition,
        "offset": record.offset,
        "seq": record.seq,
        "claim": record.claim,
        "failures": record.failures,
        "crashes": record.crashes,
        "blames": record.blames,
        "generation": record.generation,
        "accepted_at": when(record.accepted_at_us),
        "started_at": when(record.started_at_us),
        "done_at": when(record.done_at_us),
        "dead_at": when(record.dead_at_us),
        "next_at": when(record.next_at_us),
        "code": None if newest is None else newest.code,
        "own_code": None if newest is None else newest.own_code,
        "error": None if newest is None else newest.text,
        "message_id": message.id,
        "idempotency_key": message.idempotency_key,
        "platform_message_id": message.extensions.platform_message_id,
        "participant": message.participant_key,
        "created_at": when(message.created_at_us),
        "sent_at": message.payload.sent_at,
        "session_id": message.payload.session_id,
        "reply_to": message.payload.reply_to,
        "hops": message.hops,
        "raw_bytes": None if message.raw is None else len(message.raw),
        "extensions": extensions_to_record(message.extensions),
        "text": message.payload.text,
    }


def step_fields(step: StepLine) -> Fields:
    """What is told of a step's result: all but the result."""
    return {"name": step.name, "bytes": step.bytes, "claim": step.claim, "at": when(step.at_us)}


def send_fields(stored: StoredOutbox, *, held: bool) -> Fields:
    """A send's fields, by the names programs get them under.

    Args:
        stored: The send.
        held: An earlier part of its text waits for a decision.
    """
    record, content = stored.record, stored.content
    newest = record.errors[-1] if record.errors else None
    return {
        "id": f"out-{record.id}",
        "key": record.conversation_key,
        "channel": record.channel,
        "idempotency_key": record.idempotency_key,
        "part": record.part,
        "state": record.state.value,
        "held": held,
        "seq": record.seq,
        "claim": record.claim,
        "attempts": record.attempts,
        "generation": record.generation,
        "created_at": when(record.created_at_us),
        "updated_at": when(record.updated_at_us),
        "last_attempt_at": when(record.last_attempt_at_us),
        "sent_at": when(record.sent_at_us),
        "next_attempt_at": when(record.next_attempt_at_us),
        "uncertain_since": when(record.uncertain_since_us),
        "dead_at": when(record.dead_at_us),
        "code": None if newest is None else newest.code,
        "own_code": None if newest is None else newest.own_code,
        "error": None if newest is None else newest.text,
        "deduped": record.deduped,
        "degraded": record.degraded,
        "platform_message_id": record.platform_message_id,
        "caused_by": None if content.inbox_id is None else f"in-{content.inbox_id}",
        "on_uncertain": None if content.on_uncertain is None else content.on_uncertain.value,
        "reply_to": content.reply_to,
        "hops": content.hops,
        "text": content.text,
    }


Shown = tuple[Fields, tuple[Failure, ...], list[Transition] | None]


def _show(rows: Iterable[Shown], *, as_json: bool) -> None:
    if as_json:
        show_json(_record(*row) for row in rows)
        return
    for index, (fields, errors, past) in enumerate(rows):
        if index:
            echo_lines("\n")
        text = str(fields.pop("text"))
        steps = cast("list[Fields]", fields.pop("steps", []))
        show_fields((name, _flat(value)) for name, value in fields.items())
        echo_lines("\ntext")
        _show_block(text)
        if steps:
            echo_lines("\nresults of steps, oldest first")
            show_table(
                ("name", "bytes#", "claim#", "at"),
                [(step["name"], step["bytes"], step["claim"], step["at"]) for step in steps],
            )
        if errors:
            echo_lines("\nerrors, oldest first")
        for error in errors:
            echo_lines(
                f"  {when(error.at_us)}  claim {error.claim}  {safe_text(error.own_code or error.code)}"
            )
            _show_block(error.text, indent="    ")
        if past is not None:
            echo_lines("\nhistory")
            show_table(
                ("at", "event", "from", "to", "claim#", "code"),
                [(when(one.at_us), one.event, one.before, one.after, one.claim, one.code) for one in past],
            )


def _flat(value: Plain) -> Plain:
    if isinstance(value, dict):
        return json_line(value) if value else None
    return value


def _show_block(text: str, indent: str = "  ") -> None:
    # Each line is set in, so that none is taken for one of ours.
    for line in text.split("\n"):
        echo_lines(f"{indent}{safe_text(line)}")


def _record(fields: Fields, errors: tuple[Failure, ...], past: list[Transition] | None) -> dict[str, object]:
    record: dict[str, object] = dict(fields)
    record["errors"] = [record_of(error) for error in errors]
    if past is not None:
        record["history"] = [record_of(one) for one in past]
    return record


__all__ = ["message_fields", "rows_of", "send_fields", "show_message", "show_sends"]
