-- The user's own memory in the constellations of projects: how far each has that of another, and what was forgotten in
-- one and has to go from others.

CREATE TABLE replica_marks (
    source TEXT PRIMARY KEY,             -- name of the other constellation of this machine
    upto INTEGER NOT NULL,               -- its event up to which its user's memory is here
    hash TEXT NOT NULL                   -- the hash of that event: another one there, such as of a backup, is read anew
) STRICT, WITHOUT ROWID;

CREATE TABLE replica_forgettings (
    id TEXT NOT NULL,
    target TEXT NOT NULL,                -- name of a constellation that has not followed
    at_ms INTEGER NOT NULL,              -- when it was forgotten
    sealed BLOB NOT NULL,                -- the words, encrypted with a key that is not in this file
    PRIMARY KEY (id, target)
) STRICT, WITHOUT ROWID;
