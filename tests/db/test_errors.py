import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from pattern_acp.db import errors
from pattern_acp.db.errors import translate
from pattern_acp.domain.errors import DatabaseError

EXPECTED: dict[str, type[DatabaseError]] = {
    "BusyError": errors.DatabaseBusyError,
    "LockedError": errors.DatabaseBusyError,
    "ProtocolError": errors.DatabaseBusyError,
    "ReadOnlyError": errors.DatabaseReadOnlyError,
    "PermissionsError": errors.DatabaseReadOnlyError,
    "AuthError": errors.DatabaseReadOnlyError,
    "CorruptError": errors.DatabaseCorruptError,
    "NotADBError": errors.DatabaseCorruptError,
    "FormatError": errors.DatabaseCorruptError,
    "CantOpenError": errors.DatabaseUnreachableError,
    "IOError": errors.DatabaseUnreachableError,
    "NoLFSError": errors.DatabaseUnreachableError,
    "FullError": errors.DiskFullError,
    "ConstraintError": errors.ConstraintError,
    "MismatchError": errors.ConstraintError,
    "TooBigError": errors.ConstraintError,
}
DRIVER_ERRORS = sorted(
    name for name, kind in vars(apsw).items() if isinstance(kind, type) and issubclass(kind, apsw.Error)
)


def test_the_driver_has_the_errors_we_expect():
    assert set(EXPECTED) <= set(DRIVER_ERRORS)


@pytest.mark.parametrize("name", DRIVER_ERRORS)
def test_every_error_of_the_driver_becomes_one_of_ours_with_a_sentence(name: str):
    driver_error = vars(apsw)[name]("the detail")
    ours = translate(driver_error, Path("some") / "constellation.db")
    assert type(ours) is EXPECTED.get(name, DatabaseError)
    assert "constellation.db" in ours.sentence
    assert "the detail" in ours.sentence
    assert ours.sentence.endswith(".")


@pytest.mark.parametrize("name", ["BusyError", "ProtocolError", "IOError"])
def test_where_a_disk_may_have_no_locks_the_way_to_another_one_is_named(name: str):
    assert "PATTERN_ACP_HOME" in translate(vars(apsw)[name]("the detail"), Path("constellation.db")).sentence


_FAILED_WRITE = """
import resource, sys
from pathlib import Path
import apsw
from pattern_acp.db.errors import translate
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
error = apsw.IOError("disk I/O error")
error.extendedresult = apsw.SQLITE_IOERR_WRITE
print(translate(error, Path(sys.argv[1])).sentence)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize(("large", "is_limit"), [("", False), (".db", True), (".db-wal", True), (".db-journal", True)])
def test_a_failed_write_is_of_the_limit_of_files_only_where_a_file_is_nearly_so_large(
    tmp_path: Path, large: str, *, is_limit: bool
):
    path, limit = tmp_path / "constellation.db", 8_388_608
    path.write_bytes(b"")
    if large:
        with open(path.with_suffix(large), "wb") as file:
            file.truncate(limit - 4096)
    said = subprocess.run(
        [sys.executable, "-B", "-c", _FAILED_WRITE, str(path), str(limit)], capture_output=True, text=True, check=True
    ).stdout
    assert ("ulimit" in said) is is_limit
    assert ("check that" in said) is not is_limit
