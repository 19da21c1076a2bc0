-- Notes that are about one machine only, such as what runs there.

ALTER TABLE bound_entries ADD COLUMN host TEXT NOT NULL DEFAULT '';
