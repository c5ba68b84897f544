-- What people and other processes decide: inserted by anybody, carried out once by the owner.
CREATE TABLE control (
    n          INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    verb       TEXT    NOT NULL,
    args       TEXT    NOT NULL,
    actor      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    status     TEXT    NOT NULL,
    code       TEXT,
    result     TEXT,
    done_at    INTEGER,
    instance   INTEGER
) STRICT;

CREATE INDEX control_waiting ON control (n) WHERE status = 'waiting';

-- A purged row keeps its identity and its history; what it said is gone.
ALTER TABLE outbox ADD COLUMN purged_at INTEGER;

DROP INDEX outbox_dead;
CREATE INDEX outbox_dead ON outbox (dead_at, id) WHERE dead_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX outbox_purged ON outbox (id) WHERE purged_at IS NOT NULL;
DROP INDEX inbox_aside;
CREATE INDEX inbox_aside ON inbox (status, id) WHERE status IN ('parked', 'refused', 'purged');
