-- Grants that outlive their session. Those that are stored already are their session's.

ALTER TABLE grants ADD COLUMN lifetime TEXT NOT NULL DEFAULT 'session'; -- session, project, persona

ALTER TABLE grants ADD COLUMN project TEXT NOT NULL DEFAULT ''; -- key of the project; '' for any

ALTER TABLE grants ADD COLUMN persona TEXT NOT NULL DEFAULT ''; -- content identity; '' for one of a session

ALTER TABLE grants ADD COLUMN revoked_ms INTEGER; -- NULL while it is in force

CREATE INDEX grants_by_persona ON grants (persona, project);
