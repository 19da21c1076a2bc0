-- The statements of remembered decisions.

-- name: load_grants
-- The grants and refusals of a session, oldest first.
SELECT effect, kind, pattern FROM grants WHERE session_id = :session_id ORDER BY id;

-- name: has_grant
-- Whether a session already holds exactly this grant.
SELECT 1 FROM grants
WHERE session_id = :session_id AND effect = :effect AND kind = :kind AND pattern = :pattern;

-- name: store_grant
-- Adds one grant or refusal; it lasts as long as its session.
INSERT INTO grants (session_id, effect, kind, pattern, created_ms, last_seq)
VALUES (:session_id, :effect, :kind, :pattern, :created_ms, :last_seq);
