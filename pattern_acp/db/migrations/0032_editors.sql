-- The name of the client that has a session open, for the board (docs/tasks.md).

ALTER TABLE leases ADD COLUMN editor TEXT NOT NULL DEFAULT '';
