-- Statements of carrying memory and sessions between constellations.

-- part: event
-- An event as an archive names it: that of another constellation by what it was there.
e.seq, coalesce(o.store, :store), coalesce(o.store_seq, e.seq), coalesce(o.hash, e.hash), e.at_ms, e.kind, e.version,
    e.actor, e.origin, e.item, e.payload, b.encoding, b.content;

-- name: store_id
-- What tells this constellation from all others: the hash of its first event, which no other has.
SELECT hash FROM events ORDER BY seq LIMIT 1;

-- name: origin_stores
-- The other constellations that events came from.
SELECT DISTINCT store FROM origins;

-- part: moved
-- The redactions of what was moved to another constellation, or came back from there.
SELECT 1 FROM redactions AS r JOIN events AS audit ON audit.seq = r.last_seq
WHERE r.event_seq = e.seq AND audit.kind = 'events_redacted' AND audit.payload ->> 'cause' = 'move';

-- name: events_about
-- The events of some kinds about one block or entry, oldest first; both are JSON lists. Copies that came with a session
-- tell what happened elsewhere, and what moved away is about no block or entry here.
SELECT {event}
FROM events AS e
LEFT JOIN origins AS o ON o.seq = e.seq
LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE e.item = :item AND e.kind IN (SELECT value FROM json_each(:kinds))
    AND (o.seq IS NULL OR e.stream = 'constellation') AND NOT EXISTS ({moved})
ORDER BY e.seq;

-- name: events_of_session
-- The events of a session behind one of them, with what else their chain covers, and whether words are missing in it:
-- one that came back as it was has its salt.
SELECT {event}, e.session_seq, e.payload_hash, e.prev_hash, e.hash, e.salt, e.chain,
    e.salt = '' AND EXISTS (SELECT 1 FROM redactions WHERE event_seq = e.seq)
FROM events AS e
LEFT JOIN origins AS o ON o.seq = e.seq
LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE e.stream = :stream AND e.session_seq > :after
ORDER BY e.session_seq
LIMIT :limit;

-- name: hashes_of_session
-- What the events of a session are hashed to, in their order.
SELECT hash FROM events WHERE stream = :stream ORDER BY session_seq;

-- name: blocks_there
-- The blocks that can be carried, in an order that is the same everywhere.
SELECT id, scope, owner, label, updated_ms FROM blocks WHERE deleted = 0 ORDER BY id;

-- name: entries_there
-- The archival entries, oldest first.
SELECT id, scope, owner, at_ms FROM archival_entries ORDER BY at_ms, id;

-- name: sessions_there
-- The sessions that are about something.
SELECT id, cwd, persona, updated_ms, parent FROM sessions WHERE deleted = 0 AND prompt_count > 0 ORDER BY id;

-- name: sources_there
-- The kept sources of definitions.
SELECT identity FROM definition_sources ORDER BY identity;

-- name: task_lists_there
-- The lists of tasks, with when one of their tasks changed last.
SELECT l.id, l.scope, l.owner, coalesce(max(t.updated_ms), 0)
FROM task_lists AS l LEFT JOIN tasks AS t ON t.list_id = l.id
GROUP BY l.id
ORDER BY l.id;

-- name: events_of_list
-- The updates of a list of tasks with the events of their writes, in order.
SELECT {event}, u.number, u.data
FROM task_updates AS u
JOIN events AS e ON e.seq = u.last_seq
LEFT JOIN origins AS o ON o.seq = e.seq
LEFT JOIN blobs AS b ON b.hash = e.blob
WHERE u.list_id = :id
ORDER BY u.number;

-- name: hash_of_event
-- What the event of a number is hashed to.
SELECT hash FROM events WHERE seq = :seq;

-- name: is_own_event
-- Whether an event of this constellation is the one of that number and hash.
SELECT 1 FROM events WHERE seq = :seq AND hash = :hash;

-- name: is_copied_event
-- Whether an event about memory of another constellation came here; a session has copies of its own.
SELECT o.seq FROM origins AS o JOIN events AS e ON e.seq = o.seq
WHERE o.hash = :hash AND e.stream = 'constellation';

-- name: block_of_id
-- A block by its id, whatever became of it.
SELECT scope, owner, label, deleted, head_update FROM blocks WHERE id = :id;

-- name: has_update
-- Whether a block has a write that brought this update.
SELECT 1 FROM block_updates WHERE block_id = :id AND data = :data;

-- name: block_of_label
-- The block that has a label, and whether anybody but the program wrote to it.
SELECT b.id, EXISTS (SELECT 1 FROM block_updates WHERE block_id = b.id AND actor <> 'system')
FROM blocks AS b
WHERE b.scope = :scope AND b.owner = :owner AND b.label = :label AND b.deleted = 0;

-- name: is_entry
-- Whether an archival entry is there.
SELECT 1 FROM archival_entries WHERE id = :id;

-- name: event_of_hash
-- The event of a session that is hashed to something.
SELECT seq FROM origins WHERE hash = :hash UNION ALL SELECT seq FROM events WHERE hash = :hash LIMIT 1;

-- name: note_origin
-- Where an event came from, as its own change until the event of the import is there.
INSERT INTO origins (seq, hash, store, store_seq, last_seq) VALUES (:seq, :hash, :store, :store_seq, :seq);

-- name: origins_after
-- Where the events behind one came from.
SELECT seq, hash, store, store_seq FROM origins WHERE seq > :before ORDER BY seq;

-- name: settle_origins
-- Their rows, as the change of an import.
UPDATE origins SET last_seq = :last_seq WHERE seq > :before AND seq <= :upto;

-- name: set_redacted
-- An event without the words that were taken out of it elsewhere.
INSERT INTO redactions (event_seq, last_seq, payload_hash, at_ms) VALUES (:event_seq, :last_seq, :payload_hash, :at_ms);

-- name: state_of_session
-- Whether a session was deleted, or moved away.
SELECT deleted FROM sessions WHERE id = :id;

-- name: last_of_stream
-- The newest event of a stream.
SELECT seq FROM events WHERE stream = :stream ORDER BY session_seq DESC LIMIT 1;

-- name: written_blocks
-- The blocks of a project that anybody but the program has written to.
SELECT id FROM blocks
WHERE scope = 'project' AND owner = :owner AND deleted = 0
    AND EXISTS (SELECT 1 FROM block_updates WHERE block_id = blocks.id AND actor <> 'system')
ORDER BY id;

-- name: deleted_blocks
-- The blocks of a project that can be restored, and that anybody but the program has written to.
SELECT id FROM blocks
WHERE scope = 'project' AND owner = :owner AND deleted = 1
    AND EXISTS (
        SELECT 1 FROM block_updates WHERE block_id = blocks.id AND actor <> 'system' AND operation <> 'delete'
    )
ORDER BY id;

-- name: sessions_with_deleted
-- The sessions that are here, also those without a prompt, and those that were deleted.
SELECT id, cwd, persona, updated_ms, parent FROM sessions WHERE deleted < 2 ORDER BY id;

-- name: place_of
-- The place of an event in its stream.
SELECT session_seq FROM events WHERE seq = :seq;

-- name: event_at
-- The event at a place in a stream.
SELECT seq FROM events WHERE stream = :stream AND session_seq = :place;

-- name: whole_event_at
-- The event at a place in a stream, if it has all of its words.
SELECT seq FROM events WHERE stream = :stream AND session_seq = :place AND hash = :hash AND salt <> '';

-- name: is_job
-- Whether a job is there.
SELECT 1 FROM jobs WHERE id = :id;

-- name: place_of_job
-- The place in its session of the last event of a job or of its holds.
SELECT max(e.session_seq)
FROM jobs AS j
LEFT JOIN job_holds AS h ON h.job_id = j.id
JOIN events AS e ON e.seq IN (j.last_seq, h.last_seq)
WHERE j.id = :id;

-- name: settings_of_block
-- The settings of a block, and whether it was deleted.
SELECT description, char_limit, permission, pinned, tier, deleted FROM blocks WHERE id = :id;

-- name: status_of_entry
-- Whether a trap, constraint or decision still acts.
SELECT status FROM bound_entries WHERE entry = :id;

-- name: is_job_number
-- Whether a job has a number.
SELECT 1 FROM jobs WHERE number = :number;

-- name: is_content
-- Whether the content of a file is there.
SELECT 1 FROM file_contents WHERE hash = :hash;

-- name: owners_of_blocks
-- The projects that have a block, with those of forked memory.
SELECT DISTINCT owner FROM blocks WHERE scope = 'project' AND deleted < 2;

-- name: own_blocks
-- All blocks of a project that anybody but the program has written to, whatever became of them.
SELECT id FROM blocks
WHERE scope = 'project' AND owner = :owner
    AND EXISTS (SELECT 1 FROM block_updates WHERE block_id = blocks.id AND actor <> 'system');

-- name: own_entries
-- The archival entries of a project.
SELECT id FROM archival_entries WHERE scope = 'project' AND owner = :owner;

-- name: own_lists
-- The lists of tasks of a project.
SELECT id FROM task_lists WHERE scope = 'project' AND owner = :owner;

-- name: tasks_of_list
-- The tasks of some lists.
SELECT id FROM tasks WHERE list_id IN (SELECT value FROM json_each(:ids));

-- name: jobs_of
-- The jobs of some sessions.
SELECT id FROM jobs WHERE session_id IN (SELECT value FROM json_each(:ids));

-- name: all_about
-- The events of some kinds about some things, in all streams; both are JSON lists.
SELECT seq FROM events
WHERE item IN (SELECT value FROM json_each(:items)) AND kind IN (SELECT value FROM json_each(:kinds));

-- name: drop_session_grants
-- What the user allowed for one session only.
DELETE FROM grants WHERE session_id = :id AND lifetime = 'session';

-- name: drop_cursors
-- What personas were told of a project.
DELETE FROM cursors WHERE project = :project;

-- name: events_since
-- The events behind one: whose they are, and what about.
SELECT DISTINCT stream, kind, item FROM events WHERE seq > :after;

-- name: redacted_since
-- Whether an event behind one took words away.
SELECT 1 FROM redactions WHERE last_seq > :after LIMIT 1;

-- name: beginning_of_fork
-- The session in which forked memory began, and whether a session uses it; that of a worker none does.
SELECT e.stream, EXISTS (SELECT 1 FROM forked_sessions AS s WHERE s.fork = f.id)
FROM memory_forks AS f JOIN events AS e ON e.seq = f.last_seq
WHERE f.id = :fork;

-- name: left_of_project
-- How many standing permissions a project has, and blocks of others.
SELECT
    (SELECT count(*) FROM grants WHERE project = :project AND lifetime = 'project' AND revoked_ms IS NULL),
    (SELECT count(*) FROM block_shares WHERE scope = 'project' AND owner = :project);

-- name: trusted_folders
-- The folders that the user trusts.
SELECT root FROM folder_trust ORDER BY root;
