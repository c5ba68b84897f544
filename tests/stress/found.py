"""What a run has left on disk, read by name: messages, sends, events, states, and the history in its order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import apsw
import attrs

from shardline.actors.codec import unpack_event, unpack_message, unpack_plain
from shardline.actors.plain import Plain
from shardline.storage.sqlite.rows import unpack_content
from tests.stress.ledger import Line, read_ledgers
from tests.stress.script import name_of

_STATE_BYTES = 1 << 20


@attrs.frozen(kw_only=True)
class Message:
    """An inbox row."""

    id: int
    shard: int
    seq: int
    topic: str
    key: str
    status: str
    claim: int
    failures: int
    crashes: int
    generation: int
    code: str | None
    own_code: str | None
    name: str


@attrs.frozen(kw_only=True)
class Send:
    """An outbox row."""

    id: int
    shard: int
    seq: int
    channel: str
    key: str
    idempotency_key: str
    state: str
    claim: int
    attempts: int
    code: str | None
    errors: str
    inbox_id: int | None
    text: str


@attrs.frozen(kw_only=True)
class Step:
    """A history row."""

    kind: str
    shard: int
    identity: int
    after: str
    event: str
    claim: int


@attrs.frozen(kw_only=True)
class Found:
    """All of it."""

    messages: dict[int, Message]
    sends: dict[int, Send]
    steps: list[Step]
    states: dict[str, dict[str, Plain]]
    events: Counter[str]
    lines: dict[str, list[Line]]
    odd: list[str]
    """What should not be there at all."""


def read_found(store: Path) -> Found:
    """Read a store at rest, and the ledgers beside it."""
    database = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        lines: defaultdict[str, list[Line]] = defaultdict(list)
        for line in read_ledgers(store.parent):
            lines[line.conversation_key].append(line)
        return Found(
            messages={row.id: row for row in _messages(database)},
            sends={row.id: row for row in _sends(database)},
            steps=list(_steps(database)),
            states=_states(database),
            events=_events(database),
            lines=lines,
            odd=list(_odd(database)),
        )
    finally:
        database.close()


def _messages(database: apsw.Connection) -> Iterator[Message]:
    for row in database.execute(
        "SELECT id, shard, seq, topic, conversation_key, status, claim, failures, crashes, generation, error_code,"
        " own_code, codec, body FROM inbox"
    ):
        *columns, codec, body = row
        (
            row_id, shard, seq, topic, key, status, claim, failures, crashes, generation, code, own_code,
        ) = cast(
            "tuple[int, int, int, str, str, str, int, int, int, int, str | None, str | None]", tuple(columns)
        )  # fmt: skip
        text = unpack_message(cast("bytes", body), cast("int", codec)).payload.text
        yield Message(
            id=row_id, shard=shard, seq=seq, topic=topic, key=key, status=status, claim=claim, failures=failures,
            crashes=crashes, generation=generation, code=code, own_code=own_code, name=name_of(text),
        )  # fmt: skip


def _sends(database: apsw.Connection) -> Iterator[Send]:
    for row in database.execute(
        "SELECT id, shard, seq, channel, conversation_key, idempotency_key, CASE WHEN status = 'sent' THEN 'sent'"
        " WHEN dead_at IS NOT NULL THEN 'dead' WHEN in_flight THEN 'flying' WHEN uncertain_since IS NOT NULL THEN"
        " 'uncertain' ELSE status END, claim, attempts, error_code, errors, inbox_id, codec, body FROM outbox"
    ):
        *columns, codec, body = row
        row_id, shard, seq, channel, key, idempotency_key, state, claim, attempts, code, errors, inbox_id = (
            cast(
                "tuple[int, int, int, str, str, str, str, int, int, str | None, str, int | None]",
                tuple(columns),
            )
        )
        yield Send(
            id=row_id, shard=shard, seq=seq, channel=channel, key=key, idempotency_key=idempotency_key, state=state,
            claim=claim, attempts=attempts, code=code, errors=errors, inbox_id=inbox_id,
            text=unpack_content(cast("bytes", body), cast("int", codec), inbox_id).text,
        )  # fmt: skip


def _steps(database: apsw.Connection) -> Iterator[Step]:
    for row in database.execute(
        'SELECT kind, shard, identity, "to", event, claim FROM history ORDER BY shard, hseq'
    ):
        kind, shard, identity, after, event, claim = cast("tuple[str, int, int, str, str, int]", row)
        yield Step(kind=kind, shard=shard, identity=identity, after=after, event=event, claim=claim)


def _states(database: apsw.Connection) -> dict[str, dict[str, Plain]]:
    rows = cast("list[tuple[str, bytes]]", database.execute("SELECT key, state FROM conversation").fetchall())
    return {
        key: cast("dict[str, Plain]", unpack_plain(state, limit_bytes=_STATE_BYTES)) for key, state in rows
    }


def _events(database: apsw.Connection) -> Counter[str]:
    rows = cast("list[tuple[int, bytes]]", database.execute("SELECT codec, body FROM event").fetchall())
    return Counter(
        cast("str", cast("dict[str, Plain]", unpack_event(body, codec).payload)["n"]) for codec, body in rows
    )


def _odd(database: apsw.Connection) -> Iterator[str]:
    for what, query in {
        "emits that nobody relayed": "SELECT count(*) FROM emit",
        "control records that wait": "SELECT count(*) FROM control WHERE status = 'waiting'",
        "topics whose offsets have holes": "SELECT count(*) FROM (SELECT 1 FROM inbox GROUP BY topic, part"
        " HAVING count(*) <> max(off) + 1)",
        "event topics whose offsets have holes": "SELECT count(*) FROM (SELECT 1 FROM event GROUP BY topic, part"
        " HAVING count(*) <> max(off) + 1)",
    }.items():
        ((count,),) = cast("list[tuple[int]]", database.execute(query).fetchall())
        if count:
            yield f"{count} {what}"
