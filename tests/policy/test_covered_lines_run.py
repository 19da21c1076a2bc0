"""What an allowance covers is handed to a real shell: nothing on the disk is different afterwards."""

import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pattern_acp.domain.access import RunCommand
from pattern_acp.policy.grant_matching import any_covers, prefix_pattern
from pattern_acp.policy.grants import Effect, Grant, GrantKind
from tests.support.programs import problem_of

SHELLS = [path for name in ("bash", "sh") if (path := shutil.which(name)) is not None and not problem_of(name)]
ALLOWED = tuple(
    Grant(Effect.ALLOW, GrantKind.COMMAND_PREFIX, prefix_pattern((name,), "/", None))
    for name in ("ls", "cat", "echo", "head", "sort", "true")
)
STARTS = ("ls", "cat a.txt", "echo x", "head a.txt", "sort a.txt", "cd sub && cat b.txt")
PIECES = (
    "ls", "cat", "a.txt", "sub/b.txt", "cd sub", "true", "touch ran", "$(touch ran)", "`touch ran`", "{touch,ran}",
    "ran", ";", "&", "&&", "|", "||", "\n", "'", '"', "\\", "#", ">", ">>", ">|", "<", "(", ")", "{", "}", "$", "=",
    "~", "*", "!", "?", "[", "]", "<<E", "\nE\n", "<<<", "$'", "\\x3b", "\\073", "x=1", "2>&1", ">/dev/null",
    "&>/dev/null", "3>&-", "1>", ">&", "\\\n", "\t", " ", "\r", "\u00a0", "\v", "if", "then", "fi", "time", "coproc",
    "--output=ran", "-o", "-", "--", "é",
)  # fmt: skip

pytestmark = pytest.mark.skipif(not SHELLS, reason="needs a POSIX shell")


@pytest.fixture(scope="module")
def folder() -> Generator[Path, None, None]:
    with tempfile.TemporaryDirectory(prefix="pattern-acp-test-") as name:
        place = Path(name).resolve()
        (place / "sub").mkdir()
        (place / "a.txt").write_text("a\n", encoding="utf-8")
        (place / "sub" / "b.txt").write_text("b\n", encoding="utf-8")
        yield place


def kept(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


@pytest.mark.slow
@example("echo", [("", "&>/dev/null"), (" ", "touch ran")])
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.sampled_from(STARTS),
    st.lists(st.tuples(st.sampled_from(("", "", " ")), st.sampled_from(PIECES)), min_size=1, max_size=5),
)
def test_a_covered_line_changes_nothing_when_it_runs(folder: Path, start: str, pieces: list[tuple[str, str]]):
    line = start + "".join(gap + piece for gap, piece in pieces)
    if not any_covers(ALLOWED, RunCommand(line, str(folder)), roots=(str(folder),)):
        return
    before = kept(folder)
    for shell in SHELLS:
        subprocess.run([shell, "-c", line], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert kept(folder) == before
