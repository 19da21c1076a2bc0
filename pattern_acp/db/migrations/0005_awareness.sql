-- What a persona was told of what went on, and which files hold memory.

CREATE TABLE cursors (
    persona TEXT NOT NULL,
    project TEXT NOT NULL,
    told_seq INTEGER NOT NULL,
    active_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq),
    PRIMARY KEY (persona, project)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_files (
    folder TEXT NOT NULL,
    block_id TEXT NOT NULL REFERENCES blocks (id),
    file TEXT NOT NULL,
    version INTEGER NOT NULL,
    file_hash TEXT NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq),
    PRIMARY KEY (folder, block_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX block_updates_by_event ON block_updates (last_seq);
