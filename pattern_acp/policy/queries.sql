-- The statements of remembered decisions.

-- name: load_grants
-- The grants and refusals of a session, and those that last for its project and persona, oldest first.
SELECT id, effect, kind, pattern, lifetime FROM grants
WHERE session_id = :session_id AND lifetime = 'session' AND revoked_ms IS NULL
UNION ALL
SELECT id, effect, kind, pattern, lifetime FROM grants
WHERE persona = :persona AND project IN ('', :project) AND lifetime <> 'session' AND revoked_ms IS NULL
ORDER BY id;

-- name: has_grant
-- A grant that is in force and exactly this one: the session's, or one that lasts for the same project and persona.
SELECT 1 FROM grants
WHERE persona = :persona AND project = :project AND lifetime = :lifetime AND effect = :effect AND kind = :kind
    AND pattern = :pattern AND revoked_ms IS NULL AND (lifetime <> 'session' OR session_id = :session_id);

-- name: store_grant
-- Adds one grant or refusal.
INSERT INTO grants (session_id, effect, kind, pattern, created_ms, last_seq, lifetime, project, persona)
VALUES (:session_id, :effect, :kind, :pattern, :created_ms, :last_seq, :lifetime, :project, :persona);

-- name: list_grants
-- Every grant in force, with the name of the persona that asked, oldest first.
SELECT grants.id, session_id, effect, kind, pattern, grants.created_ms, lifetime, project, grants.persona,
    sessions.persona
FROM grants JOIN sessions ON sessions.id = grants.session_id
WHERE revoked_ms IS NULL
ORDER BY grants.id;

-- name: revoke_grant
-- Takes a grant back; the row stays, since segments only add rows.
UPDATE grants SET revoked_ms = :revoked_ms, last_seq = :last_seq WHERE id = :id;
