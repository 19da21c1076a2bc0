-- How much the user last let each model think.

CREATE TABLE thinking_choices (
    model TEXT PRIMARY KEY,              -- PROVIDER/MODEL
    level TEXT NOT NULL,                 -- auto, off, low, medium, high, max
    last_seq INTEGER NOT NULL REFERENCES events (seq) -- rule R1
) STRICT, WITHOUT ROWID;
