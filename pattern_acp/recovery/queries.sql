-- name: newest_event
-- The number of the newest event of all.
SELECT coalesce(max(seq), 0) FROM events;

-- name: newest_words_forgotten
-- The newest event by which somebody wanted words forgotten, 0 without one.
SELECT coalesce(max(seq), 0) FROM events
WHERE kind = 'block_forgotten'
    OR (kind = 'events_redacted' AND coalesce(payload ->> 'cause', '') NOT IN ('retention', 'import'));

-- name: events_after
-- Some events of all streams as they are stored, oldest first, with the hashes of their large payloads.
SELECT seq, kind, blob, coalesce(length(payload), 0) FROM events WHERE seq > :after ORDER BY seq LIMIT :limit;

-- name: read_blob
-- A large payload as it is stored.
SELECT hash, size, encoding, content FROM blobs WHERE hash = :hash;

-- name: hash_of_event
-- The hash of an event, by its number.
SELECT hash FROM events WHERE seq = :seq;

-- name: stand_in_for_blobs
-- Something that is not the large payload, where it is gone: the event stays, and its chain says that it was changed.
INSERT INTO blobs (hash, size, encoding, content)
SELECT DISTINCT blob, 0, 'raw', x'' FROM events
WHERE blob IS NOT NULL AND blob NOT IN (SELECT hash FROM blobs);

-- name: newest_event_time
-- How many events there are, the number of the newest, and when it was appended.
SELECT count(*), coalesce(max(seq), 0), coalesce(max(at_ms), 0) FROM events;
