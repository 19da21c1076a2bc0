-- Statistics that earlier versions gathered while the constellation was small: they made SQLite read whole tables once
-- it had grown.

DROP TABLE IF EXISTS sqlite_stat1;
DROP TABLE IF EXISTS sqlite_stat4;
