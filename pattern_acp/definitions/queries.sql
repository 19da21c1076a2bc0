-- The statements of kept sources.

-- name: known_sources
-- Those of some definitions whose source is kept; the identities are a JSON list.
SELECT identity FROM definition_sources WHERE identity IN (SELECT value FROM json_each(:identities));

-- name: store_source
-- Keeps the source of a definition once.
INSERT INTO definition_sources (identity, symbol, source, last_seq)
VALUES (:identity, :symbol, :source, :last_seq)
ON CONFLICT (identity) DO NOTHING;

-- name: read_sources
-- The sources of some definitions; the identities are a JSON list.
SELECT identity, symbol, source FROM definition_sources
WHERE identity IN (SELECT value FROM json_each(:identities)) ORDER BY identity;

-- name: all_sources
-- Every kept source.
SELECT identity, symbol, source FROM definition_sources ORDER BY identity;

-- name: sources_and_notes
-- Every kept source with the user's note on it.
SELECT identity, source, note FROM definition_sources ORDER BY identity;

-- name: replace_source
-- Takes words out of a source and of the note on it.
UPDATE definition_sources SET source = :source, note = :note, last_seq = :last_seq WHERE identity = :identity;

-- name: list_sources
-- Every definition whose source is kept, without it, in the order of their names.
SELECT identity, symbol, length(CAST(source AS BLOB)), note FROM definition_sources ORDER BY symbol, last_seq;

-- name: note_source
-- Puts a note on a source.
UPDATE definition_sources SET note = :note, last_seq = :last_seq WHERE identity = :identity;

-- name: drop_source
-- Deletes the source of a definition that no session is defined by any more.
DELETE FROM definition_sources WHERE identity = :identity;
