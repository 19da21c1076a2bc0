-- The statements of the journal: events and blobs, the session rows, leases.

-- name: stream_head
-- The newest event of a stream: what the next one follows.
SELECT session_seq, hash FROM events WHERE stream = :stream ORDER BY session_seq DESC LIMIT 1;

-- name: append_event
-- Adds one event; the payload or the blob is NULL.
INSERT INTO events (
    stream, session_seq, at_ms, kind, version, actor, origin, item, payload, blob, payload_hash, prev_hash, hash
) VALUES (
    :stream, :session_seq, :at_ms, :kind, :version, :actor, :origin, :item, :payload, :blob, :payload_hash,
    :prev_hash, :hash
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
WHERE stream = :stream AND session_seq > :after
ORDER BY session_seq;

-- name: read_item
-- The events of a stream about one item, in order, with their blobs.
SELECT
    events.seq, session_seq, at_ms, kind, version, actor, origin, item, payload, blobs.encoding, blobs.content
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE stream = :stream AND item = :item
ORDER BY session_seq;

-- name: read_chain
-- Some events of a stream as stored, for the check of its chain.
SELECT
    events.seq, session_seq, kind, actor, origin, item, payload, blob, payload_hash, prev_hash, events.hash,
    blobs.encoding, blobs.content
FROM events LEFT JOIN blobs ON blobs.hash = events.blob
WHERE stream = :stream AND session_seq > :after
ORDER BY session_seq LIMIT :limit;

-- name: missing_projection_event
-- The event that a session's row was last changed by, when that event is gone: the end of the stream was cut off.
SELECT last_seq FROM sessions
WHERE id = :stream AND NOT EXISTS (SELECT 1 FROM events WHERE events.seq = sessions.last_seq);
