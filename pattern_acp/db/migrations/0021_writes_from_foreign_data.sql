-- Writes of the agent behind which data of others may be: what stands beside their text in requests is found by it.

CREATE INDEX block_updates_from_data ON block_updates (block_id, number)
WHERE actor = 'persona' AND origin IN ('web', 'mcp', 'agent', 'command', 'workspace');
