"""The tables of an index file.

Owns: its schema and version. Must not know: who reads or writes. The index can be computed again, so there are no
migrations: a file of another version has another name and is deleted (`store.py`).
"""

from pattern_acp.db.migrate import Migration

INDEX_VERSION = 1
"""Raise it with every change of the schema, of a query of a language, or of what is read out of a file."""

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE files (
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE,
  base_name TEXT NOT NULL,  -- the last part of path, lower case
  language TEXT NOT NULL,
  status TEXT NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  read_ns INTEGER NOT NULL,  -- when it was read, by the same clock as mtime_ns
  content_hash TEXT NOT NULL,
  lines INTEGER NOT NULL,
  is_test INTEGER NOT NULL,
  note TEXT NOT NULL
) STRICT;
CREATE INDEX files_base_name ON files (base_name);

CREATE TABLE symbols (
  id INTEGER PRIMARY KEY,
  file_id INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
  parent_id INTEGER,  -- a symbol of the same file
  name TEXT NOT NULL,
  folded TEXT NOT NULL,  -- the name in lower case without underscores and dashes: getUser and get_user are getuser
  words TEXT NOT NULL,  -- its words in lower case between spaces: ' get user '
  qualified_name TEXT NOT NULL,
  kind TEXT NOT NULL,
  line INTEGER NOT NULL,
  end_line INTEGER NOT NULL,
  column_number INTEGER NOT NULL,
  signature TEXT NOT NULL,
  exported INTEGER NOT NULL
) STRICT;
CREATE INDEX symbols_file ON symbols (file_id);
CREATE INDEX symbols_name ON symbols (name);
CREATE INDEX symbols_folded ON symbols (folded, words);

CREATE TABLE imports (
  id INTEGER PRIMARY KEY,
  file_id INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
  module TEXT NOT NULL,
  tail TEXT NOT NULL,  -- the last part of module without an ending, lower case
  name TEXT NOT NULL,
  folded TEXT NOT NULL,  -- name in lower case
  local TEXT NOT NULL,
  line INTEGER NOT NULL,
  resolved_path TEXT
) STRICT;
CREATE INDEX imports_file ON imports (file_id);
CREATE INDEX imports_tail ON imports (tail);
CREATE INDEX imports_name ON imports (name);
CREATE INDEX imports_folded ON imports (folded);
CREATE INDEX imports_resolved ON imports (resolved_path);

CREATE TABLE refs (
  file_id INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
  line INTEGER NOT NULL,
  column_number INTEGER NOT NULL,
  name TEXT NOT NULL,
  receiver TEXT NOT NULL,
  kind TEXT NOT NULL,
  symbol_id INTEGER,
  count INTEGER NOT NULL,
  PRIMARY KEY (file_id, line, column_number, name, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX refs_name ON refs (name, kind);
"""

MIGRATIONS = (Migration(INDEX_VERSION, "codemap", _SCHEMA),)
"""What `db.connection.open_database` is given for an index file."""
