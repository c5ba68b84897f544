-- What is to arrive later: a row goes in the commit that stores its arrival, or stays with its next time.
CREATE TABLE timer (
    id               TEXT    PRIMARY KEY,
    shard            INTEGER NOT NULL,
    kind             TEXT    NOT NULL,
    topic            TEXT    NOT NULL,
    part             INTEGER NOT NULL,
    conversation_key TEXT,
    due_at           INTEGER NOT NULL,
    wait             INTEGER,
    rule             TEXT,
    zone             TEXT,
    created_at       INTEGER NOT NULL,
    codec            INTEGER NOT NULL,
    body             BLOB    NOT NULL
) STRICT;

CREATE INDEX timer_due ON timer (due_at, id);
-- When each pause began: one that begins in the future says that the clock was set back.
CREATE INDEX timer_begun ON timer (due_at - wait) WHERE wait IS NOT NULL;
