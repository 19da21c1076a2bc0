-- Events that came from another constellation, in an archive (docs/carry.md).

CREATE TABLE origins (
    seq INTEGER PRIMARY KEY REFERENCES events (seq),
    hash TEXT NOT NULL,                  -- the hash of the event there: what tells it from all others
    store TEXT NOT NULL,                 -- the constellation that it was recorded in: the hash of its first event
    store_seq INTEGER NOT NULL,          -- its number there
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- the event of the import (rule R1)
) STRICT;

CREATE INDEX origins_by_hash ON origins (hash);

CREATE INDEX origins_by_event ON origins (last_seq);
