"""A page of dead letters as the command reads it, against the bare query in the same run."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from benchmarks.comparison import Goal, run_goals
from benchmarks.raw import Rate
from shardline.actors.codec import pack_message
from shardline.actors.envelope import MessageEnvelope
from shardline.actors.message import BusMessage, Direction
from shardline.storage.sqlite.database import connect_reader
from shardline.storage.sqlite.filters import NO_FILTERS
from shardline.storage.sqlite.listing import Page, dead_letters
from shardline.storage.sqlite.look import Look
from shardline.storage.sqlite.opening import open_file
from shardline.storage.sqlite.settings import Settings

DEAD = 10_000
PAGE = 100
AT_US = 1_760_000_000_000_000
TIMES = 5
"""How many bare queries a page may cost."""

ERRORS = '[{"at": 1, "code": "HANDLER_FAILED", "text": "Permanent: it cannot be done", "claim": 1}]'
DEAD_MESSAGE = """
    INSERT INTO inbox (id, shard, seq, topic, part, off, channel, conversation_key, status, claim, failures, crashes,
        blames, generation, epoch, accepted_at, dead_at, error_code, last_error, errors, change_seq, dedupe_key,
        idempotency_key, created_at, hops, codec, body)
    VALUES (?1, 0, ?1, 'chat.message', 0, ?1, 'telegram', ?2, 'dead', 1, 1, 0, 0, 0, 1, ?3, ?3, 'HANDLER_FAILED',
        'Permanent: it cannot be done', ?4, ?1, 'in:' || ?1, 'k', ?3, 0, 1, ?5)
"""
DEAD_SEND = """
    INSERT INTO outbox (id, shard, seq, channel, idempotency_key, part, conversation_key, status, in_flight, claim,
        attempts, generation, created_at, updated_at, dead_at, error_code, last_error, errors, change_seq, codec, body)
    VALUES (?1, 0, ?1, 'telegram', 'k' || ?1, 0, ?2, 'failed', 0, 1, 1, 0, ?3, ?3, ?3, 'RECIPIENT_BLOCKED', 'blocked',
        ?4, ?1, 1, ?5)
"""
BARE = (
    "SELECT id, conversation_key, topic, channel, dead_at, failures, generation, error_code, own_code, last_error"
    " FROM inbox WHERE status = 'dead' ORDER BY dead_at DESC, id DESC LIMIT 100"
)


def fill(path: Path) -> apsw.Connection:
    """Make a store of 10,000 dead letters, half messages and half sends; its owner's connection."""
    opened = open_file(path, Settings(durability="normal"), AT_US)
    database = opened.connection
    body = pack_message(
        BusMessage(
            id="m", direction=Direction.INBOUND, channel="telegram", topic="chat.message", conversation_key="tg:1",
            idempotency_key="k", correlation_id="c", created_at_us=AT_US,
            payload=MessageEnvelope(message_id="m", text="a text of usual length " * 4, sent_at="2026-02-16T11:12:00Z"),
        )
    )  # fmt: skip
    with database:
        for number in range(1, DEAD // 2 + 1):
            key, dead_at = f"tg:{number % 500}", AT_US + number
            database.execute(DEAD_MESSAGE, (number, key, dead_at, ERRORS, body))
            database.execute(DEAD_SEND, (number, key, dead_at, ERRORS, body))
    opened.lock.release()
    return database


def pages(read: Callable[[], int], seconds: float) -> Rate:
    """Read pages for so long; a page counts as a message."""
    assert read() == PAGE
    begun = now = time.perf_counter()
    count = 0
    while now < begun + seconds:
        read()
        count += 1
        now = time.perf_counter()
    return Rate(messages=count, commits=0, took_s=now - begun)


def beside_owner(path: Path, /, *, seconds: float) -> Rate:
    """The command's page while the store is open."""
    owner = fill(path)
    with Look(path) as look:
        rate = pages(lambda: len(dead_letters(look, NO_FILTERS, Page(limit=PAGE))), seconds)
    owner.close()
    return rate


def at_rest(path: Path, /, *, seconds: float) -> Rate:
    """The command's page while nobody has the store open; each read opens it anew."""
    fill(path).close()
    with Look(path) as look:
        return pages(lambda: len(dead_letters(look, NO_FILTERS, Page(limit=PAGE))), seconds)


def bare(path: Path, /, *, seconds: float) -> Rate:
    """As many rows of one table by one statement."""
    owner = fill(path)
    reader = connect_reader(path)
    rate = pages(lambda: len(reader.execute(BARE).fetchall()), seconds)
    reader.close()
    owner.close()
    return rate


def dead_letter_goals() -> list[Goal]:
    """A page costs at most so many bare queries; at rest for information."""
    name = f"dead letters, a page of {PAGE} of {DEAD:,}"
    return [
        Goal(name=name, sync="NORMAL", product=beside_owner, raw=bare, bar=1 / TIMES),
        Goal(name=f"{name}, at rest", sync="NORMAL", product=at_rest, raw=bare),
    ]


if __name__ == "__main__":
    sys.exit(run_goals("dead_letters", __doc__ or "", dead_letter_goals()))
