from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from pattern_acp.bootstrap.code_maps import ServedCode
from pattern_acp.codemap.model import IndexProgress
from pattern_acp.codemap.store import symbols_named
from pattern_acp.config.load import process_environment
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import WorkspaceError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("def first(): pass\n")
    return folder


@pytest.fixture
async def code(tmp_path: Path) -> AsyncGenerator[ServedCode, None]:
    async with anyio.create_task_group() as tasks:
        yield ServedCode(tasks, tmp_path / "cache", process_environment(), SystemClock())
        tasks.cancel_scope.cancel()


async def ignored(progress: IndexProgress) -> None:
    del progress


def places(name: str):
    def question(tx: Transaction) -> list[str]:
        return [f"{symbol.path}:{symbol.line}" for symbol in symbols_named(tx, name)]

    return question


async def test_the_first_question_builds_the_index_and_tells_its_progress(code: ServedCode, root: Path):
    told: list[IndexProgress] = []

    async def tell(progress: IndexProgress) -> None:
        told.append(progress)

    found, state = await code.ask(str(root), places("first"), on_progress=tell)
    assert found == ["a.py:1"]
    assert (state.judgement.freshness, state.building) == ("fresh", False)
    assert told == [IndexProgress(1, 1)]


async def test_a_file_that_the_agent_changed_is_in_the_next_answer(code: ServedCode, root: Path):
    await code.ask(str(root), places("first"), on_progress=ignored)
    (root / "a.py").write_text("\ndef first(): pass\n")
    code.note_changed((str(root / "a.py"),))
    assert (await code.ask(str(root), places("first"), on_progress=ignored))[0] == ["a.py:2"]
    (root / "b.py").write_text("def second(): pass\n")
    code.note_command_ended()
    found, state = await code.ask(str(root), places("second"), on_progress=ignored)
    assert (found, state.judgement.freshness) == (["b.py:1"], "fresh")


async def test_before_a_question_changes_are_no_matter(code: ServedCode):
    code.note_changed(("/anything.py",))
    code.note_command_ended()


async def test_an_index_that_cannot_be_used_is_a_sentence_and_the_next_question_tries_again(
    code: ServedCode, root: Path, tmp_path: Path
):
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(WorkspaceError, match="The code map cannot be used"):
        await code.ask(str(root), places("first"), on_progress=ignored)
    (tmp_path / "cache").unlink()
    assert (await code.ask(str(root), places("first"), on_progress=ignored))[0] == ["a.py:1"]


async def test_a_failure_to_show_progress_is_told_as_it_is(code: ServedCode, root: Path):
    async def fail(progress: IndexProgress) -> None:
        raise WorkspaceError(f"No place to show {progress.total}.")

    with pytest.raises(WorkspaceError, match="No place to show 1"):
        await code.ask(str(root), places("first"), on_progress=fail)


async def test_what_changed_since_the_last_commit_is_asked_of_git(code: ServedCode, root: Path):
    with pytest.raises(WorkspaceError, match="in no git repository"):
        await code.changed_files(str(root))
