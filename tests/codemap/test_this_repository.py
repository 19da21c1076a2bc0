"""What questions about this repository's own code are answered, judged once by a person."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

import pattern_acp
from pattern_acp.codemap.brief import brief
from pattern_acp.codemap.callers import KnownCallers, impact_of, uses_of
from pattern_acp.codemap.lookups import FindQuery, find, targets_named
from pattern_acp.db.connection import Database
from tests.support.code_index import code_index

pytestmark = pytest.mark.slow  # the index of a repository is built first

ROOT = Path(pattern_acp.__file__).parent.parent
PARTS = ("acp", "bootstrap", "journal", "policy", "session", "tools", "turn")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def index(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Database, None]:
    folder: Path = tmp_path_factory.mktemp("own")
    files = [path for part in PARTS for path in sorted((ROOT / "pattern_acp" / part).rglob("*.py"))]
    files += sorted((ROOT / "tests" / "journal").glob("*.py"))
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}
    async with code_index(folder / "work", sources) as database:
        yield database


def everything(_path: str) -> bool:
    return True


async def test_serve_is_where_the_process_is_served(index: Database):
    answer = await index.read(lambda tx: find(tx, FindQuery("serve"), may_show=everything))
    first = answer.hits[0].symbol
    assert first is not None
    assert (first.path, first.kind, first.name) == ("pattern_acp/bootstrap/serve.py", "function", "serve")


async def test_permission_grants_are_briefed_with_their_store_events_and_gate(index: Database):
    found = await index.read(lambda tx: brief(tx, "permission grants", may_show=everything))
    paths = [item.file.path for item in found.files]
    # Among them are the commands that list grants and take them back.
    assert {"pattern_acp/policy/grants.py", "pattern_acp/session/permission_commands.py"} <= set(paths[:4])
    assert "pattern_acp/journal/events.py" in paths[:6]
    assert {"pattern_acp/turn/permissions.py", "pattern_acp/journal/events.py"} <= set(paths)
    assert sum(item.file.is_test for item in found.files) * 4 <= len(paths)


async def test_callers_of_append_are_those_of_the_journal_and_no_lists(index: Database):
    (symbol,) = (
        await index.read(lambda tx: targets_named(tx, "pattern_acp/journal/writer.py:append", may_show=everything))
    ).symbols
    found = await index.read(lambda tx: uses_of(KnownCallers(tx), symbol))
    around = {(use.path, use.within.name if use.within else "") for use in found.proven}
    assert ("pattern_acp/journal/turn_ends.py", "close_interrupted") in around
    assert "pattern_acp/turn/recorder.py" in {path for path, _ in around}
    assert found.guesses == ()


async def test_a_change_of_the_journals_writer_reaches_the_recorder_the_turn_and_the_writers_tests(index: Database):
    path = "pattern_acp/journal/writer.py"
    found = await index.read(lambda tx: impact_of(tx, (), (path,), depth=2, may_show=everything))
    depths = {item.file.path: item.depth for item in found.reached}
    assert depths["pattern_acp/turn/recorder.py"] == 1
    assert depths["pattern_acp/turn/loop.py"] == 2
    assert "tests/journal/test_writer.py" in {item.file.path for item in found.tests}
