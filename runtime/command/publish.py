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
from .arguments import now_us
from .deciding import Asking, answer, decide, deciding, said_of
from .options import json_option, store_option
from .problem import Problem


@click.command("publish")
@click.option("--key", metavar="KEY", help="The conversation, such as tg:12345.")
@click.option("--text", help="What it says.")
@click.option("--topic", default="chat.message", show_default=True, help="Of an inbound message.")
@click.option("--channel", metavar="NAME", help="The channel it poses to come from, or is to be sent by.")
@click.option("--outbound", is_flag=True, help="Send it; else it is handled like one that came in.")
@click.option(
    "--idempotency-key", metavar="KEY", help="A repeat with the same key is not stored; new by default."
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
    topic: str,
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
    if (wire is None) == (key is None or text is None):
        raise Problem("say --key and --text, or --message")
    try:
        if wire is not None:
            # One byte more than is taken is enough to be refused.
            message = message_from_wire(wire.read(MAX_WIRE_BYTES + 1))
        else:
            message = _message(key or "", text or "", topic, channel, idempotency_key, outbound=outbound)
            validate_message(message)
    except BusError as error:
        raise Problem(str(error)) from error
    asking = Asking(store=store, actor=actor, timeout_s=timeout_s, as_json=as_json)
    result = decide(asking, PublishMessage(message))
    kind = "out" if message.direction is Direction.OUTBOUND else "in"
    again = ", it was there already" if result.values.get("duplicate") else ""
    answer(asking, result, f"stored as {kind}-{said_of(result, 'event_id')}{again}")


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
