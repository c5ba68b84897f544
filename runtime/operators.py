"""What a person may look at and decide, as an API on a live runtime."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import trio

from ..actors.errors import BusError, Code
from ..actors.given import shown
from ..storage.records import InboxRecord, InboxStatus, OutboxRecord, OutboxState, StoredInbox, StoredOutbox
from .argument_checks import check_filters, check_kind, check_page, check_row_id, check_whole, check_words
from .control.steps import purge_dead
from .outbox_holds import is_held
from .outbox_rules import Cancel, OutboxEvent, Requeue, ResolveDead, ResolveResend, ResolveSent
from .shard_ask import ask_shard
from .shard_messages import MoveSend
from .shard_messages import Requeue as RequeueMessage

if TYPE_CHECKING:
    from .control.hands import StoreHands
    from .services import Services

_PAGE_ROWS = 500
Decision = Literal["sent", "resend", "dead"]
_DECISIONS: dict[str, OutboxEvent] = {"sent": ResolveSent(), "resend": ResolveResend(), "dead": ResolveDead()}


class DeadLetters:
    """Messages that gave up.

    Args:
        services: The runtime's parts.
        hands: What purges.
    """

    def __init__(self, services: Services, hands: StoreHands) -> None:
        self._services = services
        self._hands = hands

    def list(self, *, key: str | None = None, offset: int = 0, limit: int = 100) -> list[StoredInbox]:
        """Dead messages, the newest first.

        Args:
            key: Only this conversation's.
            offset: How many to pass over.
            limit: At most this many.
        Raises:
            BusError: INVALID_MESSAGE.
        """
        check_page(offset, limit)
        check_filters(key=key)
        return self._services.store.reader.list_inbox(
            status=InboxStatus.DEAD, key=key, offset=offset, limit=limit
        )

    def show(self, row_id: int) -> StoredInbox:
        """One message, whatever its status.

        Raises:
            BusError: NOT_FOUND; INVALID_MESSAGE, `row_id` is no integer.
        """
        check_row_id(row_id)
        stored = self._services.store.reader.inbox(row_id)
        if stored is None:
            raise BusError(Code.NOT_FOUND, "no such message", row_id=row_id)
        return stored

    async def requeue(self, row_id: int) -> None:
        """Send a dead or parked message through again: same id and keys, a new place at the tail, budgets at zero.

        Raises:
            BusError: NOT_FOUND; INVALID_TRANSITION, it is not dead or parked (any more).
        """
        record = self.show(row_id).record
        # Asked again behind a crash: once carried out, the row may have died anew by then.
        ask = partial(RequeueMessage, row_id, generation=record.generation)
        await ask_shard(self._services, record.shard, ask)

    async def requeue_where(
        self,
        *,
        key: str | None = None,
        topic: str | None = None,
        channel: str | None = None,
        code: str | None = None,
        own_code: str | None = None,
        limit: int = 100,
    ) -> int:
        """Send dead messages through again, the newest first: those that fit every field given.

        Args:
            key, topic, channel: Of the message.
            code, own_code: Of its newest error.
            limit: At most this many.
        Returns:
            How many; one that somebody else was quicker with is not counted.
        """
        check_page(0, limit)
        check_filters(key=key, topic=topic, channel=channel, code=code, own_code=own_code)
        fields = {"topic": topic, "channel": channel, "code": code, "own_code": own_code}

        def page(offset: int) -> builtins.list[InboxRecord]:
            return [stored.record for stored in self.list(key=key, offset=offset, limit=_PAGE_ROWS)]

        return await _requeue_each(await _choose(page, fields, limit), self.requeue)

    async def purge(self, older_than_us: int) -> int:
        """Empty dead messages and sends: what they said goes, their keys and history stay.

        Args:
            older_than_us: All that died at this time or before, microseconds since 1970 UTC.
        Returns:
            How many.
        Raises:
            BusError: INVALID_MESSAGE.
        """
        check_whole(older_than_us, "older_than_us")
        return sum((await purge_dead(self._hands, older_than_us)).values())


class Messages:
    """Accepted messages, whatever became of them.

    Args:
        services: The runtime's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    def list(
        self, *, status: InboxStatus | None = None, key: str | None = None, offset: int = 0, limit: int = 100
    ) -> list[StoredInbox]:
        """Messages, the newest first.

        Args:
            status: Only those in this status.
            key: Only this conversation's.
            offset: How many to pass over.
            limit: At most this many.
        """
        check_page(offset, limit)
        check_filters(key=key)
        if status is not None:
            check_kind(status, InboxStatus, "status", "an InboxStatus")
        return self._services.store.reader.list_inbox(status=status, key=key, offset=offset, limit=limit)


class OutboxDesk:
    """Sends that wait for a decision, and all others.

    Args:
        services: The runtime's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    def list(
        self, *, state: OutboxState | None = None, key: str | None = None, offset: int = 0, limit: int = 100
    ) -> list[StoredOutbox]:
        """Sends, the newest first.

        Args:
            state: Only those in this state.
            key: Only this conversation's.
            offset: How many to pass over.
            limit: At most this many.
        """
        check_page(offset, limit)
        check_filters(key=key)
        if state is not None:
            check_kind(state, OutboxState, "state", "an OutboxState")
        return self._services.store.reader.list_outbox(state=state, key=key, offset=offset, limit=limit)

    def is_held(self, record: OutboxRecord) -> bool:
        """Whether a send is a part of a text that waits for a decision about an earlier part."""
        check_kind(record, OutboxRecord, "record", "an OutboxRecord")
        return is_held(record, self._services.store.reader)

    async def resolve(self, row_id: int, decision: Decision) -> None:
        """Decide over an uncertain send, and with it over the further parts of its text.

        Args:
            row_id: Its row; with `dead` also a dead one whose further parts wait.
            decision: `sent`, the channel has it, and the further parts go on; `resend`, send it again at the tail,
                they follow; `dead`, give it up, they end with it.
        Raises:
            BusError: NOT_FOUND; INVALID_TRANSITION, it is not uncertain (any more); INVALID_MESSAGE, another word.
        """
        if not _is_decision(decision):
            raise BusError(Code.INVALID_MESSAGE, "a decision is sent, resend or dead", given=shown(decision))
        await self._move(row_id, _DECISIONS[decision])

    async def requeue(self, row_id: int) -> None:
        """Send a dead row through again, at the tail of its conversation.

        Raises:
            BusError: NOT_FOUND; INVALID_TRANSITION.
        """
        await self._move(row_id, Requeue())

    async def requeue_where(
        self,
        *,
        key: str | None = None,
        channel: str | None = None,
        code: str | None = None,
        own_code: str | None = None,
        limit: int = 100,
    ) -> int:
        """Send dead rows through again, the newest first: those that fit every field given.

        Args:
            key, channel: Of the send.
            code, own_code: Of its newest error.
            limit: At most this many.
        Returns:
            How many; one that somebody else was quicker with is not counted.
        """
        check_page(0, limit)
        check_filters(key=key, channel=channel, code=code, own_code=own_code)
        fields = {"channel": channel, "code": code, "own_code": own_code}

        def page(offset: int) -> builtins.list[OutboxRecord]:
            found = self.list(state=OutboxState.DEAD, key=key, offset=offset, limit=_PAGE_ROWS)
            return [stored.record for stored in found]

        return await _requeue_each(await _choose(page, fields, limit), self.requeue)

    async def cancel(self, row_id: int, *, reason: str = "cancelled") -> None:
        """Take back a send that waits.

        Raises:
            BusError: NOT_FOUND; INVALID_TRANSITION, it is under way or has ended.
        """
        check_words(reason, "reason")
        await self._move(row_id, Cancel(str(Code.DELIVERY_PERMANENT), reason))

    async def _move(self, row_id: int, event: OutboxEvent) -> None:
        check_row_id(row_id)
        stored = self._services.store.reader.outbox(row_id)
        if stored is None:
            raise BusError(Code.NOT_FOUND, "no such send", row_id=row_id)
        record = stored.record
        ask = partial(MoveSend, row_id, event, generation=record.generation)
        await ask_shard(self._services, record.shard, ask)


def _is_decision(value: object) -> bool:
    return isinstance(value, str) and value in _DECISIONS


async def _choose(
    page: Callable[[int], Sequence[InboxRecord | OutboxRecord]],
    fields: Mapping[str, str | None],
    limit: int,
) -> list[int]:
    """Ids of the rows that fit, in the order of the pages; others go on between two pages."""
    given = {name: value for name, value in fields.items() if value is not None}
    # Rows that die meanwhile push others onto the next page: each counts once.
    chosen: dict[int, None] = {}
    offset = 0
    while len(chosen) < limit and (records := page(offset)):
        offset += len(records)
        chosen |= {record.id: None for record in records if given.items() <= _fields_of(record).items()}
        await trio.lowlevel.checkpoint()
    return list(chosen)[:limit]


async def _requeue_each(row_ids: Iterable[int], requeue: Callable[[int], Awaitable[None]]) -> int:
    done = 0
    for row_id in row_ids:
        try:
            await requeue(row_id)
        except BusError as error:
            if error.code is not Code.INVALID_TRANSITION:
                raise
        else:
            done += 1
    return done


def _fields_of(record: InboxRecord | OutboxRecord) -> dict[str, str | None]:
    last = record.errors[-1] if record.errors else None
    topic = {"topic": record.topic} if isinstance(record, InboxRecord) else {}
    return {
        **topic,
        "channel": record.channel,
        "code": None if last is None else last.code,
        "own_code": None if last is None else last.own_code,
    }
