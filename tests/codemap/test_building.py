"""Building in another process: what ends it, who may build, and that a kill leaves what was read."""

import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest

from pattern_acp.bootstrap.source_files import list_source_files
from pattern_acp.codemap.indexing import (
    LEASE_MS,
    BuildLease,
    compare,
    index_files,
    known_files,
    read_file,
    read_in_process,
)
from pattern_acp.codemap.model import IndexProgress
from pattern_acp.codemap.recording import add_listed
from pattern_acp.codemap.service import LEASED_FILES, open_code_maps
from pattern_acp.codemap.store import files_at, open_index
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import WorkspaceError
from tests.support.constellation import FakeClock


@pytest.fixture
async def index(tmp_path: Path) -> AsyncGenerator[Database, None]:
    async with open_index(tmp_path / "index.db", clock=SystemClock()) as database:
        yield database


def make_files(root: Path, count: int) -> list[str]:
    root.mkdir()
    names = [f"m{number:04}.py" for number in range(count)]
    for name in names:
        (root / name).write_text(f"def f_{name[1:5]}():\n    pass\n")
    return names


def die_at(fatal: str, index: str, root: str, paths: Sequence[str], repeat: Sequence[str]) -> int:
    """`index_files` with a grammar that ends the process at one file."""
    if fatal in paths:
        os.kill(os.getpid(), signal.SIGKILL)
    return index_files(index, root, paths, repeat)


def hang_at(slow: str, index: str, root: str, paths: Sequence[str], repeat: Sequence[str]) -> int:
    """`index_files` with a grammar that never ends with one file."""
    if slow in paths:
        time.sleep(60)
    return index_files(index, root, paths, repeat)


def hang_with_several(index: str, root: str, paths: Sequence[str], repeat: Sequence[str]) -> int:
    """`index_files` with a grammar that only ends when it has one file to read."""
    if len(paths) > 1:
        time.sleep(60)
    return index_files(index, root, paths, repeat)


async def statuses(database: Database) -> dict[str, str]:
    return {record.path: record.status for record in await database.read(lambda tx: files_at(tx, ""))}


@pytest.mark.slow
async def test_a_grammar_that_ends_the_process_costs_one_file(index: Database, tmp_path: Path):
    names = make_files(tmp_path / "work", 4)
    work = partial(die_at, names[2])
    await read_in_process(index, str(tmp_path / "work"), names, work=work)
    assert await statuses(index) == {name: "unparsable" if name == names[2] else "parsed" for name in names}
    listing = list_source_files(str(tmp_path / "work"), threading.Event())
    assert compare(str(tmp_path / "work"), listing, await index.read(known_files), {}).to_read == ()


async def test_a_grammar_that_hangs_with_one_file_costs_that_file(index: Database, tmp_path: Path):
    names = make_files(tmp_path / "work", 1)
    work = partial(hang_at, names[0])
    await read_in_process(index, str(tmp_path / "work"), names, work=work, seconds=(1.0, 1.0))
    assert await statuses(index) == {names[0]: "unparsable"}


async def test_files_among_which_a_grammar_hangs_are_read_one_by_one(index: Database, tmp_path: Path):
    names = make_files(tmp_path / "work", 2)
    await read_in_process(index, str(tmp_path / "work"), names, work=hang_with_several, seconds=(1.0, 60.0))
    assert await statuses(index) == dict.fromkeys(names, "parsed")


def die(index: str, root: str, paths: Sequence[str], repeat: Sequence[str]) -> int:
    """A machine on which no process gets anywhere."""
    os.kill(os.getpid(), signal.SIGKILL)
    return len((index, root, *paths, *repeat))


async def test_where_no_process_can_run_no_file_is_blamed(index: Database, tmp_path: Path):
    names = make_files(tmp_path / "work", 2)
    with pytest.raises(WorkspaceError, match="cannot be started"):
        await read_in_process(index, str(tmp_path / "work"), names, work=die)
    assert await statuses(index) == {}


async def test_a_refresh_that_fails_ends_nothing_else(tmp_path: Path):
    make_files(tmp_path / "work", 60)
    async with open_code_maps(tmp_path / "cache", list_source_files, SystemClock()) as maps:
        code_map = await maps.at(str(tmp_path / "work"))
        for path in sorted((tmp_path / "cache").rglob("index-*")):
            await anyio.Path(path).unlink()
        assert (await code_map.prepare(60)).freshness == "missing"
        assert (await (await maps.at(code_map.root)).prepare(60)).freshness == "fresh"


async def test_progress_counts_files_up_to_all_of_them(index: Database, tmp_path: Path):
    names = make_files(tmp_path / "work", 100)
    heard: list[IndexProgress] = []
    await read_in_process(index, str(tmp_path / "work"), names, report=heard.append)
    assert heard == [IndexProgress(48, 100), IndexProgress(96, 100), IndexProgress(100, 100)]


async def test_what_was_read_before_a_cancel_stays_and_the_next_build_goes_on(tmp_path: Path):
    make_files(tmp_path / "work", 120)
    async with open_code_maps(tmp_path / "cache", list_source_files, SystemClock()) as maps:
        code_map = await maps.at(str(tmp_path / "work"))
        first = anyio.Event()

        def tell(progress: IndexProgress) -> None:
            if progress.done:
                first.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(code_map.prepare, 60, tell)
            await first.wait()
            tasks.cancel_scope.cancel()
    async with open_code_maps(tmp_path / "cache", list_source_files, SystemClock()) as maps:
        code_map = await maps.at(str(tmp_path / "work"))
        judgement = await code_map.judge()
        assert judgement.freshness == "partial"
        assert judgement.indexed >= 48
        assert (await code_map.prepare(60)).freshness == "fresh"


async def test_two_agents_that_build_at_once_end_with_one_index(tmp_path: Path):
    make_files(tmp_path / "work", LEASED_FILES + 20)
    clock = SystemClock()
    heard: list[IndexProgress] = []
    async with (
        open_code_maps(tmp_path / "cache", list_source_files, clock) as mine,
        open_code_maps(tmp_path / "cache", list_source_files, clock) as yours,
        anyio.create_task_group() as tasks,
    ):
        maps = [await each.at(str(tmp_path / "work")) for each in (mine, yours)]
        for code_map in maps:
            tasks.start_soon(code_map.prepare, 60, heard.append)
        for code_map in maps:
            assert (await code_map.prepare(60)).freshness == "fresh"
    assert len([each for each in heard if each.done == each.total]) == 1


async def test_the_lease_of_an_agent_that_died_ends_by_itself(index: Database):
    clock = FakeClock()
    dead, other = BuildLease(index, "dead", clock), BuildLease(index, "other", clock)
    assert await dead.renew()
    assert not await other.renew()
    clock.advance(LEASE_MS + 1)
    assert await other.renew()
    assert not await dead.renew()
    await dead.give_up()
    assert not await dead.renew()
    await other.give_up()
    assert await dead.renew()


async def test_an_index_that_is_deleted_while_it_is_open_is_built_anew(tmp_path: Path):
    make_files(tmp_path / "work", 2)
    async with open_code_maps(tmp_path / "cache", list_source_files, SystemClock()) as maps:
        code_map = await maps.at(str(tmp_path / "work"))
        assert (await code_map.prepare(60)).freshness == "fresh"
        for path in sorted((tmp_path / "cache").rglob("index-*")):
            await anyio.Path(path).unlink()
        await anyio.Path(tmp_path, "work", "new.py").write_text("x = 1\n")
        assert (await code_map.prepare(60)).freshness == "stale"
        assert (await (await maps.at(str(tmp_path / "work"))).prepare(60)).freshness == "fresh"


async def test_files_that_are_gone_when_they_are_read_are_left_alone(index: Database, tmp_path: Path):
    names = make_files(tmp_path / "work", 1)
    await index.write(lambda tx: add_listed(tx, ["gone.py"]))
    await read_in_process(index, str(tmp_path / "work"), ["gone.py", *names])
    assert await statuses(index) == {"gone.py": "pending", names[0]: "parsed"}


@pytest.mark.parametrize(
    ("name", "source", "encoding"),
    [
        ("a.py", "def first():\r\n    pass\r\n", "utf-8-sig"),
        ("A.java", "class first {}\r\n", "utf-8-sig"),
        ("a.cs", "class first { }\r\n", "utf-16"),
        ("a.ts", "export function first(): void {}\n", "utf-8-sig"),
    ],
)
def test_the_first_definition_behind_a_byte_order_mark_is_known(tmp_path: Path, name: str, source: str, encoding: str):
    (tmp_path / name).write_bytes(source.encode(encoding))
    read = read_file(str(tmp_path), name)
    assert read is not None
    assert read.facts is not None
    assert [(one.name, one.line) for one in read.facts.symbols] == [("first", 1)]
