-- What requests that run will use by our estimate, so that those side by side do not all spend the same rest of a
-- budget; and which counts are an estimate, since the request was cut before its provider counted it.

CREATE TABLE reservations (
    id TEXT PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    holder TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    micro_units INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE usage ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0;
