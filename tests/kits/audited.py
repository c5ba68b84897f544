"""Stores for the audit: a clean one that was killed, and ones with a fault of every kind."""

import json
import signal
import time
from pathlib import Path
from typing import cast

import apsw
import trio

from shardline import BusMessage, Context, Event, Permanent, Runtime, Topology
from shardline.actors.identifiers import new_uuid7
from shardline.adapters.base import Uncertain
from shardline.storage.sqlite.chain import FIRST_HEAD, Linker, Links
from shardline.testing import FakeChannel
from tests.kits.forked import run_forked

BOT = Path(__file__).parents[1] / "crash/echo_bot.py"
DEATHS = ("accept.after_commit", "done.before_commit", "send-start.after_commit", "send-result.before_commit")
TEXTS = ("hello", "retry", "dead", "emit", "note", "timer", "step")
DEAD_ROWS = 20
EVENTS = 6
HOUR_US = 3_600_000_000
_COLUMNS = 'shard, hseq, kind, identity, "from", "to", event, claim, at, code, instance'

Fault = tuple[str, str]
"""Check, row."""


def make_killed_store(folder: Path) -> Path:
    """A bot that was killed at several borders and then ran to its end."""
    folder.mkdir()
    lines = [
        {"key": f"c{n % 3}", "id": f"m{n}", "text": text if n < len(TEXTS) else f"{n}"}
        for n, text in enumerate(TEXTS * 3)
    ]
    (folder / "inbox.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    for point in (*DEATHS, "-"):
        ended = run_forked(BOT, str(folder), point, "atomic", timeout=40)
        assert ended.returncode == (0 if point == "-" else -signal.SIGKILL), ended.stderr
    return folder / "bot.db"


def make_chats(path: Path, *, chats: int, dead: int = 0, first: int = 0, events: int = 0) -> None:
    """A store of the runtime's own making: `chats` conversations of two messages, all answered, and `dead` others.

    `first` numbers the first conversation; the store may be there already. The send of the first message is uncertain.
    `events` are of the topic `news`, which has one partition.
    Message n has the inbox id n, its answer the outbox id n.
    """

    async def main() -> None:
        topology = Topology()
        topology.topic("news", partitions=1)

        @topology.on("chat.message")
        async def answer(ctx: Context, message: BusMessage) -> None:
            if message.payload.text == "bad":
                raise Permanent("x.bad")
            ctx.reply(f"{path.stem} {message.payload.text}")

        channel = FakeChannel()
        async with Runtime.open(topology, store=path, adapters=[channel]) as runtime:
            channel.script(Uncertain("no answer"))
            with trio.fail_after(30):
                for number in range(2 * first, 2 * (first + chats)):
                    await channel.say(f"chat-{number // 2}", f"text {number}")
                    await runtime.wait_until(lambda: runtime.is_quiet)
                for number in range(dead):
                    await channel.say(f"dead-{number}", "bad")
                for _ in range(events):
                    await runtime.publish(
                        Event(id=new_uuid7(), ts_us=time.time_ns() // 1000, topic="news", payload="x")
                    )
                await runtime.wait_until(lambda: runtime.is_quiet)

    trio.run(main)


class Tampered:
    """Changes a store behind its back; the chains are made to fit at the end, unless asked not to.

    Args:
        path: The store; closed.
        relink: Make the chains fit what was changed.
    """

    def __init__(self, path: Path, *, relink: bool = True) -> None:
        self._database = apsw.Connection(str(path))
        self._relink = relink
        self.now_us = time.time_ns() // 1000
        self.store = cast("str", self.value("SELECT uuid FROM store_meta"))

    def __enter__(self) -> "Tampered":
        self.run("BEGIN IMMEDIATE")
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            if self._relink:
                self._chain()
            self.run("COMMIT")
        self._database.close()

    def run(self, statement: str, *values: int | str | bytes | None) -> None:
        """One statement."""
        self._database.execute(statement, values).fetchall()

    def value(self, statement: str, *values: int | str) -> int | str | bytes | None:
        """The one value that a statement gives."""
        [(value,)] = self._database.execute(statement, values).fetchall()
        return cast("int | str | bytes | None", value)

    def move(self, kind: str, identity: int, event: str, to: str, after: str) -> None:
        """Have the last transition of a row be another one: was `event`, is `to` and leaves it `after`."""
        where = "WHERE kind = ? AND identity = ? AND event = ?"
        self.run(f'UPDATE history SET event = ?, "to" = ? {where}', to, after, kind, identity, event)

    def link(self, kind: str, identity: int, event: str) -> str:
        """`shard/hseq` of a transition."""
        return cast(
            "str",
            self.value(
                "SELECT shard || '/' || hseq FROM history WHERE kind = ? AND identity = ? AND event = ?",
                kind,
                identity,
                event,
            ),
        )

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """All that a statement gives."""
        return cast("list[tuple[object, ...]]", self._database.execute(statement).fetchall())

    def append(
        self,
        shard: int,
        move: tuple[str, int, str, str, str],
        *,
        instance: int,
        lost: int = 0,
        spoil: bool = False,
    ) -> str:
        """Add a row to the end of a chain.

        Args:
            move: kind, identity, from, to, event.
            lost: So many rows before it were there and are gone.
            spoil: It does not follow from the row before it.
        Returns:
            `shard/hseq`.
        """
        hseq = cast("int", self.value("SELECT hseq FROM shard WHERE shard = ?", shard)) + lost + 1
        before = (
            bytes(32)
            if lost or spoil
            else cast("bytes", self.value("SELECT h FROM shard WHERE shard = ?", shard))
        )
        columns = (shard, hseq, *move, 1, self.now_us, None, instance)
        h = Linker().link(before, columns)
        self.run(f"INSERT INTO history ({_COLUMNS}, h) VALUES ({', '.join('?' * 12)})", *columns, h)
        self.run("UPDATE shard SET hseq = ?, h = ? WHERE shard = ?", hseq, h, shard)
        return f"{shard}/{hseq}"

    def _chain(self) -> None:
        linker = Linker()
        heads: dict[int, tuple[int, bytes]] = {}
        rows = cast(
            "list[tuple[int, *tuple[int | str | None, ...]]]",
            self._database.execute(f"SELECT id, {_COLUMNS} FROM history ORDER BY shard, hseq").fetchall(),
        )
        for row_id, *columns in rows:
            links = cast("Links", tuple(columns))
            h = linker.link(heads.get(links[0], (0, FIRST_HEAD))[1], links)
            heads[links[0]] = (links[1], h)
            self.run("UPDATE history SET h = ? WHERE id = ?", h, row_id)
        for shard, (hseq, h) in heads.items():
            self.run("UPDATE shard SET hseq = ?, h = ? WHERE shard = ?", hseq, h, shard)


def add_live_faults(path: Path) -> set[tuple[str, str, str]]:
    """Add rows of history with a fault of every kind that a watch knows.

    Returns:
        What must be found: store, check, row.
    """
    with Tampered(path, relink=False) as tampered:
        [(shard, hseq)] = tampered.rows("SELECT shard, hseq FROM shard ORDER BY hseq DESC LIMIT 1")
        assert isinstance(shard, int)
        assert isinstance(hseq, int)
        now = tampered.value("SELECT max(id) FROM instance")
        assert isinstance(now, int)
        wrong = tampered.append(shard, ("in", 1, "done", "done", "done"), instance=0)
        tampered.append(shard, ("in", 998, "", "queued", "accept"), instance=now, lost=1)
        broken = tampered.append(shard, ("in", 999, "", "queued", "accept"), instance=now, spoil=True)
    return {
        (tampered.store, "state_violations", wrong),
        (tampered.store, "double_ownership", wrong),
        (tampered.store, "sequence_gaps", f"{shard}/{hseq + 1}"),
        (tampered.store, "hash_chain", broken),
    }


def spoil_rows(path: Path) -> set[Fault]:
    """Put faults of rows and transitions into a store of `make_chats(chats=12, dead=DEAD_ROWS, events=EVENTS)`.

    Returns:
        What must be found.
    """
    with Tampered(path) as store:
        old = store.now_us - 2 * HOUR_US
        # Uncertain for two hours.
        store.run("UPDATE outbox SET uncertain_since = ? WHERE id = 1", old)
        # Waits for a retry that was due two hours ago.
        store.move("out", 3, "sent", "failed", "failed")
        store.run(
            "UPDATE outbox SET status = 'failed', sent_at = NULL, updated_at = ?, next_attempt_at = ? WHERE id = 3",
            old,
            old,
        )
        # A turn that has not run again.
        store.move("in", 5, "done", "fail", "failed")
        store.run(
            "UPDATE inbox SET status = 'failed', done_at = NULL, accepted_at = ?, started_at = ?, next_at = ?"
            " WHERE id = 5",
            old,
            old,
            old,
        )
        # The same text again, at once.
        store.run(
            "UPDATE outbox SET (body, sent_at) = (SELECT body, sent_at + 1 FROM outbox WHERE id = 7) WHERE id = 8"
        )
        # No rule allows it.
        store.run("UPDATE history SET event = 'release' WHERE kind = 'in' AND identity = 9 AND \"from\" = ''")
        store.run("UPDATE outbox SET attempts = claim + 1 WHERE id = 10")
        store.run("UPDATE outbox SET claim = claim + 5 WHERE id = 11")
        # Two messages, and two sends of another conversation, in each other's place.
        for table, first in (("inbox", 13), ("outbox", 15)):
            store.run(
                f"UPDATE {table} SET seq = (SELECT sum(seq) FROM {table} WHERE id IN (?, ?)) - seq WHERE id IN (?, ?)",
                first,
                first + 1,
                first,
                first + 1,
            )
        # An older opening writes on.
        store.run(
            "UPDATE history SET instance = 2 WHERE id = (SELECT id FROM history WHERE shard = 0 AND hseq ="
            " (SELECT max(hseq) - 1 FROM history WHERE shard = 0))"
        )
        late = str(store.value("SELECT '0/' || max(hseq) FROM history WHERE shard = 0"))
        dead_at = old - old % HOUR_US + 1
        store.run("UPDATE inbox SET dead_at = ? WHERE status = 'dead'", dead_at)
        # The history of one send ends twice.
        store.run(
            'INSERT INTO history (shard, hseq, kind, identity, "from", "to", event, claim, at, instance, h)'
            " SELECT shard, (SELECT max(hseq) + 1 FROM history other WHERE other.shard = history.shard), kind,"
            " identity, 'sent', 'sent', 'sent', claim, at, 9, h FROM history"
            " WHERE kind = 'out' AND identity = 18 AND event = 'sent'"
        )
        twice = store.value(
            "SELECT shard || '/' || max(hseq) FROM history WHERE kind = 'out' AND identity = 18"
        )
        # A message is gone, and its answer is not.
        lost = store.value("SELECT topic || '/' || part || '/' || off FROM inbox WHERE id = 19")
        store.run("DELETE FROM inbox WHERE id = 19")
        store.run("DELETE FROM event WHERE off = 2")
        # What is asked of rows goes with their table.
        store.run("CREATE TABLE other AS SELECT * FROM event")
        store.run("DROP TABLE event")
        store.run("ALTER TABLE other RENAME TO event")
        store.run(
            "INSERT INTO event (id, shard, topic, part, off, ts)"
            " SELECT id + 9, shard, topic, part, off, ts FROM event WHERE off = 4"
        )
        return {
            ("answer_without_message", "19"),
            ("log_gaps", str(lost)),
            ("log_gaps", "news/0/2"),
            ("log_gaps", "news/0/4"),
            ("uncertain_open", "1"),
            ("stuck_pending", "3"),
            ("inbox_without_outcome", "5"),
            ("duplicate_content", "8"),
            ("state_violations", store.link("in", 9, "release")),
            ("impossible_rows", "10"),
            ("reconciliation", "out-11"),
            ("handled_out_of_order", "13"),
            ("sent_out_of_order", "15"),
            ("double_ownership", late),
            ("dead_letter_growth", f"fake/{dead_at - dead_at % HOUR_US}"),
            ("repeated_sends", "18"),
            ("state_violations", str(twice)),
        }


def spoil_chains(path: Path) -> set[Fault]:
    """Put faults of the chains into a store of `make_chats(chats=12)`; what must be found."""
    with Tampered(path, relink=False) as store:
        changed = store.link("in", 2, "done")
        store.run("UPDATE history SET at = at + 1 WHERE kind = 'in' AND identity = 2 AND event = 'done'")
        # The first transition of a message is gone, and so is what its next one follows from.
        gone = store.link("in", 24, "accept+claim")
        shard = gone.partition("/")[0]
        next_one = store.link("in", 24, "done")
        store.run("DELETE FROM history WHERE kind = 'in' AND identity = 24 AND event = 'accept+claim'")
        headed = store.value(
            "SELECT shard || '/' || hseq FROM shard WHERE hseq > 0 AND shard <> ? ORDER BY shard LIMIT 1",
            shard,
        )
        store.run("UPDATE shard SET h = zeroblob(32) WHERE shard || '/' || hseq = ?", cast("str", headed))
        return {
            ("hash_chain", changed),
            ("hash_chain", str(headed)),
            ("sequence_gaps", f"{shard}/1"),
            ("state_violations", next_one),
        }


def overlap(first: Path, second: Path) -> set[Fault]:
    """Have two stores share a key and a conversation at one time; what must be found in the second one."""
    for path, offset in ((first, 0), (second, 10)):
        with Tampered(path, relink=False) as store:
            begun = 1_760_000_000_000_000 + offset
            store.run("UPDATE outbox SET idempotency_key = 'twice', sent_at = ? WHERE id = 20", begun)
            store.run("UPDATE inbox SET started_at = ?, done_at = ? WHERE id = 21", begun, begun + 20)
    return {("duplicate_sends", "20"), ("shared_conversation", "21")}
