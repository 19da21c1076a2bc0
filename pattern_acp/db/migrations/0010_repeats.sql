-- Passages that say nearly the same by an embedder's vectors, found after they were stored, and whether the model was told.

CREATE TABLE repeats (
    entry INTEGER NOT NULL REFERENCES search_entries (id) ON DELETE CASCADE,
    other INTEGER NOT NULL REFERENCES search_entries (id) ON DELETE CASCADE,
    likeness REAL NOT NULL,
    told INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq),
    PRIMARY KEY (entry, other)
) STRICT, WITHOUT ROWID;
CREATE INDEX repeats_by_other ON repeats (other);
