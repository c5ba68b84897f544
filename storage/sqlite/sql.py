"""Every statement the writer runs, as constants: apsw caches a prepared statement by its text."""

# ruff: noqa: S608 (statements are put together from the constants of this module alone; values are bound)

from __future__ import annotations

from typing import Final

INBOX_RECORD: Final = (
    "id, shard, seq, topic, part, off, channel, conversation_key, status, claim, failures, crashes, blames,"
    " generation, epoch, accepted_at, started_at, done_at, dead_at, next_at, wait, errors"
)
"""The columns of an `InboxRecord`, in the order of its fields."""

_OUTBOX_ROW: Final = (
    "id, shard, seq, channel, idempotency_key, part, conversation_key, status, in_flight, claim, attempts, accepted,"
    " deduped, platform_message_id, degraded, generation, created_at, updated_at, last_attempt_at, sent_at,"
    " next_attempt_at, wait, uncertain_since, dead_at, errors"
)
OUTBOX_RECORD: Final = f"{_OUTBOX_ROW}, purged_at"
"""The columns of an `OutboxRecord`, in the order of its fields."""

_REASONS: Final = "error_code, own_code, last_error"


def _insert(table: str, columns: str, **literals: str) -> str:
    bound = [name.strip() for name in columns.split(",")]
    values = ["?"] * len(bound) + list(literals.values())
    return f"INSERT INTO {table} ({', '.join([*bound, *literals])}) VALUES ({', '.join(values)})"


def _move(table: str, columns: str, errors: str, guard: str) -> str:
    changes = ", ".join(f"{name.strip()} = ?" for name in columns.split(","))
    return f"UPDATE {table} SET {changes}, {errors} WHERE id = ? AND {guard}"


_INBOX_CHANGES: Final = (
    "status, claim, failures, crashes, blames, generation, epoch, started_at, done_at, dead_at, next_at, wait,"
    " change_seq"
)
_OUTBOX_CHANGES: Final = (
    "status, in_flight, claim, attempts, accepted, deduped, platform_message_id, degraded, generation, updated_at,"
    " last_attempt_at, sent_at, next_attempt_at, wait, uncertain_since, dead_at, change_seq"
)
_ERRORS: Final = "errors = ?, error_code = ?, own_code = ?, last_error = ?"
# Of a row without errors, and that is nearly every row: four values less to bind.
_NO_ERRORS: Final = "errors = '[]', error_code = NULL, own_code = NULL, last_error = NULL"

_MESSAGE: Final = (
    "dedupe_key, platform_message_id, idempotency_key, participant_key, created_at, hops, codec, body, raw"
)
INSERT_INBOX: Final = _insert("inbox", f"{INBOX_RECORD}, {_REASONS}, change_seq, {_MESSAGE}")
# A message as nearly each one arrives: to be handled, or claimed already. What turns may make of it is spelled out.
INSERT_NEW_INBOX: Final = _insert(
    "inbox",
    "id, shard, seq, topic, part, off, channel, conversation_key, status, claim, epoch, accepted_at, started_at,"
    f" change_seq, {_MESSAGE}",
    failures="0",
    crashes="0",
    blames="0",
    generation="0",
    errors="'[]'",
)
INSERT_OUTBOX: Final = _insert("outbox", f"{_OUTBOX_ROW}, {_REASONS}, change_seq, inbox_id, codec, body")
# The same of a send: it waits, or is on its way.
INSERT_NEW_OUTBOX: Final = _insert(
    "outbox",
    "id, shard, seq, channel, idempotency_key, part, conversation_key, in_flight, claim, attempts, generation,"
    " created_at, updated_at, last_attempt_at, change_seq, inbox_id, codec, body",
    status="'pending'",
    errors="'[]'",
)
INSERT_EVENT: Final = _insert("event", "id, shard, topic, part, off, ts, key, dedupe_key, codec, body")

_INBOX_GUARD: Final = "shard = ? AND claim = ? AND status = ? AND generation = ?"
MOVE_INBOX: Final = _move("inbox", _INBOX_CHANGES, _NO_ERRORS, _INBOX_GUARD)
MOVE_FAILED_INBOX: Final = _move("inbox", _INBOX_CHANGES, _ERRORS, _INBOX_GUARD)
MOVE_INBOX_TO_TAIL: Final = _move("inbox", f"{_INBOX_CHANGES}, seq", _ERRORS, _INBOX_GUARD)
_OUTBOX_GUARD: Final = (
    "shard = ? AND claim = ? AND status = ? AND in_flight = ? AND generation = ?"
    " AND (uncertain_since IS NULL) = ? AND (dead_at IS NULL) = ?"
)
MOVE_OUTBOX: Final = _move("outbox", _OUTBOX_CHANGES, _NO_ERRORS, _OUTBOX_GUARD)
MOVE_FAILED_OUTBOX: Final = _move("outbox", _OUTBOX_CHANGES, _ERRORS, _OUTBOX_GUARD)
MOVE_OUTBOX_TO_TAIL: Final = _move("outbox", f"{_OUTBOX_CHANGES}, seq", _ERRORS, _OUTBOX_GUARD)

# Behind the move of the same part: that has checked what the row was.
REWRITE_OUTBOX: Final = "UPDATE outbox SET codec = ?, body = ? WHERE id = ? AND shard = ? AND claim = ?"

_EMPTIED: Final = "errors = '[]', last_error = NULL, change_seq = ?, codec = ?, body = ?"
PURGE_INBOX: Final = (
    f"UPDATE inbox SET status = 'purged', participant_key = NULL, raw = NULL, {_EMPTIED}"
    " WHERE id = ? AND shard = ? AND claim = ? AND status = 'dead' AND generation = ?"
)
PURGE_OUTBOX: Final = (
    f"UPDATE outbox SET purged_at = ?, updated_at = ?, {_EMPTIED}"
    " WHERE id = ? AND shard = ? AND claim = ? AND dead_at IS NOT NULL AND purged_at IS NULL AND generation = ?"
)
MOVE_CONTROL: Final = (
    "UPDATE control SET status = ?, code = ?, result = ?, done_at = ?, instance = ?, args = coalesce(?, args)"
    " WHERE n = ? AND status = 'waiting'"
)

TIMER_RECORD: Final = "id, shard, kind, topic, part, conversation_key, due_at, wait, rule, zone, created_at"
"""The columns of a `TimerRecord`, in the order of its fields."""

_INSERT_TIMER: Final = _insert("timer", f"{TIMER_RECORD}, codec, body")
SET_TIMER: Final = f"{_INSERT_TIMER} ON CONFLICT (id) DO NOTHING"
REPLACE_TIMER: Final = (
    f"{_INSERT_TIMER} ON CONFLICT (id) DO UPDATE SET shard = excluded.shard, kind = excluded.kind,"
    " topic = excluded.topic, part = excluded.part, conversation_key = excluded.conversation_key,"
    " due_at = excluded.due_at, wait = excluded.wait, rule = excluded.rule, zone = excluded.zone,"
    " created_at = excluded.created_at, codec = excluded.codec, body = excluded.body"
)
DROP_TIMER: Final = "DELETE FROM timer WHERE id = ? AND shard = ?"
MOVE_TIMER: Final = "UPDATE timer SET due_at = ?, wait = ? WHERE id = ? AND shard = ? AND due_at = ?"
END_TIMER: Final = "DELETE FROM timer WHERE id = ? AND shard = ? AND due_at = ?"

WRITE_STATE: Final = (
    "INSERT INTO conversation (key, shard, state, state_version, updated_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (key) DO UPDATE SET state = excluded.state, state_version = excluded.state_version,"
    " updated_at = excluded.updated_at"
)
DROP_STATE: Final = "DELETE FROM conversation WHERE key = ?"
WRITE_FACT: Final = (
    "INSERT INTO fact (namespace, key, value, updated_at) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at"
)
DROP_FACT: Final = "DELETE FROM fact WHERE namespace = ? AND key = ?"
IS_RUNNING: Final = "SELECT 1 FROM inbox WHERE id = ? AND shard = ? AND claim = ? AND status = 'running'"
INSERT_STEP: Final = f"{_insert('step', 'inbox_id, name, claim, at, codec, value')} ON CONFLICT DO NOTHING"
DROP_STEPS: Final = "DELETE FROM step WHERE inbox_id = ?"
INSERT_EMIT: Final = _insert("emit", "shard, seq, i, target, codec, body")
DROP_EMIT: Final = "DELETE FROM emit WHERE shard = ? AND seq = ? AND i = ?"
INSERT_HISTORY: Final = _insert(
    "history", 'shard, hseq, kind, identity, "from", "to", event, claim, at, code, instance, h'
)
INSERT_ANCHOR: Final = _insert("anchor", "shard, hseq, h, at")
MOVE_SHARD: Final = "UPDATE shard SET epoch = ?, instance = ?, seq = ?, hseq = ?, h = ? WHERE shard = ?"
MOVE_STORE: Final = (
    "UPDATE store_commit SET commit_seq = ?, change_seq = ?, next_inbox_id = ?, next_outbox_id = ?,"
    " next_event_id = ?, retried_turns = ?, retried_sends = ? WHERE id = 1"
)

FIND_INBOX: Final = (
    "SELECT id, part, off, codec, body, status = 'purged' OR emptied_at IS NOT NULL FROM inbox"
    " WHERE dedupe_key = ?"
)
FIND_EVENT: Final = (
    "SELECT id, part, off, codec, body, emptied_at IS NOT NULL FROM event WHERE dedupe_key = ?"
)
FIND_OUTBOX: Final = (
    "SELECT id, shard, seq, conversation_key, codec, body, coalesce(purged_at, emptied_at) IS NOT NULL FROM outbox"
    " WHERE channel = ? AND idempotency_key = ? AND part = ?"
)
HAS_INBOX: Final = "SELECT 1 FROM inbox WHERE id = ?"
# The rows at the end of a log may have been pruned.
LAST_INBOX_OFFSET: Final = (
    "SELECT max(off) FROM (SELECT max(off) AS off FROM inbox WHERE topic = ?1 AND part = ?2"
    " UNION ALL SELECT off FROM log_end WHERE topic = ?1 AND part = ?2)"
)
LAST_EVENT: Final = (
    "SELECT off, ts FROM (SELECT off, ts FROM event WHERE topic = ?1 AND part = ?2 ORDER BY off DESC LIMIT 1)"
    " UNION ALL SELECT off, ts FROM log_end WHERE topic = ?1 AND part = ?2 ORDER BY off DESC LIMIT 1"
)
COUNT_OPEN_INBOX: Final = (
    "SELECT count(*) FROM inbox INDEXED BY inbox_open WHERE status IN ('queued', 'running', 'failed')"
)
READ_STORE: Final = (
    "SELECT commit_seq, change_seq, next_inbox_id, next_outbox_id, next_event_id, retried_turns, retried_sends"
    " FROM store_commit"
)
READ_COMMIT_SEQ: Final = "SELECT commit_seq FROM store_commit"
SKIP_COMMIT: Final = "UPDATE store_commit SET commit_seq = ?"
READ_SHARDS: Final = "SELECT epoch, seq, hseq, h FROM shard ORDER BY shard"
