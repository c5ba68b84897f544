"""Stores of any size for the audit, with faults of every kind: SQL straight into the schema of a store.

Message `n` has the inbox id `n`, and its answer the outbox id `n`. Each makes four rows of history, so `n` messages are
some six times as many rows. The chains and their anchors are right, but for the faults that are asked for.
"""

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw
import attrs
import msgpack
import structlog
import trio

from shardline import Runtime, Topology
from shardline.actors.keys import shard_of
from shardline.storage.sqlite.chain import ANCHOR_ROWS, FIRST_HEAD, Linker
from shardline.testing import FakeChannel

SHARDS: Final = 16
CONVERSATIONS: Final = 500
DEAD_ROWS: Final = 20
HOUR_US: Final = 3_600_000_000
FAULTS: Final = (
    "duplicate_sends",
    "repeated_sends",
    "duplicate_content",
    "stuck_pending",
    "uncertain_open",
    "inbox_without_outcome",
    "inbox_unanswered",
    "double_ownership",
    "shared_conversation",
    "dead_letter_growth",
    "log_gaps",
    "answer_without_message",
    "state_violations",
    "impossible_rows",
    "reconciliation",
    "handled_out_of_order",
    "sent_out_of_order",
    "hash_chain",
    "sequence_gaps",
)
"""One for each check."""

_SHARED: Final = ("duplicate_sends", "shared_conversation")
_BLOCK: Final = 5_000


def _insert(table: str, columns: str) -> str:
    names = columns.split()
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


_INBOX: Final = _insert(
    "inbox",
    "id shard seq topic part off channel conversation_key status claim failures crashes blames generation epoch"
    " accepted_at started_at done_at dead_at next_at errors change_seq dedupe_key platform_message_id idempotency_key"
    " participant_key created_at hops codec body",
)
_OUTBOX: Final = _insert(
    "outbox",
    "id shard seq channel idempotency_key part conversation_key status in_flight claim attempts accepted deduped"
    " platform_message_id generation created_at updated_at last_attempt_at sent_at next_attempt_at uncertain_since"
    " errors change_seq inbox_id codec body",
)
_EVENT: Final = _insert("event", "id shard topic part off ts codec body")
_HISTORY: Final = _insert("history", 'shard hseq kind identity "from" "to" event claim at code instance h')

Row = tuple[int | str | bytes | None, ...]
Fault = tuple[str, str]
"""Check, `ref_id` of its finding."""


@attrs.frozen(kw_only=True)
class Made:
    """What was made.

    Attributes:
        rows: Messages, sends, and history.
        faults: What an audit must find in this store.
    """

    rows: int
    faults: frozenset[Fault]


def make_store(
    path: Path,
    messages: int,
    *,
    faults: int = 0,
    name: str = "a",
    is_second: bool = False,
    conversations: int = CONVERSATIONS,
) -> Made:
    """Make a store.

    Args:
        path: A new file.
        messages: How many, all answered.
        faults: How many of each kind, spread over the store.
        name: Tells the keys of one store from those of another one.
        conversations: Over how many the messages are spread; with few of them faults need fewer messages.
        is_second: Another store holds the other half of what two stores do wrong; it is found in this one.
    """
    trio.run(_make_empty, path)
    return _Filler(path, messages, faults, name, conversations, is_second=is_second).run()


async def _make_empty(path: Path) -> None:
    topology = Topology()
    async with Runtime.open(topology, store=path, adapters=[FakeChannel()], unhandled="park"):
        pass


class _Filler:
    def __init__(
        self, path: Path, messages: int, faults: int, name: str, conversations: int, *, is_second: bool
    ) -> None:
        self._conversations = conversations
        self._database = apsw.Connection(str(path))
        self._messages = messages
        self._name = name
        self._is_second = is_second
        self._linker = Linker()
        self._heads: dict[int, tuple[int, bytes]] = dict.fromkeys(range(SHARDS), (0, FIRST_HEAD))
        self._seq = [0] * SHARDS
        self._offsets = [0] * SHARDS
        self._swapped: dict[tuple[str, int], int] = {}
        self._history: list[Row] = []
        self._events: list[Row] = []
        self._anchors: list[tuple[int, int, bytes, int]] = []
        self._found: set[Fault] = set()
        self._rows = 0
        # One time for the stores that do something at the same time.
        self._begun_us = (time.time_ns() // 1000 // HOUR_US - 48) * HOUR_US
        self._plan = _plan(messages, faults, conversations)
        self._partners = {
            n + self._conversations for n, kind in self._plan.items() if kind.endswith("_out_of_order")
        }
        self._dead: dict[int, int] = {}
        for number, n in enumerate(n for n, kind in self._plan.items() if kind == "dead_letter_growth"):
            self._dead |= {n + 2 * self._conversations * k: number for k in range(DEAD_ROWS)}

    def run(self) -> Made:
        """Fill it."""
        run = self._database.execute
        run("PRAGMA synchronous = OFF")
        run("BEGIN IMMEDIATE")
        for first in range(1, self._messages + 1, _BLOCK):
            self._write(list(self._block(first, min(first + _BLOCK, self._messages + 1))))
        self._database.executemany(_EVENT, self._events)
        self._database.executemany(
            "INSERT INTO anchor (shard, hseq, h, at) VALUES (?, ?, ?, ?)", self._anchors
        )
        for shard, (hseq, h) in self._heads.items():
            run(
                "UPDATE shard SET seq = ?, hseq = ?, h = ? WHERE shard = ?",
                (self._seq[shard], hseq, h, shard),
            )
        last = self._messages + 1
        run(
            "UPDATE store_commit SET commit_seq = commit_seq + 1, change_seq = ?, next_inbox_id = ?,"
            " next_outbox_id = ?, next_event_id = ?",
            (4 * last, last, last, len(self._events) + 1),
        )
        run("COMMIT")
        self._database.close()
        return Made(rows=self._rows, faults=frozenset(self._found))

    def _write(self, rows: list[tuple[Row | None, Row | None]]) -> None:
        many = self._database.executemany
        many(_INBOX, [inbox for inbox, _ in rows if inbox is not None])
        many(_OUTBOX, [outbox for _, outbox in rows if outbox is not None])
        many(_HISTORY, self._history)
        self._rows += sum(row is not None for both in rows for row in both) + len(self._history)
        self._history.clear()

    def _block(self, first: int, end: int) -> Iterator[tuple[Row | None, Row | None]]:
        for n in range(first, end):
            yield self._message(n, "dead" if n in self._dead else self._plan.get(n, ""))

    def _message(self, n: int, fault: str) -> tuple[Row | None, Row | None]:
        is_shared = fault in _SHARED
        key = f"both-{n}" if is_shared else f"{self._name}-{n % self._conversations}"
        shard = shard_of(key, SHARDS)
        at = self._begun_us + 1000 * n + (10 if self._is_second else 0)
        claim, outcome = 1, "done"
        ends = {"inbox_without_outcome": ("failed", "fail"), "dead": ("dead", "dead")}
        outcome, event = ends.get(fault, ("done", "done"))
        begin = "release" if fault == "state_violations" else "accept+claim"
        born = self._record(shard, ("in", n, "", "running", begin, claim, at))
        if fault == "state_violations":
            self._found.add((fault, born))
        inbox_seq, outbox_seq = self._seqs(n, shard, fault)
        instance = 1 if fault == "double_ownership" else 2
        done = self._record(
            shard,
            ("in", n, "running", outcome, event, claim, at + 100),
            instance=instance,
            changed_us=1 if fault == "hash_chain" else 0,
        )
        if fault in {"double_ownership", "hash_chain"}:
            self._found.add((fault, done))
        if fault == "log_gaps":
            self._found.add((fault, self._log(n, shard, at)))
        if fault == "sequence_gaps":
            self._found.add((fault, self._skip(shard)))
        if is_shared and self._is_second:
            # Both halves meet in one conversation at one time, under one key.
            self._found |= {(one, str(n)) for one in _SHARED}
        if outcome != "done":
            self._found |= {("inbox_without_outcome", str(n))} if fault != "dead" else set()
        dead_at = None
        if fault == "dead":
            dead_at = self._begun_us - 25 * HOUR_US * (self._dead[n] + 1)
            self._found.add(("dead_letter_growth", f"fake/{dead_at}"))
        if fault == "answer_without_message":
            self._found.add((fault, str(n)))
            return None, self._answer(n, shard, key, outbox_seq, at, fault)
        offset = self._offsets[shard]
        self._offsets[shard] += 1
        inbox = (
            *(n, shard, inbox_seq, "chat.message", shard, offset, "fake", key, outcome, claim, 0, 0, 0, 0, 2),
            *(
                at,
                at,
                at + 100 if outcome == "done" else None,
                dead_at,
                at if outcome == "failed" else None,
                "[]",
            ),
            *(2 * n, f"in:fake:{self._name}:{n}", f"p{n}", f"k{n}", None, at, 0, 1, b""),
        )
        if fault == "inbox_unanswered":
            self._found.add((fault, str(n)))
        if fault in {"inbox_unanswered", "dead"}:
            return inbox, None
        return inbox, self._answer(n, shard, key, outbox_seq, at, fault)

    def _answer(self, n: int, shard: int, key: str, seq: int, at: int, fault: str) -> Row:
        self._record(shard, ("out", n, "", "flying", "enqueue+start", 1, at + 100))
        ends = {"stuck_pending": ("failed", "failed"), "uncertain_open": ("uncertain", "uncertain")}
        state, event = ends.get(fault, ("sent", "sent"))
        self._record(shard, ("out", n, "flying", state, event, 1, at + 300))
        if fault == "repeated_sends":
            twice = self._record(shard, ("out", n, "sent", "sent", "sent", 1, at + 301))
            self._found |= {(fault, str(n)), ("state_violations", twice)}
        if fault in {"duplicate_content", "stuck_pending", "uncertain_open", "impossible_rows"}:
            self._found.add((fault, str(n)))
        if fault == "reconciliation":
            self._found.add((fault, f"out-{n}"))
        said = n - self._conversations if fault == "duplicate_content" else n
        sent_key = f"both-{n}" if fault in _SHARED else f"{self._name}-{n}"
        is_sent = state == "sent"
        return (
            *(n, shard, seq, "fake", sent_key, 0, key),
            *("pending" if state == "uncertain" else state, 0, 6 if fault == "reconciliation" else 1),
            *(
                2 if fault == "impossible_rows" else 1,
                int(is_sent),
                0,
                f"m{n}" if is_sent else None,
                0,
                at + 100,
            ),
            *(at + 300, at + 100, at + 300 if is_sent else None, at + 300 if state == "failed" else None),
            *(at + 300 if state == "uncertain" else None, "[]", 2 * n + 1, n, 1),
            msgpack.packb({"content": {"kind": "text", "text": f"{self._name} says {said}"}}),
        )

    def _seqs(self, n: int, shard: int, fault: str) -> tuple[int, int]:
        self._seq[shard] += 4
        mine = {"inbox": self._seq[shard] - 3, "outbox": self._seq[shard] - 1}
        table = {"handled_out_of_order": "inbox", "sent_out_of_order": "outbox"}.get(fault)
        if table is not None:
            # The next message of the conversation takes this one's place, and this one stands right behind it.
            self._found.add((fault, str(n)))
            self._swapped[table, n + self._conversations] = mine[table]
            mine[table] += 1
        if n in self._partners:
            for table in ("inbox", "outbox"):
                mine[table] = self._swapped.pop((table, n), mine[table])
        return mine["inbox"], mine["outbox"]

    def _record(
        self,
        shard: int,
        row: tuple[str, int, str, str, str, int, int],
        *,
        instance: int = 2,
        changed_us: int = 0,
    ) -> str:
        hseq, before = self._heads[shard]
        kind, identity, left, entered, event, claim, at = row
        hseq += 1
        h = self._linker.link(
            before, (shard, hseq, kind, identity, left, entered, event, claim, at, None, instance)
        )
        self._heads[shard] = (hseq, h)
        self._history.append((shard, hseq, *row[:-1], at + changed_us, None, instance, h))
        if hseq % ANCHOR_ROWS == 0:
            self._anchors.append((shard, hseq, h, at))
        return f"{shard}/{hseq}"

    def _log(self, n: int, shard: int, at: int) -> str:
        """A log whose second event is gone."""
        topic = f"news-{n}"
        for offset in (0, 2):
            self._events.append((len(self._events) + 1, shard, topic, 0, offset, at, 1, b""))
        return f"{topic}/0/1"

    def _skip(self, shard: int) -> str:
        """A row that was there and is gone; what it was about is nowhere else."""
        self._record(shard, ("in", 0, "", "refused", "refuse", 0, 0))
        hseq = self._history.pop()[1]
        assert isinstance(hseq, int)
        return f"{shard}/{(hseq - 1) // ANCHOR_ROWS * ANCHOR_ROWS + 1}"


def _plan(messages: int, faults: int, conversations: int) -> dict[int, str]:
    """Which messages have which fault: far from each other, and from the ends."""
    plan: dict[int, str] = {}
    if not faults:
        return plan
    step = 4 * conversations + 3
    n = 2 * conversations
    for _ in range(faults):
        for kind in FAULTS:
            plan[n] = kind
            n += step if kind != "dead_letter_growth" else step + 2 * conversations * DEAD_ROWS
    if n > messages:
        raise ValueError(f"{faults} faults of each kind need {n:,} messages")
    return plan


def _main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    made = make_store(
        Path(sys.argv[1]), int(sys.argv[2]), faults=int(sys.argv[3]) if len(sys.argv) > 3 else 0
    )
    print(json.dumps({"rows": made.rows, "faults": sorted(made.faults)}))


if __name__ == "__main__":
    _main()
