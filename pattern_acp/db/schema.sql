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
    payload_hash TEXT NOT NULL,          -- SHA-256 of the salt followed by the canonical payload
    prev_hash TEXT NOT NULL,             -- hash of the stream's event before; 64 zeros for the first
    hash TEXT NOT NULL,                  -- SHA-256 over what journal/writer.py names for the form in `chain`
    salt TEXT NOT NULL DEFAULT '',       -- random; '' before schema version 13, and where a redaction took it away
    chain INTEGER NOT NULL DEFAULT 1,    -- form of the hash: 2 covers at_ms, version and stream too
    UNIQUE (stream, session_seq),
    CHECK ((payload IS NULL) <> (blob IS NULL))
) STRICT;

CREATE INDEX events_by_item ON events (stream, item);

CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,               -- SHA-256 of the content
    size INTEGER NOT NULL,               -- bytes before compression
    encoding TEXT NOT NULL,              -- 'raw', 'zstd', or 'zlib' of before schema version 16
    content BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Append-only by trigger; an audited redaction will drop and recreate them inside its own transaction.
CREATE TRIGGER events_are_not_updated BEFORE UPDATE ON events
BEGIN SELECT RAISE (ABORT, 'events are append-only'); END;

CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events
BEGIN SELECT RAISE (ABORT, 'events are append-only'); END;

-- Events whose payload lost words that the user wanted forgotten. events.payload_hash stays that of the payload as it
-- was, so the chain holds; this table says what the payload now hashes to, and which event did it.
CREATE TABLE redactions (
    event_seq INTEGER NOT NULL REFERENCES events (seq),
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- the event that says who did it and why; the newest one counts
    payload_hash TEXT NOT NULL,          -- SHA-256 of the payload since then
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (event_seq, last_seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX redactions_by_audit ON redactions (last_seq);

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
    thought_level TEXT NOT NULL,         -- default, off, low, medium, high
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,         -- last prompt or answer
    prompt_count INTEGER NOT NULL,       -- sessions without prompts stay out of lists
    deleted INTEGER NOT NULL,            -- 1 after session/delete
    parent TEXT REFERENCES sessions (id), -- the session it was forked from
    fork_seq INTEGER,                    -- the parent's event it was forked at
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1
    archived INTEGER NOT NULL DEFAULT 0, -- 1: kept out of the usual list until its next prompt
    deleted_ms INTEGER,                  -- when it was deleted; NULL while it is not
    message_count INTEGER NOT NULL DEFAULT 0 -- prompts and answers, those of the history it was forked from too
) STRICT;

-- A list shows neither deleted sessions nor those without a prompt, so its indexes hold neither.
CREATE INDEX sessions_listed ON sessions (updated_ms, id) WHERE deleted = 0 AND prompt_count > 0;

CREATE INDEX sessions_listed_by_cwd ON sessions (cwd_key, updated_ms, id) WHERE deleted = 0 AND prompt_count > 0;

-- Forks, by what they share the history of; and what can be brought back, newest last.
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;

CREATE INDEX sessions_deleted ON sessions (deleted_ms, id) WHERE deleted = 1;

CREATE TABLE leases (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id),
    holder TEXT NOT NULL,                -- random id of the process start that holds it
    pid INTEGER NOT NULL,                -- its process id
    process_started TEXT NOT NULL,       -- start mark of that process, so that a re-used pid is not taken for it
    host TEXT NOT NULL,                  -- its machine
    acquired_ms INTEGER NOT NULL,
    renewed_ms INTEGER NOT NULL,         -- a lease of another machine is dead when this is old
    editor TEXT NOT NULL DEFAULT ''      -- name of the client that has the session open, as it gave it; '' for none
) STRICT;

-- What requests that run now are expected to use; a row ends with its request, or with its process.
CREATE TABLE reservations (
    id TEXT PRIMARY KEY,
    at_ms INTEGER NOT NULL,              -- when the request began
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    holder TEXT NOT NULL,                -- the process start that made it, as in leases
    tokens INTEGER NOT NULL,
    micro_units INTEGER NOT NULL         -- millionths of a US dollar; 0 where no price is known
) STRICT, WITHOUT ROWID;

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
    deleted INTEGER NOT NULL,            -- 1 when deleted, 2 when forgotten or discarded; the label can then be made again
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1
    history_from INTEGER NOT NULL DEFAULT 1, -- first update whose data is still there: forgetting takes older data away
    schema TEXT NOT NULL DEFAULT '{"kind":"text"}', -- what the document holds: memory/schemas/types.py, JSON
    permission TEXT NOT NULL DEFAULT 'read_write', -- read_only, partner, human, append, read_write, admin
    pinned INTEGER NOT NULL DEFAULT 0,   -- 1: a working block that is in every context
    tier TEXT NOT NULL DEFAULT 'core',   -- core: always in context; working: while pinned or touched in the session
    conflicts TEXT NOT NULL DEFAULT ''   -- double changes that nobody mended yet, JSON list of [theirs, ours]; '' for none
) STRICT;

CREATE UNIQUE INDEX blocks_by_label ON blocks (scope, owner, label) WHERE deleted = 0;

CREATE TABLE block_updates (
    block_id TEXT NOT NULL REFERENCES blocks (id),
    number INTEGER NOT NULL,             -- 1, 2, 3 … within the block
    data BLOB NOT NULL,                  -- Loro update; that of history_from is a whole document, so that the log alone rebuilds it;
                                         -- empty for delete and restore, and where it was forgotten
    frontiers_before BLOB NOT NULL,
    frontiers_after BLOB NOT NULL,
    peer TEXT NOT NULL,                  -- Loro peer id of the process start, decimal
    actor TEXT NOT NULL,
    origin TEXT NOT NULL,
    operation TEXT NOT NULL,             -- create, append, replace, rewrite, insert, set, add, move, remove, archive,
                                         -- verify, edit, undo, redo, rollback, delete, restore, forget
    reason TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- the event of this write
    target INTEGER,                      -- number that an undo or redo takes back, or a rollback goes back to
    size INTEGER,                        -- characters of the text afterwards; NULL in writes before schema version 3
    lines_added INTEGER,                 -- lines that are there afterwards and were not before
    lines_removed INTEGER,               -- lines that were there before and are not afterwards
    PRIMARY KEY (block_id, number)
) STRICT, WITHOUT ROWID;

-- Who else may use a block, besides its owner.
CREATE TABLE block_shares (
    block_id TEXT NOT NULL REFERENCES blocks (id),
    scope TEXT NOT NULL,                 -- persona or project: what it is attached to
    owner TEXT NOT NULL,                 -- persona name, or project key
    permission TEXT NOT NULL,            -- what they may do with it, whatever the block's own permission is
    created_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1
    PRIMARY KEY (block_id, scope, owner)
) STRICT, WITHOUT ROWID;

CREATE INDEX block_shares_by_owner ON block_shares (scope, owner);

CREATE TABLE block_archives (
    block_id TEXT PRIMARY KEY REFERENCES blocks (id),
    upto INTEGER NOT NULL,               -- number of the last update it holds
    snapshot BLOB NOT NULL,              -- full Loro snapshot with all history
    last_seq INTEGER NOT NULL REFERENCES events (seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE search_entries (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,                  -- memory/recall.py EntryKind
    source TEXT NOT NULL,                -- id of the block, session or archival entry
    owner TEXT NOT NULL,                 -- persona name or project key that may find it
    item TEXT NOT NULL,                  -- paragraph number, message id, or piece of an archival entry
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

CREATE INDEX archival_entries_by_event ON archival_entries (last_seq);

CREATE TRIGGER archival_entries_are_not_rewritten
BEFORE UPDATE OF id, scope, owner, text, text_hash, actor, origin, reason, at_ms ON archival_entries
BEGIN SELECT RAISE (ABORT, 'archival entries are immutable'); END;

CREATE INDEX search_entries_by_owner ON search_entries (owner, kind, source, at_ms);

CREATE TABLE embedding_models (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,           -- EmbeddingModel.name
    dimensions INTEGER NOT NULL,         -- numbers of a vector; 0 before the first
    used_ms INTEGER NOT NULL,            -- last start that used it; its vectors go when that is long ago
    codes_stamp INTEGER NOT NULL DEFAULT 0 -- chance; another one after each change of its `vector_codes`
) STRICT;

CREATE TABLE embedding_queue (
    model INTEGER NOT NULL REFERENCES embedding_models (id) ON DELETE CASCADE,
    entry INTEGER NOT NULL REFERENCES search_entries (id) ON DELETE CASCADE,
    PRIMARY KEY (model, entry)
) STRICT, WITHOUT ROWID;

CREATE INDEX embedding_queue_by_entry ON embedding_queue (entry);

CREATE TRIGGER search_entries_queue AFTER INSERT ON search_entries
BEGIN INSERT INTO embedding_queue (model, entry) SELECT id, new.id FROM embedding_models; END;

-- The truth about vectors. Their signs in `vector_codes` can be dropped and are made again.
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY,
    entry INTEGER NOT NULL REFERENCES search_entries (id) ON DELETE CASCADE,
    model INTEGER NOT NULL REFERENCES embedding_models (id) ON DELETE CASCADE,
    dimensions INTEGER NOT NULL,
    content_hash TEXT NOT NULL,          -- SHA-256 of the text it was made from
    vector BLOB NOT NULL,                -- 32-bit floats, length 1
    indexed INTEGER NOT NULL,            -- 1 when `vector_codes` has it
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- the event of the text it was made from
    UNIQUE (entry, model)
) STRICT;

CREATE INDEX vectors_not_indexed ON vectors (model) WHERE indexed = 0;

CREATE TABLE vector_codes (
    model INTEGER NOT NULL REFERENCES embedding_models (id) ON DELETE CASCADE,
    portion INTEGER NOT NULL,            -- 128 entries: the id of each, divided by that
    owner TEXT NOT NULL,                 -- whose entries these are
    stamp INTEGER NOT NULL,              -- chance; another one after each change
    entries BLOB NOT NULL,               -- their ids, 64 bits each
    codes BLOB NOT NULL,                 -- one bit a dimension, 1 where the number is above 0; in the order of the ids
    PRIMARY KEY (model, portion, owner)
) STRICT, WITHOUT ROWID;

CREATE TABLE index_leftovers (
    model INTEGER NOT NULL REFERENCES embedding_models (id) ON DELETE CASCADE,
    entry INTEGER NOT NULL,              -- among the codes, but no longer among the vectors
    PRIMARY KEY (model, entry)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER vectors_delete AFTER DELETE ON vectors WHEN old.indexed = 1
BEGIN
    INSERT OR IGNORE INTO index_leftovers (model, entry)
    SELECT id, old.entry FROM embedding_models WHERE id = old.model;
END;

CREATE TABLE cursors (
    persona TEXT NOT NULL,               -- name of the persona
    project TEXT NOT NULL,               -- project key
    told_seq INTEGER NOT NULL,           -- event up to which the persona was told what went on in the project
    active_ms INTEGER NOT NULL,          -- last end of a turn of the persona in the project
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1
    PRIMARY KEY (persona, project)
) STRICT, WITHOUT ROWID;

-- Blocks that are kept as files too. The file is a projection: it is made anew where it is missing.
CREATE TABLE memory_files (
    folder TEXT NOT NULL,                -- absolute path of the folder
    block_id TEXT NOT NULL REFERENCES blocks (id),
    file TEXT NOT NULL,                  -- its name in the folder
    version INTEGER NOT NULL,            -- number of the write that the file was made from
    file_hash TEXT NOT NULL,             -- SHA-256 of the file as it was written, to see that a user edited it
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1: the event of that write
    PRIMARY KEY (folder, block_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX block_updates_by_event ON block_updates (last_seq);

-- Writes of the agent behind which data of others may be: what stands beside their text in requests is found by it.
CREATE INDEX block_updates_from_data ON block_updates (block_id, number)
WHERE actor = 'persona' AND origin IN ('web', 'mcp', 'agent', 'command', 'workspace');

CREATE TABLE grants (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id), -- in which the user answered
    effect TEXT NOT NULL,                -- allow or deny
    kind TEXT NOT NULL,                  -- policy/grant_matching.py GrantKind
    pattern TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq),
    lifetime TEXT NOT NULL DEFAULT 'session', -- session, project, persona: as the label of the answer said
    project TEXT NOT NULL DEFAULT '',    -- key of the project; '' for any
    persona TEXT NOT NULL DEFAULT '',    -- content identity of the persona; '' for a grant of a session
    revoked_ms INTEGER                   -- NULL while it is in force
) STRICT;

CREATE INDEX grants_by_session ON grants (session_id);

CREATE INDEX grants_by_persona ON grants (persona, project);

CREATE TABLE mcp_pins (
    server TEXT NOT NULL,                -- name of an MCP server
    identity TEXT NOT NULL,              -- SHA-256 of its transport, program and arguments, or address
    tool TEXT NOT NULL,                  -- in the server's own words
    digest TEXT NOT NULL,                -- SHA-256 of the definition
    definition TEXT NOT NULL,            -- name, description and schema that the user agreed to
    pinned_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq),
    PRIMARY KEY (server, identity, tool)
) STRICT, WITHOUT ROWID;

CREATE TABLE folder_trust (
    root TEXT PRIMARY KEY,               -- absolute path of the folder, symbolic links followed
    digest TEXT NOT NULL,                -- SHA-256 over all parts that were agreed to
    parts TEXT NOT NULL,                 -- JSON list of them: kind, name, text and digest of each
    decided_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE recalls (
    entry INTEGER PRIMARY KEY REFERENCES search_entries (id) ON DELETE CASCADE,
    times INTEGER NOT NULL,              -- how often the passage was recalled
    last_ms INTEGER NOT NULL,            -- when it was recalled last
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- the end of the turn that recalled it
) STRICT;

CREATE TABLE repeats (
    entry INTEGER NOT NULL REFERENCES search_entries (id) ON DELETE CASCADE,
    other INTEGER NOT NULL REFERENCES search_entries (id) ON DELETE CASCADE,
    likeness REAL NOT NULL,              -- cosine of their vectors
    told INTEGER NOT NULL,               -- 1 when the model was told
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- of the newer passage, then of the turn that told it
    PRIMARY KEY (entry, other)
) STRICT, WITHOUT ROWID;
CREATE INDEX repeats_by_other ON repeats (other);

-- Contents of files that sessions changed, for checkpoints; each content once, however many checkpoints need it.
CREATE TABLE file_contents (
    hash TEXT PRIMARY KEY,               -- SHA-256 of the content
    size INTEGER NOT NULL,               -- bytes before compression
    encoding TEXT NOT NULL,              -- 'raw', 'zstd', or 'zlib' of before schema version 16
    content BLOB NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- the event that first named it
) STRICT, WITHOUT ROWID;

CREATE INDEX file_contents_by_event ON file_contents (last_seq);

CREATE TABLE backups (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    from_version INTEGER NOT NULL,       -- schema version before the migration
    to_version INTEGER NOT NULL,
    path TEXT NOT NULL                   -- file name beside the constellation
) STRICT;

-- What every model request used and cost, so that sums over days, models, projects and sessions read no journal.
CREATE TABLE usage (
    last_seq INTEGER PRIMARY KEY REFERENCES events (seq), -- the event that reported it
    at_ms INTEGER NOT NULL,              -- when the request ended
    session_id TEXT NOT NULL REFERENCES sessions (id),
    turn_id TEXT NOT NULL,               -- '' for a compaction that the user asked for before any turn
    subagent TEXT NOT NULL,              -- name of the subagent that asked, or ''
    model TEXT NOT NULL,                 -- PROVIDER/MODEL
    input_tokens INTEGER NOT NULL,       -- read fresh, without those of a cache
    output_tokens INTEGER NOT NULL,      -- those of thinking too
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    thinking_tokens INTEGER NOT NULL,    -- those of output_tokens that were reasoning, where the provider tells
    micro_units INTEGER,                 -- millionths of a US dollar; NULL where no price is known
    prices TEXT NOT NULL,                -- the price table that the cost was reckoned with, or ''
    estimated INTEGER NOT NULL DEFAULT 0 -- 1: cut before the provider counted it
) STRICT;

CREATE INDEX usage_by_time ON usage (at_ms);
CREATE INDEX usage_by_session ON usage (session_id, last_seq);

-- What an archival entry is beside a fact: a trap, a constraint or a decision.
CREATE TABLE bound_entries (
    entry TEXT PRIMARY KEY REFERENCES archival_entries (id) ON DELETE CASCADE,
    scope TEXT NOT NULL,                 -- that of the entry, so that one index finds what acts
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,                  -- trap, constraint, decision, runtime, machine
    paths TEXT NOT NULL,                 -- JSON list of patterns, relative to the project
    severity TEXT NOT NULL,              -- low, medium, high
    until_ms INTEGER,                    -- when it expires; NULL for never
    status TEXT NOT NULL,                -- active, resolved
    status_actor TEXT NOT NULL,          -- who made it so, when, and why; '' while nobody changed it
    status_ms INTEGER NOT NULL,
    status_reason TEXT NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1
    host TEXT NOT NULL DEFAULT ''        -- the machine that it is about, or '' for any
) STRICT;

CREATE INDEX bound_entries_by_owner ON bound_entries (scope, owner, status);

CREATE INDEX bound_entries_by_event ON bound_entries (last_seq);

CREATE TABLE thinking_choices (
    model TEXT PRIMARY KEY,              -- PROVIDER/MODEL
    level TEXT NOT NULL,                 -- how much the user last let it think: auto, off, low, medium, high, max
    last_seq INTEGER NOT NULL REFERENCES events (seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE task_lists (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,                 -- persona or project
    owner TEXT NOT NULL,                 -- persona name, or project key
    size INTEGER NOT NULL,               -- tasks in it; a full list takes no more
    base BLOB NOT NULL,                  -- Loro snapshot that the updates after base_update build on
    base_update INTEGER NOT NULL,        -- number of the last update that base holds
    head_update INTEGER NOT NULL,        -- number of the newest update
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- rule R1
) STRICT;

CREATE INDEX task_lists_by_owner ON task_lists (scope, owner);

CREATE TABLE task_updates (
    list_id TEXT NOT NULL REFERENCES task_lists (id),
    number INTEGER NOT NULL,             -- 1, 2, 3 … within the list
    data BLOB NOT NULL,                  -- Loro update
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- the event of this write, which says who, when and what
    PRIMARY KEY (list_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
    id TEXT PRIMARY KEY,                 -- begins with the time, so ids sort by age
    number INTEGER NOT NULL,             -- short name, counted over the constellation
    list_id TEXT NOT NULL REFERENCES task_lists (id),
    scope TEXT NOT NULL,                 -- that of the list, so that one index finds what is asked for
    owner TEXT NOT NULL,
    status TEXT NOT NULL,                -- todo, in_progress, blocked, done, dropped
    rank INTEGER NOT NULL,               -- by state, then priority: what lists begin with
    doer TEXT NOT NULL,                  -- the one who does it, or ''
    session TEXT NOT NULL,               -- the session that works on it, or ''
    words TEXT NOT NULL,                 -- title, description, steps and comments in small letters
    updated_ms INTEGER NOT NULL,
    task TEXT NOT NULL,                  -- the whole task, JSON: tasks/model.py
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- rule R1
) STRICT;

CREATE INDEX tasks_by_owner ON tasks (scope, owner, rank, number);

CREATE INDEX tasks_by_number ON tasks (number);

CREATE INDEX tasks_by_session ON tasks (session, updated_ms) WHERE session <> '';

CREATE TABLE task_edges (
    source TEXT NOT NULL,                -- id of the task that has the link
    kind TEXT NOT NULL,                  -- blocks, relates, parent
    target TEXT NOT NULL,                -- id of a task, which may be missing
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1
    PRIMARY KEY (source, kind, target)
) STRICT, WITHOUT ROWID;

CREATE INDEX task_edges_by_target ON task_edges (target, kind);

CREATE TABLE skill_uses (
    source TEXT NOT NULL,                -- the tier of the skill, with the name of its bundle
    name TEXT NOT NULL,
    loads INTEGER NOT NULL,              -- how often it was loaded
    used_ms INTEGER NOT NULL,            -- when it was loaded last
    last_seq INTEGER NOT NULL REFERENCES events (seq),
    PRIMARY KEY (source, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE definition_sources (
    identity TEXT PRIMARY KEY,           -- Merkle SHA-256 of the definition (pattern_acp/definitions/identity.py)
    symbol TEXT NOT NULL,                -- its canonical name, such as skill/pdf
    source TEXT NOT NULL,                -- JSON: its files, and what it includes with the identities
    note TEXT NOT NULL DEFAULT '',       -- words of the user on it; no part of the identity
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- the event that first named it
) STRICT, WITHOUT ROWID;

CREATE INDEX definition_sources_by_event ON definition_sources (last_seq);

CREATE TABLE claims (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    path TEXT NOT NULL,                  -- absolute, without a slash at its end
    kind TEXT NOT NULL,                  -- file, folder, glob
    agent TEXT NOT NULL,                 -- name of the subagent that made it last, or ''
    made_ms INTEGER NOT NULL,
    renewed_ms INTEGER NOT NULL,         -- a claim ends 15 minutes behind it, or with the lease of its session
    wanted_by TEXT NOT NULL DEFAULT '',  -- the session that asks for it, or ''; it gets the claim when it is released
    PRIMARY KEY (session_id, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,      -- short name, counted over the constellation
    session_id TEXT NOT NULL REFERENCES sessions (id),
    state TEXT NOT NULL,                 -- quoted, agreed, working, settling, completed, failed
    before TEXT NOT NULL,                -- the state before this one; '' where there was none
    outcome TEXT NOT NULL,               -- how it ended, '' before: jobs/model.py
    round INTEGER NOT NULL,              -- how often it was estimated
    persona TEXT NOT NULL,               -- that of the chosen quote, or of the first
    model TEXT NOT NULL,                 -- PROVIDER/MODEL of the same
    estimate INTEGER NOT NULL,           -- its tokens before the past was taken into account
    turn_id TEXT NOT NULL,               -- the turn that moved it last, whose requests draw on its hold
    valid_until_ms INTEGER NOT NULL,     -- end of the offer
    quoted_seq INTEGER NOT NULL REFERENCES events (seq), -- the event with its terms and quotes
    agreed_seq INTEGER REFERENCES events (seq), -- the event by which the user agreed
    settled_seq INTEGER REFERENCES events (seq), -- the event with its receipt
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1
    CHECK (                              -- the table of transitions
        before || ' ' || state IN (
            ' quoted', 'quoted quoted', 'quoted agreed', 'quoted failed', 'agreed working', 'agreed failed',
            'working working', 'working settling', 'settling working', 'settling settling', 'settling completed',
            'settling failed'
        )
    ),
    CHECK (round BETWEEN 1 AND 3),
    CHECK ((state IN ('completed', 'failed')) = (outcome <> '')),
    CHECK ((state = 'completed') = (outcome = 'completed')),
    CHECK ((agreed_seq IS NULL) = (state = 'quoted' OR outcome IN ('declined', 'expired'))),
    CHECK ((settled_seq IS NULL) = (outcome = ''))
) STRICT;

CREATE INDEX jobs_by_session ON jobs (session_id, number);

CREATE TABLE job_holds (
    job_id TEXT NOT NULL REFERENCES jobs (id),
    node TEXT NOT NULL,                  -- '' for the job, else the thread of a subagent
    meter TEXT NOT NULL CHECK (meter IN ('tokens', 'money', 'time')), -- money in millionths of a US dollar, time in ms
    parent TEXT,                         -- the node that it draws on, too
    granted INTEGER CHECK (granted >= 0), -- the most that may be used; NULL for no limit, and 0 for nothing
    spent INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
    over INTEGER NOT NULL DEFAULT 0 CHECK (over >= 0), -- what a request used beyond its estimate
    released INTEGER NOT NULL DEFAULT 0 CHECK (released >= 0), -- the rest, given back at the end
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1
    PRIMARY KEY (job_id, node, meter),
    FOREIGN KEY (job_id, parent, meter) REFERENCES job_holds (job_id, node, meter),
    CHECK ((parent IS NULL) = (node = '')),
    CHECK (spent + released <= granted),
    CHECK (over = 0 OR spent + released = granted)
) STRICT, WITHOUT ROWID;

CREATE TABLE origins (
    seq INTEGER PRIMARY KEY REFERENCES events (seq), -- an event that came from another constellation
    hash TEXT NOT NULL,                  -- the hash of the event there: what tells it from all others
    store TEXT NOT NULL,                 -- the constellation that it was recorded in: the hash of its first event
    store_seq INTEGER NOT NULL,          -- its number there
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- the event of the import (rule R1)
) STRICT;

CREATE INDEX origins_by_hash ON origins (hash);

CREATE INDEX origins_by_event ON origins (last_seq);

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

CREATE TABLE replica_forgettings (
    id TEXT NOT NULL,
    target TEXT NOT NULL,                -- name of a constellation that has not followed
    at_ms INTEGER NOT NULL,              -- when it was forgotten
    sealed BLOB NOT NULL,                -- the words, encrypted with a key that is not in this file
    PRIMARY KEY (id, target)
) STRICT, WITHOUT ROWID;

CREATE TABLE replica_marks (
    source TEXT PRIMARY KEY,             -- name of the other constellation of this machine
    upto INTEGER NOT NULL,               -- its event up to which its user's memory is here
    hash TEXT NOT NULL                   -- the hash of that event: another one there, such as of a backup, is read anew
) STRICT, WITHOUT ROWID;

CREATE TABLE sync_device (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    device TEXT NOT NULL,                -- what this device is called there: random
    host TEXT NOT NULL,                  -- the machine that it is; on another one it takes another name
    place TEXT NOT NULL,                 -- the constellation's file, for the same reason
    number INTEGER NOT NULL,             -- the last segment that it wrote, or was about to
    upto INTEGER NOT NULL,               -- the event up to which its segments say all
    whole INTEGER NOT NULL,              -- the last segment that said all by itself
    choice TEXT NOT NULL                 -- what the segments leave out, and whom they call what: a hash
) STRICT;

CREATE TABLE sync_forgettings (
    id TEXT PRIMARY KEY,
    at_ms INTEGER NOT NULL,              -- when it was forgotten first
    sealed BLOB NOT NULL,                -- the words, encrypted with the key of sync, which is not in this file
    followed INTEGER NOT NULL CHECK (followed IN (0, 1)), -- 1: they were forgotten here
    told INTEGER NOT NULL                -- the first segment of this device that has it; 0 before
) STRICT, WITHOUT ROWID;

CREATE TABLE sync_peers (
    device TEXT PRIMARY KEY,
    host TEXT NOT NULL,                  -- what its user calls it; '' before anything of it was read
    number INTEGER NOT NULL,             -- its last segment that was taken over
    seen INTEGER NOT NULL,               -- the last segment of this device that it had then
    at_ms INTEGER NOT NULL,              -- when it wrote it
    revoked INTEGER NOT NULL CHECK (revoked IN (0, 1)), -- 1: nothing of it is taken over any more
    problem TEXT NOT NULL                -- why the next one cannot be taken over; '' where nothing is wrong
) STRICT;

CREATE TABLE sync_sessions (
    session_id TEXT PRIMARY KEY,
    told INTEGER NOT NULL                -- events of it that segments of this device have
) STRICT, WITHOUT ROWID;

CREATE TABLE task_files (
    folder TEXT NOT NULL,                -- absolute path of the folder
    task_id TEXT NOT NULL REFERENCES tasks (id),
    base TEXT NOT NULL,                  -- the file as it was written: what an edit in it is compared with
    file_hash TEXT NOT NULL,             -- SHA-256 of the file as it was written, or as its edit was taken in
    next_hash TEXT NOT NULL,             -- SHA-256 of the file that is being written; '' for none
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1: the event of the task's write
    PRIMARY KEY (folder, task_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE task_turns (
    task_id TEXT NOT NULL REFERENCES tasks (id),
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,               -- a turn with a request to a model while its session worked on the task
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1: the event of the first such request
    PRIMARY KEY (task_id, session_id, turn_id)
) STRICT, WITHOUT ROWID;
