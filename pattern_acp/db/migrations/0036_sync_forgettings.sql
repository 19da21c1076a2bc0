-- What this device, or another one, has forgotten and others have to hear of.

CREATE TABLE sync_forgettings (
    id TEXT PRIMARY KEY,
    at_ms INTEGER NOT NULL,              -- when it was forgotten first
    sealed BLOB NOT NULL,                -- the words, encrypted with the key of sync, which is not in this file
    followed INTEGER NOT NULL CHECK (followed IN (0, 1)), -- 1: they were forgotten here
    told INTEGER NOT NULL                -- the first segment of this device that has it; 0 before
) STRICT, WITHOUT ROWID;
