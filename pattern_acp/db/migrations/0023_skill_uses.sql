-- How often each skill was loaded: counted here, so that the files of skills stay as they are.

CREATE TABLE skill_uses (
    source TEXT NOT NULL,                -- its tier, with the name of its bundle
    name TEXT NOT NULL,
    loads INTEGER NOT NULL,
    used_ms INTEGER NOT NULL,            -- when it was loaded last
    last_seq INTEGER NOT NULL REFERENCES events (seq), -- rule R1
    PRIMARY KEY (source, name)
) STRICT, WITHOUT ROWID;
