"""One thread through everything: initialize, new, prompt, one read through the editor, answer, and a replay."""

from pattern_acp.domain.messages import ToolResultPart
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import FULL_CLIENT, running_agent
from tests.support.scripts import calls, says


async def test_a_turn_reads_a_file_through_the_editor_and_answers():
    model = ScriptedProvider([says("Let me look.") + calls("read_file", path="a.txt"), says("It says hello.")])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        path = str(agent.folder / "a.txt")
        agent.editor.files[path] = "hello\n"
        (agent.folder / "a.txt").write_text("stale\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))

        answer = await agent.editor.prompt(session, "What is in a.txt?")

        assert answer == {"stopReason": "end_turn"}
        assert agent.editor.said() == "Let me look.It says hello."
        assert ("fs/read_text_file", path) in [(m, p.get("path")) for m, p in agent.editor.requests]
        ended = [u for u in agent.editor.of_kind("tool_call_update") if u.get("status") == "completed"]
        assert len(ended) == 1
        result = model.requests[1].messages[-1].parts[0]
        assert isinstance(result, ToolResultPart)
        assert "hello" in result.text


async def test_a_loaded_session_replays_what_was_shown():
    model = ScriptedProvider([says("Let me look.") + calls("read_file", path="a.txt"), says("It says hello.")])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        path = str(agent.folder / "a.txt")
        agent.editor.files[path] = "hello\n"
        (agent.folder / "a.txt").write_text("hello\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "What is in a.txt?")
        agent.editor.updates.clear()

        loaded = await agent.editor.request(
            "session/load", {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        )

        assert {"modes", "configOptions"} <= loaded.keys()
        # The commands come a moment after session/new, whatever else happens then.
        kinds = [update["update"]["sessionUpdate"] for update in agent.editor.updates]
        kinds = [kind for kind in kinds if kind != "available_commands_update"]
        assert kinds[:5] == [
            "user_message_chunk",
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "agent_message_chunk",
        ]
