-- Memory that was forked with a conversation (docs/how-to/fork.md).

CREATE TABLE memory_forks (
    id TEXT PRIMARY KEY,                 -- stands behind the names of the owners of its blocks
    forked_ms INTEGER NOT NULL,          -- facts of the archive that were kept until then are in its sight
    outcome TEXT NOT NULL,               -- open, merged, discarded
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- rule R1
) STRICT, WITHOUT ROWID;

CREATE TABLE forked_sessions (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id),
    fork TEXT NOT NULL REFERENCES memory_forks (id), -- whose memory the session uses while that is open
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- rule R1
) STRICT, WITHOUT ROWID;

CREATE TABLE forked_blocks (
    block_id TEXT PRIMARY KEY REFERENCES blocks (id), -- the copy
    origin TEXT NOT NULL REFERENCES blocks (id), -- the block that it is a copy of
    origin_head INTEGER NOT NULL,        -- number of the last update that both share
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- rule R1
) STRICT, WITHOUT ROWID;

CREATE INDEX forked_blocks_by_origin ON forked_blocks (origin);
