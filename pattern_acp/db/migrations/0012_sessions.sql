-- Sessions that are archived, that can be brought back after a deletion, and how many messages each has.

ALTER TABLE sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN deleted_ms INTEGER;
ALTER TABLE sessions ADD COLUMN message_count INTEGER NOT NULL DEFAULT 0;

UPDATE sessions SET message_count = (
    SELECT count(*) FROM events
    WHERE events.stream = sessions.id AND events.kind IN ('turn_started', 'message_recorded')
);
UPDATE sessions SET deleted_ms = (SELECT at_ms FROM events WHERE events.seq = sessions.last_seq) WHERE deleted = 1;

CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE INDEX sessions_deleted ON sessions (deleted_ms, id) WHERE deleted = 1;
