-- Segments are written by the event that changed a row last, and these tables are large. What is packed from now on is
-- packed with zstd, which older programs cannot read: the version tells them so.

CREATE INDEX file_contents_by_event ON file_contents (last_seq);

CREATE INDEX archival_entries_by_event ON archival_entries (last_seq);
