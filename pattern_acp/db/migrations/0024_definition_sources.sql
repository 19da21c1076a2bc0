-- Sources of definitions by their identity, so that a session goes on with what it had, whatever became of the files.

CREATE TABLE definition_sources (
    identity TEXT PRIMARY KEY,
    symbol TEXT NOT NULL,
    source TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT '',
    last_seq INTEGER NOT NULL REFERENCES events (seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX definition_sources_by_event ON definition_sources (last_seq);
