"""The part of a request that a provider may cache: small, and the same to the byte."""

from itertools import pairwise

from msgspec.structs import replace

from pattern_acp.config.settings import DefinitionSettings, Settings
from pattern_acp.domain.canonical import canonical_json
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import FULL_CLIENT, running_agent, temporary_folder
from tests.support.editor import JsonDict
from tests.support.scripts import calls, calls_raw, says, thinks

PROMPT_LIMIT = 12_000
"""Bytes of system prompt and tools for the default persona (issue 2, section 5)."""


def prefix_size(request: ProviderRequest) -> int:
    """What /status shows."""
    tools = [{"name": t.name, "description": t.description, "schema": t.input_schema} for t in request.tools]
    return len(request.system.encode()) + len(canonical_json(tools))


async def test_system_prompt_and_tools_are_small():
    model = ScriptedProvider([says("Hello.")])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello?")
        size = prefix_size(model.requests[0])
        assert size < PROMPT_LIMIT
        await agent.editor.prompt(session, "/status")
        assert f"{size:,} bytes" in agent.editor.said()


def same_for_the_cache(earlier: ProviderRequest, later: ProviderRequest) -> bool:
    """Whether `later` begins with all that `earlier` sent, to the byte."""
    count = len(earlier.messages)
    kept = tuple(
        replace(message, message_id=was.message_id)
        for message, was in zip(later.messages[:count], earlier.messages, strict=True)
    )
    return (earlier.system, earlier.tools, earlier.messages) == (later.system, later.tools, kept)


async def test_every_request_begins_with_the_one_before_it():
    model = ScriptedProvider(
        [
            thinks("Hm.", signature="c2ln") + says("Let me see.") + calls("list_directory", path="."),
            calls("memory_write", label="human", operation="append", text="Likes tea.", reason="Said so."),
            says("Done."),
            says("Again."),
        ]
    )
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        await agent.editor.prompt(session, "Go on.")
        assert len(model.requests) == 4
        for earlier, later in pairwise(model.requests):
            assert same_for_the_cache(earlier, later)
        assert model.requests[0].volatile != model.requests[3].volatile


async def test_a_session_that_another_process_loads_sends_the_same_bytes():
    turns = [
        thinks("Hm.", signature="c2ln") + says("Let me see.") + calls("list_directory", path="."),
        calls_raw("read_file", '{ "path" : "missing.txt" }', call_id="call_again"),
        calls_raw("read_file", '{ "path" : "missing.txt" }', call_id="call_again"),
        calls_raw("read_file", '{ "path" : "missing.txt" }', call_id="call_again"),
        says("Done."),
    ]
    with temporary_folder() as folder:
        project = folder / "project"
        project.mkdir()
        (project / "AGENTS.md").write_text("Be brief.\n", encoding="utf-8")
        first, second = ScriptedProvider(turns), ScriptedProvider([says("Again.")])
        async with running_agent(first, database=folder / "constellation.db") as agent:
            session = await agent.editor.open_session(str(project))
            await agent.editor.prompt(session, "Go.")
        (project / "AGENTS.md").write_text("Be verbose.\n", encoding="utf-8")
        keeping = Settings(editor_deadline_seconds=30, definitions=DefinitionSettings("keep"))
        async with running_agent(second, settings=keeping, database=folder / "constellation.db") as agent:
            load: JsonDict = {"sessionId": session, "cwd": str(project), "mcpServers": []}
            await agent.editor.request("session/load", load)
            await agent.editor.prompt(session, "Go on.")
        assert same_for_the_cache(first.requests[-1], second.requests[0])
        assert "Be brief." in second.requests[0].system
