-- Claims say what they are, which subagent makes them and who asks for them. They are of the moment, so none is moved.

DROP TABLE claims;

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
