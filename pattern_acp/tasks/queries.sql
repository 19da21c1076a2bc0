-- Statements of tasks. Every write carries last_seq, the number of its event (rule R1).

-- name: newest_list
-- The newest list of an owner that has room for one more task.
SELECT id, base, base_update, head_update, size
FROM task_lists
WHERE scope = :scope AND owner = :owner AND size < :most
ORDER BY rowid DESC
LIMIT 1;

-- name: get_list
-- One list.
SELECT id, base, base_update, head_update, size FROM task_lists WHERE id = :id;

-- name: list_updates
-- The updates of a list behind one, in order.
SELECT data FROM task_updates WHERE list_id = :id AND number > :after ORDER BY number;

-- name: every_list
-- All lists, or those that a session has written to.
SELECT id, base, base_update, head_update
FROM task_lists AS l
WHERE :session = '' OR EXISTS (
    SELECT 1 FROM task_updates AS u JOIN events AS e ON e.seq = u.last_seq
    WHERE u.list_id = l.id AND e.stream = :session
);

-- name: drop_updates
-- Drop the updates of a list that begins anew.
DELETE FROM task_updates WHERE list_id = :id;

-- name: rows_of_list
-- The tasks of a list as their rows say.
SELECT task FROM tasks WHERE list_id = :id ORDER BY number;

-- name: insert_list
-- Add a list.
INSERT INTO task_lists (id, scope, owner, size, base, base_update, head_update, last_seq)
VALUES (:id, :scope, :owner, :size, :base, 1, 1, :seq);

-- name: adopt_list
-- Add a list of another constellation, whose base holds all of it.
INSERT INTO task_lists (id, scope, owner, size, base, base_update, head_update, last_seq)
VALUES (:id, :scope, :owner, :size, :base, :head, :head, :seq);

-- name: updates_of
-- The updates of a list with the events of their writes, in order.
SELECT number, data, last_seq FROM task_updates WHERE list_id = :id ORDER BY number;

-- name: with_taken_number
-- The tasks of a list whose number a task of another list has.
SELECT t.id
FROM tasks AS t
WHERE t.list_id = :id AND EXISTS (SELECT 1 FROM tasks WHERE number = t.number AND list_id <> t.list_id)
ORDER BY t.number, t.id;

-- name: with_older_number
-- The tasks whose number an older one has; ids sort by age.
SELECT t.id, t.scope, t.owner
FROM tasks AS t
WHERE EXISTS (SELECT 1 FROM tasks WHERE number = t.number AND id < t.id)
ORDER BY t.id;

-- name: advance_list
-- Note a further update of a list, with a new base where one is due.
UPDATE task_lists
SET head_update = :number, size = :size, last_seq = :seq,
    base = coalesce(:base, base), base_update = iif(:base IS NULL, base_update, :number)
WHERE id = :id AND head_update = :number - 1;

-- name: insert_update
-- Add an update of a list.
INSERT INTO task_updates (list_id, number, data, last_seq) VALUES (:id, :number, :data, :seq);

-- name: next_number
-- The number of the next task.
SELECT coalesce(max(number), 0) + 1 FROM tasks;

-- name: put_task
-- Write the row of a task as its document says.
INSERT INTO tasks (id, number, list_id, scope, owner, status, rank, doer, session, words, updated_ms, task, last_seq)
SELECT :id, :number, id, scope, owner, :status, :rank, :doer, :session, :words, :updated_ms, :task, :seq
FROM task_lists
WHERE id = :list_id
ON CONFLICT (id) DO UPDATE
SET number = excluded.number, status = excluded.status, rank = excluded.rank, doer = excluded.doer,
    session = excluded.session, words = excluded.words, updated_ms = excluded.updated_ms, task = excluded.task,
    last_seq = excluded.last_seq;

-- name: owner_of_list
-- The one whose tasks a list holds.
SELECT owner FROM task_lists WHERE id = :id;

-- name: every_task
-- All tasks as their rows say.
SELECT list_id, task, last_seq FROM tasks ORDER BY number;

-- name: tasks_since
-- The tasks of several owners that were changed behind an event, the newest first.
SELECT t.task
FROM json_each(:owners) AS o
CROSS JOIN tasks AS t ON t.scope = o.value ->> 0 AND t.owner = o.value ->> 1
WHERE t.last_seq > :after AND t.session <> :session
ORDER BY t.last_seq DESC
LIMIT :most;

-- name: delete_edges
-- Delete the edges of a task that its document has no longer; `keep` is a JSON list of [kind, target].
DELETE FROM task_edges
WHERE source = :source AND json_array(kind, target) NOT IN (SELECT value FROM json_each(:keep));

-- name: put_edge
-- Add an edge.
INSERT OR IGNORE INTO task_edges (source, kind, target, last_seq) VALUES (:source, :kind, :target, :seq);

-- name: find_task
-- A task in sight, by its id or number, with its list; the owners are a JSON list of [scope, owner].
SELECT t.list_id, t.task
FROM tasks AS t
WHERE (t.id = :id OR t.number = :number)
    AND EXISTS (
        SELECT 1 FROM json_each(:owners) AS o WHERE o.value ->> 0 = t.scope AND o.value ->> 1 = t.owner
    );

-- name: active_task
-- The task that a session works on: the one it touched last.
SELECT list_id, task FROM tasks
WHERE session = :session AND status IN ('in_progress', 'blocked')
ORDER BY updated_ms DESC, number DESC
LIMIT 1;

-- name: works_on_task
-- Whether a session works on a task.
SELECT 1 FROM tasks WHERE session = :session AND status IN ('in_progress', 'blocked') LIMIT 1;

-- name: note_task_turn
-- Note that a model was asked in a turn while its session worked on a task.
INSERT OR IGNORE INTO task_turns (task_id, session_id, turn_id, last_seq)
SELECT id, :session, :turn, :seq FROM tasks
WHERE session = :session AND session <> '' AND status IN ('in_progress', 'blocked')
ORDER BY updated_ms DESC, number DESC
LIMIT 1;

-- name: effort_of_task
-- Tokens, money and time of the turns of a task that have ended.
SELECT
    (
        SELECT coalesce(sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens), 0) FROM usage
        WHERE session_id IN (SELECT session_id FROM task_turns WHERE task_id = :id)
            AND (session_id, turn_id) IN (SELECT session_id, turn_id FROM task_turns WHERE task_id = :id)
    ),
    (
        SELECT coalesce(sum(micro_units), 0) FROM usage
        WHERE session_id IN (SELECT session_id FROM task_turns WHERE task_id = :id)
            AND (session_id, turn_id) IN (SELECT session_id, turn_id FROM task_turns WHERE task_id = :id)
    ),
    (
        SELECT coalesce(sum(ended.at_ms - begun.at_ms), 0)
        FROM task_turns AS t
        JOIN events AS begun ON begun.stream = t.session_id AND begun.item = t.turn_id AND begun.kind = 'turn_started'
        JOIN events AS ended ON ended.stream = t.session_id AND ended.item = t.turn_id AND ended.kind = 'turn_ended'
        WHERE t.task_id = :id
    );

-- name: has_tasks
-- Whether these owners have an open task.
SELECT 1
FROM json_each(:owners) AS o
JOIN tasks AS t ON t.scope = o.value ->> 0 AND t.owner = o.value ->> 1
WHERE t.status IN ('todo', 'in_progress', 'blocked')
LIMIT 1;

-- name: list_tasks
-- The tasks of several owners that fit, by state and priority, then number. Conditions that are NULL are none.
SELECT t.task
FROM json_each(:owners) AS o
CROSS JOIN tasks AS t ON t.scope = o.value ->> 0 AND t.owner = o.value ->> 1
WHERE (:statuses IS NULL OR t.status IN (SELECT value FROM json_each(:statuses)))
    AND (:doers IS NULL OR t.doer IN (SELECT value FROM json_each(:doers)))
    AND (:keyword = '' OR instr(t.words, :keyword) > 0)
    AND (:label = '' OR EXISTS (SELECT 1 FROM json_each(t.task, '$.labels') WHERE value = :label))
    AND (
        :blocks IS NULL
        OR EXISTS (SELECT 1 FROM task_edges AS e WHERE e.source = t.id AND e.kind = 'blocks' AND e.target = :blocks)
    )
    AND (
        :blocked IS NULL
        OR :blocked = EXISTS (
            SELECT 1 FROM task_edges AS e JOIN tasks AS b ON b.id = e.source
            WHERE e.target = t.id AND e.kind = 'blocks' AND b.status IN ('todo', 'in_progress', 'blocked')
        )
    )
ORDER BY t.rank, t.number
LIMIT :most;

-- name: blockers_of
-- The open tasks that block each of these tasks; `ids` is a JSON list.
SELECT e.target, b.number
FROM json_each(:ids) AS wanted
JOIN task_edges AS e ON e.target = wanted.value AND e.kind = 'blocks'
JOIN tasks AS b ON b.id = e.source
WHERE b.status IN ('todo', 'in_progress', 'blocked')
ORDER BY b.number;

-- name: edges_at
-- The edges that begin (:forward) or end (:reverse) at these tasks; `ids` is a JSON list.
SELECT e.source, e.kind, e.target
FROM json_each(:ids) AS wanted
JOIN task_edges AS e ON e.source = wanted.value
WHERE :forward
UNION
SELECT e.source, e.kind, e.target
FROM json_each(:ids) AS wanted
JOIN task_edges AS e ON e.target = wanted.value
WHERE :reverse
ORDER BY 1, 2, 3;

-- name: tasks_of
-- These tasks in sight; `ids` and the owners are JSON lists.
SELECT t.task
FROM json_each(:ids) AS wanted
JOIN tasks AS t ON t.id = wanted.value
JOIN json_each(:owners) AS o ON o.value ->> 0 = t.scope AND o.value ->> 1 = t.owner
ORDER BY wanted.key;

-- name: imported_tasks
-- The tasks in sight that were imported, by the place they come from; the owners are a JSON list of [scope, owner].
SELECT t.task -> 'source' ->> 'key', t.task
FROM json_each(:owners) AS o
JOIN tasks AS t ON t.scope = o.value ->> 0 AND t.owner = o.value ->> 1
WHERE t.task -> 'source' ->> 'key' IS NOT NULL;

-- name: tasks_in_files
-- The tasks of an owner that are open or have a file in a folder, with what was written there.
SELECT t.task, f.base, f.file_hash, f.next_hash
FROM tasks AS t
LEFT JOIN task_files AS f ON f.task_id = t.id AND f.folder = :folder
WHERE t.scope = :scope AND t.owner = :owner AND (t.status IN ('todo', 'in_progress', 'blocked') OR f.task_id IS NOT NULL)
ORDER BY t.number
LIMIT :most;

-- name: task_files_of_list
-- The files of the tasks of a list.
SELECT f.folder, f.task_id, f.base FROM task_files AS f JOIN tasks AS t ON t.id = f.task_id WHERE t.list_id = :id;

-- name: put_task_file
-- A file of a task is being written, or was.
INSERT INTO task_files (folder, task_id, base, file_hash, next_hash, last_seq)
SELECT :folder, id, :base, :file_hash, :next_hash, last_seq FROM tasks WHERE id = :task_id
ON CONFLICT (folder, task_id) DO UPDATE SET
    base = excluded.base, file_hash = excluded.file_hash, next_hash = excluded.next_hash, last_seq = excluded.last_seq;

-- name: put_task_file_base
-- The text that an edit in a file is compared with.
UPDATE task_files SET base = :base WHERE folder = :folder AND task_id = :task_id;

-- name: drop_task_file
-- A file that is no longer kept.
DELETE FROM task_files WHERE folder = :folder AND task_id = :task_id;

-- name: has_task_files
-- Whether a folder has files of tasks.
SELECT 1 FROM task_files WHERE folder = :folder LIMIT 1;

-- part: task_of
-- Number and title of the task that the session `s` works on, or ''.
coalesce(
        (
            SELECT '#' || t.number || ' ' || (t.task ->> 'title') FROM tasks AS t
            WHERE t.session = s.id AND t.session <> '' AND t.status IN ('in_progress', 'blocked')
            ORDER BY t.updated_ms DESC
            LIMIT 1
        ), ''
    );

-- part: claims_with_session
-- Claims of open sessions, with who makes them.
SELECT c.session_id, c.path, c.kind, c.agent, c.made_ms, c.renewed_ms, s.title, s.persona,
    l.pid, l.process_started, l.host, l.renewed_ms,
    iif(w.id IS NULL, '', coalesce(nullif(w.title, ''), 'Untitled')), {task_of}
FROM claims AS c
JOIN leases AS l ON l.session_id = c.session_id
JOIN sessions AS s ON s.id = c.session_id
LEFT JOIN sessions AS w ON w.id = c.wanted_by;

-- name: read_claims
-- The claims of open sessions, with who makes them.
{claims_with_session}
ORDER BY c.made_ms, c.path;

-- name: claims_near
-- The claims of other sessions that may meet something: on one of these paths, below one of these folders, or patterns.
{claims_with_session}
WHERE c.session_id <> :session AND c.renewed_ms > :after AND (
    c.kind = 'glob'
    OR c.path IN (SELECT value FROM json_each(:paths))
    OR EXISTS (SELECT 1 FROM json_each(:below) AS b WHERE substr(c.path, 1, length(b.value)) = b.value)
)
ORDER BY c.made_ms, c.path;

-- name: read_board
-- The open sessions that had a prompt, or claim something, the newest step first, each with its budget as it was set
-- there, and what it used.
SELECT
    s.id, s.title, s.cwd, s.persona, s.model, s.updated_ms, l.pid, l.process_started, l.host, l.renewed_ms, l.editor,
    (
        SELECT e.payload ->> 'allowance' FROM events AS e
        WHERE e.stream = s.id AND e.item = '' AND e.kind = 'budget_changed' AND e.payload ->> 'scope' = 'session'
        ORDER BY e.session_seq DESC LIMIT 1
    ),
    (
        SELECT coalesce(sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens), 0)
        FROM usage WHERE session_id = s.id
    ),
    (SELECT coalesce(sum(micro_units), 0) FROM usage WHERE session_id = s.id),
    {task_of}
FROM leases AS l
JOIN sessions AS s ON s.id = l.session_id
WHERE s.deleted = 0 AND (s.prompt_count > 0 OR EXISTS (SELECT 1 FROM claims AS c WHERE c.session_id = s.id))
ORDER BY s.updated_ms DESC;

-- name: last_steps
-- The newest steps of every open session, oldest first: prompts, calls, questions and answers, also of subagents.
SELECT
    e.stream, e.at_ms, e.item, iif(e.kind = 'subagent_recorded', e.payload ->> 'kind', e.kind),
    iif(e.kind = 'subagent_recorded', e.payload -> 'payload', e.payload) ->> '$.call.name',
    iif(e.kind = 'subagent_recorded', e.payload -> 'payload', e.payload) ->> '$.call.title',
    iif(e.kind = 'subagent_recorded', e.payload -> 'payload', e.payload) ->> '$.reason',
    coalesce(e.payload ->> '$.stop_reason', e.payload ->> '$.command')
FROM leases AS l
JOIN events AS e ON e.stream = l.session_id
WHERE e.seq IN (
    SELECT seq FROM events
    WHERE stream = l.session_id AND (
        kind IN (
            'turn_started', 'turn_ended', 'tool_call_started', 'tool_call_finished', 'permission_asked',
            'permission_answered'
        )
        OR kind = 'subagent_recorded' AND payload ->> 'kind' IN (
            'tool_call_started', 'tool_call_finished', 'permission_asked', 'permission_answered'
        )
    )
    ORDER BY session_seq DESC LIMIT 32
)
ORDER BY e.seq;

-- name: origin_of_fork
-- The session that a fork comes from, and when it was forked.
SELECT parent, created_ms FROM sessions WHERE id = :session AND parent IS NOT NULL;

-- name: put_claim
-- Claim a path, or renew the claim.
INSERT INTO claims (session_id, path, kind, agent, made_ms, renewed_ms)
VALUES (:session, :path, :kind, :agent, :now_ms, :now_ms)
ON CONFLICT (session_id, path) DO UPDATE SET kind = :kind, agent = :agent, renewed_ms = :now_ms;

-- name: renew_claims
-- Renew all claims of a session that works.
UPDATE claims SET renewed_ms = :now_ms WHERE session_id = :session;

-- name: claimed_paths
-- The paths that a session claims.
SELECT path FROM claims WHERE session_id = :session;

-- name: want_claim
-- Note that a session asks for a claim of another one.
UPDATE claims SET wanted_by = :wanted_by WHERE session_id = :session AND path = :path;

-- name: wanted_claims
-- The claims of a session that other open sessions ask for, with who that is.
SELECT c.path, c.wanted_by, s.title, s.persona
FROM claims AS c
JOIN sessions AS s ON s.id = c.wanted_by
JOIN leases AS l ON l.session_id = c.wanted_by
WHERE c.session_id = :session AND c.wanted_by <> ''
ORDER BY c.path;

-- name: hand_over_claims
-- Give the claims of a session, or one, to the open sessions that ask for them.
INSERT INTO claims (session_id, path, kind, agent, made_ms, renewed_ms)
SELECT c.wanted_by, c.path, c.kind, '', :now_ms, :now_ms
FROM claims AS c
JOIN leases AS l ON l.session_id = c.wanted_by
WHERE c.session_id = :session AND c.wanted_by <> :session AND (:path = '' OR c.path = :path)
ON CONFLICT (session_id, path) DO UPDATE SET renewed_ms = :now_ms;

-- name: release_claims
-- Give back the claims of a session, or one.
DELETE FROM claims WHERE session_id = :session AND (:path = '' OR path = :path);

-- name: drop_ended_claims
-- Forget claims of sessions that were closed, and old ones.
DELETE FROM claims
WHERE renewed_ms < :before OR NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.session_id = claims.session_id);
