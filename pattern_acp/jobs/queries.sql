-- Statements of jobs and their holds. Every write carries last_seq, the number of its event (rule R1).

-- name: next_job
-- The number of the next job.
SELECT coalesce(max(number), 0) + 1 FROM jobs;

-- name: read_job
-- One job by its id.
SELECT id, number, session_id, state, before, outcome, round, persona, model, estimate, turn_id, valid_until_ms,
    quoted_seq, agreed_seq, settled_seq, last_seq
FROM jobs WHERE id = :id;

-- name: job_numbered
-- One job by its number.
SELECT id, number, session_id, state, before, outcome, round, persona, model, estimate, turn_id, valid_until_ms,
    quoted_seq, agreed_seq, settled_seq, last_seq
FROM jobs WHERE number = :number;

-- name: list_jobs
-- The newest jobs.
SELECT id, number, session_id, state, before, outcome, round, persona, model, estimate, turn_id, valid_until_ms,
    quoted_seq, agreed_seq, settled_seq, last_seq
FROM jobs ORDER BY number DESC LIMIT :limit;

-- name: jobs_of_session
-- All jobs of a session, oldest first.
SELECT id, number, session_id, state, before, outcome, round, persona, model, estimate, turn_id, valid_until_ms,
    quoted_seq, agreed_seq, settled_seq, last_seq
FROM jobs WHERE session_id = :session ORDER BY number;

-- name: insert_job
-- Add a job.
INSERT INTO jobs (id, number, session_id, state, before, outcome, round, persona, model, estimate, turn_id,
    valid_until_ms, quoted_seq, last_seq)
VALUES (:id, :number, :session, :state, '', '', :round, :persona, :model, :estimate, :turn, :valid_until_ms, :seq, :seq);

-- name: move_job
-- Move a job.
UPDATE jobs
SET before = state, state = :state, outcome = :outcome, round = :round, persona = :persona, model = :model,
    estimate = :estimate, turn_id = :turn, valid_until_ms = :valid_until_ms, quoted_seq = :quoted, agreed_seq = :agreed,
    settled_seq = :settled, last_seq = :seq
WHERE id = :id;

-- name: open_hold
-- Set aside the part of one meter.
INSERT INTO job_holds (job_id, node, meter, parent, granted, last_seq)
VALUES (:job, :node, :meter, :parent, :granted, :seq);

-- name: read_hold
-- One meter of one node.
SELECT job_id, node, meter, parent, granted, spent, over, released FROM job_holds
WHERE job_id = :job AND node = :node AND meter = :meter;

-- name: list_holds
-- All meters of a job.
SELECT job_id, node, meter, parent, granted, spent, over, released FROM job_holds
WHERE job_id = :job ORDER BY node, meter;

-- name: draw_hold
-- Use an amount; what does not fit is noted beside.
UPDATE job_holds
SET spent = iif(granted IS NULL, spent + :amount, min(granted - released, spent + :amount)),
    over = over + iif(granted IS NULL, 0, max(0, spent + released + :amount - granted)),
    last_seq = :seq
WHERE job_id = :job AND node = :node AND meter = :meter;

-- name: extend_hold
-- Give the job more; what was used beyond the old end counts as spent.
UPDATE job_holds
SET granted = :granted, spent = min(:granted, spent + over), over = max(0, spent + over - :granted), last_seq = :seq
WHERE job_id = :job AND node = '' AND meter = :meter AND granted <= :granted;

-- name: release_holds
-- Give back what is left of all nodes.
UPDATE job_holds SET released = granted - spent, last_seq = :seq WHERE job_id = :job AND granted IS NOT NULL;

-- name: past_jobs
-- Estimates and tokens of the newest jobs of a persona and model that were worked on to their end.
SELECT jobs.estimate, job_holds.spent + job_holds.over
FROM jobs JOIN job_holds ON job_holds.job_id = jobs.id AND job_holds.node = '' AND job_holds.meter = 'tokens'
WHERE jobs.persona = :persona AND jobs.model = :model AND jobs.outcome IN ('completed', 'checks failed')
    AND jobs.estimate > 0
ORDER BY jobs.number DESC LIMIT :limit;
