-- Contents of files that sessions changed, for checkpoints; each content once, however many checkpoints need it.

CREATE TABLE file_contents (
    hash TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    encoding TEXT NOT NULL,
    content BLOB NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq)
) STRICT, WITHOUT ROWID;
