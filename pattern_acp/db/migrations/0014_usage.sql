-- What every model request used and cost, so that sums over days, models, projects and sessions read no journal.

CREATE TABLE usage (
    last_seq INTEGER PRIMARY KEY REFERENCES events (seq),
    at_ms INTEGER NOT NULL,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    turn_id TEXT NOT NULL,
    subagent TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    thinking_tokens INTEGER NOT NULL,
    micro_units INTEGER,
    prices TEXT NOT NULL
) STRICT;

CREATE INDEX usage_by_time ON usage (at_ms);
CREATE INDEX usage_by_session ON usage (session_id, last_seq);

-- Requests before this schema: their event has the session's cost so far, of which each one's is the difference, and
-- not the model, which is taken to be the session's.
INSERT INTO usage
WITH reported AS (
    SELECT
        seq, at_ms, stream,
        CASE kind WHEN 'usage_reported' THEN '' ELSE json_extract(payload, '$.name') END AS subagent,
        CASE kind WHEN 'usage_reported' THEN payload ELSE json_extract(payload, '$.event') END AS body
    FROM events
    WHERE payload IS NOT NULL AND (
        kind = 'usage_reported' OR (kind = 'subagent_recorded' AND json_extract(payload, '$.kind') = 'usage_reported')
    )
),
counted AS (
    SELECT
        *, json_extract(body, '$.cost.micro_units') AS so_far,
        lag(json_extract(body, '$.cost.micro_units'), 1, 0) OVER (PARTITION BY stream ORDER BY seq) AS before
    FROM reported
)
SELECT
    counted.seq, counted.at_ms, sessions.id, json_extract(body, '$.turn_id'), subagent, sessions.model,
    coalesce(json_extract(body, '$.usage.input_tokens'), 0), coalesce(json_extract(body, '$.usage.output_tokens'), 0),
    coalesce(json_extract(body, '$.usage.cache_read_tokens'), 0),
    coalesce(json_extract(body, '$.usage.cache_write_tokens'), 0),
    coalesce(json_extract(body, '$.usage.thinking_tokens'), 0),
    CASE WHEN so_far IS NULL THEN NULL ELSE max(so_far - coalesce(before, 0), 0) END, ''
FROM counted JOIN sessions ON sessions.id = counted.stream;
