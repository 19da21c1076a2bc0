-- Which sessions the user's other devices know, and how much of each.

CREATE TABLE sync_sessions (
    session_id TEXT PRIMARY KEY,
    told INTEGER NOT NULL                -- events of it that segments of this device have
) STRICT, WITHOUT ROWID;
