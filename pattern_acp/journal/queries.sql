-- The statements of the journal: events and blobs, the session rows, leases.

-- name: stream_head
-- The newest event of a stream: what the next one follows.
SELECT session_seq, hash FROM events WHERE stream = :stream ORDER BY session_seq DESC LIMIT 1;

-- name: append_event
-- Adds one event; the payload or the blob is NULL.
INSERT INTO events (
    stream, session_seq, at_ms, kind, version, actor, origin, item, payload, blob, payload_hash, prev_hash, hash, salt,
    chain
) VALUES (
    :stream, :session_seq, :at_ms, :kind, :version, :actor, :origin, :item, :payload, :blob, :payload_hash,
    :prev_hash, :hash, :salt, :chain
);

-- name: store_blob
-- Keeps a large payload once, however many events hold it.
INSERT INTO blobs (hash, size, encoding, content) VALUES (:hash, :size, :encoding, :content)
ON CONFLICT (hash) DO NOTHING;

-- name: read_stream
-- The events of a stream after one of them, in order, with their blobs.
SELECT
    events.seq, session_seq, at_ms, kind, version, actor, origin, item, payload, blobs.encoding, blobs.content
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE stream = :stream AND session_seq > :after AND session_seq <= :upto
ORDER BY session_seq;

-- name: read_stream_kinds
-- Those of the events that read_stream gives that are of some kinds.
SELECT
    events.seq, session_seq, at_ms, kind, version, actor, origin, item, payload, blobs.encoding, blobs.content
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE stream = :stream AND session_seq > :after AND session_seq <= :upto
    AND kind IN (SELECT value FROM json_each(:kinds))
ORDER BY session_seq;

-- name: places_of_stream
-- The places of the events of a stream, from the index alone.
SELECT session_seq FROM events WHERE stream = :stream ORDER BY session_seq;

-- name: read_item
-- The events of a stream about one item, in order, with their blobs.
SELECT
    events.seq, session_seq, at_ms, kind, version, actor, origin, item, payload, blobs.encoding, blobs.content
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE stream = :stream AND item = :item
ORDER BY session_seq;

-- name: read_everywhere
-- The events of one kind in all streams, in order, with their blobs; not copies that came with a session.
SELECT
    events.seq, session_seq, at_ms, kind, version, actor, origin, item, payload, blobs.encoding, blobs.content
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE kind = :kind
    AND (stream = 'constellation' OR NOT EXISTS (SELECT 1 FROM origins WHERE origins.seq = events.seq))
ORDER BY events.seq;

-- name: read_about
-- The events of some kinds about some items in all streams, in order, with their blobs; both are JSON lists. Copies that
-- came with a session of another constellation say what happened there, and what moved to another is about nothing here.
SELECT
    events.seq, session_seq, at_ms, kind, version, actor, origin, item, payload, blobs.encoding, blobs.content
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE NOT EXISTS (
        SELECT 1 FROM redactions AS r JOIN events AS audit ON audit.seq = r.last_seq
        WHERE r.event_seq = events.seq AND audit.kind = 'events_redacted' AND audit.payload ->> 'cause' = 'move'
    )
    AND kind IN (SELECT value FROM json_each(:kinds)) AND item IN (SELECT value FROM json_each(:items))
    AND (stream = 'constellation' OR NOT EXISTS (SELECT 1 FROM origins WHERE origins.seq = events.seq))
ORDER BY events.seq;

-- name: last_turn_end
-- The place of the newest end of a turn in a stream.
SELECT session_seq FROM events WHERE stream = :stream AND kind = 'turn_ended' ORDER BY session_seq DESC LIMIT 1;

-- name: read_chain
-- Some events of a stream as stored, for the check of its chain, with their newest redaction.
SELECT
    events.seq, session_seq, kind, actor, origin, item, payload, blob, events.payload_hash, prev_hash, events.hash,
    (
        SELECT payload_hash FROM redactions WHERE event_seq = events.seq ORDER BY last_seq DESC LIMIT 1
    ) AS redacted_hash,
    (
        SELECT max(last_seq) FROM redactions WHERE event_seq = events.seq
    ) AS redacted_by,
    blobs.encoding, blobs.content, at_ms, version, salt, chain
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE stream = :stream AND session_seq > :after
ORDER BY session_seq LIMIT :limit;

-- name: origins_of
-- Where the events of an import came from.
SELECT seq, hash, store, store_seq FROM origins WHERE last_seq = :last_seq ORDER BY seq;

-- name: copied_among
-- Those of some events, a JSON list of numbers, that were recorded in another constellation.
SELECT seq FROM origins WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: place_of_event
-- The stream of an event, and its number in it.
SELECT stream, session_seq FROM events WHERE seq = :seq;

-- name: read_payloads
-- The payloads of some events of all streams, oldest first.
SELECT payload, blobs.encoding, blobs.content, seq, stream, kind, blob
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE seq > :after
ORDER BY seq LIMIT :limit;

-- name: read_event
-- One event.
SELECT payload, blobs.encoding, blobs.content, seq, stream, kind, version, blob
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE seq = :seq;

-- name: drop_update_guard
-- Lets a redaction change events, inside its transaction only.
DROP TRIGGER events_are_not_updated;

-- name: restore_update_guard
-- The guard as db/schema.sql has it.
CREATE TRIGGER IF NOT EXISTS events_are_not_updated BEFORE UPDATE ON events
BEGIN SELECT RAISE (ABORT, 'events are append-only'); END;

-- name: replace_payload
-- The payload of a redacted event; its hashes stay as they are, and tell nothing without the salt.
UPDATE events SET payload = :payload, blob = :blob, salt = '' WHERE seq = :seq;

-- name: put_back_payload
-- The payload of an event that came back, with its salt.
UPDATE events SET payload = :payload, blob = :blob, salt = :salt WHERE seq = :seq;

-- name: moved_events
-- The events of a stream that moved to another constellation, with their places.
SELECT session_seq, seq FROM events
WHERE stream = :stream AND EXISTS (
    SELECT 1 FROM redactions AS r JOIN events AS audit ON audit.seq = r.last_seq
    WHERE r.event_seq = events.seq AND audit.kind = 'events_redacted' AND audit.payload ->> 'cause' = 'move'
);

-- name: was_moved
-- One row where anything moved from here to another constellation.
SELECT 1 FROM events WHERE stream = 'constellation' AND kind = 'events_redacted' AND payload ->> 'cause' = 'move' LIMIT 1;

-- name: move_away
-- The session is in another constellation.
UPDATE sessions SET deleted = 2, deleted_ms = NULL, title = '', last_seq = :last_seq WHERE id = :id;

-- name: note_redaction
-- The hash of a redacted event's payload now, and the event that says who did it and why.
INSERT INTO redactions (event_seq, last_seq, payload_hash, at_ms)
VALUES (:event_seq, :last_seq, :payload_hash, :at_ms);

-- name: events_of_block
-- Words and calls where a block was changed: the calls that did it, and the commands that a user typed.
WITH wrote AS (
    SELECT payload ->> 'call_id' AS call_id, payload ->> 'turn_id' AS turn_id
    FROM events
    WHERE item = :block_id AND kind = 'block_committed'
)
SELECT seq FROM events
WHERE item IN (SELECT call_id FROM wrote)
    OR (kind = 'turn_started' AND payload ->> 'command' <> '' AND item IN (SELECT turn_id FROM wrote))
ORDER BY seq;

-- name: titled_events
-- Every event that gave a session its title.
SELECT seq FROM events WHERE kind = 'session_titled' ORDER BY seq;

-- name: partial_events
-- Committed parts of some messages while they were streamed; they are a JSON list of message ids.
SELECT seq FROM events
WHERE kind = 'message_partial' AND item IN (SELECT value FROM json_each(:items))
ORDER BY seq;

-- name: requests_behind
-- The requests to models behind an event, of a session and of those that were forked from it, also of subagents;
-- and whether only the payload, which is a blob, can tell that it is one.
WITH RECURSIVE shares (id) AS (
    SELECT :stream
    UNION
    SELECT sessions.id FROM sessions JOIN shares ON sessions.parent = shares.id
)
SELECT seq, kind = 'subagent_recorded' AND payload IS NULL FROM events
WHERE stream IN (SELECT id FROM shares) AND seq > :seq AND (
    kind = 'model_requested'
    OR kind = 'subagent_recorded' AND (payload IS NULL OR payload ->> 'kind' = 'model_requested')
)
ORDER BY seq;

-- name: read_titles
-- The titles of all sessions, deleted ones too.
SELECT id, title FROM sessions WHERE title <> '';

-- name: replace_title
-- A title that lost words; the session was not used, so its time stays.
UPDATE sessions SET title = :title, last_seq = :seq WHERE id = :id;

-- name: newest_event
-- The number of the newest event of all.
SELECT coalesce(max(seq), 0) FROM events;

-- name: redactions_of
-- The events of one audited redaction, in the order of the events.
SELECT event_seq, payload_hash FROM redactions WHERE last_seq = :last_seq ORDER BY event_seq;

-- name: is_redacted_after
-- Whether anything was redacted behind an event.
SELECT 1 FROM redactions WHERE last_seq > :after LIMIT 1;

-- name: is_forgotten_after
-- Whether words were forgotten or redacted after an event.
SELECT 1 FROM events WHERE seq > :after AND kind IN ('block_forgotten', 'events_redacted') LIMIT 1;

-- name: newest_redaction
-- The event behind the newest redaction of a stream, of those after another; NULL without one. The redactions are gone
-- through first, which CROSS JOIN says: there are hardly any, and events of a stream thousands.
SELECT max(redactions.last_seq)
FROM redactions CROSS JOIN events ON events.seq = redactions.event_seq
WHERE redactions.last_seq > :after AND events.stream = :stream;

-- name: missing_projection_event
-- The event that a session's row was last changed by, when that event is gone: the end of the stream was cut off.
SELECT last_seq FROM sessions
WHERE id = :stream AND NOT EXISTS (SELECT 1 FROM events WHERE events.seq = sessions.last_seq);

-- name: broken_fork
-- The first event of a fork whose shared history does not end with the event that it began behind.
SELECT created.seq
FROM sessions
JOIN events AS created ON created.stream = sessions.id AND created.session_seq = 1
LEFT JOIN events AS shared ON shared.seq = sessions.fork_seq AND shared.stream = sessions.parent
WHERE sessions.id = :stream AND sessions.parent IS NOT NULL AND created.payload IS NOT NULL AND (
    shared.hash IS NULL
    OR shared.hash IS NOT created.payload ->> 'fork_hash'
    OR (
        -- An event of another constellation has another number here.
        sessions.fork_seq IS NOT created.payload ->> 'fork_seq'
        AND NOT EXISTS (SELECT 1 FROM origins WHERE origins.seq = created.seq)
    )
);

-- name: fork_of
-- The origin of a fork, deleted or not: the parent, the place in the parent's stream, the number there.
SELECT sessions.parent, events.session_seq, sessions.fork_seq
FROM sessions JOIN events ON events.seq = sessions.fork_seq AND events.stream = sessions.parent
WHERE sessions.id = :id;

-- name: event_place
-- The place of an event: its stream, its hash.
SELECT stream, hash FROM events WHERE seq = :seq;

-- name: count_prompts
-- The number of prompts of a stream that began a turn up to an event; slash commands, and payloads in blobs, are not counted.
SELECT count(*) FROM events
WHERE stream = :stream AND seq <= :seq AND kind = 'turn_started' AND blob IS NULL
    AND coalesce(payload ->> 'command', '') = '';

-- name: read_large_turns
-- The beginnings of turns of a stream up to an event whose payloads are blobs, in order.
SELECT
    events.seq, session_seq, at_ms, kind, version, actor, origin, item, payload, blobs.encoding, blobs.content
FROM events JOIN blobs ON blobs.hash = events.blob
WHERE stream = :stream AND events.seq <= :seq AND kind = 'turn_started'
ORDER BY session_seq;

-- name: turn_end
-- The end of one turn of a stream, also of one that the user went back behind.
SELECT seq FROM events WHERE stream = :stream AND item = :turn_id AND kind = 'turn_ended';

-- name: living_forks
-- Sessions that share the history of another and were not deleted, oldest first, with where they begin.
SELECT id, fork_seq FROM sessions WHERE parent = :parent AND deleted = 0 ORDER BY created_ms, id;

-- name: read_jobs
-- The events of a stream about background commands, in order, with their blobs. They are about no item.
SELECT
    events.seq, session_seq, at_ms, kind, version, actor, origin, item, payload, blobs.encoding, blobs.content
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE stream = :stream AND item = '' AND kind IN ('job_started', 'job_ended', 'job_reported')
ORDER BY session_seq;

-- name: read_rewinds
-- The events with which a stream began to go back, in order, with their blobs.
SELECT
    events.seq, session_seq, at_ms, kind, version, actor, origin, item, payload, blobs.encoding, blobs.content
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE stream = :stream AND item = :item AND kind = 'rewind_started'
ORDER BY session_seq;

-- name: last_messages
-- The newest things said in a stream up to an event, newest first, with their blobs.
SELECT
    events.seq, session_seq, at_ms, kind, version, actor, origin, item, payload, blobs.encoding, blobs.content
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE stream = :stream AND events.seq <= :upto AND kind IN ('turn_started', 'message_recorded')
ORDER BY session_seq DESC LIMIT :limit;

-- name: last_turn_event
-- The newest begin or end of a turn in a stream.
SELECT kind FROM events WHERE stream = :stream AND kind IN ('turn_started', 'turn_ended')
ORDER BY session_seq DESC LIMIT 1;

-- name: create_session
-- Adds the row of a new session.
INSERT INTO sessions (
    id, cwd, cwd_key, additional_directories, title, persona, persona_identity, model, mode, thought_level,
    created_ms, updated_ms, prompt_count, deleted, parent, fork_seq, last_seq
) VALUES (
    :id, :cwd, :cwd_key, :additional_directories, '', :persona, :persona_identity, :model, :mode, :thought_level,
    :at_ms, :at_ms, 0, 0, :parent, :fork_seq, :last_seq
);

-- name: get_session
-- One session that was not deleted.
SELECT
    id, cwd, additional_directories, title, persona, persona_identity, model, mode, thought_level, created_ms,
    updated_ms, prompt_count, parent, fork_seq, last_seq, archived, message_count
FROM sessions WHERE id = :id AND deleted = 0;

-- name: touch_session
-- The session answered.
UPDATE sessions SET message_count = message_count + 1, updated_ms = :at_ms, last_seq = :last_seq
WHERE id = :id AND deleted = 0;

-- name: count_prompt
-- The session got a prompt, so it is no longer put away.
UPDATE sessions
SET prompt_count = prompt_count + 1, message_count = message_count + 1, archived = 0, updated_ms = :at_ms,
    last_seq = :last_seq
WHERE id = :id AND deleted = 0;

-- name: set_title
-- The session has a title.
UPDATE sessions SET title = :value, updated_ms = :at_ms, last_seq = :last_seq WHERE id = :id AND deleted = 0;

-- name: set_mode
-- The session works in another mode.
UPDATE sessions SET mode = :value, updated_ms = :at_ms, last_seq = :last_seq WHERE id = :id AND deleted = 0;

-- name: set_model
-- The session uses another model.
UPDATE sessions SET model = :value, updated_ms = :at_ms, last_seq = :last_seq WHERE id = :id AND deleted = 0;

-- name: note_option
-- An option that is read from the events took a new value.
UPDATE sessions SET updated_ms = :at_ms, last_seq = :last_seq WHERE id = :id AND deleted = 0;

-- name: set_thought_level
-- The session's model thinks more or less.
UPDATE sessions SET thought_level = :value, updated_ms = :at_ms, last_seq = :last_seq WHERE id = :id AND deleted = 0;

-- name: set_persona
-- The session goes on as another persona.
UPDATE sessions SET persona = :value, updated_ms = :at_ms, last_seq = :last_seq WHERE id = :id AND deleted = 0;

-- name: set_persona_identity
-- The content of the session's persona is another.
UPDATE sessions SET persona_identity = :identity, last_seq = :last_seq WHERE id = :id AND deleted = 0;

-- name: set_directories
-- The session was opened with other folders.
UPDATE sessions
SET cwd = :cwd, cwd_key = :cwd_key, additional_directories = :additional_directories, last_seq = :last_seq
WHERE id = :id AND deleted = 0;

-- name: delete_session
-- The session is no longer listed or loaded; its journal stays.
UPDATE sessions SET deleted = 1, deleted_ms = :at_ms, last_seq = :last_seq WHERE id = :id AND deleted = 0;

-- name: restore_session
-- The session is back, as it was.
UPDATE sessions SET deleted = 0, deleted_ms = NULL, last_seq = :last_seq WHERE id = :id AND deleted = 1;

-- name: set_inherited
-- The amount that was said in the history that a session was forked with.
UPDATE sessions SET prompt_count = :prompt_count, message_count = :message_count, last_seq = :last_seq WHERE id = :id;

-- name: archive_session
-- The session is put away, or back into the list; its place there stays.
UPDATE sessions SET archived = :archived, last_seq = :last_seq WHERE id = :id AND deleted = 0;

-- name: deleted_sessions
-- Sessions that can be brought back, deleted last first.
SELECT
    id, cwd, additional_directories, title, persona, persona_identity, model, mode, thought_level, created_ms,
    updated_ms, prompt_count, parent, fork_seq, last_seq, archived, message_count
FROM sessions
WHERE deleted = 1 AND deleted_ms >= :since_ms AND prompt_count > 0 AND title <> ''
    AND NOT EXISTS (
        SELECT 1 FROM events
        WHERE stream = sessions.id AND kind = 'events_redacted' AND payload ->> 'cause' = 'retention'
    )
ORDER BY deleted_ms DESC, id DESC LIMIT :limit;

-- name: deleted_session
-- The time at which a session was deleted, and its folder.
SELECT deleted_ms, cwd FROM sessions WHERE id = :id AND deleted = 1;

-- name: has_earlier_session
-- Whether anything was said in a session that began before this one; deleting that one changes no answer.
SELECT 1 FROM sessions
WHERE created_ms < (SELECT created_ms FROM sessions WHERE id = :id) AND prompt_count > 0
LIMIT 1;

-- name: list_sessions
-- Sessions with a title, newest first, below a place in that order: one without is about nothing, since it had only
-- slash commands, or a slip.
SELECT
    id, cwd, additional_directories, title, persona, persona_identity, model, mode, thought_level, created_ms,
    updated_ms, prompt_count, parent, fork_seq, last_seq, archived, message_count
FROM sessions
WHERE deleted = 0 AND prompt_count > 0 AND title <> '' AND archived IN (:archived, :also)
    AND (updated_ms, id) < (:before_ms, :before_id)
ORDER BY updated_ms DESC, id DESC LIMIT :limit;

-- name: list_sessions_of_cwd
-- The same for one working directory.
SELECT
    id, cwd, additional_directories, title, persona, persona_identity, model, mode, thought_level, created_ms,
    updated_ms, prompt_count, parent, fork_seq, last_seq, archived, message_count
FROM sessions
WHERE deleted = 0 AND prompt_count > 0 AND title <> '' AND cwd_key = :cwd_key AND archived IN (:archived, :also)
    AND (updated_ms, id) < (:before_ms, :before_id)
ORDER BY updated_ms DESC, id DESC LIMIT :limit;

-- name: get_lease
-- Who holds a session.
SELECT holder, pid, process_started, host, acquired_ms, renewed_ms FROM leases WHERE session_id = :session_id;

-- name: take_lease
-- Gives a session to a holder, whoever had it.
INSERT INTO leases (session_id, holder, pid, process_started, host, acquired_ms, renewed_ms, editor)
VALUES (:session_id, :holder, :pid, :process_started, :host, :at_ms, :at_ms, :editor)
ON CONFLICT (session_id) DO UPDATE SET
    holder = excluded.holder, pid = excluded.pid, process_started = excluded.process_started, host = excluded.host,
    acquired_ms = excluded.acquired_ms, renewed_ms = excluded.renewed_ms, editor = excluded.editor;

-- name: renew_lease
-- The holder still works on the session.
UPDATE leases SET renewed_ms = :at_ms WHERE session_id = :session_id AND holder = :holder;

-- name: renew_leases
-- The holder still works on all of its sessions.
UPDATE leases SET renewed_ms = :at_ms WHERE holder = :holder;

-- name: release_lease
-- The holder is done with the session.
DELETE FROM leases WHERE session_id = :session_id AND holder = :holder;

-- name: release_leases
-- The holder ends.
DELETE FROM leases WHERE holder = :holder;

-- name: sessions_since
-- Work of a persona in a folder after an event: sessions with the end of their last turn and the open steps of their
-- plan, newest first.
SELECT
    sessions.title, sessions.updated_ms,
    (
        SELECT events.payload ->> 'stop_reason' FROM events
        WHERE events.stream = sessions.id AND events.kind = 'turn_ended' ORDER BY events.session_seq DESC LIMIT 1
    ),
    (
        SELECT group_concat(step.value ->> 'content', char(10))
        FROM json_each(
            (
                SELECT events.payload FROM events
                WHERE events.stream = sessions.id AND events.kind = 'plan_updated'
                ORDER BY events.session_seq DESC LIMIT 1
            ), '$.plan.entries'
        ) AS step
        WHERE step.value ->> 'status' <> 'completed'
    )
FROM sessions
WHERE sessions.deleted = 0 AND sessions.prompt_count > 0 AND sessions.title <> '' AND sessions.cwd_key = :cwd_key
    AND sessions.persona = :persona AND sessions.last_seq > :after AND sessions.id <> :exclude
ORDER BY sessions.updated_ms DESC, sessions.id DESC LIMIT :limit;

-- name: newest_mode
-- The mode of the session of a folder and persona that was used last; not of one that anything came to from elsewhere.
SELECT mode FROM sessions
WHERE deleted = 0 AND prompt_count > 0 AND cwd_key = :cwd_key AND persona = :persona
    AND id NOT IN (SELECT stream FROM origins JOIN events ON events.seq = origins.seq)
ORDER BY updated_ms DESC, id DESC LIMIT 1;

-- name: newest_modes
-- The folders of the sessions of a persona, those used last first, with the mode of the last session in each; not of
-- sessions that anything came to from elsewhere.
SELECT cwd, mode, max(updated_ms) FROM sessions
WHERE deleted = 0 AND prompt_count > 0 AND persona = :persona
    AND id NOT IN (SELECT stream FROM origins JOIN events ON events.seq = origins.seq)
GROUP BY cwd_key ORDER BY max(updated_ms) DESC LIMIT 100;

-- name: store_file_content
-- Keeps the content of a file once.
INSERT INTO file_contents (hash, size, encoding, content, last_seq)
VALUES (:hash, :size, :encoding, :content, :last_seq)
ON CONFLICT (hash) DO NOTHING;

-- name: read_file_content
-- The content of a file.
SELECT encoding, content FROM file_contents WHERE hash = :hash;

-- name: unused_blobs
-- The number of large payloads that belong to no event, and their bytes.
SELECT count(*), coalesce(sum(length(content)), 0) FROM blobs
WHERE hash NOT IN (SELECT blob FROM events WHERE blob IS NOT NULL);

-- name: sweep_blobs
-- Deletes large payloads that belong to no event.
DELETE FROM blobs WHERE hash NOT IN (SELECT blob FROM events WHERE blob IS NOT NULL);

-- name: newest_forgetting
-- The last time that words were taken out of events because somebody wanted them forgotten.
SELECT coalesce(max(redactions.at_ms), 0)
FROM redactions JOIN events ON events.seq = redactions.last_seq
WHERE events.kind <> 'events_redacted' OR coalesce(events.payload ->> 'cause', '') <> 'retention';

-- name: deleted_before
-- Sessions that were deleted before a moment, oldest first.
SELECT id FROM sessions WHERE deleted = 1 AND deleted_ms < :before_ms ORDER BY deleted_ms, id;

-- name: forks_in_use
-- Forks that can still be opened or brought back.
SELECT id FROM sessions WHERE parent IS NOT NULL AND (deleted = 0 OR deleted_ms >= :before_ms);

-- name: events_of_kinds
-- Events of some kinds of a stream, behind one of it; the kinds are a JSON list.
SELECT seq FROM events
WHERE stream = :stream AND session_seq > :after AND kind IN (SELECT value FROM json_each(:kinds))
ORDER BY session_seq;

-- name: size_of_events
-- The bytes that the payloads of some events take; they are a JSON list of numbers. A payload that several share counts
-- for each.
SELECT coalesce(sum(coalesce(length(CAST(events.payload AS BLOB)), length(blobs.content))), 0)
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE events.seq IN (SELECT value FROM json_each(:seqs));

-- name: titles_of
-- The events that gave a session its title.
SELECT seq FROM events WHERE stream = :id AND kind = 'session_titled';

-- name: drop_grants
-- Permissions of a session that cannot be opened again; those that last longer stay.
DELETE FROM grants WHERE session_id = :id AND lifetime = 'session';

-- name: read_patterns
-- The targets of a session's permissions.
SELECT id, pattern FROM grants WHERE session_id = :id;

-- name: drop_grant
-- A permission whose pattern was to be forgotten: another pattern would allow something else.
DELETE FROM grants WHERE id = :id;

-- name: read_subagents
-- The names of subagents that requests of a session were counted for.
SELECT DISTINCT subagent FROM usage WHERE session_id = :id AND subagent <> '';

-- name: rename_subagent
-- The name of a subagent that lost words.
UPDATE usage SET subagent = :masked WHERE session_id = :id AND subagent = :name;

-- name: was_swept
-- One row where the words of a session are gone because it was deleted, or moved away.
SELECT 1 FROM events WHERE stream = :id AND kind = 'events_redacted' AND payload ->> 'cause' = 'retention'
UNION ALL SELECT 1 FROM sessions WHERE id = :id AND deleted = 2
LIMIT 1;

-- name: payloads_of_stream
-- Payloads of some kinds of a stream; the kinds are a JSON list.
SELECT payload, blobs.encoding, blobs.content
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE stream = :stream AND kind IN (SELECT value FROM json_each(:kinds))
ORDER BY session_seq;

-- name: payloads_of_kinds
-- Payloads of some kinds of all streams, behind an event; the kinds are a JSON list.
SELECT payload, blobs.encoding, blobs.content, seq, at_ms
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE seq > :after AND kind IN (SELECT value FROM json_each(:kinds))
ORDER BY seq LIMIT :limit;

-- name: room_in_file
-- Disk usage inside the constellation: bytes of saved contents of files, deleted sessions, bytes of large payloads.
SELECT
    (SELECT coalesce(sum(length(content)), 0) FROM file_contents),
    (SELECT count(*) FROM sessions WHERE deleted = 1 AND prompt_count > 0),
    (SELECT coalesce(sum(length(content)), 0) FROM blobs);

-- name: file_content_sizes
-- The saved contents of files, and the bytes that each takes.
SELECT hash, length(content) FROM file_contents;

-- name: all_streams
-- Every stream that has an event, oldest first.
SELECT stream FROM events WHERE session_seq = 1 ORDER BY seq;

-- name: newest_times
-- The time of the newest event, and the latest time of the newest thousands, which is another where a clock was set.
SELECT
    (SELECT at_ms FROM events ORDER BY seq DESC LIMIT 1),
    (SELECT max(at_ms) FROM (SELECT at_ms FROM events ORDER BY seq DESC LIMIT 10000));

-- name: file_content_hashes
-- The digests of the saved contents of files.
SELECT hash FROM file_contents;

-- name: drop_file_content
-- Delete the content of a file.
DELETE FROM file_contents WHERE hash = :hash;

-- name: has_file_content
-- One row where the content of a file is saved.
SELECT 1 FROM file_contents WHERE hash = :hash;

-- name: store_usage
-- Keeps what one model request used.
INSERT INTO usage (
    last_seq, at_ms, session_id, turn_id, subagent, model, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, thinking_tokens, micro_units, prices, estimated
) VALUES (
    :last_seq, :at_ms, :session_id, :turn_id, :subagent, :model, :input_tokens, :output_tokens, :cache_read_tokens,
    :cache_write_tokens, :thinking_tokens, :micro_units, :prices, :estimated
);

-- name: usage_since
-- Usage of every request since a moment, oldest first, with the session that it was made for.
SELECT
    at_ms, session_id, turn_id, subagent, usage.model, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, thinking_tokens, micro_units, prices, sessions.cwd, sessions.title, estimated, usage.last_seq
FROM usage JOIN sessions ON sessions.id = usage.session_id
WHERE at_ms >= :since_ms
ORDER BY usage.last_seq;

-- name: usage_of_session
-- The same of one session.
SELECT
    at_ms, session_id, turn_id, subagent, usage.model, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, thinking_tokens, micro_units, prices, sessions.cwd, sessions.title, estimated, usage.last_seq
FROM usage JOIN sessions ON sessions.id = usage.session_id
WHERE session_id = :session_id
ORDER BY usage.last_seq;

-- name: spent_in_session
-- Tokens and money of a session, and of one turn of it.
SELECT
    coalesce(sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens), 0),
    coalesce(sum(micro_units), 0),
    coalesce(
        sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) FILTER (WHERE turn_id = :turn_id), 0
    ),
    coalesce(sum(micro_units) FILTER (WHERE turn_id = :turn_id), 0)
FROM usage WHERE session_id = :session_id;

-- name: spent_since
-- Tokens and money of all sessions since a moment.
SELECT
    coalesce(sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens), 0),
    coalesce(sum(micro_units), 0)
FROM usage WHERE at_ms >= :since_ms;

-- name: last_used
-- Tokens of the newest request of a session to a model.
SELECT input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, thinking_tokens
FROM usage WHERE session_id = :session_id AND model = :model AND estimated = 0 ORDER BY last_seq DESC LIMIT 1;

-- name: usual_output
-- Tokens that the newest requests of a session to a model were answered with, on average.
SELECT CAST(round(avg(output_tokens)) AS INTEGER) FROM (
    SELECT output_tokens FROM usage
    WHERE session_id = :session_id AND model = :model AND estimated = 0
    ORDER BY last_seq DESC LIMIT :count
);

-- name: reserve
-- The expected usage of a request that begins.
INSERT INTO reservations (id, at_ms, session_id, turn_id, holder, tokens, micro_units)
VALUES (:id, :at_ms, :session_id, :turn_id, :holder, :tokens, :micro_units);

-- name: settle
-- A request has ended.
DELETE FROM reservations WHERE id = :id;

-- name: reservations
-- Of requests that run, with the process that still has their session.
SELECT
    reservations.session_id, turn_id, tokens, micro_units, leases.holder, pid, process_started, host, renewed_ms
FROM reservations
JOIN leases ON leases.session_id = reservations.session_id AND leases.holder = reservations.holder
WHERE at_ms >= :since_ms;

-- name: drop_reservations
-- Reservations of processes that ended in the middle of a request.
DELETE FROM reservations WHERE at_ms < :before_ms;

-- name: streams_by_use
-- The sessions of which anything was recorded, used last first.
SELECT id FROM sessions ORDER BY updated_ms DESC, id DESC LIMIT :limit;

-- name: sessions_beginning
-- The ids that begin like that, the sessions used last first.
SELECT id FROM sessions WHERE substr(id, 1, :length) = :beginning ORDER BY updated_ms DESC LIMIT 5;

-- name: is_stream
-- One row where a stream has events.
SELECT 1 FROM events WHERE stream = :stream LIMIT 1;

-- name: event_hash
-- The hash of one event of a stream.
SELECT hash FROM events WHERE stream = :stream AND session_seq = :session_seq;

-- name: tail_of_stream
-- Events of a stream, or of all when it is NULL, behind one of all streams: the newest ones, oldest first.
SELECT seq, stream, session_seq, at_ms, kind, actor, origin, item, size FROM (
    SELECT
        events.seq, stream, session_seq, at_ms, kind, actor, origin, item,
        coalesce(length(CAST(payload AS BLOB)), blobs.size) AS size
    FROM events LEFT JOIN blobs ON blobs.hash = events.blob
    WHERE events.seq > :after AND (:stream IS NULL OR stream = :stream)
    ORDER BY events.seq DESC LIMIT :limit
) ORDER BY seq;

-- name: count_events
-- The number of events up to one.
SELECT count(*) FROM events WHERE seq <= :upto;

-- name: every_session
-- All sessions, oldest first, with their folders, and whether they were deleted.
SELECT id, cwd, deleted FROM sessions ORDER BY created_ms, id;

-- name: redacted_among
-- The events among a JSON list of numbers that lost words.
SELECT event_seq FROM redactions WHERE event_seq IN (SELECT value FROM json_each(:seqs));

-- name: session_folders
-- The folders of all sessions, each once.
SELECT cwd FROM sessions
UNION SELECT f.value FROM sessions, json_each(sessions.additional_directories) AS f;

-- name: session_state
-- The columns of a session's row that follow from its events alone.
SELECT title, mode, model, thought_level, cwd, deleted, archived, prompt_count FROM sessions WHERE id = :id;

-- name: set_session_state
-- A row that is made to be what the session's events say.
UPDATE sessions
SET title = :title, mode = :mode, model = :model, thought_level = :thought_level, cwd = :cwd, cwd_key = :cwd_key,
    deleted = :deleted, deleted_ms = CASE WHEN :deleted THEN coalesce(deleted_ms, updated_ms) END,
    archived = :archived, prompt_count = :prompt_count
WHERE id = :id;

-- name: handoffs_since
-- The sessions of a persona in a folder that left a handoff after an event, the last one first.
SELECT sessions.id, sessions.title, max(events.seq)
FROM sessions JOIN events ON events.stream = sessions.id AND events.item = :item
WHERE sessions.deleted = 0 AND sessions.cwd_key = :cwd_key AND sessions.persona = :persona
    AND sessions.id <> :exclude AND events.seq > :after
GROUP BY sessions.id
ORDER BY max(events.seq) DESC LIMIT :limit;

-- name: remember_thinking
-- The user chose how much the model of a session thinks.
INSERT INTO thinking_choices (model, level, last_seq) SELECT model, :level, :last_seq FROM sessions WHERE id = :id
ON CONFLICT (model) DO UPDATE SET level = excluded.level, last_seq = excluded.last_seq;

-- name: remembered_thinking
-- How much the user last let a model think.
SELECT level FROM thinking_choices WHERE model = :model;

-- name: count_skill_use
-- A skill was loaded.
INSERT INTO skill_uses (source, name, loads, used_ms, last_seq) VALUES (:source, :name, 1, :at_ms, :seq)
ON CONFLICT (source, name) DO UPDATE SET loads = loads + 1, used_ms = excluded.used_ms, last_seq = excluded.last_seq;

-- name: list_skill_uses
-- How often skills were loaded.
SELECT source, name, loads FROM skill_uses;
