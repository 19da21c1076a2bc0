"""One whole way with a server that we did not write: pyright's, which is among the development dependencies."""

import shutil
import sys
from pathlib import Path

import pyright
import pytest

from pattern_acp.config.settings import LspSettings
from pattern_acp.lsp.model import Span
from tests.support.language_servers import language_servers
from tests.support.programs import problem_of

PROGRAM = shutil.which("pyright-langserver", path=str(Path(pyright.__file__).parents[4] / "bin")) or shutil.which(
    "pyright-langserver"
)

# The wrapper needs PATH for its own interpreter and node.
SEARCH = f"{Path(PROGRAM or sys.executable).parent}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"


@pytest.mark.e2e
@pytest.mark.skipif(PROGRAM is None, reason="pyright-langserver is not installed")
async def test_pyright_tells_what_an_edit_broke_and_renames_with_emoji_before_it(tmp_path: Path):
    problem = problem_of("pyright", environment={"PATH": SEARCH, "HOME": str(tmp_path / ".home")})
    if problem:
        pytest.skip(problem)
    path = tmp_path / "greet.py"
    before = "def greet(name: str) -> str:\n    return name\n\n\nold: int = 'old error'\n"
    after = "def greet(name: str) -> str:\n    return name\n\n\nold: int = 'old error'\nnew = '😀' + greet(1)\n"
    path.write_text(before, encoding="utf-8")
    settings = LspSettings(wait_seconds=40)
    async with language_servers(tmp_path, settings, path=SEARCH) as servers:
        await servers.note_before(str(path), before)
        path.write_text(after, encoding="utf-8")
        (error,) = (await servers.introduced({str(path): after})).errors
        assert (error.line, error.code) == (6, "reportArgumentType")
        assert after.splitlines()[5][error.column - 1 :] == "1)"
        at = Span(5, 13, 5, 18)
        (place,) = await servers.definition(str(path), after, at)
        assert (Path(place.path).name, place.span.line) == ("greet.py", 0)
        (edits,) = await servers.rename(str(path), after, at, "hail")
        assert [(edit.span.line, edit.span.unit) for edit in edits.edits] == [(0, 4), (5, 13)]
