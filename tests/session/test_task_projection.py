"""Tasks kept as files in the project: written, edited, merged, in git, and after a process that died in the middle."""

import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pattern_acp.config.settings import Settings, TaskSettings
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import RandomIds, SystemClock
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.forgotten import forget_passage
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.task_commands import renew_task_files
from pattern_acp.tasks import store
from pattern_acp.tasks.forget import forget_in_tasks
from pattern_acp.tasks.model import TaskPatch
from pattern_acp.tasks.service import TaskDesk, Tasks
from tests.support.agent import RunningAgent, running_agent
from tests.support.scripts import Turn, calls, says

ON = Settings(editor_deadline_seconds=30, mode="auto", tasks=TaskSettings(files=True))


@asynccontextmanager
async def keeping_files(*turns: Turn) -> AsyncGenerator[tuple[RunningAgent, str, Path], None]:
    """An agent, a session, and its folder of files, in which there is one of a task."""
    async with running_agent(ScriptedProvider(list(turns)), settings=ON) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/tasks add Write the parser")
        yield agent, session, agent.folder / ".pattern" / "tasks"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


async def said(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    await agent.editor.prompt(session, text)
    return agent.editor.said()


async def test_no_file_is_written_unless_asked_for():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/tasks add Write the parser")
        assert not (agent.folder / ".pattern").exists()


@pytest.mark.needs("git")
async def test_each_open_task_is_a_file_and_git_sees_a_change_only_where_its_task_changed():
    async with keeping_files(says("Hello.")) as (agent, session, folder):
        await agent.editor.prompt(session, "/tasks add Test it")
        assert sorted(path.name for path in folder.iterdir()) == ["1.md", "2.md"]
        assert (folder / "1.md").read_text(encoding="utf-8").startswith("---\ntask: 1\ntitle: Write the parser\n")

        def git(*words: str) -> str:
            named = ("git", "-c", "user.name=n", "-c", "user.email=e@x", "-C", str(agent.folder), *words)
            return subprocess.run(named, check=True, capture_output=True, text=True, timeout=50).stdout

        git("init", "-q")
        git("add", ".pattern")
        git("commit", "-qm", "Begin")
        before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
        for prompt in ("/tasks", "Hello", "/task 1"):
            await agent.editor.prompt(session, prompt)
        assert git("status", "--short", "--", ".pattern") == ""
        assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
        await agent.editor.prompt(session, "/task 2 comment Not yet")
        assert git("status", "--short", "--", ".pattern") == " M .pattern/tasks/2.md\n"
        assert "+- " in git("diff")


async def test_an_edit_is_taken_in_and_merged_with_what_was_changed_since_the_file_was_written():
    async with keeping_files() as (agent, session, folder):
        edit(folder / "1.md", "title: Write the parser", "title: Write the fast parser")
        edit(folder / "1.md", "links:\n---\n", "links:\n---\n\n## Steps\n\n- [x] grammar\n- [ ] code\n")
        assert "Commented on" in await said(agent, session, "/task 1 comment Think first")
        shown = await said(agent, session, "/task 1")
        for words in ("#1 Write the fast parser", "[x] grammar", "[ ] code", "user, ", "Think first"):
            assert words in shown
        text = (folder / "1.md").read_text(encoding="utf-8")
        assert "Think first" in text
        assert "- [x] grammar" in text
        kinds = await agent.database.read(
            lambda tx: tx.all("SELECT actor, origin FROM events WHERE kind = 'tasks_changed' ORDER BY seq")
        )
        assert kinds == [("human", "person")] * 3


async def test_an_edit_of_the_agent_is_the_agents():
    change = calls(
        "edit_file", path=".pattern/tasks/1.md", edits=[{"old_text": "Write the parser", "new_text": "Parse"}]
    )
    async with keeping_files(calls("read_file", path=".pattern/tasks/1.md"), change, says("Done.")) as (
        agent,
        session,
        folder,
    ):
        await agent.editor.prompt(session, "Rename it")
        assert "title: Parse" in (folder / "1.md").read_text(encoding="utf-8")
        assert "#1 Parse" in await said(agent, session, "/task 1")
        newest = await agent.database.read(
            lambda tx: tx.one("SELECT actor FROM events WHERE kind = 'tasks_changed' ORDER BY seq DESC LIMIT 1")
        )
        assert newest == ("persona",)


async def test_a_deleted_file_of_an_open_task_is_made_anew_and_one_of_a_task_that_is_over_stays_away():
    async with keeping_files() as (agent, session, folder):
        (folder / "1.md").unlink()
        await agent.editor.prompt(session, "/tasks")
        assert (folder / "1.md").is_file()
        await agent.editor.prompt(session, "/task 1 done")
        assert "status: done" in (folder / "1.md").read_text(encoding="utf-8")
        (folder / "1.md").unlink()
        await agent.editor.prompt(session, "/tasks")
        assert not (folder / "1.md").exists()


async def test_a_file_that_cannot_be_read_or_is_anothers_is_left_alone_and_named_once():
    async with keeping_files() as (agent, session, folder):
        edit(folder / "1.md", "status: todo", "status: perhaps")
        (folder / "2.md").write_text("mine\n", encoding="utf-8")
        shown = await said(agent, session, "/tasks add Test it")
        assert "1.md, line 4" in shown
        assert "2.md in .pattern/tasks is not a file of this task list; move it away." in shown
        assert "status: perhaps" in (folder / "1.md").read_text(encoding="utf-8")
        assert (folder / "2.md").read_text(encoding="utf-8") == "mine\n"
        again = await said(agent, session, "/tasks")
        assert "move it away" not in again
        assert "line 4" not in again
        edit(folder / "1.md", "status: perhaps", "status: blocked")
        assert "| #1 | blocked |" in await said(agent, session, "/tasks")


@pytest.mark.parametrize("written", [False, True])
async def test_a_file_is_no_edit_of_the_user_wherever_the_process_died_that_wrote_it(written: bool):
    async with keeping_files() as (agent, session, folder):
        path = folder / "1.md"
        before = path.read_bytes()
        await agent.editor.prompt(session, "/task 1 comment Think first")
        after = path.read_bytes()
        # As it is between the announcement of the second text and the note behind it.
        half = store.TaskFile(before.decode(), sha256_hex(before), sha256_hex(after))
        key = await agent.database.read(lambda tx: tx.one("SELECT id FROM tasks"))
        assert key is not None
        await agent.database.write(lambda tx: store.note_task_file(tx, str(folder), str(key[0]), half))
        path.write_bytes(after if written else before)
        await agent.editor.prompt(session, "/task 1 start")
        text = path.read_text(encoding="utf-8")
        assert text.count("Think first") == 1
        assert "status: in_progress" in text
        operations = await agent.database.read(
            lambda tx: tx.all("SELECT payload ->> 'operation' FROM events WHERE kind = 'tasks_changed' ORDER BY seq")
        )
        assert operations == [("create",), ("comment",), ("update",)]


async def test_forgotten_words_leave_the_files_too():
    async with keeping_files() as (agent, session, folder):
        await agent.editor.prompt(session, "/task 1 comment The code is heron-forty-two.")
        assert "heron-forty-two" in (folder / "1.md").read_text(encoding="utf-8")
        await agent.database.write(lambda tx: forget_in_tasks(tx, forget_passage("heron-forty-two"), at_ms=9))
        await agent.editor.prompt(session, "/tasks")
        assert "heron-forty-two" not in (folder / "1.md").read_text(encoding="utf-8")
        held = await agent.database.read(lambda tx: tx.one("SELECT count(*) FROM task_files WHERE base LIKE '%heron%'"))
        assert held == (0,)


async def test_a_folder_that_leads_out_of_the_project_is_not_used(tmp_path: Path):
    async with running_agent(ScriptedProvider([]), settings=ON) as agent:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (agent.folder / ".pattern").mkdir()
        (agent.folder / ".pattern" / "tasks").symlink_to(elsewhere, target_is_directory=True)
        session = await agent.editor.open_session(str(agent.folder))
        assert "leads out of the project" in await said(agent, session, "/tasks add Write the parser")
        assert list(elsewhere.iterdir()) == []


async def test_a_change_in_a_terminal_is_in_the_files_at_once_where_a_session_keeps_them():
    async with keeping_files() as (agent, session, folder):
        (scope, owner) = await agent.database.read(lambda tx: tx.one("SELECT scope, owner FROM tasks") or ("", ""))
        desk = TaskDesk(((Scope(str(scope)), str(owner)),), CONSTELLATION_STREAM)
        terminal = Tasks(agent.database, desk, clock=SystemClock(), ids=RandomIds(), peer=5)
        await terminal.update("1", TaskPatch(title="Parse"))
        assert await renew_task_files(agent.database, str(agent.folder), str(owner)) == ()
        assert "title: Parse" in (folder / "1.md").read_text(encoding="utf-8")
        assert await renew_task_files(agent.database, "/elsewhere", str(owner)) == ()
        assert "#1 Parse" in await said(agent, session, "/task 1")


async def test_tasks_of_another_project_have_no_files_here():
    async with keeping_files() as (agent, session, folder):
        found = await agent.database.read(
            lambda tx: store.tasks_in_files(tx, str(folder), Scope.PROJECT, "/elsewhere", most=9)
        )
        assert found == ()
        assert session
