"""`shardline publish`: a message from the shell."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import click

from ...actors.envelope import MessageEnvelope
from ...actors.errors import BusError
from ...actors.identifiers import new_uuid7
from ...actors.instants import rfc3339_from_us
from ...actors.message import BusMessage, Direction, validate_message
from ...actors.wire import MAX_WIRE_BYTES, message_from_wire
from ..control.verbs import PublishMessage
from ..exit_code import ExitCode
from .arguments import now_us
from .deciding import Asking, answer, decide, deciding, said_of
from .options import TEXT, json_option, store_option
from .problem import Problem

_TOPIC = "chat.message"


@click.command("publish")
@click.option("--key", type=TEXT, metavar="KEY", help="The conversation, such as tg:12345.")
@click.option("--text", type=TEXT, help="What it says.")
@click.option("--topic", type=TEXT, help="Of an inbound message.  [default: chat.message]")
@click.option(
    "--channel", type=TEXT, metavar="NAME", help="The channel it poses to come from, or is to be sent by."
)
@click.option("--outbound", is_flag=True, help="Send it; else it is handled like one that came in.")
@click.option(
    "--idempotency-key",
    type=TEXT,
    metavar="KEY",
    help="A repeat with the same key is not stored; new by default.",
)
@click.option(
    "--message",
    "wire",
    type=click.File("rb"),
    help="A whole message in its JSON form instead; - reads standard input.",
)
@store_option
@deciding
@json_option
def command(
    key: str | None,
    text: str | None,
    topic: str | None,
    channel: str | None,
    outbound: bool,
    idempotency_key: str | None,
    wire: BinaryIO | None,
    store: Path,
    actor: str | None,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Publish a message into a store.

    The bot that owns the store handles it, or sends it; without one it waits for the next run.
    """
    given = [name for name in (key, text, topic, channel, idempotency_key) if name is not None]
    if wire is not None and (given or outbound):
        raise Problem("--message has a whole message: say nothing of it beside it")
    try:
        if wire is not None:
            message = message_from_wire(_read(wire))
        elif key is None or text is None:
            raise Problem("say --key and --text, or --message")
        else:
            message = _message(key, text, topic or _TOPIC, channel, idempotency_key, outbound=outbound)
            validate_message(message)
    except BusError as error:
        raise Problem(str(error)) from error
    asking = Asking(store=store, actor=actor, timeout_s=timeout_s, as_json=as_json)
    result = decide(asking, PublishMessage(message))
    kind = "out" if message.direction is Direction.OUTBOUND else "in"
    row = f"{kind}-{said_of(result, 'event_id')}"
    if result.values.get("conflict"):
        answer(asking, result, "")
        raise Problem(f"nothing is stored: {row} has this key and says something else", ExitCode.FAILURE)
    again = ", it was there already" if result.values.get("duplicate") else ""
    answer(asking, result, f"stored as {row}{again}")


def _read(wire: BinaryIO) -> bytes:
    """Read a file that may have no end."""
    try:
        return wire.read(MAX_WIRE_BYTES + 1)
    except OSError as error:
        raise Problem(f"--message cannot be read: {error.strerror}") from error


def _message(
    key: str, text: str, topic: str, channel: str | None, idempotency_key: str | None, *, outbound: bool
) -> BusMessage:
    message_id, at_us = new_uuid7(), now_us()
    return BusMessage(
        id=message_id,
        direction=Direction.OUTBOUND if outbound else Direction.INBOUND,
        channel=channel,
        topic=topic,
        conversation_key=key,
        idempotency_key=message_id if idempotency_key is None else idempotency_key,
        correlation_id=message_id,
        payload=MessageEnvelope(
            message_id=message_id, text=text, sent_at=rfc3339_from_us(at_us), session_id=new_uuid7()
        ),
        created_at_us=at_us,
    )


__all__ = ["command"]
