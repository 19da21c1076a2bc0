-- The turns in which tasks were worked on: what they cost is measured by these.

CREATE TABLE task_turns (
    task_id TEXT NOT NULL REFERENCES tasks (id),
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,               -- a turn with a request to a model while its session worked on the task
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1: the event of the first such request
    PRIMARY KEY (task_id, session_id, turn_id)
) STRICT, WITHOUT ROWID;
