-- Times are wall-clock microseconds since 1970 UTC. One process owns the file; every write is one BEGIN IMMEDIATE.

CREATE TABLE store_meta (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    uuid        TEXT    NOT NULL,
    schema      INTEGER NOT NULL,
    shard_count INTEGER NOT NULL,
    lane_policy TEXT    NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT;

-- The numbers that every transaction moves on. commit_seq tells whether a COMMIT of unknown outcome is there.
CREATE TABLE store_commit (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    commit_seq     INTEGER NOT NULL,
    change_seq     INTEGER NOT NULL,
    next_inbox_id  INTEGER NOT NULL,
    next_outbox_id INTEGER NOT NULL,
    next_event_id  INTEGER NOT NULL,
    retried_turns  INTEGER NOT NULL,
    retried_sends  INTEGER NOT NULL
) STRICT;

-- One row an opening of the store; epoch counts them.
CREATE TABLE instance (
    id        INTEGER PRIMARY KEY,
    epoch     INTEGER NOT NULL,
    host      TEXT    NOT NULL,
    pid       INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    closed_at INTEGER,
    clean     INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A shard's lease epoch, its last seq, and the head of its history chain.
CREATE TABLE shard (
    shard    INTEGER PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    instance INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    hseq     INTEGER NOT NULL,
    h        BLOB    NOT NULL
) STRICT;

-- Chain heads that outlive pruning: one every 4,096 history rows of a shard.
CREATE TABLE anchor (
    shard INTEGER NOT NULL,
    hseq  INTEGER NOT NULL,
    h     BLOB    NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (shard, hseq)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
    id                  INTEGER PRIMARY KEY,
    shard               INTEGER NOT NULL,
    seq                 INTEGER NOT NULL,
    topic               TEXT    NOT NULL,
    part                INTEGER NOT NULL,
    off                 INTEGER NOT NULL,
    channel             TEXT,
    conversation_key    TEXT    NOT NULL,
    status              TEXT    NOT NULL,
    claim               INTEGER NOT NULL,
    failures            INTEGER NOT NULL,
    crashes             INTEGER NOT NULL,
    blames              INTEGER NOT NULL,
    generation          INTEGER NOT NULL,
    epoch               INTEGER NOT NULL,
    accepted_at         INTEGER NOT NULL,
    started_at          INTEGER,
    done_at             INTEGER,
    dead_at             INTEGER,
    next_at             INTEGER,
    wait                INTEGER,
    error_code          TEXT,
    own_code            TEXT,
    last_error          TEXT,
    errors              TEXT    NOT NULL,
    change_seq          INTEGER NOT NULL,
    dedupe_key          TEXT    NOT NULL UNIQUE,
    platform_message_id TEXT,
    idempotency_key     TEXT    NOT NULL,
    participant_key     TEXT,
    created_at          INTEGER NOT NULL,
    hops                INTEGER NOT NULL,
    codec               INTEGER NOT NULL,
    body                BLOB    NOT NULL,
    raw                 BLOB,
    UNIQUE (topic, part, off)
) STRICT;

-- Lanes: a loose scan over the key, then pages by seq. `status` rides along so that counting reads the index alone.
CREATE INDEX inbox_open ON inbox (shard, conversation_key, seq, status)
    WHERE status IN ('queued', 'running', 'failed');
CREATE INDEX inbox_claimed ON inbox (shard) WHERE status = 'running';
CREATE INDEX inbox_crashed ON inbox (id) WHERE crashes >= 2;
CREATE INDEX inbox_dead ON inbox (dead_at, id) WHERE status = 'dead';
CREATE INDEX inbox_aside ON inbox (status, id) WHERE status IN ('parked', 'refused');

CREATE TABLE outbox (
    id                  INTEGER PRIMARY KEY,
    shard               INTEGER NOT NULL,
    seq                 INTEGER NOT NULL,
    channel             TEXT    NOT NULL,
    idempotency_key     TEXT    NOT NULL,
    part                INTEGER NOT NULL,
    conversation_key    TEXT    NOT NULL,
    status              TEXT    NOT NULL,
    in_flight           INTEGER NOT NULL,
    claim               INTEGER NOT NULL,
    attempts            INTEGER NOT NULL,
    accepted            INTEGER,
    deduped             INTEGER,
    platform_message_id TEXT,
    degraded            TEXT,
    generation          INTEGER NOT NULL,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    last_attempt_at     INTEGER,
    sent_at             INTEGER,
    next_attempt_at     INTEGER,
    wait                INTEGER,
    uncertain_since     INTEGER,
    dead_at             INTEGER,
    error_code          TEXT,
    own_code            TEXT,
    last_error          TEXT,
    errors              TEXT    NOT NULL,
    change_seq          INTEGER NOT NULL,
    inbox_id            INTEGER,
    codec               INTEGER NOT NULL,
    body                BLOB    NOT NULL,
    UNIQUE (channel, idempotency_key, part)
) STRICT;

CREATE INDEX outbox_open ON outbox (shard, conversation_key, seq, part, status, in_flight, uncertain_since)
    WHERE status <> 'sent' AND dead_at IS NULL;
CREATE INDEX outbox_flying ON outbox (shard) WHERE in_flight = 1;
CREATE INDEX outbox_dead ON outbox (dead_at, id) WHERE dead_at IS NOT NULL;
CREATE INDEX outbox_uncertain ON outbox (channel, id) WHERE uncertain_since IS NOT NULL;

-- The log of event topics: append-only.
CREATE TABLE event (
    id         INTEGER PRIMARY KEY,
    shard      INTEGER NOT NULL,
    topic      TEXT    NOT NULL,
    part       INTEGER NOT NULL,
    off        INTEGER NOT NULL,
    ts         INTEGER NOT NULL,
    key        TEXT,
    dedupe_key TEXT UNIQUE,
    codec      INTEGER NOT NULL,
    body       BLOB    NOT NULL,
    UNIQUE (topic, part, off)
) STRICT;

CREATE TABLE conversation (
    key           TEXT    PRIMARY KEY,
    shard         INTEGER NOT NULL,
    state         BLOB    NOT NULL,
    state_version INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE fact (
    namespace  TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    value      BLOB    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;

-- Decisions for other homes that a relay still has to carry over; empty where emits are applied in the same commit.
CREATE TABLE emit (
    shard  INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    i      INTEGER NOT NULL,
    target INTEGER NOT NULL,
    codec  INTEGER NOT NULL,
    body   BLOB    NOT NULL,
    PRIMARY KEY (shard, seq, i)
) STRICT;

-- Every transition of inbox and outbox, one chain a shard:
-- h = SHA-256(h before it || msgpack array [shard, hseq, kind, identity, from, to, event, claim, at, code, instance]),
-- the first h before is 32 zero bytes. `id` belongs to this file, not to the chain.
CREATE TABLE history (
    id       INTEGER PRIMARY KEY,
    shard    INTEGER NOT NULL,
    hseq     INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    identity INTEGER NOT NULL,
    "from"   TEXT    NOT NULL,
    "to"     TEXT    NOT NULL,
    event    TEXT    NOT NULL,
    claim    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    code     TEXT,
    instance INTEGER NOT NULL,
    h        BLOB    NOT NULL
) STRICT;
