-- A second form of the chain: a salted payload hash, which tells nothing once the salt is gone, over more columns.

ALTER TABLE events ADD COLUMN salt TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN chain INTEGER NOT NULL DEFAULT 1;
