"""The product's tables, written by one thread with nothing around it: the same rows, no actors, no queue.

What the product writes and this does not: the real chain hash (a constant of its length stands in), real message
bodies (zeros of `body_bytes`), and whatever a handler adds. Checkpoints run inline, as SQLite does by itself.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Literal

import apsw

from shardline.actors.keys import shard_of
from shardline.storage.records import InboxStatus, OutboxStatus

Sync = Literal["FULL", "NORMAL"]
Transition = tuple[str, int, str, str, str, int]
"""kind, row, from, to, event, claim."""

SHARDS = 16
CONVERSATIONS = 2_000
TOPIC = "chat.message"
CHANNEL = "telegram"
NOW_US = 1_765_000_000_000_000
HASH = bytes(32)
STATE = bytes(24)


def _insert(table: str, *columns: str) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


_ACCEPT = _insert(
    "inbox",
    *("id", "shard", "seq", "topic", "part", "off", "channel", "conversation_key", "status", "claim"),
    *("failures", "crashes", "blames", "generation", "epoch", "accepted_at", "started_at", "errors"),
    *("change_seq", "dedupe_key", "platform_message_id", "idempotency_key", "participant_key", "created_at"),
    *("hops", "codec", "body"),
)
_DONE = "UPDATE inbox SET status = ?, crashes = 0, blames = 0, done_at = ?, change_seq = ? WHERE id = ? AND claim = 1"
_STATE = (
    "INSERT INTO conversation (key, shard, state, state_version, updated_at) VALUES (?, ?, ?, 1, ?)"
    " ON CONFLICT (key) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at"
)
_ENQUEUE = _insert(
    "outbox",
    *("id", "shard", "seq", "channel", "idempotency_key", "part", "conversation_key", "status", "in_flight"),
    *("claim", "attempts", "generation", "created_at", "updated_at", "last_attempt_at", "errors"),
    *("change_seq", "inbox_id", "codec", "body"),
)
_SENT = (
    "UPDATE outbox SET status = ?, in_flight = 0, accepted = 1, deduped = 0, platform_message_id = ?, sent_at = ?,"
    " updated_at = ?, change_seq = ? WHERE id = ? AND claim = 1"
)
_HISTORY = _insert(
    "history",
    *("shard", "hseq", "kind", "identity", '"from"', '"to"', "event", "claim", "at", "instance", "h"),
)
_NUMBERS = "UPDATE store_commit SET commit_seq = ?, change_seq = ?, next_inbox_id = ?, next_outbox_id = ?"
_SHARD = "UPDATE shard SET seq = ?, hseq = ?, h = ? WHERE shard = ?"


class RawStore:
    """A fresh store in the product's schema. Rows are numbered from 1; message `n` makes inbox and outbox row `n`."""

    def __init__(self, path: Path, sync: Sync, *, body_bytes: int = 400) -> None:
        self._database = apsw.Connection(str(path))
        self._database.pragma("journal_mode", "wal")
        self._database.pragma("synchronous", sync)
        for script in sorted(
            files("shardline.storage.sqlite").joinpath("schema").iterdir(), key=lambda found: found.name
        ):
            self._database.execute(script.read_text())
        self._database.execute(
            "INSERT INTO store_commit (id, commit_seq, change_seq, next_inbox_id, next_outbox_id, next_event_id,"
            " retried_turns, retried_sends) VALUES (1, 0, 0, 1, 1, 1, 0, 0)"
        )
        self._database.executemany(
            "INSERT INTO shard (shard, epoch, instance, seq, hseq, h) VALUES (?, 1, 1, 0, 0, ?)",
            [(shard, HASH) for shard in range(SHARDS)],
        )
        keys = [f"tg:{chat}" for chat in range(1, CONVERSATIONS + 1)]
        self._places = [(key, shard_of(key, SHARDS)) for key in keys]
        self._seq = [0] * SHARDS
        self._offset = [0] * SHARDS
        self._hseq = [0] * SHARDS
        self._body = bytes(body_bytes)
        self._touched: set[int] = set()
        self._change_seq = 0
        self.commits = 0
        self.accepted = 0
        self.enqueued = 0

    @contextmanager
    def transaction(self) -> Generator[None]:
        """One commit, with the numbers that every commit of the product moves on."""
        self._database.execute("BEGIN IMMEDIATE")
        self._touched.clear()
        yield
        self.commits += 1
        numbers = (self.commits, self._change_seq, self.accepted + 1, self.enqueued + 1)
        self._database.execute(_NUMBERS, numbers)
        for shard in self._touched:
            self._database.execute(_SHARD, (self._seq[shard], self._hseq[shard], HASH, shard))
        self._database.execute("COMMIT")

    def accept(self, count: int, *, claim: bool) -> range:
        """Insert the next `count` messages, claimed or not, each with its history row; returns their numbers."""
        first = self.accepted + 1
        self.accepted += count
        numbers = range(first, first + count)
        self._database.executemany(_ACCEPT, [self._inbox_row(n, int(claim)) for n in numbers])
        status = InboxStatus.RUNNING if claim else InboxStatus.QUEUED
        event = "accept+claim" if claim else "accept"
        self._record([("in", n, "", status, event, int(claim)) for n in numbers])
        return numbers

    def complete(self, n: int) -> None:
        """Message `n` is done: its status, the conversation's state, the reply in flight, two history rows."""
        key, shard = self._place(n)
        self._database.execute(_DONE, (InboxStatus.DONE, NOW_US, self._change(), n))
        self._database.execute(_STATE, (key, shard, STATE, NOW_US))
        self.enqueued = max(self.enqueued, n)
        self._database.execute(
            _ENQUEUE,
            (
                *(n, shard, self._next(self._seq, shard), CHANNEL, f"{n}.0.reply.0.0123456789ab", 0, key),
                *(OutboxStatus.PENDING, 1, 1, 1, 0, NOW_US, NOW_US, NOW_US, "[]", self._change(), n, 1),
                self._body,
            ),
        )
        self._record(
            [
                ("in", n, InboxStatus.RUNNING, InboxStatus.DONE, "done", 1),
                ("out", n, "", "flying", "enqueue+start", 1),
            ]
        )

    def finish(self, n: int) -> None:
        """Message `n` is done without an answer: its status and one history row."""
        self._database.execute(_DONE, (InboxStatus.DONE, NOW_US, self._change(), n))
        self._record([("in", n, InboxStatus.RUNNING, InboxStatus.DONE, "done", 1)])

    def record_sent(self, n: int) -> None:
        """The reply to message `n` is out: its row and one history row."""
        self._database.execute(_SENT, (OutboxStatus.SENT, str(n), NOW_US, NOW_US, self._change(), n))
        self._record([("out", n, "flying", "sent", "sent", 1)])

    def close(self) -> None:
        self._database.close()

    def _place(self, n: int) -> tuple[str, int]:
        return self._places[n % CONVERSATIONS]

    def _next(self, counters: list[int], shard: int) -> int:
        counters[shard] += 1
        self._touched.add(shard)
        return counters[shard]

    def _change(self) -> int:
        self._change_seq += 1
        return self._change_seq

    def _inbox_row(self, n: int, claim: int) -> tuple[str | int | bytes | None, ...]:
        key, shard = self._place(n)
        seq, offset = self._next(self._seq, shard), self._next(self._offset, shard)
        status = InboxStatus.RUNNING if claim else InboxStatus.QUEUED
        return (
            *(n, shard, seq, TOPIC, shard, offset, CHANNEL, key, status, claim, 0, 0, 0, 0, claim, NOW_US),
            *(NOW_US if claim else None, "[]", self._change(), f"in:{CHANNEL}:{n}", str(n), f"{CHANNEL}.{n}"),
            *("500001", NOW_US, 0, 1, self._body),
        )

    def _record(self, transitions: Sequence[Transition]) -> None:
        rows: list[tuple[str | int | bytes, ...]] = []
        for transition in transitions:
            _, shard = self._place(transition[1])
            rows.append((shard, self._next(self._hseq, shard), *transition, NOW_US, 1, HASH))
        self._database.executemany(_HISTORY, rows)
