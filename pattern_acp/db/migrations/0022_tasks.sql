-- Tasks: lists as Loro documents, and what is asked of them as rows that follow from the documents.

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
