from pathlib import Path

import apsw

from pattern_acp.db.backup import quick_check
from pattern_acp.db.connection import open_database
from pattern_acp.db.raw import connect
from tests.support.constellation import FakeClock, temporary_constellation


async def test_a_sound_file_has_no_problems():
    async with temporary_constellation() as constellation:
        assert await constellation.database.read(quick_check) == ()


async def test_a_reference_to_a_missing_row_is_a_problem(tmp_path: Path):
    path = tmp_path / "constellation.db"
    async with open_database(path, clock=FakeClock()):
        pass
    raw = connect(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    raw.execute("INSERT INTO leases VALUES ('nobody', 'h', 1, '', '', 0, 0, '')")
    raw.close()
    async with open_database(path, clock=FakeClock()) as database:
        assert await database.read(quick_check) == ("row 1 of leases refers to a row of sessions that is missing",)
