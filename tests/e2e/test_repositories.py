"""Twenty small repositories with a failing test each, mended by a scripted model through the real process."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pattern_acp.config.load import process_environment
from pattern_acp.journal.events import ToolCallFinished
from tests.support.agent import FULL_CLIENT
from tests.support.editor import JsonDict
from tests.support.editor_terminals import really_run
from tests.support.process import (
    AgentProcess,
    Launch,
    agent_environment,
    read_events,
    running_process,
    write_script,
)
from tests.support.programs import problem_of
from tests.support.repositories.base import Repository, found
from tests.support.repositories.languages import JAVA, JAVASCRIPT, PERL, RUST, SHELL, C
from tests.support.repositories.python_files import FILES
from tests.support.repositories.python_texts import TEXTS

pytestmark = pytest.mark.e2e

GROUPS = {
    "texts": TEXTS,
    "files": FILES,
    "shell": SHELL,
    "javascript": JAVASCRIPT,
    "c": C,
    "perl": PERL,
    "rust": RUST,
    "java": JAVA,
}
"""Those of a group share a process, each in a session of its own."""


def test_there_are_twenty_of_them_with_names_of_their_own():
    names = [repository.name for group in GROUPS.values() for repository in group]
    assert len(names) == len(set(names)) >= 20


@pytest.mark.parametrize("capabilities", [{}, FULL_CLIENT], ids=["alone", "through the editor"])
@pytest.mark.parametrize("group", GROUPS.values(), ids=list(GROUPS))
async def test_each_is_mended_to_the_same_bytes_and_modes_and_its_test_passes(
    tmp_path: Path, group: Sequence[Repository], capabilities: JsonDict
):
    # The client's terminals have this process's environment; the agent's own have the agent's, without a HOME.
    environment = process_environment() if capabilities else agent_environment(tmp_path)
    problem = problem_of(*sorted({name for each in group for name in each.needs}), environment=environment)
    if problem:
        pytest.skip(problem)
    script = write_script(tmp_path, [turn for each in group for turn in each.script()])
    (tmp_path / "config.toml").write_text('edit_tool = "both"\n', encoding="utf-8")
    async with running_process(Launch(tmp_path, environment=script, capabilities=capabilities)) as agent:
        agent.editor.terminals.run = really_run
        for number, repository in enumerate(group):
            folder = tmp_path / f"repository {number}"
            repository.create(folder)
            await mend(agent, repository, folder)
        asked = {method for method, _ in agent.editor.requests} - {"session/request_permission"}
        assert all(terminal.released for terminal in agent.editor.terminals.by_id.values())
    assert ("terminal/create" in asked) is bool(capabilities)
    assert bool(asked) is bool(capabilities)


async def mend(agent: AgentProcess, repository: Repository, folder: Path) -> None:
    session = await agent.editor.open_session(str(folder))
    answer = await agent.editor.prompt(session, "Make the test pass.", deadline=100)
    assert answer == {"stopReason": "end_turn"}, repository.name
    ended = [event for event in await read_events(agent.constellation, session) if isinstance(event, ToolCallFinished)]
    assert [event.status for event in ended] == ["completed"] * (len(repository.fix) + 2), (repository.name, ended)
    before, after = ended[0].result_text, ended[-1].result_text
    assert before.startswith("Exit code "), (repository.name, before)
    assert not before.startswith("Exit code 0 "), (repository.name, before)
    assert after.startswith("Exit code 0 "), (repository.name, after)
    assert found(folder) == repository.outcome(), repository.name
