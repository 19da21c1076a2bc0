-- What an archival entry is beside a fact: a trap, a constraint or a decision, the files it is about, and whether it
-- still holds. The text, its author and its reason are those of the entry.

CREATE TABLE bound_entries (
    entry TEXT PRIMARY KEY REFERENCES archival_entries (id) ON DELETE CASCADE,
    scope TEXT NOT NULL,                 -- that of the entry, so that one index finds what acts
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,                  -- trap, constraint, decision
    paths TEXT NOT NULL,                 -- JSON list of patterns, relative to the project
    severity TEXT NOT NULL,              -- low, medium, high
    until_ms INTEGER,                    -- when it expires; NULL for never
    status TEXT NOT NULL,                -- active, resolved
    status_actor TEXT NOT NULL,          -- who made it so, when, and why; '' while nobody changed it
    status_ms INTEGER NOT NULL,
    status_reason TEXT NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- rule R1
) STRICT;

CREATE INDEX bound_entries_by_owner ON bound_entries (scope, owner, status);

CREATE INDEX bound_entries_by_event ON bound_entries (last_seq);
