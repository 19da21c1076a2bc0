-- Recall by meaning: archival entries, vectors of what is searched, and what is still to be embedded.

CREATE TABLE archival_entries (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,                 -- persona, project, shared
    owner TEXT NOT NULL,                 -- persona name, or project key
    text TEXT NOT NULL,                  -- never changed; a correction is a new entry that supersedes this one
    text_hash TEXT NOT NULL,             -- SHA-256 of the text with case and white space evened out, to find repeats
    actor TEXT NOT NULL,
    origin TEXT NOT NULL,
    reason TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    supersedes TEXT REFERENCES archival_entries (id), -- the entry that this one replaces; NULL for none
    verified_ms INTEGER,                 -- when the fact was last found true; NULL for never
    check_command TEXT NOT NULL,         -- how to find out whether it still is; '' for no way
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- rule R1
) STRICT;

CREATE INDEX archival_entries_by_owner ON archival_entries (scope, owner, at_ms);

CREATE INDEX archival_entries_by_hash ON archival_entries (text_hash);

CREATE UNIQUE INDEX archival_entries_by_superseded ON archival_entries (supersedes) WHERE supersedes IS NOT NULL;

CREATE TRIGGER archival_entries_are_not_rewritten
BEFORE UPDATE OF id, scope, owner, text, text_hash, actor, origin, reason, at_ms ON archival_entries
BEGIN SELECT RAISE (ABORT, 'archival entries are immutable'); END;

CREATE INDEX search_entries_by_owner ON search_entries (owner, kind, source, at_ms);

CREATE TABLE embedding_models (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,           -- EmbeddingModel.name
    dimensions INTEGER NOT NULL,         -- numbers of a vector; 0 before the first
    used_ms INTEGER NOT NULL             -- last start that used it; its vectors go when that is long ago
) STRICT;

CREATE TABLE embedding_queue (
    model INTEGER NOT NULL REFERENCES embedding_models (id) ON DELETE CASCADE,
    entry INTEGER NOT NULL REFERENCES search_entries (id) ON DELETE CASCADE,
    PRIMARY KEY (model, entry)
) STRICT, WITHOUT ROWID;

CREATE INDEX embedding_queue_by_entry ON embedding_queue (entry);

CREATE TRIGGER search_entries_queue AFTER INSERT ON search_entries
BEGIN INSERT INTO embedding_queue (model, entry) SELECT id, new.id FROM embedding_models; END;

-- The truth about vectors. The indexes of sqlite-vec over them (db/vector.py) can be dropped and made again.
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY,
    entry INTEGER NOT NULL REFERENCES search_entries (id) ON DELETE CASCADE,
    model INTEGER NOT NULL REFERENCES embedding_models (id) ON DELETE CASCADE,
    dimensions INTEGER NOT NULL,
    content_hash TEXT NOT NULL,          -- SHA-256 of the text it was made from
    vector BLOB NOT NULL,                -- 32-bit floats, length 1
    indexed INTEGER NOT NULL,            -- 1 when the index holds it
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- the event of the text it was made from
    UNIQUE (entry, model)
) STRICT;

CREATE INDEX vectors_not_indexed ON vectors (model) WHERE indexed = 0;

CREATE TABLE index_leftovers (
    model INTEGER NOT NULL REFERENCES embedding_models (id) ON DELETE CASCADE,
    entry INTEGER NOT NULL,              -- in the index, but no longer among the vectors
    PRIMARY KEY (model, entry)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER vectors_delete AFTER DELETE ON vectors WHEN old.indexed = 1
BEGIN
    INSERT OR IGNORE INTO index_leftovers (model, entry)
    SELECT id, old.entry FROM embedding_models WHERE id = old.model;
END;
