-- The user's agreement to the tools of MCP servers, so that a changed or added one asks again.

CREATE TABLE mcp_pins (
    server TEXT NOT NULL,
    identity TEXT NOT NULL,
    tool TEXT NOT NULL,
    digest TEXT NOT NULL,
    definition TEXT NOT NULL,
    pinned_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq),
    PRIMARY KEY (server, identity, tool)
) STRICT, WITHOUT ROWID;
