-- The history of memory: what each write did, blocks that were forgotten, and events whose words were taken out.

ALTER TABLE block_updates ADD COLUMN target INTEGER;

ALTER TABLE block_updates ADD COLUMN size INTEGER;

ALTER TABLE block_updates ADD COLUMN lines_added INTEGER;

ALTER TABLE block_updates ADD COLUMN lines_removed INTEGER;

ALTER TABLE blocks ADD COLUMN history_from INTEGER NOT NULL DEFAULT 1;

CREATE TABLE redactions (
    event_seq INTEGER NOT NULL REFERENCES events (seq),
    last_seq INTEGER NOT NULL REFERENCES events (seq),
    payload_hash TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (event_seq, last_seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX redactions_by_audit ON redactions (last_seq);
