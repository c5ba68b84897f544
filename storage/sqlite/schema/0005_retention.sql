-- Where each log ended before its last rows were pruned: offsets and times go on from there.
CREATE TABLE log_end (
    topic TEXT    NOT NULL,
    part  INTEGER NOT NULL,
    off   INTEGER NOT NULL,
    ts    INTEGER NOT NULL,
    PRIMARY KEY (topic, part)
) STRICT, WITHOUT ROWID;

-- What an ended row said is gone; it stays for its key.
ALTER TABLE inbox ADD COLUMN emptied_at INTEGER;
ALTER TABLE outbox ADD COLUMN emptied_at INTEGER;
ALTER TABLE event ADD COLUMN emptied_at INTEGER;
