-- Results of the steps of a message's turns: stored once each, given back when the message runs again.
CREATE TABLE step (
    inbox_id INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    claim    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    codec    INTEGER NOT NULL,
    value    BLOB    NOT NULL,
    PRIMARY KEY (inbox_id, name)
) STRICT;
