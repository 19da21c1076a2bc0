-- Tasks that are kept as files in their project (docs/how-to/tasks.md).

CREATE TABLE task_files (
    folder TEXT NOT NULL,                -- absolute path of the folder
    task_id TEXT NOT NULL REFERENCES tasks (id),
    base TEXT NOT NULL,                  -- the file as it was written: what an edit in it is compared with
    file_hash TEXT NOT NULL,             -- SHA-256 of the file as it was written, or as its edit was taken in
    next_hash TEXT NOT NULL,             -- SHA-256 of the file that is being written; '' for none
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1: the event of the task's write
    PRIMARY KEY (folder, task_id)
) STRICT, WITHOUT ROWID;
