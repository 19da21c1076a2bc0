-- Statements of sync.

-- name: device
-- What this device is called there, and how far it has told the others what is here.
SELECT device, host, place, number, upto, whole, choice FROM sync_device;

-- name: begin_device
-- This device under a name that no segment has yet.
INSERT OR REPLACE INTO sync_device (id, device, host, place, number, upto, whole, choice)
VALUES (1, :device, :host, :place, 0, 0, 0, '');

-- name: advance_device
-- That a segment is about to be written, unless another window did it meanwhile.
UPDATE sync_device SET number = :number, upto = :upto, whole = :whole, choice = :choice
WHERE device = :device AND number = :before;

-- name: pass_events
-- That there was nothing to tell up to an event.
UPDATE sync_device SET upto = :upto WHERE device = :device AND number = :before;

-- name: peers
-- The other devices, and how far their segments were taken over.
SELECT device, host, number, seen, at_ms, revoked, problem FROM sync_peers ORDER BY device;

-- name: follow_peer
-- A segment of another device that was taken over.
INSERT INTO sync_peers (device, host, number, seen, at_ms, revoked, problem)
VALUES (:device, :host, :number, :seen, :at_ms, 0, '')
ON CONFLICT (device) DO UPDATE SET host = :host, number = :number, seen = :seen, at_ms = :at_ms, problem = '';

-- name: note_problem
-- Why the next segment of another device cannot be taken over.
INSERT INTO sync_peers (device, host, number, seen, at_ms, revoked, problem)
VALUES (:device, '', 0, 0, 0, 0, :problem)
ON CONFLICT (device) DO UPDATE SET problem = :problem;

-- name: revoke_peer
-- That nothing of a device is taken over any more.
INSERT INTO sync_peers (device, host, number, seen, at_ms, revoked, problem)
VALUES (:device, '', 0, 0, 0, 1, '')
ON CONFLICT (device) DO UPDATE SET revoked = 1;

-- name: read_again
-- That segments of all devices are to be read anew, since other projects are shared now.
UPDATE sync_peers SET number = 0;

-- name: forgotten_after
-- Whether words were forgotten or redacted after an event; those of imported sessions were taken out elsewhere.
SELECT EXISTS (
    SELECT 1 FROM events
    WHERE seq > :after AND (kind = 'block_forgotten' OR (kind = 'events_redacted' AND actor <> 'import'))
);

-- name: forgettings
-- What was forgotten, here or elsewhere, while other devices have to hear of it.
SELECT id, at_ms, sealed, followed, told FROM sync_forgettings ORDER BY at_ms, id;

-- name: put_forgetting
-- A forgetting that is not known yet.
INSERT INTO sync_forgettings (id, at_ms, sealed, followed, told) VALUES (:id, :at_ms, :sealed, :followed, 0)
ON CONFLICT (id) DO NOTHING;

-- name: follow_forgetting
-- Whether a forgetting was followed here.
UPDATE sync_forgettings SET followed = :followed WHERE id = :id;

-- name: tell_forgetting
-- The first segment of this device that has a forgetting.
UPDATE sync_forgettings SET told = :number WHERE id = :id AND told = 0;

-- name: tell_forgettings_again
-- That no segment has the forgettings.
UPDATE sync_forgettings SET told = 0;

-- name: seal_forgetting
-- A forgetting under another key.
UPDATE sync_forgettings SET sealed = :sealed WHERE id = :id;

-- name: drop_forgetting
-- That everybody has heard of a forgetting.
DELETE FROM sync_forgettings WHERE id = :id;

-- name: changed_blocks
-- The blocks that events after one are about, with whether anybody but the program had written to them before and has
-- now.
SELECT b.id, b.scope, b.owner, b.label, b.deleted,
    EXISTS (SELECT 1 FROM block_updates WHERE block_id = b.id AND actor <> 'system' AND last_seq <= :after),
    EXISTS (SELECT 1 FROM block_updates WHERE block_id = b.id AND actor <> 'system')
FROM blocks AS b
WHERE b.deleted < 2 AND b.id IN (
    SELECT e.item FROM events AS e WHERE e.seq > :after AND e.kind IN (SELECT value FROM json_each(:kinds))
)
ORDER BY b.id;

-- name: changed_entries
-- The archival entries that events after one are about, oldest first.
SELECT a.id, a.scope, a.owner
FROM archival_entries AS a
WHERE a.id IN (
    SELECT e.item FROM events AS e WHERE e.seq > :after AND e.kind IN (SELECT value FROM json_each(:kinds))
)
ORDER BY a.at_ms, a.id;

-- name: changed_lists
-- The lists of tasks with an update behind an event.
SELECT id, scope, owner FROM task_lists AS l
WHERE EXISTS (SELECT 1 FROM task_updates WHERE list_id = l.id AND last_seq > :after)
ORDER BY id;

-- name: changed_sessions
-- The sessions that go, parents first: their folder, parent, events, and how many of these the devices know; one in
-- which a turn runs waits for its end.
WITH RECURSIVE used (id) AS (
    SELECT id FROM sessions WHERE deleted = 0 AND prompt_count > 0 AND updated_ms >= :since_ms
    UNION
    SELECT s.parent FROM sessions AS s JOIN used ON used.id = s.id WHERE s.parent IS NOT NULL
)
SELECT s.id, s.cwd, s.parent, (SELECT max(session_seq) FROM events WHERE stream = s.id),
    iif(:whole, 0, coalesce((SELECT told FROM sync_sessions WHERE session_id = s.id), 0))
FROM used JOIN sessions AS s ON s.id = used.id
WHERE s.deleted = 0 AND (
    SELECT kind FROM events WHERE stream = s.id AND kind IN ('turn_started', 'turn_ended') ORDER BY session_seq DESC
    LIMIT 1
) = 'turn_ended'
ORDER BY s.created_ms, s.id;

-- name: tell_session
-- How many events of a session the segments of this device have.
INSERT INTO sync_sessions (session_id, told) VALUES (:session, :told)
ON CONFLICT (session_id) DO UPDATE SET told = :told;

-- name: state_of_block
-- The version of a block, when it was made, and whether anybody but the program wrote to it.
SELECT frontiers, created_ms,
    EXISTS (SELECT 1 FROM block_updates WHERE block_id = blocks.id AND actor <> 'system')
FROM blocks WHERE id = :id;

-- name: set_label
-- A block under another label, which its next event names.
UPDATE blocks SET label = :label WHERE id = :id;

-- name: last_of_kind
-- When something was last said of an entry.
SELECT coalesce(max(at_ms), 0) FROM events WHERE item = :item AND kind = :kind;

-- name: marked_last
-- When a block was last deleted or restored.
SELECT coalesce(max(at_ms), 0) FROM events WHERE item = :item AND kind IN ('block_deleted', 'block_restored');

-- name: replica_mark
-- How far the user's memory of another constellation of this machine is here.
SELECT upto, hash FROM replica_marks WHERE source = :source;

-- name: mark_replica
-- That it is here up to an event.
INSERT INTO replica_marks (source, upto, hash) VALUES (:source, :upto, :hash)
ON CONFLICT (source) DO UPDATE SET upto = :upto, hash = :hash;

-- name: hash_of_event
-- The hash by which an event is told from another one of its number.
SELECT hash FROM events WHERE seq = :seq;

-- name: replica_forgettings
-- What was forgotten, and the constellations of this machine that have not followed.
SELECT id, target, at_ms, sealed FROM replica_forgettings ORDER BY at_ms, id, target;

-- name: put_replica_forgetting
-- That another constellation has to forget it too.
INSERT INTO replica_forgettings (id, target, at_ms, sealed) VALUES (:id, :target, :at_ms, :sealed)
ON CONFLICT (id, target) DO NOTHING;

-- name: drop_replica_forgetting
-- That it has.
DELETE FROM replica_forgettings WHERE id = :id AND target = :target;
