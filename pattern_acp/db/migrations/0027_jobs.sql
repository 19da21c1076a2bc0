-- Jobs: work that the user agreed to before it began, and the budgets that it draws on.

CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    state TEXT NOT NULL,
    before TEXT NOT NULL,
    outcome TEXT NOT NULL,
    round INTEGER NOT NULL,
    persona TEXT NOT NULL,
    model TEXT NOT NULL,
    estimate INTEGER NOT NULL,
    turn_id TEXT NOT NULL,
    valid_until_ms INTEGER NOT NULL,
    quoted_seq INTEGER NOT NULL REFERENCES events (seq),
    agreed_seq INTEGER REFERENCES events (seq),
    settled_seq INTEGER REFERENCES events (seq),
    last_seq INTEGER NOT NULL REFERENCES events (seq),
    CHECK (
        before || ' ' || state IN (
            ' quoted', 'quoted quoted', 'quoted agreed', 'quoted failed', 'agreed working', 'agreed failed',
            'working working', 'working settling', 'settling working', 'settling settling', 'settling completed',
            'settling failed'
        )
    ),
    CHECK (round BETWEEN 1 AND 3),
    CHECK ((state IN ('completed', 'failed')) = (outcome <> '')),
    CHECK ((state = 'completed') = (outcome = 'completed')),
    CHECK ((agreed_seq IS NULL) = (state = 'quoted' OR outcome IN ('declined', 'expired'))),
    CHECK ((settled_seq IS NULL) = (outcome = ''))
) STRICT;

CREATE INDEX jobs_by_session ON jobs (session_id, number);

CREATE TABLE job_holds (
    job_id TEXT NOT NULL REFERENCES jobs (id),
    node TEXT NOT NULL,
    meter TEXT NOT NULL CHECK (meter IN ('tokens', 'money', 'time')),
    parent TEXT,
    granted INTEGER CHECK (granted >= 0),
    spent INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
    over INTEGER NOT NULL DEFAULT 0 CHECK (over >= 0),
    released INTEGER NOT NULL DEFAULT 0 CHECK (released >= 0),
    last_seq INTEGER NOT NULL REFERENCES events (seq),
    PRIMARY KEY (job_id, node, meter),
    FOREIGN KEY (job_id, parent, meter) REFERENCES job_holds (job_id, node, meter),
    CHECK ((parent IS NULL) = (node = '')),
    CHECK (spent + released <= granted),
    CHECK (over = 0 OR spent + released = granted)
) STRICT, WITHOUT ROWID;
