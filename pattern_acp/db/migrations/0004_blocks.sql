-- Blocks that carry more: what they hold, who may write them, when they are in context, and to whom they are shared.

ALTER TABLE blocks ADD COLUMN schema TEXT NOT NULL DEFAULT '{"kind":"text"}';

ALTER TABLE blocks ADD COLUMN permission TEXT NOT NULL DEFAULT 'read_write';

ALTER TABLE blocks ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;

ALTER TABLE blocks ADD COLUMN tier TEXT NOT NULL DEFAULT 'core';

ALTER TABLE blocks ADD COLUMN conflicts TEXT NOT NULL DEFAULT '';

CREATE TABLE block_shares (
    block_id TEXT NOT NULL REFERENCES blocks (id),
    scope TEXT NOT NULL,
    owner TEXT NOT NULL,
    permission TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    last_seq INTEGER NOT NULL REFERENCES events (seq),
    PRIMARY KEY (block_id, scope, owner)
) STRICT, WITHOUT ROWID;

CREATE INDEX block_shares_by_owner ON block_shares (scope, owner);
