-- Statements of the memory stores. Every write carries last_seq, the number of its event (rule R1).

-- name: find_block
-- The text and the facts of one block.
SELECT id, scope, owner, label, description, char_limit, text, text_hash, updated_ms, head_update,
    frontiers
FROM blocks
WHERE scope = :scope AND owner = :owner AND label = :label AND deleted = 0;

-- name: list_blocks
-- The blocks of several owners, oldest first; the owners are a JSON list of [scope, owner].
SELECT b.id, b.scope, b.owner, b.label, b.description, b.char_limit, b.text, b.text_hash, b.updated_ms, b.head_update,
    b.frontiers
FROM json_each(:owners) AS wanted
JOIN blocks AS b ON b.scope = wanted.value ->> 0 AND b.owner = wanted.value ->> 1
WHERE b.deleted = 0
ORDER BY wanted.key, b.created_ms, b.rowid;

-- name: read_base
-- What a block's document is loaded from, with the number of the last update it holds.
SELECT base, base_update
FROM blocks
WHERE id = :block_id;

-- name: read_updates
-- The updates of a block after a number, in order.
SELECT number, data
FROM block_updates
WHERE block_id = :block_id AND number > :after
ORDER BY number;

-- name: read_archive
-- The full snapshot of a block and the number of the last update it holds.
SELECT snapshot, upto
FROM block_archives
WHERE block_id = :block_id;

-- name: read_archived_number
-- The number of the last update that the full snapshot holds.
SELECT upto
FROM block_archives
WHERE block_id = :block_id;

-- name: insert_block
-- A new block, whose base is its creation.
INSERT INTO blocks (
    id, scope, owner, label, description, char_limit, text, text_hash, base, base_update, head_update, frontiers,
    created_ms, updated_ms, deleted, last_seq
)
VALUES (
    :id, :scope, :owner, :label, :description, :char_limit, :text, :text_hash, :base, 1, 1, :frontiers,
    :at_ms, :at_ms, 0, :seq
);

-- name: advance_block
-- The new text and head of a block; changes no row when another write came between.
UPDATE blocks
SET text = :text, text_hash = :text_hash, head_update = :number, frontiers = :frontiers, updated_ms = :at_ms,
    last_seq = :seq
WHERE id = :block_id AND head_update = :number - 1;

-- name: rebase_block
-- A new base that holds all updates so far.
UPDATE blocks
SET base = :base, base_update = :number, last_seq = :seq
WHERE id = :block_id;

-- name: insert_update
-- One write: its update, its versions, and who did it, from what, and why.
INSERT INTO block_updates (
    block_id, number, data, frontiers_before, frontiers_after, peer, actor, origin, operation, reason, at_ms, last_seq
)
VALUES (
    :block_id, :number, :data, :frontiers_before, :frontiers_after, :peer, :actor, :origin, :operation, :reason,
    :at_ms, :seq
);

-- name: store_archive
-- The full snapshot of a block, in the place of the one before.
INSERT INTO block_archives (block_id, upto, snapshot, last_seq)
VALUES (:block_id, :upto, :snapshot, :seq)
ON CONFLICT (block_id) DO UPDATE SET upto = excluded.upto, snapshot = excluded.snapshot, last_seq = excluded.last_seq;

-- name: read_entries
-- What is indexed of one block or session.
SELECT id, item, text
FROM search_entries
WHERE source = :source;

-- name: insert_entry
-- One passage for search.
INSERT INTO search_entries (kind, source, owner, item, text, words, at_ms, last_seq)
VALUES (:kind, :source, :owner, :item, :text, :words, :at_ms, :seq);

-- name: renumber_entry
-- A passage that stayed but stands elsewhere in its block now.
UPDATE search_entries
SET item = :item, last_seq = :seq
WHERE id = :id;

-- name: delete_entry
-- A passage that is no longer there.
DELETE FROM search_entries
WHERE id = :id;

-- name: delete_item
-- All passages of one message.
DELETE FROM search_entries
WHERE source = :source AND item = :item;

-- name: delete_source
-- Everything indexed of one block or session.
DELETE FROM search_entries
WHERE source = :source;

-- name: search
-- The passages that match best, BM25 with the split identifiers at a lower weight.
SELECT e.id, e.kind, e.source, e.item, e.at_ms, -bm25(search_fts, 1.0, 0.6) AS score
FROM search_fts
JOIN search_entries AS e ON e.id = search_fts.rowid
WHERE search_fts MATCH :match
    AND e.owner IN (SELECT value FROM json_each(:owners))
    AND (e.kind = 'block' OR e.source <> :excluded)
ORDER BY score DESC
LIMIT :candidates;

-- name: neighbours
-- Passages of the same session that were stored near a hit; the hits are a JSON list of entry ids.
SELECT DISTINCT near.id, near.kind, near.source, near.item, near.at_ms
FROM json_each(:entries) AS wanted
JOIN search_entries AS hit ON hit.id = wanted.value
JOIN search_entries AS near ON near.id BETWEEN hit.id - :reach AND hit.id + :reach
WHERE near.source = hit.source AND near.owner = hit.owner AND hit.kind <> 'block';

-- name: read_found
-- The text of the passages that will be shown, with the label of the block they are from.
SELECT e.id, e.kind, e.source, e.item, e.text, e.at_ms, coalesce(b.label, '')
FROM json_each(:entries) AS wanted
JOIN search_entries AS e ON e.id = wanted.value
LEFT JOIN blocks AS b ON b.id = e.source;
