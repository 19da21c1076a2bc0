"""The code map of a real folder: building, refreshing, and what a changed file needs."""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pattern_acp.bootstrap.source_files import list_source_files
from pattern_acp.codemap.model import IndexProgress
from pattern_acp.codemap.service import WorkspaceCodeMap, open_code_maps
from pattern_acp.codemap.store import files_at, imports_of, index_path, symbols_named
from pattern_acp.domain.clock import SystemClock


@pytest.fixture
async def code_map(tmp_path: Path) -> AsyncGenerator[WorkspaceCodeMap, None]:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.py").write_text("import b\n\ndef first():\n    b.second()\n")
    (root / "b.py").write_text("def second():\n    pass\n")
    async with open_code_maps(tmp_path / "cache", list_source_files, SystemClock()) as maps:
        yield await maps.at(str(root))


def put(code_map: WorkspaceCodeMap, name: str, content: str) -> str:
    path = Path(code_map.root, name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    return str(path)


def remove(code_map: WorkspaceCodeMap, name: str) -> None:
    Path(code_map.root, name).unlink()


async def names(code_map: WorkspaceCodeMap, name: str) -> list[str]:
    return [symbol.path for symbol in await code_map.read(lambda tx: symbols_named(tx, name))]


async def imported(code_map: WorkspaceCodeMap, name: str) -> list[str | None]:
    return [found.resolved_path for found in await code_map.read(lambda tx: imports_of(tx, name))]


async def test_nothing_is_built_before_it_is_asked_for(code_map: WorkspaceCodeMap):
    judgement = await code_map.judge()
    assert (judgement.freshness, judgement.listed, judgement.indexed) == ("missing", 2, 0)
    assert judgement.changed == ("a.py", "b.py")


async def test_a_build_tells_its_progress_and_ends_fresh(code_map: WorkspaceCodeMap):
    heard: list[IndexProgress] = []
    judgement = await code_map.prepare(30, heard.append)
    assert (judgement.freshness, judgement.indexed) == ("fresh", 2)
    assert heard[-1] == IndexProgress(2, 2)
    assert await names(code_map, "second") == ["b.py"]
    assert await imported(code_map, "a.py") == ["b.py"]


async def test_an_edit_a_new_file_and_a_deletion_are_stale_until_refreshed(code_map: WorkspaceCodeMap):
    await code_map.prepare(30)
    put(code_map, "a.py", "import c\n")
    remove(code_map, "b.py")
    put(code_map, "c.py", "def third():\n    pass\n")
    judgement = await code_map.judge()
    assert (judgement.freshness, judgement.changed) == ("stale", ("a.py", "b.py", "c.py"))
    assert (await code_map.prepare(30)).freshness == "fresh"
    assert (await names(code_map, "first"), await names(code_map, "second")) == ([], [])
    assert await imported(code_map, "a.py") == ["c.py"]


async def test_an_edit_of_the_same_size_at_the_same_moment_is_seen(code_map: WorkspaceCodeMap):
    await code_map.prepare(30)
    for name in ("fourth", "fifths", "sixths"):
        put(code_map, "b.py", f"def {name}():\n    pass\n")
        assert (await code_map.prepare(30)).freshness == "fresh"
        assert await names(code_map, name) == ["b.py"]


async def test_what_the_agent_changed_is_read_at_once(code_map: WorkspaceCodeMap):
    await code_map.prepare(30)
    path = put(code_map, "b.py", "def changed():\n    pass\n")
    code_map.note_changed([path, "/elsewhere/x.py"])
    await code_map.start_refresh().wait()
    assert await names(code_map, "changed") == ["b.py"]


async def test_an_import_of_a_file_that_comes_later_is_resolved_then(code_map: WorkspaceCodeMap):
    put(code_map, "a.py", "from lib.late import thing\n")
    await code_map.prepare(30)
    put(code_map, "lib/late.py", "thing = 1\n")
    await code_map.prepare(30)
    assert await imported(code_map, "a.py") == ["lib/late.py"]
    remove(code_map, "lib/late.py")
    await code_map.prepare(30)
    assert await imported(code_map, "a.py") == [None]


async def test_ignored_files_leave_the_index_when_the_rules_change(code_map: WorkspaceCodeMap):
    await code_map.prepare(30)
    put(code_map, ".gitignore", "b.py\n")
    assert (await code_map.judge()).freshness == "stale"
    await code_map.prepare(30)
    paths = [record.path for record in await code_map.read(lambda tx: files_at(tx, ""))]
    assert paths == [".gitignore", "a.py"]


async def test_without_time_the_answer_is_what_there_is(code_map: WorkspaceCodeMap):
    assert (await code_map.prepare(0)).freshness == "missing"
    await code_map.start_refresh().wait()
    assert (await code_map.judge()).freshness == "fresh"


async def test_a_second_process_finds_what_the_first_built(code_map: WorkspaceCodeMap, tmp_path: Path):
    await code_map.prepare(30)
    assert index_path(tmp_path / "cache", code_map.root).exists()
    async with open_code_maps(tmp_path / "cache", list_source_files, SystemClock()) as maps:
        assert (await (await maps.at(code_map.root)).judge()).freshness == "fresh"


def git(code_map: WorkspaceCodeMap, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(("git", "-C", code_map.root, *who, *arguments), check=True, capture_output=True)


@pytest.mark.needs("git")
async def test_another_branch_is_stale_until_refreshed_and_the_way_back_too(code_map: WorkspaceCodeMap):
    git(code_map, "init", "-q", "-b", "main")
    git(code_map, "add", ".")
    git(code_map, "commit", "-q", "-m", "one")
    await code_map.prepare(30)
    assert (await code_map.judge()).freshness == "fresh"
    git(code_map, "switch", "-q", "-c", "other")
    put(code_map, "b.py", "def branch():\n    pass\n")
    git(code_map, "commit", "-q", "-am", "two")
    await code_map.prepare(30)
    git(code_map, "switch", "-q", "main")
    assert (await code_map.judge()).changed == ("b.py",)
    assert (await code_map.prepare(30)).freshness == "fresh"
    assert (await names(code_map, "branch"), await names(code_map, "second")) == ([], ["b.py"])


async def test_what_the_agent_changes_while_an_index_is_built_is_in_it_too(code_map: WorkspaceCodeMap):
    for number in range(110):
        put(code_map, f"m{number}.py", "x = 1\n")

    def change_once(progress: IndexProgress) -> None:
        if progress.done < progress.total:
            code_map.note_changed([put(code_map, "b.py", "def meanwhile():\n    pass\n")])

    assert (await code_map.prepare(30, change_once)).freshness == "fresh"
    assert await names(code_map, "meanwhile") == ["b.py"]


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="every name of a file is text there")
async def test_a_file_whose_name_is_no_text_keeps_none_of_the_others_out(code_map: WorkspaceCodeMap):
    put(code_map, os.fsdecode(b"bad\xff.py"), "def third():\n    pass\n")
    judgement = await code_map.prepare(30)
    assert (judgement.freshness, judgement.listed) == ("fresh", 2)
    assert await names(code_map, "second") == ["b.py"]
