-- The statements of folder trust.

-- name: load_trust
-- The user's agreement about one folder.
SELECT digest, parts, decided_ms FROM folder_trust WHERE root = :root;

-- name: list_trust
-- Every folder that the user trusts.
SELECT root, digest, parts, decided_ms FROM folder_trust ORDER BY root;

-- name: store_trust
-- Keeps what was agreed to, in place of an earlier agreement.
INSERT INTO folder_trust (root, digest, parts, decided_ms, last_seq)
VALUES (:root, :digest, :parts, :decided_ms, :last_seq)
ON CONFLICT (root) DO UPDATE SET
    digest = excluded.digest, parts = excluded.parts, decided_ms = excluded.decided_ms, last_seq = excluded.last_seq;

-- name: remove_trust
-- Takes an agreement back.
DELETE FROM folder_trust WHERE root = :root;
