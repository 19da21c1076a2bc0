"""The code map in the real process."""

import contextlib
from pathlib import Path

import anyio
import pytest

from pattern_acp.jsonrpc.messages import ConnectionClosedError, RemoteError
from tests.support.editor import FakeEditor
from tests.support.process import Launch, running_process

pytestmark = pytest.mark.e2e

FILES = 600
"""So many are not read within the moment after the first question."""


def a_project(folder: Path, files: int) -> Path:
    project = folder / "project"
    project.mkdir()
    body = "\n".join(f"def helper_{n}(a, b):\n    return other_{n}(a) + b\n" for n in range(40))
    for number in range(files):
        (project / f"module_{number}.py").write_text(f"{body}\n\nclass Only{number}:\n    pass\n")
    return project


async def test_code_is_found_and_still_known_to_the_next_process(tmp_path: Path):
    project = a_project(tmp_path, 3)
    for _ in range(2):
        async with running_process(Launch(tmp_path)) as agent:
            session = await agent.editor.open_session(str(project))
            await agent.editor.prompt(session, "/code Only2")
            assert "[module\\_2.py:122](" in agent.editor.said()
            assert "*freshness: fresh*" in agent.editor.said()
            await agent.close_input()
            assert await agent.wait() == 0
            assert agent.stderr() == ""


async def test_nothing_of_the_project_is_imported_by_the_process_that_reads_sources(tmp_path: Path):
    project = a_project(tmp_path, 1)
    for name in ("anyio", "pickle", "tree_sitter", "pattern_acp"):
        (project / f"{name}.py").write_text("import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n")
    async with running_process(Launch(tmp_path, cwd=str(project))) as agent:
        session = await agent.editor.open_session(str(project))
        await agent.editor.prompt(session, "/code Only0")
        assert "[module\\_0.py:122](" in agent.editor.said()
        await agent.close_input()
        assert await agent.wait() == 0
        assert agent.stderr() == ""
    assert not (project / "ran").exists()


async def _ask(editor: FakeEditor, session: str) -> None:
    with contextlib.suppress(RemoteError, ConnectionClosedError):
        await editor.prompt(session, "/code helper_3")


async def test_an_index_that_is_being_built_does_not_hold_the_process(tmp_path: Path):
    project = a_project(tmp_path, FILES)
    async with running_process(Launch(tmp_path)) as agent:
        session = await agent.editor.open_session(str(project))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_ask, agent.editor, session)
            await agent.editor.wait_until(lambda: "Indexing the code" in str(agent.editor.updates))
            await agent.close_input()
            assert await agent.wait() == 0
            tasks.cancel_scope.cancel()
