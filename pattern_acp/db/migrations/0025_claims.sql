-- Which files open sessions are about to change.

CREATE TABLE claims (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    path TEXT NOT NULL,                  -- absolute: a file, a folder that ends with a slash, or a glob
    made_ms INTEGER NOT NULL,
    renewed_ms INTEGER NOT NULL,         -- a claim ends 15 minutes behind it, or with the lease of its session
    PRIMARY KEY (session_id, path)
) STRICT, WITHOUT ROWID;
