"""Skills and commands of a session: it goes on with those that it has, whatever becomes of their files."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pattern_acp.config.settings import DefinitionSettings, Settings
from pattern_acp.db.connection import Transaction
from pattern_acp.definitions.collection import built_in_definitions, find_definitions
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.constellation import ProjectSettings
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.requests import refused
from tests.support.scripts import says

HEAD = "---\nname: pdf\ndescription: Reads PDFs\n---\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@asynccontextmanager
async def agent_with_skill(own: Path, settings: Settings | None = None) -> AsyncGenerator[tuple[RunningAgent, str]]:
    """An agent whose user has the skill pdf, and a session with one prompt."""
    chosen = settings or Settings(editor_deadline_seconds=30)
    write(own / "skills" / "pdf" / "SKILL.md", f"{HEAD}Use the first way.")
    write(own / "skills" / "pdf" / "way.txt", "The first way.")
    async with running_agent(ScriptedProvider([says(f"{n}.") for n in range(9)]), settings=chosen) as agent:

        def settings_for(folder: str) -> ProjectSettings:
            return ProjectSettings(chosen, definitions=find_definitions(folder, own))

        agent.shared.settings_for = settings_for
        agent.editor.permission = choose("reject_once")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello.")
        yield agent, session


async def reopened(agent: RunningAgent, session: str) -> None:
    await agent.editor.request("session/close", {"sessionId": session})
    await agent.editor.request("session/resume", {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []})


async def loaded(agent: RunningAgent, session: str) -> str:
    """What the model reads of the skill when the user loads it."""
    await agent.editor.prompt(session, "/pdf")
    return str(agent.model.requests[-1].messages[-2:])


async def test_a_skill_whose_folder_is_deleted_is_loaded_from_its_kept_source(tmp_path: Path):
    async with agent_with_skill(tmp_path) as (agent, session):
        shutil.rmtree(tmp_path / "skills")
        await reopened(agent, session)
        assert "Use the first way." in await loaded(agent, session)
        assert "The skill pdf is gone; this session continues with the one that it has" in str(agent.editor.asked)
        kept = agent.sessions.get(session).trust.definitions.skills[0].kept
        assert kept is not None
        assert kept.files["way.txt"] == b"The first way."


async def test_a_changed_skill_counts_once_it_is_adopted(tmp_path: Path):
    async with agent_with_skill(tmp_path) as (agent, session):
        write(tmp_path / "skills" / "pdf" / "SKILL.md", f"{HEAD}Use the second way.")
        assert "Use the first way." in await loaded(agent, session)
        assert "The skill pdf has changed; this session continues" in str(agent.editor.asked)
        await agent.editor.prompt(session, "/definitions")
        assert "/definitions adopt takes them" in agent.editor.said()
        await agent.editor.prompt(session, "/definitions diff")
        assert "-Use the first way.\n+Use the second way." in agent.editor.said()
        await reopened(agent, session)
        assert "Use the first way." in await loaded(agent, session)
        await agent.editor.prompt(session, "/definitions adopt")
        assert "Use the second way." in await loaded(agent, session)
        agent.editor.updates.clear()
        await reopened(agent, session)
        assert "Use the second way." in await loaded(agent, session)
        assert "has changed" not in agent.editor.said()


@pytest.mark.parametrize(("follow", "way"), [("adopt", "second"), ("keep", "first"), ("ask", "first")])
async def test_which_skill_counts_is_the_users_choice(tmp_path: Path, follow: str, way: str):
    settings = Settings(editor_deadline_seconds=30, definitions=DefinitionSettings(follow))  # pyright: ignore[reportArgumentType]
    async with agent_with_skill(tmp_path, settings) as (agent, session):
        write(tmp_path / "skills" / "pdf" / "SKILL.md", f"{HEAD}Use the second way.")
        assert f"Use the {way} way." in await loaded(agent, session)
        assert "The skill pdf has changed" in f"{agent.editor.said()}{agent.editor.asked}"


async def test_a_new_skill_counts_and_is_kept_before_it_is_used(tmp_path: Path):
    async with agent_with_skill(tmp_path) as (agent, session):
        write(tmp_path / "commands" / "ship.md", "Ship it now.")
        await agent.editor.prompt(session, "/ship")
        assert "Ship it now." in str(agent.model.requests[-1].messages)
        shutil.rmtree(tmp_path / "commands")
        await reopened(agent, session)
        await agent.editor.prompt(session, "/ship")
        assert "Ship it now." in str(agent.model.requests[-1].messages[-2:])
        assert "The command /ship is gone; this session continues" in str(agent.editor.asked)


@pytest.mark.parametrize("how", ["changed", "gone"])
async def test_a_kept_source_that_was_changed_in_the_file_is_never_used(tmp_path: Path, how: str):
    async with agent_with_skill(tmp_path) as (agent, session):
        await agent.editor.request("session/close", {"sessionId": session})
        shutil.rmtree(tmp_path / "skills")

        def forge(tx: Transaction) -> None:
            if how == "gone":
                tx.execute("DELETE FROM definition_sources")
            else:
                tx.execute("UPDATE definition_sources SET source = replace(source, 'first way', 'f1rst way')")

        await agent.database.write(forge)
        where: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        error = await refused(agent.editor, "session/resume", where)
        assert "stored source of skill/pdf" in error.message
        assert "sessions adopt" in error.message


async def test_line_ends_of_a_skill_change_nothing(tmp_path: Path):
    async with agent_with_skill(tmp_path) as (agent, session):
        file = tmp_path / "skills" / "pdf" / "SKILL.md"
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
        await loaded(agent, session)
        assert "has changed" not in agent.editor.said()


@pytest.mark.parametrize(
    ("answer", "way", "later"),
    [("allow_once", "second", "second"), ("allow_always", "second", "third"), ("reject_once", "first", "first")],
)
async def test_drift_is_adopted_or_kept_with_one_key(tmp_path: Path, answer: str, way: str, later: str):
    async with agent_with_skill(tmp_path) as (agent, session):
        agent.editor.permission = choose(answer)
        write(tmp_path / "skills" / "pdf" / "SKILL.md", f"{HEAD}Use the second way.")
        assert f"Use the {way} way." in await loaded(agent, session)
        (asked,) = agent.editor.asked
        assert "-Use the first way.\\n+Use the second way." in str(asked)
        assert [option["name"] for option in asked["options"]] == [
            "Adopt today's",
            "Always adopt in this project",
            "Keep what the session has",
        ]
        agent.editor.permission = choose("reject_once")
        write(tmp_path / "skills" / "pdf" / "SKILL.md", f"{HEAD}Use the third way.")
        await reopened(agent, session)
        assert f"Use the {later} way." in await loaded(agent, session)
        # Where the project always adopts, nothing is asked any more.
        assert len(agent.editor.asked) == (1 if answer == "allow_always" else 2)


async def test_the_choice_for_a_project_is_remembered_outside_of_it_until_the_settings_count_again(tmp_path: Path):
    async with agent_with_skill(tmp_path) as (agent, session):
        await agent.editor.prompt(session, "/definitions follow keep")
        assert [each.name for each in agent.folder.iterdir()] == ["constellation"]
        await agent.editor.prompt(session, "/definitions")
        assert "Sessions of this project keep the definitions that they have" in agent.editor.said()
        write(tmp_path / "skills" / "pdf" / "SKILL.md", f"{HEAD}Use the second way.")
        await reopened(agent, session)
        assert "Use the first way." in await loaded(agent, session)
        assert agent.editor.asked == []
        assert "The skill pdf has changed; this session continues" in agent.editor.said()
        await agent.editor.prompt(session, "/definitions follow settings")
        write(tmp_path / "skills" / "pdf" / "SKILL.md", f"{HEAD}Use the third way.")
        await reopened(agent, session)
        await loaded(agent, session)
        assert len(agent.editor.asked) == 1
        await agent.editor.prompt(session, "/definitions follow blindly")
        assert "Say /definitions" in agent.editor.said()


async def test_a_skill_of_the_program_is_loaded_by_its_name(tmp_path: Path):
    async with agent_with_skill(tmp_path) as (agent, _):

        def settings_for(_folder: str) -> ProjectSettings:
            return ProjectSettings(agent.shared.settings, definitions=built_in_definitions())

        agent.shared.settings_for = settings_for
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/failing-test It crashes on an empty file.")
        assert "[skill:loaded failing-test, built-in]" in str(agent.model.requests[-1].messages)
        assert "It crashes on an empty file." in str(agent.model.requests[-1].messages)
        assert "skill" not in {tool.name for tool in agent.model.requests[-1].tools}
