-- Statements of the memory stores. Every write carries last_seq, the number of its event (rule R1).

-- part: block
-- The text and the facts of a block `b`.
b.id, b.scope, b.owner, b.label, b.description, b.char_limit, b.text, b.text_hash, b.updated_ms, b.head_update,
    b.frontiers, b.history_from, b.schema, b.permission, b.pinned, b.tier, b.conflicts;

-- name: find_block
-- The text and the facts of one block.
SELECT {block}
FROM blocks AS b
WHERE b.scope = :scope AND b.owner = :owner AND b.label = :label AND b.deleted = 0;

-- name: block_exists
-- Whether there is a block with this label.
SELECT 1 FROM blocks WHERE scope = :scope AND owner = :owner AND label = :label AND deleted = 0;

-- name: find_deleted_block
-- The block of a label that was deleted last and can be restored, or, with :skip, one that was deleted before it.
SELECT {block}
FROM blocks AS b
WHERE b.scope = :scope AND b.owner = :owner AND b.label = :label AND b.deleted = 1
ORDER BY b.updated_ms DESC, b.rowid DESC
LIMIT 1 OFFSET :skip;

-- name: list_deleted_blocks
-- The blocks of several owners that can be restored, deleted last first; the owners are a JSON list of [scope, owner].
SELECT {block}
FROM json_each(:owners) AS wanted
JOIN blocks AS b ON b.scope = wanted.value ->> 0 AND b.owner = wanted.value ->> 1
WHERE b.deleted = 1
ORDER BY b.updated_ms DESC, b.rowid DESC;

-- name: list_blocks
-- The blocks of several owners, oldest first; the owners are a JSON list of [scope, owner].
SELECT {block}
FROM json_each(:owners) AS wanted
JOIN blocks AS b ON b.scope = wanted.value ->> 0 AND b.owner = wanted.value ->> 1
WHERE b.deleted = 0
ORDER BY wanted.key, b.created_ms, b.rowid;

-- name: every_block
-- Every block, oldest first, and whether it was deleted, forgotten or discarded.
SELECT {block}, b.deleted
FROM blocks AS b
ORDER BY b.created_ms, b.rowid;

-- name: block_owners
-- Who owns blocks.
SELECT DISTINCT scope, owner FROM blocks WHERE deleted = 0 ORDER BY scope, owner;

-- name: check_search
-- Fails when the search index is not that of the stored texts.
INSERT INTO search_fts (search_fts, rank) VALUES ('integrity-check', 1);

-- name: rebuild_search
-- Writes the search index anew from the stored texts.
INSERT INTO search_fts (search_fts) VALUES ('rebuild');

-- name: list_shared_blocks
-- The blocks attached to several owners, with the permission that each has, oldest first.
SELECT {block}, s.permission, s.scope
FROM json_each(:owners) AS wanted
JOIN block_shares AS s ON s.scope = wanted.value ->> 0 AND s.owner = wanted.value ->> 1
JOIN blocks AS b ON b.id = s.block_id
WHERE b.deleted = 0
ORDER BY wanted.key, b.created_ms, b.rowid;

-- name: attach_block
-- Share a block with an owner, or change what they may do with it.
INSERT INTO block_shares (block_id, scope, owner, permission, created_ms, last_seq)
VALUES (:block_id, :scope, :owner, :permission, :at_ms, :seq)
ON CONFLICT (block_id, scope, owner) DO UPDATE SET permission = excluded.permission, last_seq = excluded.last_seq;

-- name: detach_block
-- Share a block no longer with an owner.
DELETE FROM block_shares
WHERE block_id = :block_id AND scope = :scope AND owner = :owner;

-- name: list_shares
-- Who a block is shared with.
SELECT scope, owner, permission
FROM block_shares
WHERE block_id = :block_id
ORDER BY created_ms, scope, owner;

-- name: configure_block
-- The settings of a block.
UPDATE blocks
SET description = :description, char_limit = :char_limit, permission = :permission, pinned = :pinned, tier = :tier,
    last_seq = :seq
WHERE id = :block_id AND deleted = 0;

-- name: list_touched
-- Which of several blocks a session wrote to, from its journal; the ids are a JSON list.
SELECT wanted.value
FROM json_each(:ids) AS wanted
WHERE EXISTS (SELECT 1 FROM events AS e WHERE e.stream = :session_id AND e.item = wanted.value);

-- name: least_needed
-- The passages of a block that are oldest and least recalled; each recall counts as a week of youth.
SELECT e.text, e.at_ms, coalesce(r.times, 0)
FROM search_entries AS e
LEFT JOIN recalls AS r ON r.entry = e.id
WHERE e.source = :source
ORDER BY e.at_ms + coalesce(r.times, 0) * :week_ms, e.id
LIMIT :limit;

-- name: count_recall
-- A fact was recalled; what is no fact, or gone, is not counted.
INSERT INTO recalls (entry, times, last_ms, last_seq)
SELECT id, :times, :at_ms, :seq
FROM search_entries
WHERE id = :entry AND kind IN ('block', 'archival', 'superseded')
ON CONFLICT (entry) DO UPDATE SET
    times = times + excluded.times, last_ms = excluded.last_ms, last_seq = excluded.last_seq;

-- name: facts_of_entries
-- The facts among a JSON list of entry ids.
SELECT e.id, e.source, e.text
FROM json_each(:entries) AS wanted
JOIN search_entries AS e ON e.id = wanted.value
WHERE e.kind IN ('block', 'archival', 'superseded');

-- name: facts_of_sources
-- The passages of blocks and archival entries, which are a JSON list of ids.
SELECT e.id, e.source, e.text
FROM json_each(:sources) AS wanted
JOIN search_entries AS e ON e.source = wanted.value
WHERE e.kind IN ('block', 'archival', 'superseded')
ORDER BY e.id;

-- name: recalls_of
-- How often passages of some blocks or archival entries were recalled; the sources are a JSON list of ids.
SELECT e.source, sum(r.times)
FROM json_each(:sources) AS wanted
JOIN search_entries AS e ON e.source = wanted.value
JOIN recalls AS r ON r.entry = e.id
GROUP BY e.source;

-- name: alike_passages
-- Passages of blocks and archival entries that have all of the words.
SELECT e.kind, e.source, e.text
FROM search_fts
CROSS JOIN search_entries AS e ON e.id = search_fts.rowid
WHERE search_fts MATCH :match AND (
    (e.kind = 'block' AND e.source IN (SELECT value FROM json_each(:ids)))
    OR (e.kind = 'archival' AND e.owner IN (SELECT value FROM json_each(:owners)))
)
LIMIT :limit;

-- name: read_base
-- What a block's document is loaded from, with the number of the last update it holds, and its newest version.
SELECT base, base_update, frontiers
FROM blocks
WHERE id = :block_id;

-- name: newest_update
-- The number of the newest update of a block; NULL without any.
SELECT max(number) FROM block_updates WHERE block_id = :block_id;

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
    created_ms, updated_ms, deleted, last_seq, schema, permission, pinned, tier
)
VALUES (
    :id, :scope, :owner, :label, :description, :char_limit, :text, :text_hash, :base, 1, 1, :frontiers,
    :at_ms, :at_ms, 0, :seq, :schema, :permission, :pinned, :tier
);

-- name: advance_block
-- The new text and head of a block, and a base that holds all updates when one is due; changes no row when another write came between.
UPDATE blocks
SET text = :text, text_hash = :text_hash, head_update = :number, frontiers = :frontiers, updated_ms = :at_ms,
    conflicts = :conflicts, last_seq = :seq, base = coalesce(:base, base),
    base_update = iif(:base IS NULL, base_update, :number)
WHERE id = :block_id
    AND NOT EXISTS (SELECT 1 FROM block_updates WHERE block_id = :block_id AND number >= :number);

-- name: insert_update
-- One write: its update, its versions, and who did it, from what, and why.
INSERT INTO block_updates (
    block_id, number, data, frontiers_before, frontiers_after, peer, actor, origin, operation, reason, at_ms, last_seq,
    target, size, lines_added, lines_removed
)
VALUES (
    :block_id, :number, :data, :frontiers_before, :frontiers_after, :peer, :actor, :origin, :operation, :reason,
    :at_ms, :seq, :target, :size, :lines_added, :lines_removed
);

-- name: mark_block
-- A block that was deleted (1), discarded (2) or restored (0), as its newest write.
UPDATE blocks
SET deleted = :deleted, head_update = :number, updated_ms = :at_ms, last_seq = :seq
WHERE id = :block_id
    AND NOT EXISTS (SELECT 1 FROM block_updates WHERE block_id = :block_id AND number >= :number);

-- name: heal_block
-- A block whose stored parts were damaged, from its sound ones; nothing is written to it.
UPDATE blocks
SET text = :text, text_hash = :text_hash, base = :base, base_update = :number, head_update = :number,
    frontiers = :frontiers, last_seq = :seq
WHERE id = :block_id;

-- name: read_reasons
-- The reasons of all writes of a block.
SELECT number, reason
FROM block_updates
WHERE block_id = :block_id;

-- name: every_label
-- What all blocks are called, those that were forgotten too.
SELECT id, label FROM blocks;

-- name: reasons_of_stream
-- The reasons of the writes whose events are in a stream, or of all writes.
SELECT block_id, number, reason
FROM block_updates JOIN events ON events.seq = block_updates.last_seq
WHERE reason <> '' AND :stream IN ('', events.stream);

-- name: replace_reason
-- A reason that lost words.
UPDATE block_updates
SET reason = :reason
WHERE block_id = :block_id AND number = :number;

-- name: empty_write
-- A write whose words were forgotten: who and when stays.
UPDATE block_updates
SET data = x'', reason = :reason
WHERE block_id = :block_id AND number = :number;

-- name: versions_of_block
-- Every version that a block had, those whose words were forgotten too.
SELECT frontiers_after FROM block_updates WHERE block_id = :block_id ORDER BY number;

-- name: forget_block
-- A block after words were forgotten: its history begins with this write. A block forgotten as a whole (1) is gone.
UPDATE blocks
SET text = :text, text_hash = :text_hash, base = :base, base_update = :number, head_update = :number,
    frontiers = :frontiers, updated_ms = :at_ms, last_seq = :seq, history_from = :number, conflicts = '',
    deleted = CASE WHEN :forgotten THEN 2 ELSE deleted END
WHERE id = :block_id
    AND NOT EXISTS (SELECT 1 FROM block_updates WHERE block_id = :block_id AND number >= :number);

-- name: find_indexed_item
-- Whose and what kind of passages are indexed of a message, and when it was written.
SELECT kind, owner, at_ms
FROM search_entries
WHERE source = :source AND item = :item
LIMIT 1;

-- name: optimize_search
-- Writes the word index anew without what was deleted, which until then keeps its words.
INSERT INTO search_fts (search_fts) VALUES ('optimize');

-- name: read_archival_texts
-- The texts of all archival entries, with why each was kept and how it is checked.
SELECT id, text || char(10) || reason || char(10) || check_command FROM archival_entries;

-- name: list_writes
-- The newest writes of a block below a number, with the streams that hold their events and those sessions' titles.
SELECT u.number, u.at_ms, u.actor, u.origin, u.operation, u.reason, u.last_seq, e.stream, u.target, u.size,
    u.lines_added, u.lines_removed, coalesce(s.title, ''), coalesce(o.store, ''), coalesce(o.store_seq, 0)
FROM block_updates AS u
JOIN events AS e ON e.seq = u.last_seq
LEFT JOIN sessions AS s ON s.id = e.stream
LEFT JOIN origins AS o ON o.seq = u.last_seq
WHERE u.block_id = :block_id AND u.number < :before
ORDER BY u.number DESC
LIMIT :limit;

-- name: read_write
-- One write of a block, with the stream that holds its event and that session's title.
SELECT u.number, u.at_ms, u.actor, u.origin, u.operation, u.reason, u.last_seq, e.stream, u.target, u.size,
    u.lines_added, u.lines_removed, coalesce(s.title, ''), coalesce(o.store, ''), coalesce(o.store_seq, 0)
FROM block_updates AS u
JOIN events AS e ON e.seq = u.last_seq
LEFT JOIN sessions AS s ON s.id = e.stream
LEFT JOIN origins AS o ON o.seq = u.last_seq
WHERE u.block_id = :block_id AND u.number = :number;

-- name: list_writes_from_data
-- The writes of several blocks behind which data of others may be, oldest first; the ids are a JSON list.
SELECT u.block_id, u.number, u.reason
FROM json_each(:ids) AS wanted
JOIN block_updates AS u ON u.block_id = wanted.value
WHERE u.actor = 'persona' AND u.origin IN ('web', 'mcp', 'agent', 'command', 'workspace')
ORDER BY u.block_id, u.number;

-- name: read_history
-- The writes of a block up to a number, oldest first, as history is worked out from them.
SELECT number, operation, target, data, frontiers_after
FROM block_updates
WHERE block_id = :block_id AND number <= :head
ORDER BY number;

-- name: store_archive
-- The full snapshot of a block, in the place of the one before.
INSERT INTO block_archives (block_id, upto, snapshot, last_seq)
VALUES (:block_id, :upto, :snapshot, :seq)
ON CONFLICT (block_id) DO UPDATE SET upto = excluded.upto, snapshot = excluded.snapshot, last_seq = excluded.last_seq;

-- name: count_entries
-- How many passages are indexed of one block apart from its log sections; `upto` is the character after the digits.
SELECT count(*)
FROM search_entries
WHERE source = :source AND item < :upto;

-- name: read_entries
-- The passages of one block apart from its log sections, in order.
SELECT id, item, text
FROM search_entries
WHERE source = :source AND item < :upto
ORDER BY CAST(item AS INTEGER);

-- name: read_entries_of
-- Some passages of one block by their items, a JSON list, in its order.
SELECT e.id, e.item, e.text
FROM json_each(:items) AS wanted
CROSS JOIN search_entries AS e ON e.source = :source AND e.item = wanted.value
ORDER BY wanted.key;

-- name: read_all_entries
-- Everything that is indexed of one block.
SELECT id, item, text, at_ms
FROM search_entries
WHERE source = :source;

-- name: read_entries_of_session
-- Everything that is indexed of one session.
SELECT id, kind, owner, item, text, at_ms
FROM search_entries
WHERE source = :source;

-- name: indexed_without_text
-- Passages that the word index still finds by these words, and whose text is gone.
SELECT count(*)
FROM search_fts
WHERE search_fts MATCH :match AND rowid NOT IN (SELECT id FROM search_entries);

-- name: read_newest_of_section
-- What was indexed last of one log section, newest first.
SELECT id, item, text
FROM search_entries
WHERE source = :source AND item >= :first AND item < :upto
ORDER BY item DESC
LIMIT :limit;

-- name: read_newest_entries
-- What was indexed last of one block, newest first.
SELECT id, item, text
FROM search_entries
WHERE owner = :owner AND kind = 'block' AND source = :source
ORDER BY at_ms DESC, id DESC
LIMIT :limit;

-- name: insert_entry
-- One passage for search.
INSERT INTO search_entries (kind, source, owner, item, text, words, at_ms, last_seq)
VALUES (:kind, :source, :owner, :item, :text, :words, :at_ms, :seq);

-- name: renumber_entry
-- A passage that stayed but stands elsewhere in its block now.
UPDATE search_entries
SET item = :item, last_seq = :seq
WHERE id = :id;

-- name: renumber_entries
-- All passages of one block behind one of them, apart from its log sections, when more or fewer stand before them.
UPDATE search_entries
SET item = CAST(CAST(item AS INTEGER) + :by AS TEXT), last_seq = :seq
WHERE source = :source AND item < :upto AND CAST(item AS INTEGER) > :after;

-- name: delete_entry
-- A passage that is no longer there.
DELETE FROM search_entries
WHERE id = :id;

-- name: read_listed
-- The passages of one kind and source, in their order.
SELECT id, item, text
FROM search_entries
WHERE source = :source AND kind = :kind
ORDER BY id;

-- name: read_of_sessions
-- Every plan step and tool call that is indexed.
SELECT id, source, owner, item, text, at_ms, kind
FROM search_entries
WHERE kind IN ('task', 'call');

-- name: delete_item
-- All passages of one message.
DELETE FROM search_entries
WHERE source = :source AND item = :item;

-- name: message_owners
-- The projects in which something was said.
SELECT DISTINCT owner FROM search_entries WHERE kind IN ('user', 'assistant');

-- name: move_messages
-- The messages of one session up to an event, from now on found as another one's.
UPDATE search_entries SET source = :target
WHERE source = :source AND kind IN ('user', 'assistant', 'call') AND last_seq <= :upto_seq;

-- name: delete_source
-- Everything indexed of one block or session.
DELETE FROM search_entries
WHERE source = :source;

-- part: owned
-- Whose a passage `e` is that may be found, and its kind.
e.owner IN (SELECT value FROM json_each(:owners)) AND e.kind IN (SELECT value FROM json_each(:kinds));

-- part: asked_for
-- The time and the one session of a passage `e` that may be found.
e.at_ms BETWEEN :since_ms AND :until_ms AND (:session = '' OR e.source = :session);

-- part: visible
-- Whether a passage `e` may be found: whose it is, its kind, its time and its session.
{owned} AND {asked_for} AND e.source <> :excluded;

-- part: all_visible
-- All passages `e` that may be found. In two parts, so that the index steps over the session that is left out, however
-- long that has become.
SELECT e.id FROM search_entries AS e WHERE {owned} AND {asked_for} AND e.source < :excluded
    UNION ALL
    SELECT e.id FROM search_entries AS e WHERE {owned} AND {asked_for} AND e.source > :excluded;

-- part: score
-- BM25 with the split identifiers at a lower weight, as if each word were asked for once. By `rank` the order would be
-- the same, but FTS5 keeps where the words stand of everything that it puts in order, which takes twice as long.
bm25(search_fts, 1.0, 0.6) / :times;

-- name: search
-- The visible passages among the best of the whole index, of equal ones the newer first; how many of the best were looked
-- at is the last column.
WITH best AS MATERIALIZED (
    SELECT rowid AS entry, {score} AS score
    FROM search_fts
    WHERE search_fts MATCH :match AND rowid > :after
    ORDER BY score, rowid DESC
    LIMIT :looked_at
)
SELECT e.id, e.kind, e.source, e.item, e.at_ms, -best.score, (SELECT count(*) FROM best)
FROM best
CROSS JOIN search_entries AS e ON e.id = best.entry
WHERE {visible}
ORDER BY best.score, e.id DESC
LIMIT :candidates;

-- name: search_visible
-- The passages that match best of the visible ones, all of which are between two entries: for when most of the index is
-- not visible. The visible ones are gathered first, and looked up there (`+` keeps the word index from being asked once
-- for each of them).
WITH chosen AS MATERIALIZED (
    {all_visible}
), best AS MATERIALIZED (
    SELECT rowid AS entry, {score} AS score
    FROM search_fts
    WHERE search_fts MATCH :match AND rowid BETWEEN :first AND :last AND +rowid IN (SELECT id FROM chosen)
    ORDER BY score, rowid DESC
    LIMIT :candidates
)
SELECT e.id, e.kind, e.source, e.item, e.at_ms, -best.score
FROM best
CROSS JOIN search_entries AS e ON e.id = best.entry
ORDER BY best.score, e.id DESC;

-- name: count_matches
-- In how many passages each term is, counted up to a number; terms, as the index is asked for them, are a JSON list.
SELECT term.key, (
    SELECT count(*) FROM (SELECT 1 FROM search_fts WHERE search_fts MATCH term.value LIMIT :at_most)
)
FROM json_each(:terms) AS term;

-- name: newest_with
-- The newest passages that match.
SELECT text FROM search_entries WHERE id IN (
    SELECT rowid FROM search_fts WHERE search_fts MATCH :match ORDER BY rowid DESC LIMIT :limit
);

-- name: nth_newest_match
-- The passage that stands behind so many newer ones that match.
SELECT rowid FROM search_fts WHERE search_fts MATCH :match ORDER BY rowid DESC LIMIT 1 OFFSET :nth;

-- name: read_candidates
-- Passages that are near in meaning; they are a JSON list of entry ids.
SELECT e.id, e.kind, e.source, e.item, e.at_ms
FROM json_each(:entries) AS wanted
JOIN search_entries AS e ON e.id = wanted.value;

-- name: read_neighbours
-- Those of a JSON list of entry ids that are visible and of one of the sources, another list.
SELECT e.id, e.kind, e.source, e.item, e.at_ms
FROM json_each(:entries) AS wanted
CROSS JOIN search_entries AS e ON e.id = wanted.value
WHERE {visible}
    AND e.source IN (SELECT value FROM json_each(:sources));

-- name: messages_with
-- The visible messages between two entries that have each of a JSON list of terms, with the number of the term.
SELECT e.id, e.kind, e.source, e.item, e.at_ms, term.key
FROM json_each(:terms) AS term
CROSS JOIN search_fts AS f ON f.search_fts MATCH term.value AND f.rowid BETWEEN :first AND :last
CROSS JOIN search_entries AS e ON e.id = f.rowid
WHERE {visible}
    AND e.kind IN (SELECT value FROM json_each(:messages));

-- name: matches_among
-- Those of a JSON list of entries that have each of a list of terms, behind the number of the term.
SELECT term.key, f.rowid
FROM json_each(:terms) AS term
CROSS JOIN search_fts AS f ON f.search_fts MATCH term.value AND f.rowid BETWEEN :first AND :last
WHERE +f.rowid IN (SELECT value FROM json_each(:entries));

-- name: messages_between
-- The newest visible messages of a time.
SELECT e.id, e.kind, e.source, e.item, e.at_ms
FROM search_entries AS e
WHERE {visible}
    AND e.kind IN (SELECT value FROM json_each(:messages))
    AND e.at_ms BETWEEN :first_ms AND :last_ms
ORDER BY e.at_ms DESC, e.id DESC
LIMIT :limit;

-- name: answer_behind
-- The first passage of the last message of the agent behind a user's one and before the next.
SELECT min(id)
FROM search_entries
WHERE source = :source AND item = (
    SELECT a.item
    FROM search_entries AS a
    WHERE a.source = :source AND a.kind = 'assistant' AND a.id > :entry AND a.id < coalesce((
        SELECT min(u.id) FROM search_entries AS u
        WHERE u.source = :source AND u.kind = 'user' AND u.item <> :item AND u.id > :entry
    ), 1 << 62)
    ORDER BY a.id DESC
    LIMIT 1
);

-- name: events_of_stream
-- Those of a JSON list of events that are of one stream.
SELECT e.seq
FROM json_each(:seqs) AS wanted
CROSS JOIN events AS e ON e.seq = wanted.value
WHERE e.stream = :stream;

-- name: events_with_calls
-- Those of a JSON list of events whose message asks for calls. A large one is no note and need not be read.
SELECT e.seq
FROM json_each(:seqs) AS wanted
CROSS JOIN events AS e ON e.seq = wanted.value
WHERE EXISTS (
    SELECT 1 FROM json_each(e.payload, '$.message.parts') AS part WHERE part.value ->> '$.type' = 'tool_call'
);

-- name: read_texts
-- The texts of a JSON list of entries.
SELECT e.id, e.text
FROM json_each(:entries) AS wanted
CROSS JOIN search_entries AS e ON e.id = wanted.value;

-- name: read_found
-- The text of the passages that will be shown, with the label of their block and how often they were recalled.
SELECT e.id, e.kind, e.source, e.item, e.text, e.at_ms, coalesce(b.label, ''), coalesce(r.times, 0), e.last_seq, e.words
FROM json_each(:entries) AS wanted
JOIN search_entries AS e ON e.id = wanted.value
LEFT JOIN blocks AS b ON b.id = e.source
LEFT JOIN recalls AS r ON r.entry = e.id;

-- name: find_model
-- The number of a model.
SELECT id FROM embedding_models WHERE name = :name;

-- name: model_dimensions
-- How many numbers a vector of the model has.
SELECT dimensions FROM embedding_models WHERE id = :id;

-- name: insert_model
-- A model that is used for the first time.
INSERT INTO embedding_models (name, dimensions, used_ms) VALUES (:name, :dimensions, :now_ms);

-- name: use_model
-- A start that uses the model.
UPDATE embedding_models SET used_ms = max(used_ms, :now_ms) WHERE id = :id;

-- name: set_dimensions
-- What the first vector of a model showed.
UPDATE embedding_models SET dimensions = :dimensions WHERE id = :id;

-- name: unused_models
-- Models that no start used since a moment.
SELECT id FROM embedding_models WHERE used_ms < :before_ms;

-- name: delete_model
-- A model with all its vectors.
DELETE FROM embedding_models WHERE id = :id;

-- name: delete_vectors
-- All vectors of a model.
DELETE FROM vectors WHERE model = :model;

-- name: queue_everything
-- Every passage is to be embedded by a model; tool calls are found by their words alone.
INSERT OR IGNORE INTO embedding_queue (model, entry) SELECT :model, id FROM search_entries WHERE kind <> 'call';

-- name: leave_unembedded
-- One passage that no model embeds.
DELETE FROM embedding_queue WHERE entry = :entry;

-- name: waiting
-- Passages that a model has not embedded yet, newest first.
SELECT q.entry, e.text
FROM embedding_queue AS q
JOIN search_entries AS e ON e.id = q.entry
WHERE q.model = :model
ORDER BY q.entry DESC
LIMIT :limit;

-- name: waiting_beside
-- Whether something waits to be embedded that is not of one source.
SELECT 1
FROM embedding_queue AS q
CROSS JOIN search_entries AS e ON e.id = q.entry
WHERE q.model = :model AND e.source <> :source
LIMIT 1;

-- name: count_waiting
-- How many passages a model has not embedded yet, up to a number.
SELECT count(*) FROM (SELECT 1 FROM embedding_queue WHERE model = :model LIMIT :at_most);

-- name: read_words
-- The text of a passage and the parts of its identifiers.
SELECT text, words FROM search_entries WHERE id = :id;

-- name: read_entry
-- The text of a passage and its event.
SELECT text, last_seq FROM search_entries WHERE id = :id;

-- name: store_vector
-- The vector of a passage by one model; the index does not hold it yet.
INSERT INTO vectors (entry, model, dimensions, content_hash, vector, indexed, last_seq)
VALUES (:entry, :model, :dimensions, :content_hash, :vector, 0, :seq)
ON CONFLICT (entry, model) DO UPDATE SET
    dimensions = excluded.dimensions, content_hash = excluded.content_hash, vector = excluded.vector, indexed = 0,
    last_seq = excluded.last_seq;

-- name: unqueue
-- A passage that is embedded.
DELETE FROM embedding_queue WHERE model = :model AND entry = :entry;

-- name: is_behind
-- Whether the codes of a model lack a vector, or have one that is gone.
SELECT 1 WHERE EXISTS (SELECT 1 FROM vectors WHERE model = :model AND indexed = 0)
    OR EXISTS (SELECT 1 FROM index_leftovers WHERE model = :model);

-- name: owner_of_entries
-- The persona or project that finds what is indexed of a block, session or archival entry.
SELECT owner FROM search_entries WHERE source = :source LIMIT 1;

-- name: texts_of_item
-- The passages that are indexed of a message or call, in their order.
SELECT text FROM search_entries WHERE source = :source AND item = :item ORDER BY id;

-- name: indexed_calls
-- The tool calls of a session that are indexed, with the numbers of their events.
SELECT last_seq, text FROM search_entries WHERE source = :source AND kind = 'call';

-- name: texts_of_source
-- The passages that are indexed of an archival entry, in their order.
SELECT text FROM search_entries WHERE source = :source ORDER BY id;

-- name: entries_since
-- How many passages were indexed behind one of them, by what they are of.
SELECT kind, source, count(*) FROM search_entries WHERE id > :after GROUP BY kind, source ORDER BY min(id);

-- name: newest_entry
-- The highest number of a passage; 0 without one.
SELECT coalesce(max(id), 0) FROM search_entries;

-- name: not_indexed
-- Entries whose vectors the codes do not have yet.
SELECT entry FROM vectors WHERE model = :model AND indexed = 0 LIMIT :limit;

-- name: mark_indexed
-- The codes have the vectors of these entries now, apart from those of another size, which they never will (`+` keeps
-- it from going through all that are to be coded).
UPDATE vectors SET indexed = 1 WHERE model = :model AND entry BETWEEN :first AND :last AND +indexed = 0;

-- name: forget_indexed
-- The codes of a model are gone.
UPDATE vectors SET indexed = 0 WHERE model = :model AND indexed = 1;

-- name: forget_indexed_between
-- The codes of these entries are gone.
UPDATE vectors SET indexed = 0 WHERE model = :model AND entry BETWEEN :first AND :last AND indexed = 1;

-- name: leftovers
-- What the codes have of entries that are gone.
SELECT entry FROM index_leftovers WHERE model = :model LIMIT :limit;

-- name: all_leftovers
-- What the codes of any model have of entries that are gone.
SELECT model, entry FROM index_leftovers;

-- name: delete_leftovers
-- The codes have nothing of these entries any more, or something new.
DELETE FROM index_leftovers WHERE model = :model AND entry BETWEEN :first AND :last;

-- name: code_vectors
-- The signs of the vectors of some entries, with their owners.
SELECT v.entry, e.owner, vec_quantize_binary(v.vector)
FROM vectors AS v
JOIN search_entries AS e ON e.id = v.entry
WHERE v.model = :model AND v.entry BETWEEN :first AND :last AND length(v.vector) = :size
ORDER BY v.entry;

-- name: insert_codes
-- The codes of one owner's entries in a portion.
INSERT INTO vector_codes (model, portion, owner, stamp, entries, codes)
VALUES (:model, :portion, :owner, random(), :entries, :codes);

-- name: delete_codes
-- All codes of a portion.
DELETE FROM vector_codes WHERE model = :model AND portion = :portion;

-- name: delete_all_codes
-- All codes of a model.
DELETE FROM vector_codes WHERE model = :model;

-- name: stamp_codes
-- The codes of a model are others now.
UPDATE embedding_models SET codes_stamp = random() WHERE id = :model;

-- name: codes_stamp
-- What changes with every change of a model's codes; 0 before the first.
SELECT codes_stamp FROM embedding_models WHERE id = :model;

-- name: code_stamps
-- Which codes there are.
SELECT portion, owner, stamp FROM vector_codes WHERE model = :model ORDER BY portion, owner;

-- name: read_codes
-- The codes of one owner's entries in a portion.
SELECT entries, codes FROM vector_codes WHERE model = :model AND portion = :portion AND owner = :owner;

-- name: visible_extent
-- How many passages are visible, up to a number, with the first and the last of those.
SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM (
    {all_visible}
    LIMIT :at_most
);

-- name: reaches_visible
-- Whether at least so many passages are visible for sure, where no time and no single session is asked for: the index is
-- enough for that.
SELECT 1 FROM (
    SELECT 1 FROM search_entries AS e WHERE {owned} AND e.source < :excluded
    UNION ALL
    SELECT 1 FROM search_entries AS e WHERE {owned} AND e.source > :excluded
)
LIMIT 1 OFFSET :at_most - 1;

-- name: nearest_of_all
-- The visible passages nearest to a vector, by comparing every one. One without a direction is like nothing.
WITH chosen AS MATERIALIZED (
    {all_visible}
)
SELECT e.id, ifnull(vec_distance_cosine(v.vector, :vector), 1.0) AS distance
FROM chosen AS e
CROSS JOIN vectors AS v ON v.entry = e.id AND v.model = :model
WHERE length(v.vector) = :size
ORDER BY distance, e.id DESC
LIMIT :count;

-- name: visible_vectors
-- The vectors of all visible passages.
SELECT e.id, v.vector
FROM search_entries AS e
CROSS JOIN vectors AS v ON v.entry = e.id AND v.model = :model
WHERE {visible};

-- name: nearest_of
-- Those of a JSON list of entry ids that are visible, nearest to a vector first.
SELECT e.id, ifnull(vec_distance_cosine(v.vector, :vector), 1.0) AS distance
FROM json_each(:entries) AS wanted
CROSS JOIN search_entries AS e ON e.id = wanted.value
CROSS JOIN vectors AS v ON v.entry = e.id AND v.model = :model
WHERE {visible}
    AND length(v.vector) = :size
ORDER BY distance, e.id DESC
LIMIT :count;

-- name: distances
-- How far vectors are from one; the entries are a JSON list of ids. One of zeros, of a text that says nothing, is like
-- none.
SELECT v.entry, ifnull(vec_distance_cosine(v.vector, :vector), 1.0)
FROM json_each(:entries) AS wanted
JOIN vectors AS v ON v.entry = wanted.value AND v.model = :model
WHERE length(v.vector) = :size;

-- name: read_vectors
-- The vectors of a JSON list of entry ids.
SELECT v.entry, v.vector
FROM json_each(:entries) AS wanted
JOIN vectors AS v ON v.entry = wanted.value AND v.model = :model;

-- name: insert_archival
-- A new archival entry.
INSERT INTO archival_entries (
    id, scope, owner, text, text_hash, actor, origin, reason, at_ms, supersedes, verified_ms, check_command, last_seq
)
VALUES (
    :id, :scope, :owner, :text, :text_hash, :actor, :origin, :reason, :at_ms, :supersedes, :verified_ms,
    :check_command, :seq
);

-- name: read_archival
-- One archival entry, with the entry that superseded it.
SELECT a.id, a.scope, a.owner, a.text, a.actor, a.origin, a.reason, a.at_ms, coalesce(a.supersedes, ''),
    coalesce(n.id, ''), a.verified_ms, a.check_command, a.last_seq
FROM archival_entries AS a
LEFT JOIN archival_entries AS n ON n.supersedes = a.id
WHERE a.id = :id;

-- name: list_archival
-- The archival entries of several owners, newest first; the owners are a JSON list of [scope, owner].
SELECT a.id, a.scope, a.owner, a.text, a.actor, a.origin, a.reason, a.at_ms, coalesce(a.supersedes, ''),
    coalesce(n.id, ''), a.verified_ms, a.check_command, a.last_seq
FROM json_each(:owners) AS wanted
JOIN archival_entries AS a ON a.scope = wanted.value ->> 0 AND a.owner = wanted.value ->> 1
LEFT JOIN archival_entries AS n ON n.supersedes = a.id
WHERE (:superseded = 1 OR n.id IS NULL) AND a.at_ms <= :until_ms
ORDER BY a.at_ms DESC, a.rowid DESC
LIMIT :limit;

-- name: same_archival
-- The entry in force with the same text, case and white space aside.
SELECT a.id
FROM archival_entries AS a
LEFT JOIN archival_entries AS n ON n.supersedes = a.id
WHERE a.text_hash = :text_hash AND a.scope = :scope AND a.owner = :owner AND n.id IS NULL
ORDER BY a.at_ms
LIMIT 1;

-- name: verify_archival
-- A fact that was found true again.
UPDATE archival_entries SET verified_ms = :verified_ms, last_seq = :seq WHERE id = :id;

-- name: delete_archival
-- An archival entry that is to be forgotten; what superseded it stays.
DELETE FROM archival_entries WHERE id = :id;

-- name: unlink_archival
-- What superseded a forgotten entry supersedes nothing any more.
UPDATE archival_entries SET supersedes = NULL, last_seq = :seq WHERE supersedes = :id;

-- name: supersede_entries
-- The passages of an archival entry that was superseded.
UPDATE search_entries SET kind = 'superseded', last_seq = :seq WHERE source = :source AND kind = 'archival';

-- name: writes_since
-- The newest writes of a block above a number, with the stream that holds their event, newest first.
SELECT block_updates.number, block_updates.at_ms, block_updates.actor, block_updates.reason, events.stream
FROM block_updates JOIN events ON events.seq = block_updates.last_seq
WHERE block_updates.block_id = :block_id AND block_updates.number > :after
ORDER BY block_updates.number DESC LIMIT :limit;

-- name: changes_since
-- Writes of some blocks after an event, newest first; the blocks are a JSON list of ids.
SELECT blocks.label, block_updates.actor, block_updates.reason, block_updates.at_ms, events.stream,
    block_updates.lines_added, block_updates.lines_removed, block_updates.operation
FROM block_updates
JOIN blocks ON blocks.id = block_updates.block_id
JOIN events ON events.seq = block_updates.last_seq
WHERE block_updates.last_seq > :after AND block_updates.operation <> 'create'
    AND block_updates.block_id IN (SELECT value FROM json_each(:ids)) AND events.stream <> :stream
ORDER BY block_updates.last_seq DESC LIMIT :limit;

-- name: read_cursor
-- What a persona was told of a project, and when it was last at work there.
SELECT told_seq, active_ms FROM cursors WHERE persona = :persona AND project = :project;

-- name: note_activity
-- The persona ended a turn in the project.
INSERT INTO cursors (persona, project, told_seq, active_ms, last_seq)
VALUES (:persona, :project, 0, :at_ms, :seq)
ON CONFLICT (persona, project) DO UPDATE SET
    active_ms = max(active_ms, excluded.active_ms), last_seq = excluded.last_seq;

-- name: move_cursor
-- The persona was told what went on up to an event.
UPDATE cursors SET told_seq = :seq, last_seq = :seq WHERE persona = :persona AND project = :project;

-- name: updates_since
-- The writes of a block above a number and up to another, oldest first, with their data and the stream of their event.
SELECT
    block_updates.number, block_updates.actor, block_updates.origin, block_updates.operation, block_updates.reason,
    block_updates.at_ms, events.stream, block_updates.data
FROM block_updates JOIN events ON events.seq = block_updates.last_seq
WHERE block_updates.block_id = :block_id AND block_updates.number > :after AND block_updates.number <= :head
ORDER BY block_updates.number;

-- name: memory_files
-- The files that blocks were written to in a folder.
SELECT block_id, file, version, file_hash FROM memory_files WHERE folder = :folder ORDER BY file;

-- name: note_memory_file
-- A block was written to a file; the event is that of the block's newest write.
INSERT INTO memory_files (folder, block_id, file, version, file_hash, last_seq)
SELECT :folder, id, :file, :version, :file_hash, last_seq FROM blocks WHERE id = :block_id
ON CONFLICT (folder, block_id) DO UPDATE SET
    file = excluded.file, version = excluded.version, file_hash = excluded.file_hash, last_seq = excluded.last_seq;

-- name: drop_memory_file
-- A file that is no longer kept.
DELETE FROM memory_files WHERE folder = :folder AND block_id = :block_id;

-- name: owner_of_fact
-- Whose a passage is, when it is a fact and of no log.
SELECT e.owner
FROM search_entries AS e
LEFT JOIN blocks AS b ON b.id = e.source
WHERE e.id = :entry AND e.kind IN ('block', 'archival')
    AND coalesce(b.schema ->> 'kind', '') <> 'log' AND e.item NOT LIKE 'log%';

-- name: store_repeat
-- Two passages say nearly the same, as far as both are still there.
INSERT OR IGNORE INTO repeats (entry, other, likeness, told, last_seq)
SELECT e.id, o.id, :likeness, 0, e.last_seq
FROM search_entries AS e
JOIN search_entries AS o ON o.id = :other
WHERE e.id = :entry;

-- name: has_untold
-- Whether a pair was not told.
SELECT 1 FROM repeats WHERE told = 0 LIMIT 1;

-- name: untold_repeats
-- Pairs of facts that say nearly the same and were not told, the likest first. `owners`, and `sources` of blocks that are
-- attached to them, are JSON lists. Every turn asks, so the pairs are gone through first, which CROSS JOIN says, and not all
-- facts.
SELECT r.entry, r.other, CAST(r.likeness AS TEXT), e.kind, e.source, coalesce(eb.label, ''), e.text,
    o.kind, o.source, coalesce(ob.label, ''), o.text
FROM repeats AS r
CROSS JOIN search_entries AS e ON e.id = r.entry
JOIN search_entries AS o ON o.id = r.other
LEFT JOIN blocks AS eb ON eb.id = e.source
LEFT JOIN blocks AS ob ON ob.id = o.source
WHERE r.told = 0
    AND (e.owner IN (SELECT value FROM json_each(:owners)) OR e.source IN (SELECT value FROM json_each(:sources)))
    AND (o.owner IN (SELECT value FROM json_each(:owners)) OR o.source IN (SELECT value FROM json_each(:sources)))
    AND e.kind IN ('block', 'archival') AND o.kind IN ('block', 'archival')
ORDER BY r.likeness DESC, r.entry
LIMIT :limit;

-- name: restore_told_repeat
-- A pair that the model was told of before the index was made again.
INSERT OR REPLACE INTO repeats (entry, other, likeness, told, last_seq) VALUES (:entry, :other, :likeness, 1, :seq);

-- name: mark_repeat_told
-- The model was told of a pair.
UPDATE repeats SET told = 1, last_seq = :seq WHERE entry = :entry AND other = :other;

-- name: seq_of_block
-- The event that changed a block last.
SELECT last_seq FROM blocks WHERE id = :block_id;

-- name: every_archival
-- All archival entries, oldest first, and whether another one supersedes it.
SELECT a.id, a.owner, a.text, a.at_ms, a.last_seq, EXISTS (SELECT 1 FROM archival_entries WHERE supersedes = a.id)
FROM archival_entries AS a ORDER BY a.at_ms, a.rowid;

-- name: count_blocks
-- How many blocks there are.
SELECT count(*) FROM blocks WHERE deleted = 0;

-- name: all_of_blocks
-- Everything that is stored of blocks themselves, also of those that are gone.
SELECT * FROM blocks ORDER BY created_ms, rowid;

-- name: all_of_writes
-- Everything that is stored of the writes of a block, oldest first.
SELECT * FROM block_updates WHERE block_id = :block_id ORDER BY number;

-- name: all_of_archive
-- Everything that is stored of the full snapshot of a block.
SELECT * FROM block_archives WHERE block_id = :block_id;

-- name: bind_entry
-- What an archival entry is beside its text; it holds from now on.
INSERT INTO bound_entries (
    entry, scope, owner, kind, paths, severity, until_ms, status, status_actor, status_ms, status_reason, last_seq, host
)
VALUES (:entry, :scope, :owner, :kind, :paths, :severity, :until_ms, 'active', '', 0, '', :seq, :host);

-- name: set_entry_status
-- An entry holds no longer, or does again.
UPDATE bound_entries
SET status = :status, status_actor = :actor, status_ms = :at_ms, status_reason = :reason, last_seq = :seq
WHERE entry = :entry;

-- name: acting_entries
-- What holds now for several owners and was not superseded, oldest first; the owners are a JSON list of [scope, owner].
SELECT b.entry, b.kind, b.paths, b.severity, b.until_ms, b.status, b.status_actor, b.status_ms, b.status_reason, b.host
FROM json_each(:owners) AS wanted
JOIN bound_entries AS b ON b.scope = wanted.value ->> 0 AND b.owner = wanted.value ->> 1 AND b.status = 'active'
WHERE (b.until_ms IS NULL OR b.until_ms > :now_ms) AND b.host IN ('', :host)
    AND NOT EXISTS (SELECT 1 FROM archival_entries WHERE supersedes = b.entry)
ORDER BY b.last_seq, b.rowid;

-- name: bound_entries
-- All of several owners that were not superseded, also what holds no longer, oldest first.
SELECT b.entry, b.kind, b.paths, b.severity, b.until_ms, b.status, b.status_actor, b.status_ms, b.status_reason, b.host
FROM json_each(:owners) AS wanted
JOIN bound_entries AS b ON b.scope = wanted.value ->> 0 AND b.owner = wanted.value ->> 1
WHERE NOT EXISTS (SELECT 1 FROM archival_entries WHERE supersedes = b.entry)
ORDER BY b.rowid;

-- name: bound_of
-- What some archival entries are beside their texts; the ids are a JSON list.
SELECT b.entry, b.kind, b.paths, b.severity, b.until_ms, b.status, b.status_actor, b.status_ms, b.status_reason, b.host
FROM json_each(:ids) AS wanted
JOIN bound_entries AS b ON b.entry = wanted.value;

-- name: notes_elsewhere
-- Those of some archival entries that are about another machine, or say what ran here and have run out.
SELECT b.entry
FROM json_each(:ids) AS wanted
JOIN bound_entries AS b ON b.entry = wanted.value
WHERE b.host NOT IN ('', :host) OR (b.kind = 'runtime' AND b.until_ms <= :now_ms);

-- name: bound_texts
-- The words of all entries that are not in their texts.
SELECT entry, paths, status_reason FROM bound_entries;

-- name: mask_bound
-- Words were taken out of an entry's patterns or reason.
UPDATE bound_entries SET paths = :paths, status_reason = :reason, last_seq = :seq WHERE entry = :entry;

-- name: begin_fork
-- Memory is forked; nothing of it is written yet.
INSERT INTO memory_forks (id, forked_ms, outcome, last_seq) VALUES (:id, :forked_ms, 'open', :seq);

-- name: end_fork
-- Forked memory was merged or discarded; changes no row when it was before.
UPDATE memory_forks SET outcome = :outcome, last_seq = :seq WHERE id = :id AND outcome = 'open';

-- name: join_fork
-- A session uses forked memory.
INSERT INTO forked_sessions (session_id, fork, last_seq) VALUES (:session_id, :id, :seq);

-- name: fork_of_session
-- The forked memory that a session uses.
SELECT f.id, f.forked_ms
FROM forked_sessions AS s
JOIN memory_forks AS f ON f.id = s.fork
WHERE s.session_id = :session_id AND f.outcome = 'open';

-- name: outcome_of_fork
-- What became of forked memory.
SELECT outcome FROM memory_forks WHERE id = :id;

-- name: note_copy
-- A block of forked memory is a copy of another, up to an update.
INSERT INTO forked_blocks (block_id, origin, origin_head, last_seq) VALUES (:block_id, :origin, :origin_head, :seq);

-- name: origin_of_copy
-- What a block is a copy of, and the last update that both share.
SELECT origin, origin_head FROM forked_blocks WHERE block_id = :block_id;

-- name: copies_of_block
-- The copies of a block.
SELECT block_id FROM forked_blocks WHERE origin = :origin ORDER BY block_id;

-- name: find_block_by_id
-- The text and the facts of one block, also of one that was deleted, forgotten or discarded.
SELECT {block}, b.deleted
FROM blocks AS b
WHERE b.id = :block_id;

-- name: blocks_of_fork
-- Every block that a fork has or had, oldest first; `ending` ends the names of its owners.
SELECT {block}, b.deleted
FROM blocks AS b
WHERE substr(b.owner, -length(:ending)) = :ending
ORDER BY b.created_ms, b.rowid;

-- name: has_blocks
-- Whether there is or was a block of an owner.
SELECT 1 FROM blocks WHERE scope = :scope AND owner = :owner LIMIT 1;

-- name: read_own_writes
-- What a copy was written since it was made.
SELECT number, data, peer, actor, origin, operation, reason, at_ms, target
FROM block_updates
WHERE block_id = :block_id AND number > :after
ORDER BY number;

-- name: worker_forks
-- Open forks that began in a session and that no session uses as its memory: those of its workers.
SELECT f.id, f.forked_ms
FROM memory_forks AS f
JOIN events AS e ON e.seq = f.last_seq
WHERE f.outcome = 'open' AND e.stream = :session_id
AND NOT EXISTS (SELECT 1 FROM forked_sessions AS s WHERE s.fork = f.id)
ORDER BY f.id;

-- name: unused_forks
-- Open forks whose sessions were all deleted before a moment, so that nobody can merge them.
SELECT f.id, f.forked_ms
FROM memory_forks AS f
WHERE f.outcome = 'open' AND NOT EXISTS (
    SELECT 1
    FROM forked_sessions AS s
    JOIN sessions AS x ON x.id = s.session_id
    WHERE s.fork = f.id AND (x.deleted = 0 OR x.deleted_ms >= :before_ms)
) AND NOT EXISTS (
    SELECT 1
    FROM events AS e
    JOIN sessions AS x ON x.id = e.stream
    WHERE e.seq = f.last_seq AND (x.deleted = 0 OR x.deleted_ms >= :before_ms)
)
ORDER BY f.id;
