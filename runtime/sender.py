"""Send from a program and wait for the end. There is no way past the outbox: a send is a row, then an attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs
import trio

from ..actors.content import Content
from ..actors.errors import BusError, Code
from ..actors.keys import check_conversation_key
from ..actors.names import canonical
from ..storage.commands import Duplicate, Stored
from ..storage.records import OnUncertain, OutboundContent, OutboxRecord, OutboxState
from .argument_checks import check_kind, check_timeout
from .content_checks import checked_content
from .context_checks import checked_policy
from .handled import code_of, end_of_text
from .loops import check_trio_task
from .publish_send import publish_send
from .surroundings import check_channel

if TYPE_CHECKING:
    from .services import Services


@attrs.frozen(kw_only=True)
class Delivered:
    """How a send stands.

    Attributes:
        status: `sent`, the channel has it; `dead`, it gave up; `uncertain`, nobody knows and a person has to decide;
            `pending`, the time was over first: it goes on, and a repeat with the same key tells.
        outbox_id: Its row.
        platform_message_id: The platform's id, where it gave one.
        deduped: This call sent nothing: the key was sent before, or the channel had it and dropped the copy.
        code: Why it is dead or uncertain.
        text: The same for people.
    """

    status: Literal["sent", "dead", "uncertain", "pending"]
    outbox_id: int
    platform_message_id: str | None = None
    deduped: bool = False
    code: Code | None = None
    text: str = ""


class Sender:
    """Sends from outside of turns, and from inside of them.

    Args:
        services: The runtime's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def send(
        self,
        channel: str,
        key: str,
        content: str | Content,
        idempotency_key: str,
        *,
        bulk: bool = False,
        on_uncertain: OnUncertain | str | None = None,
        timeout_s: float | None = None,
    ) -> Delivered:
        """Store a send, and wait until it is sent, dead, or left to a person.

        It takes its place behind what the conversation has to send already. A turn may wait for it, also in its own
        conversation: sends wait for no turn. What the turn itself decided comes later, with its end.

        Args:
            channel: The channel's name.
            key: The conversation key; its prefix must be the channel's.
            content: A text (at least one visible character, no lone surrogates, at most 1 MiB), or a medium, an edit, a
                deletion, an action (`shardline.content`) that the channel takes. A send of yours is named by
                `SendRef(channel, idempotency_key)`.
            idempotency_key: Yours: the same key is sent once, however often this is called.
            bulk: Part of a broadcast: answers to people go first.
            on_uncertain: `park`, `resend` or `drop`, where this send's own policy differs from the channel's.
            timeout_s: Seconds to wait for the end; None waits as long as it takes. It is on disk in any case.
        Raises:
            BusError: IDEMPOTENCY_KEY_REQUIRED; IDENTITY_MISMATCH, the key is used for another content or conversation;
                INVALID_MESSAGE, TOO_LARGE, UNKNOWN_CHANNEL; BUS_CLOSED; STORE_FULL, STORE_BUSY, STORE_IO.
            trio.Cancelled: Before the hand-over nothing is stored; after it the send goes on.
        """
        check_trio_task()
        # Typed, yet None is what a program passes that has none.
        if not idempotency_key or _is_blank(idempotency_key):
            raise BusError(Code.IDEMPOTENCY_KEY_REQUIRED, "a send from a program needs a key of its own")
        services = self._services
        name = canonical(idempotency_key, "idempotency_key")
        check_conversation_key(key)
        caps = check_channel(services, canonical(channel, "channel"), key)
        text, rich = checked_content(content, name, channel, caps)
        policy = checked_policy(on_uncertain)
        check_timeout(timeout_s)
        check_kind(bulk, bool, "bulk", "True or False")
        stored = OutboundContent(text=text, on_uncertain=policy, is_bulk=bulk, rich=rich)
        due_s = float("inf") if timeout_s is None else trio.current_time() + timeout_s
        outcomes = await publish_send(channel, key, name, stored, services)
        was_sent = all(self._was_sent(outcome) for outcome in outcomes)
        with trio.move_on_at(due_s):
            record = await end_of_text(outcomes[0].id, services)
            return _delivered(record, was_sent=was_sent and record.state is OutboxState.SENT)
        return Delivered(status="pending", outbox_id=outcomes[0].id)

    def _was_sent(self, outcome: Stored | Duplicate) -> bool:
        if not isinstance(outcome, Duplicate):
            return False
        stored = self._services.store.reader.outbox(outcome.id)
        return stored is not None and stored.record.state is OutboxState.SENT


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()


def _delivered(record: OutboxRecord, *, was_sent: bool) -> Delivered:
    last = record.errors[-1] if record.errors else None
    said = "" if last is None else last.text
    match record.state:
        case OutboxState.SENT:
            return Delivered(
                status="sent",
                outbox_id=record.id,
                platform_message_id=record.platform_message_id,
                deduped=was_sent or bool(record.deduped),
            )
        case OutboxState.UNCERTAIN:
            code = code_of(last, Code.DELIVERY_UNCERTAIN)
            return Delivered(status="uncertain", outbox_id=record.id, code=code, text=said)
        case _:
            code = code_of(last, Code.DELIVERY_PERMANENT)
            return Delivered(status="dead", outbox_id=record.id, code=code, text=said)


__all__ = ["Delivered", "Sender"]
