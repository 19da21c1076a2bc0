-- Folders whose hooks, MCP servers, checks, commands and skills the user agreed to, so that a changed one asks again.

CREATE TABLE folder_trust (
    root TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    parts TEXT NOT NULL,
    decided_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq)
) STRICT, WITHOUT ROWID;
