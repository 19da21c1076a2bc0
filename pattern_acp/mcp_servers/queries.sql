-- The statements of what was agreed to of MCP servers.

-- name: load_pins
-- The tools of a server that the user agreed to.
SELECT tool, digest, definition FROM mcp_pins WHERE server = :server AND identity = :identity ORDER BY tool;

-- name: store_pin
-- Keeps the definition of one tool, in place of an earlier one.
INSERT INTO mcp_pins (server, identity, tool, digest, definition, pinned_ms, last_seq)
VALUES (:server, :identity, :tool, :digest, :definition, :pinned_ms, :last_seq)
ON CONFLICT (server, identity, tool) DO UPDATE SET
    digest = excluded.digest, definition = excluded.definition,
    pinned_ms = excluded.pinned_ms, last_seq = excluded.last_seq;
