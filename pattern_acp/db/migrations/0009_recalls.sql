-- How often a passage was recalled, so that a full block can name the lines that are oldest and least recalled.

CREATE TABLE recalls (
    entry INTEGER PRIMARY KEY REFERENCES search_entries (id) ON DELETE CASCADE,
    times INTEGER NOT NULL,
    last_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq)
) STRICT;
