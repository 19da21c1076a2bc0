-- Signs of vectors, which search goes through instead of an index of sqlite-vec (ADR 0026). They are made again from
-- the vectors, and what older programs indexed is dropped by the next start that has sqlite-vec.

ALTER TABLE embedding_models ADD COLUMN codes_stamp INTEGER NOT NULL DEFAULT 0;

CREATE TABLE vector_codes (
    model INTEGER NOT NULL REFERENCES embedding_models (id) ON DELETE CASCADE,
    portion INTEGER NOT NULL,            -- 128 entries: the id of each, divided by that
    owner TEXT NOT NULL,                 -- whose entries these are
    stamp INTEGER NOT NULL,              -- chance; another one after each change
    entries BLOB NOT NULL,               -- their ids, 64 bits each
    codes BLOB NOT NULL,                 -- one bit a dimension, 1 where the number is above 0; in the order of the ids
    PRIMARY KEY (model, portion, owner)
) STRICT, WITHOUT ROWID;

UPDATE vectors SET indexed = 0 WHERE indexed = 1;
