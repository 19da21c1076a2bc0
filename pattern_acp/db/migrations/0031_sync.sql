-- How far memory was exchanged with the user's other devices (docs/how-to/sync.md). It says nothing about what happened: without
-- these rows all of it is told and read once more.

CREATE TABLE sync_device (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    device TEXT NOT NULL,                -- what this device is called there: random
    host TEXT NOT NULL,                  -- the machine that it is; on another one it takes another name
    place TEXT NOT NULL,                 -- the constellation's file, for the same reason
    number INTEGER NOT NULL,             -- the last segment that it wrote, or was about to
    upto INTEGER NOT NULL,               -- the event up to which its segments say all
    whole INTEGER NOT NULL,              -- the last segment that said all by itself
    choice TEXT NOT NULL                 -- what the segments leave out, and whom they call what: a hash
) STRICT;

CREATE TABLE sync_peers (
    device TEXT PRIMARY KEY,
    host TEXT NOT NULL,                  -- what its user calls it; '' before anything of it was read
    number INTEGER NOT NULL,             -- its last segment that was taken over
    seen INTEGER NOT NULL,               -- the last segment of this device that it had then
    at_ms INTEGER NOT NULL,              -- when it wrote it
    revoked INTEGER NOT NULL CHECK (revoked IN (0, 1)), -- 1: nothing of it is taken over any more
    problem TEXT NOT NULL                -- why the next one cannot be taken over; '' where nothing is wrong
) STRICT;
