"""Personas whose files name tools, a model and a mode."""

from pathlib import Path

from pattern_acp.config.settings import Settings
from pattern_acp.context.instructions import load_persona
from pattern_acp.definitions.identity import read_sources
from pattern_acp.definitions.personas import Persona
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.requests import refused
from tests.support.scripts import calls, says

HEAD = "---\ntools: Read, memory_*\nmode: plan\n---\nYou read."


def persona(own: Path, text: str) -> Persona:
    file = own / "personas" / "reader.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return load_persona("reader", file.parent)


def rules(agent: RunningAgent, text: str) -> None:
    Path(agent.folder, "AGENTS.md").write_text(text, encoding="utf-8")


def offered(agent: RunningAgent) -> set[str]:
    return {tool.name for tool in agent.model.requests[-1].tools}


async def reopened(agent: RunningAgent, session: str) -> None:
    await agent.editor.request("session/close", {"sessionId": session})
    where: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
    await agent.editor.request("session/resume", where)


async def test_a_persona_has_the_tools_and_the_mode_that_its_file_names(tmp_path: Path):
    model = ScriptedProvider([calls("run_command", command="ls", description="x"), says("Cannot.")])
    async with running_agent(model) as agent:
        agent.shared.persona = persona(tmp_path, HEAD)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Run something.")
        # In plan mode nothing that writes is offered.
        assert offered(agent) == {"read_file", "memory_read", "memory_search"}
        assert "There is no tool named 'run_command'" in str(model.requests[-1].messages)
        assert model.requests[-1].system.startswith("You read.\n\n")
        assert agent.sessions.get(session).state.policy.mode == "plan"


async def test_a_session_goes_on_with_its_personas_tools_whatever_its_file_says_now(tmp_path: Path):
    async with running_agent(ScriptedProvider([says(f"{n}.") for n in range(4)])) as agent:
        agent.shared.persona = persona(tmp_path, HEAD)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello.")
        agent.shared.persona = persona(tmp_path, HEAD.replace("Read, memory_*", "Read, Grep"))
        await reopened(agent, session)
        agent.editor.permission = choose("reject_once")
        await agent.editor.prompt(session, "Go on.")
        assert "The persona reader has changed since this session began" in str(agent.editor.asked)
        assert offered(agent) == {"read_file", "memory_read", "memory_search"}
        await agent.editor.prompt(session, "/definitions diff")
        assert "-tools: Read, memory_*\n+tools: Read, Grep" in agent.editor.said()
        await agent.editor.prompt(session, "/definitions adopt")
        await agent.editor.prompt(session, "And on.")
        assert offered(agent) == {"read_file", "search_text"}


async def test_a_mode_that_may_do_more_than_the_settings_gains_nothing(tmp_path: Path):
    async with running_agent(ScriptedProvider([says("Hi.")])) as agent:
        agent.shared.persona = persona(tmp_path, HEAD.replace("mode: plan", "mode: auto"))
        session = await agent.editor.open_session(str(agent.folder))
        assert agent.sessions.get(session).state.policy.mode == "ask"


async def test_a_mode_that_this_process_was_started_with_counts_before_the_personas(tmp_path: Path):
    settings = Settings(editor_deadline_seconds=30, mode="edit", fixed=frozenset({"mode"}))
    async with running_agent(ScriptedProvider([says("Hi.")]), settings=settings) as agent:
        agent.shared.persona = persona(tmp_path, HEAD)
        session = await agent.editor.open_session(str(agent.folder))
        assert agent.sessions.get(session).state.policy.mode == "edit"


async def test_a_model_that_cannot_be_had_leaves_that_of_the_settings_and_says_so(tmp_path: Path):
    async with running_agent(ScriptedProvider([says("Hi.")])) as agent:
        agent.shared.persona = persona(tmp_path, "---\nmodel: nobody/none\n---\nYou read.")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello.")
        assert "This session now uses" in agent.editor.said()


async def test_another_persona_brings_its_tools_model_and_mode(tmp_path: Path):
    async with running_agent(ScriptedProvider([says(f"{n}.") for n in range(4)])) as agent:
        reader = persona(tmp_path, HEAD)
        agent.shared.personas = {"default": "", "reader": "Reads."}
        agent.shared.persona_named = {"default": agent.shared.persona, "reader": reader}.__getitem__
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/persona reader")
        assert (
            "The mode is plan now, as its file says. It has these tools alone: Read, memory_*." in agent.editor.said()
        )
        await agent.editor.prompt(session, "Hello.")
        assert offered(agent) == {"read_file", "memory_read", "memory_search"}
        await agent.editor.prompt(session, "/persona default")
        await agent.editor.prompt(session, "Hello.")
        assert "search_text" in offered(agent)


async def test_a_kept_persona_that_is_gone_is_refused_with_what_to_do(tmp_path: Path):
    async with running_agent(ScriptedProvider([says("Hi.")])) as agent:
        agent.shared.persona = persona(tmp_path, HEAD)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.request("session/close", {"sessionId": session})
        await agent.shared.database.write(
            lambda tx: tx.execute("DELETE FROM definition_sources WHERE symbol = 'persona/reader'")
        )
        where: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        error = await refused(agent.editor, "session/resume", where)
        assert "The stored source of persona/reader is gone. `pattern-acp sessions adopt" in error.message


async def test_a_session_whose_persona_held_forgotten_words_goes_on_with_todays(tmp_path: Path):
    async with running_agent(ScriptedProvider([says(f"{n}.") for n in range(4)])) as agent:
        agent.shared.persona = persona(tmp_path, f"{HEAD} Zebedee asked for it.")
        rules(agent, "Ask Zebedee first.")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello.")
        await agent.editor.prompt(session, "/memory forget --yes archive Zebedee")
        assert "2 stored sources of personas, skills, commands and instructions" in agent.editor.said()
        kept = await agent.shared.database.read(lambda tx: str(tx.all("SELECT * FROM definition_sources")))
        assert "Zebedee" not in kept
        agent.shared.persona = persona(tmp_path, HEAD.replace("Read, ", ""))
        rules(agent, "Ask first.")
        await reopened(agent, session)
        await agent.editor.prompt(session, "Go on.")
        assert "Words of the persona reader as it was in this session were forgotten" in agent.editor.said()
        assert offered(agent) == {"memory_read", "memory_search"}
        assert "Zebedee" not in agent.model.requests[-1].system
        agent.editor.updates.clear()
        await reopened(agent, session)
        await agent.editor.prompt(session, "And on.")
        assert "forgotten" not in agent.editor.said()


async def test_instruction_files_are_kept_by_their_identity(tmp_path: Path):
    async with running_agent(ScriptedProvider([says("Hi.")])) as agent:
        rules(agent, "Use tabs.")
        session = await agent.editor.open_session(str(agent.folder))
        (file,) = agent.sessions.get(session).state.instructions
        kept = await agent.shared.database.read(lambda tx: read_sources(tx, (file.definition,)))
        assert kept[file.definition].files == {"AGENTS.md": b"Use tabs."}
        assert kept[file.definition].symbol == "instructions/AGENTS.md"
        await agent.editor.prompt(session, "/definitions")
        assert f"| instructions `AGENTS.md` | {file.definition[:12]} |" in agent.editor.said()


async def test_a_persona_that_is_typed_answers_now_and_is_refused_later_until_a_file_has_it():
    model = ScriptedProvider([says(f"{n}.") for n in range(4)])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/persona inline You answer in rhymes.")
        assert "save the text as personas/inline-" in agent.editor.said()
        await agent.editor.prompt(session, "Hello.")
        assert model.requests[-1].system.startswith("You answer in rhymes.\n\n")
        name = agent.sessions.get(session).state.persona.name
        await agent.editor.request("session/close", {"sessionId": session})
        where: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        error = await refused(agent.editor, "session/resume", where)
        assert f"save its text as personas/{name}.md first" in error.message
        assert "sessions adopt" in error.message
        agent.shared.personas = {name: ""}
        await agent.editor.request("session/resume", where)
        await agent.editor.prompt(session, "Hello again.")
        assert model.requests[-1].system.startswith("You answer in rhymes.\n\n")
