"""Two processes on one project: who edits second is warned, and a killed one stops nobody and loses no task."""

from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from pattern_acp.jsonrpc.messages import ConnectionClosedError, RemoteError
from tests.support.editor import JsonDict, choose
from tests.support.process import Launch, running_process, write_script

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def write(content: str) -> JsonDict:
    return {"tool": "write_file", "arguments": {"path": "a.py", "content": content}}


async def test_the_second_process_is_warned_before_its_first_edit(tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = write_script(tmp_path / "one", [[write("one\n")], [{"text": "Done."}]])
    read: JsonDict = {"tool": "read_file", "arguments": {"path": "a.py"}}
    second = write_script(tmp_path / "two", [[read], [write("two\n")], [{"text": "I wait."}]])
    allowing = choose("allow_once")
    async with (
        running_process(Launch(home, environment=first, permission=allowing)) as one,
        running_process(Launch(home, environment=second, permission=allowing)) as two,
    ):
        await one.editor.prompt(await one.editor.open_session(str(project)), "Write the parser")
        await two.editor.prompt(await two.editor.open_session(str(project)), "Change it.")
        shown = str(two.editor.updates)
        assert "Another open session works on what this call would change" in shown
        assert "“Write the parser”" in shown
        assert (project / "a.py").read_text(encoding="utf-8") == "one\n"


@pytest.mark.parametrize("updates", range(1, 8, 2))
async def test_an_owner_that_is_killed_at_any_step_leaves_its_tasks_and_stops_nobody(tmp_path: Path, updates: int):
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    claim: JsonDict = {"tool": "task", "arguments": {"operation": "claim", "task": "1"}}
    comment: JsonDict = {"tool": "task", "arguments": {"operation": "comment", "task": "1", "text": "Begun."}}
    steps = [[claim], [write("one\n")], [comment], [{"text": "Done."}]]
    script = write_script(tmp_path / "one", steps)
    allowing = choose("allow_always")
    async with running_process(Launch(home, environment=script, permission=allowing)) as one:
        session = await one.editor.open_session(str(project))
        await one.editor.prompt(session, "/tasks add Write the parser")
        one.editor.updates.clear()

        async def begin() -> None:
            # The process dies in the middle of it.
            with suppress(ConnectionClosedError, RemoteError):
                await one.editor.prompt(session, "Begin.")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(begin)
            await one.editor.wait_until(lambda: len(one.editor.updates) >= updates)
            one.kill()
            await one.wait()
    later = write_script(tmp_path / "two", [[write("two\n")], [{"text": "Done."}]])
    async with running_process(Launch(home, environment=later, permission=allowing)) as two:
        if (project / "a.py").exists():
            (project / "a.py").unlink()
        second = await two.editor.open_session(str(project))
        await two.editor.prompt(second, "Write it.")
        assert (project / "a.py").read_text(encoding="utf-8") == "two\n"
        two.editor.updates.clear()
        await two.editor.prompt(second, "/task 1")
        assert "Write the parser" in two.editor.said()
        await two.editor.prompt(second, "/task 1 comment Taken over.")
        await two.editor.prompt(second, "/task 1 start")
        two.editor.updates.clear()
        await two.editor.prompt(second, "/board")
        assert "its process is gone" in two.editor.said()
