-- The whole schema of a constellation, as it is after the newest migration. A test keeps both equal.
-- Times are integers: milliseconds since 1970-01-01 UTC. Ids are opaque text.

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,             -- the only order: global, gapless within a commit
    stream TEXT NOT NULL,                -- a session's id, or 'constellation' for what belongs to none
    session_seq INTEGER NOT NULL,        -- 1, 2, 3 … within the stream
    at_ms INTEGER NOT NULL,              -- when it was appended
    kind TEXT NOT NULL,                  -- name of the event, journal/codec.py
    version INTEGER NOT NULL,            -- version of the payload's form
    actor TEXT NOT NULL,                 -- who acted: domain/origin.py Actor
    origin TEXT NOT NULL,                -- where the content came from: domain/origin.py Origin
    item TEXT NOT NULL,                  -- what it is about (turn, call, message, block id), or ''
    payload TEXT,                        -- canonical JSON; NULL when it is in a blob
    blob TEXT REFERENCES blobs (hash),   -- SHA-256 of the blob that holds a large payload
    payload_hash TEXT NOT NULL,          -- SHA-256 of the canonical payload
    prev_hash TEXT NOT NULL,             -- hash of the stream's event before; 64 zeros for the first
    hash TEXT NOT NULL,                  -- SHA-256 over prev_hash, payload_hash, kind, actor, origin, item, session_seq
    UNIQUE (stream, session_seq),
    CHECK ((payload IS NULL) <> (blob IS NULL))
) STRICT;

CREATE INDEX events_by_item ON events (stream, item);

CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,               -- SHA-256 of the content
    size INTEGER NOT NULL,               -- bytes before compression
    encoding TEXT NOT NULL,              -- 'raw' or 'zlib'
    content BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Append-only by trigger; an audited redaction will drop and recreate them inside its own transaction.
CREATE TRIGGER events_are_not_updated BEFORE UPDATE ON events
BEGIN SELECT RAISE (ABORT, 'events are append-only'); END;

CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE (ABORT, 'events are append-only'); END;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,                 -- the ACP session id
    cwd TEXT NOT NULL,                   -- absolute, as the client gave it
    cwd_key TEXT NOT NULL,               -- normalised for comparison (case, separators, symlinks)
    additional_directories TEXT NOT NULL, -- JSON list of absolute paths
    title TEXT NOT NULL,                 -- from the first prompt; '' before it
    persona TEXT NOT NULL,               -- name of the persona
    persona_identity TEXT NOT NULL,      -- content hash of the persona module it runs (rule R5)
    model TEXT NOT NULL,                 -- PROVIDER/MODEL
    mode TEXT NOT NULL,                  -- ask, edit, plan, auto
    thought_level TEXT NOT NULL,         -- off, low, medium, high
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,         -- last prompt or answer
    prompt_count INTEGER NOT NULL,       -- sessions without prompts stay out of lists
    deleted INTEGER NOT NULL,            -- 1 after session/delete
    parent TEXT REFERENCES sessions (id), -- the session it was forked from
    fork_seq INTEGER,                    -- the parent's event it was forked at
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- rule R1
) STRICT;

-- A list shows neither deleted sessions nor those without a prompt, so its indexes hold neither.
CREATE INDEX sessions_listed ON sessions (updated_ms, id) WHERE deleted = 0 AND prompt_count > 0;

CREATE INDEX sessions_listed_by_cwd ON sessions (cwd_key, updated_ms, id) WHERE deleted = 0 AND prompt_count > 0;

CREATE TABLE leases (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id),
    holder TEXT NOT NULL,                -- random id of the process start that holds it
    pid INTEGER NOT NULL,                -- its process id
    process_started TEXT NOT NULL,       -- start mark of that process, so that a re-used pid is not taken for it
    host TEXT NOT NULL,                  -- its machine
    acquired_ms INTEGER NOT NULL,
    renewed_ms INTEGER NOT NULL          -- a lease of another machine is dead when this is old
) STRICT;

CREATE TABLE blocks (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,                 -- persona, project, shared
    owner TEXT NOT NULL,                 -- persona name, or project key
    label TEXT NOT NULL,                 -- unique in its scope and owner
    description TEXT NOT NULL,           -- tells the model what belongs there
    char_limit INTEGER NOT NULL,         -- most characters of text
    text TEXT NOT NULL,                  -- the document rendered: what prompts and search read
    text_hash TEXT NOT NULL,             -- SHA-256 of text, checked against the document on load
    base BLOB NOT NULL,                  -- Loro snapshot that the updates after base_update build on
    base_update INTEGER NOT NULL,        -- number of the last update that base holds
    head_update INTEGER NOT NULL,        -- number of the newest update
    frontiers BLOB NOT NULL,             -- Loro frontiers of the newest state, encoded
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    deleted INTEGER NOT NULL,            -- 1 when deleted; the label can then be made again
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- rule R1
) STRICT;

CREATE UNIQUE INDEX blocks_by_label ON blocks (scope, owner, label) WHERE deleted = 0;

CREATE TABLE block_updates (
    block_id TEXT NOT NULL REFERENCES blocks (id),
    number INTEGER NOT NULL,             -- 1, 2, 3 … within the block
    data BLOB NOT NULL,                  -- Loro update; the first is the block's creation, so that the log alone rebuilds it
    frontiers_before BLOB NOT NULL,
    frontiers_after BLOB NOT NULL,
    peer TEXT NOT NULL,                  -- Loro peer id of the process start, decimal
    actor TEXT NOT NULL,
    origin TEXT NOT NULL,
    operation TEXT NOT NULL,             -- create, append, replace, rewrite
    reason TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- the event of this write
    PRIMARY KEY (block_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE block_archives (
    block_id TEXT PRIMARY KEY REFERENCES blocks (id),
    upto INTEGER NOT NULL,               -- number of the last update it holds
    snapshot BLOB NOT NULL,              -- full Loro snapshot with all history
    last_seq INTEGER NOT NULL REFERENCES events (seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE search_entries (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,                  -- block, user, assistant
    source TEXT NOT NULL,                -- block id, or session id
    owner TEXT NOT NULL,                 -- persona name or project key that may find it
    item TEXT NOT NULL,                  -- paragraph number, or message id
    text TEXT NOT NULL,
    words TEXT NOT NULL,                 -- text with identifiers split at case and underscore
    at_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq)
) STRICT;

CREATE INDEX search_entries_by_source ON search_entries (source, item);

CREATE VIRTUAL TABLE search_fts USING fts5 (
    text, words, content = 'search_entries', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TRIGGER search_entries_insert AFTER INSERT ON search_entries
BEGIN INSERT INTO search_fts (rowid, text, words) VALUES (new.id, new.text, new.words); END;

CREATE TRIGGER search_entries_delete AFTER DELETE ON search_entries
BEGIN INSERT INTO search_fts (search_fts, rowid, text, words) VALUES ('delete', old.id, old.text, old.words); END;

CREATE TABLE grants (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id), -- an always lasts for its session, as its label says
    effect TEXT NOT NULL,                -- allow or deny
    kind TEXT NOT NULL,                  -- command_prefix, exact_command, edit_folder, read_folder
    pattern TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq)
) STRICT;

CREATE INDEX grants_by_session ON grants (session_id);

CREATE TABLE backups (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    from_version INTEGER NOT NULL,       -- schema version before the migration
    to_version INTEGER NOT NULL,
    path TEXT NOT NULL                   -- file name beside the constellation
) STRICT;
