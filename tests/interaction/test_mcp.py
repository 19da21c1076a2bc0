"""MCP servers that a client passes, through a whole agent."""

import json
import re
from pathlib import Path

import anyio
import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.domain.access import Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.messages import ResourcePart, ToolResultPart
from pattern_acp.journal.events import ServerToolsPinned, ToolCallFinished
from pattern_acp.journal.reader import read_stream
from pattern_acp.mcp_servers.server import Server, ServerState
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.mcp_fakes import passed, script, silent
from tests.support.mcp_http_server import HttpServer, Refused, http_server
from tests.support.mcp_server import TEXT_SCHEMA, tool
from tests.support.passing_time import passing
from tests.support.scripts import Turn, calls, calls_raw, gate, says

NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


async def opened(agent: RunningAgent, *servers: JsonDict, mode: str = "") -> str:
    """A session with these servers, all of them settled."""
    answer = await agent.editor.request("session/new", {"cwd": str(agent.folder), "mcpServers": list(servers)})
    session_id = answer["sessionId"]
    await agent.sessions.get(session_id).mcp.servers.wait_settled(30)
    if mode:
        await agent.editor.request("session/set_mode", {"sessionId": session_id, "modeId": mode})
    return session_id


async def becomes(server: Server, state: ServerState, *, restarts: int) -> None:
    with anyio.fail_after(30):
        while (server.state, server.restarts) != (state, restarts):
            await anyio.lowlevel.checkpoint()


def mcp_call(tool: str, arguments: JsonObject) -> Turn:
    """A call of a tool that is not in the prompt."""
    return calls_raw("mcp_call", json.dumps({"tool": tool, "arguments": arguments}), call_id=f"call_{tool}")


def tool_names(request: ProviderRequest) -> list[str]:
    return [tool.name for tool in request.tools]


def results(request: ProviderRequest) -> list[str]:
    return [part.text for part in request.messages[-1].parts if isinstance(part, ToolResultPart)]


async def test_a_tool_of_a_server_is_offered_shown_asked_for_and_answered():
    model = ScriptedProvider([calls("usual__echo", text="hi"), says("Done.")])
    async with running_agent(model) as agent:
        session = await opened(agent, passed("usual"))
        assert (await agent.editor.prompt(session, "Echo hi.")) == {"stopReason": "end_turn"}
        offered = tool_names(model.requests[0])
        assert "usual__echo" in offered
        assert all(NAME.fullmatch(name) for name in offered)
        assert len(set(offered)) == len(offered)
        (call,) = agent.editor.of_kind("tool_call")
        assert (call["kind"], call["rawInput"]) == ("other", {"text": "hi"})
        assert call["title"] == 'usual: echo {"text": "hi"}'
        (asked,) = agent.editor.asked
        assert [option["optionId"] for option in asked["options"]] == [
            "allow_once",
            "allow_always",
            "allow_always_project",
            "allow_always_persona",
            "reject_once",
            "reject_always",
        ]
        assert results(model.requests[1]) == ["echo: hi"]
        events = [item for item in await recorded(agent, session) if isinstance(item.event, ToolCallFinished)]
        assert [item.origin for item in events] == [Origin.MCP]


async def recorded(agent: RunningAgent, session: str):
    return await agent.database.read(lambda tx: list(read_stream(tx, agent.sessions.get(session).session_id)))


async def test_images_come_back_to_the_person_and_the_model():
    model = ScriptedProvider([calls("usual__picture"), says("Done.")])
    async with running_agent(model) as agent:
        session = await opened(agent, passed("usual"))
        await agent.editor.prompt(session, "Draw.")
        assert '"type": "image"' in json.dumps(agent.editor.of_kind("tool_call_update"))
        (part,) = model.requests[1].messages[-1].parts
        assert isinstance(part, ToolResultPart)
        assert [image.media_type for image in part.images] == ["image/png"]


async def test_a_call_streams_its_progress_and_a_cancel_ends_it_on_the_server_too():
    model = ScriptedProvider([calls("usual__slow"), says("never"), calls("usual__cancelled"), says("Done.")])
    async with running_agent(model) as agent:
        session = await opened(agent, passed("usual"))
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await agent.editor.wait_until(lambda: "still at it" in json.dumps(agent.editor.updates))
                await agent.editor.cancel(session)

            tasks.start_soon(cancel)
            with anyio.fail_after(30):
                assert (await agent.editor.prompt(session, "Slow."))["stopReason"] == "cancelled"
        failed = agent.editor.of_kind("tool_call_update")[-1]
        assert failed["status"] == "failed"
        server = agent.sessions.get(session).mcp.servers.ready[0]

        async def quiet(line: str) -> None:
            del line

        with anyio.fail_after(30):
            while (await server.call("cancelled", {}, quiet)).text != "cancelled: 1":
                await anyio.lowlevel.checkpoint()


async def test_always_allows_this_tool_of_this_server_in_this_session_only():
    model = ScriptedProvider(
        [calls("usual__echo", text="a"), calls("usual__echo", text="b"), calls("usual__fail"), says("Done.")]
    )
    async with running_agent(model, permission=choose("allow_always")) as agent:
        session = await opened(agent, passed("usual"))
        await agent.editor.prompt(session, "Go.")
        assert [asked["toolCall"]["title"].split()[1] for asked in agent.editor.asked] == ["echo", "fail"]
        assert agent.editor.asked[0]["options"][1]["name"] == "Always allow `usual/echo` in this session"


async def test_a_refused_tool_does_not_run():
    model = ScriptedProvider([calls("usual__echo", text="a"), says("Done.")])
    async with running_agent(model, permission=choose("reject_once")) as agent:
        session = await opened(agent, passed("usual"))
        await agent.editor.prompt(session, "Go.")
        assert results(model.requests[1])[0].startswith("The user refused this call.")
        assert not [item for item in await recorded(agent, session) if isinstance(item.event, ServerToolsPinned)]


async def test_plan_mode_offers_only_what_the_server_calls_read_only_and_asks_for_that():
    model = ScriptedProvider([calls("usual__echo", text="a"), calls("usual__look"), says("Done.")])
    async with running_agent(model) as agent:
        session = await opened(agent, passed("usual"), mode="plan")
        await agent.editor.prompt(session, "Go.")
        offered = tool_names(model.requests[0])
        assert "usual__look" in offered
        assert "usual__echo" not in offered
        assert results(model.requests[1])[0].startswith("Not allowed: Plan mode")
        assert [asked["toolCall"]["title"] for asked in agent.editor.asked] == ["usual: look"]
        assert agent.editor.of_kind("tool_call")[1]["kind"] == "read"


async def test_auto_mode_asks_at_a_servers_first_use_and_not_again_also_in_a_later_session():
    model = ScriptedProvider([calls("usual__echo", text="a"), calls("usual__fail"), says("1"), calls("usual__echo")])
    async with running_agent(model) as agent:
        session = await opened(agent, passed("usual"), mode="auto")
        await agent.editor.prompt(session, "Go.")
        assert len(agent.editor.asked) == 1
        assert "first use" in json.dumps(agent.editor.of_kind("tool_call")[0]["content"])
        later = await opened(agent, passed("usual"), mode="auto")
        await agent.editor.prompt(later, "Go.")
        assert len(agent.editor.asked) == 1


async def test_another_program_by_the_same_name_is_asked_about_anew():
    model = ScriptedProvider([calls("usual__echo"), says("1"), calls("usual__tool_1"), says("2")])
    async with running_agent(model) as agent:
        await agent.editor.prompt(await opened(agent, passed("usual"), mode="auto"), "Go.")
        await agent.editor.prompt(await opened(agent, passed("dies", name="usual"), mode="auto"), "Go.")
        assert len(agent.editor.asked) == 1
        model = agent.model
        assert "no tool named" in results(model.requests[3])[0]


async def test_a_changed_tool_asks_again_with_the_difference_and_an_added_one_asks_too():
    model = ScriptedProvider(
        [
            calls("changing__echo", text="a"),
            says("1"),
            calls("changing__echo", text="b"),
            mcp_call("changing__added", {}),
            says("2"),
        ]
    )
    async with running_agent(model, permission=choose("allow_always")) as agent:
        session = await opened(agent, passed("changing"), mode="auto")
        await agent.editor.prompt(session, "Go.")
        assert len(agent.editor.asked) == 1
        server = agent.sessions.get(session).mcp.servers.ready[0]
        with anyio.fail_after(30):
            while len(server.catalogue.tools) < 2:
                await anyio.lowlevel.checkpoint()
        await agent.editor.prompt(session, "Again.")
        assert len(agent.editor.asked) == 3
        difference = json.dumps(agent.editor.of_kind("tool_call")[1]["content"])
        assert "-Echoes a text." in difference
        assert "+Sends the text to everybody." in difference
        assert "added this tool" in json.dumps(agent.editor.of_kind("tool_call")[2]["content"])
        # The prompt's tools stay what they were; what changed is told behind the history.
        assert model.requests[2].tools == model.requests[0].tools
        assert "changed: changing__echo" in model.requests[2].volatile
        assert "added: changing__added" in model.requests[2].volatile


async def test_two_hundred_tools_are_searched_instead_of_being_put_into_the_prompt():
    model = ScriptedProvider(
        [
            calls("mcp_search", query="number 17"),
            mcp_call("many__tool_17", {"text": "x"}),
            mcp_call("many__nothing", {}),
            says("Done."),
        ]
    )
    async with running_agent(model) as agent:
        session = await opened(agent, passed("many"))
        await agent.editor.prompt(session, "Go.")
        offered = tool_names(model.requests[0])
        assert not [name for name in offered if name.startswith("many__")]
        assert {"mcp_search", "mcp_call"} <= set(offered)
        search = next(tool for tool in model.requests[0].tools if tool.name == "mcp_search")
        assert "- many: 200 tools." in search.description
        assert "many__tool_17: Does number 17." in results(model.requests[1])[0]
        assert results(model.requests[2]) == ["tool_17: x"]
        assert "find it by mcp_search" in results(model.requests[3])[0]
        assert agent.editor.asked[0]["toolCall"]["title"].startswith("many: tool_17")


async def test_a_slow_server_delays_the_first_prompt_by_three_seconds_at_most_and_is_named():
    model = ScriptedProvider([says("one"), says("two"), says("three")])
    async with running_agent(model) as agent:
        answer = await agent.editor.request(
            "session/new", {"cwd": str(agent.folder), "mcpServers": [passed("mute"), passed("usual")]}
        )
        mute, usual = agent.sessions.get(answer["sessionId"]).mcp.servers.servers
        await usual.settled.wait()
        async with passing(4):
            await agent.editor.prompt(answer["sessionId"], "Hi")
        # A server that never answers is given a minute, and neither request waited for that.
        assert not mute.settled.is_set()
        assert agent.editor.said().count("MCP servers that are missing: mute (not ready yet)") == 1
        assert "usual__echo" in tool_names(model.requests[0])
        agent.editor.updates.clear()
        await agent.editor.prompt(answer["sessionId"], "Hi")
        assert agent.editor.said() == "two"
        agent.editor.updates.clear()
        mute.fail("it cannot be reached")
        await agent.editor.prompt(answer["sessionId"], "Hi")
        assert "> MCP servers that did not start: mute (it cannot be reached)." in agent.editor.said()


@pytest.mark.first_version("a prompt that was withdrawn is answered with an error")
async def test_a_cancel_while_servers_are_waited_for_is_answered_at_once():
    async with running_agent(ScriptedProvider([says("one")])) as agent:
        answer = await agent.editor.request("session/new", {"cwd": str(agent.folder), "mcpServers": [passed("mute")]})
        session = answer["sessionId"]
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                while not agent.sessions.get(session).is_busy:
                    await anyio.lowlevel.checkpoint()
                await agent.editor.cancel(session)

            tasks.start_soon(cancel)
            assert (await agent.editor.prompt(session, "Hi"))["stopReason"] == "cancelled"
            # What follows the wait for servers.
            assert not agent.sessions.get(session).mcp.toolbox.is_fixed, "it waited for the servers"


async def test_a_server_that_dies_fails_its_call_and_is_said_to_be_gone():
    model = ScriptedProvider([calls("dies__echo"), says("1"), calls("dies__echo"), says("2"), says("3")])
    async with running_agent(model) as agent:
        session = await opened(agent, passed("dies"), mode="auto")
        server = agent.sessions.get(session).mcp.servers.servers[0]
        await agent.editor.prompt(session, "Go.")
        assert "last words were: I am done for." in results(model.requests[1])[0]
        await becomes(server, ServerState.READY, restarts=1)
        await agent.editor.prompt(session, "Go.")
        assert "ended and were started again: dies" in agent.editor.said()
        await becomes(server, ServerState.FAILED, restarts=1)
        await agent.editor.prompt(session, "Go.")
        assert "MCP servers that are not used any more: dies (it ended)" in agent.editor.said()
        assert "The MCP server dies is not there now." in model.requests[-1].volatile


@pytest.mark.first_version("the input of a command has a type")
async def test_prompts_of_a_server_are_slash_commands_and_their_text_is_a_resource():
    model = ScriptedProvider([says("Fire is hot.")])
    async with running_agent(model) as agent:
        session = await opened(agent, passed("usual"))
        await agent.editor.wait_until(lambda: "usual:explain" in json.dumps(agent.editor.updates))
        commands = agent.editor.of_kind("available_commands_update")[-1]["availableCommands"]
        (command,) = [command for command in commands if command["name"] == "usual:explain"]
        assert command["input"] == {"hint": "TOPIC"}
        await agent.editor.prompt(session, "/usual:explain the fire")
        parts = model.requests[0].messages[-1].parts
        (resource,) = [part for part in parts if isinstance(part, ResourcePart)]
        assert resource.text is not None
        assert resource.text.endswith("Explain the fire to a child.")
        assert resource.uri == "mcp://usual/prompts/explain"


async def test_a_prompt_that_the_server_does_not_give_is_said_and_never_reaches_the_model():
    model = ScriptedProvider([says("Hello.")])
    async with running_agent(model) as agent:
        session = await opened(agent, passed("usual"))
        assert (await agent.editor.prompt(session, "/usual:explain"))["stopReason"] == "end_turn"
        assert "The MCP server usual could not do it: Method not found." in agent.editor.said()
        assert model.requests == []
        await agent.editor.prompt(session, "/usual:explian fire")
        assert "Did you mean /usual:explain?" in agent.editor.said()
        await agent.editor.prompt(session, "Hi")
        said = [message.text for message in model.requests[0].messages]
        assert not [text for text in said if text.startswith("/usual:")]


async def test_resources_are_listed_and_read_where_a_server_has_some():
    model = ScriptedProvider(
        [
            calls("mcp_read_resource", server="usual"),
            calls("mcp_read_resource", server="usual", uri="test://notes"),
            calls("mcp_read_resource", server="nobody"),
            says("Done."),
        ]
    )
    async with running_agent(model) as agent:
        session = await opened(agent, passed("usual"))
        await agent.editor.prompt(session, "Go.")
        assert results(model.requests[1]) == ["test://notes (Notes)"]
        assert "The notes." in results(model.requests[2])[0]
        assert "there are usual" in results(model.requests[3])[0]
        assert len(agent.editor.asked) == 1


async def test_no_reading_of_resources_is_offered_where_no_server_has_one():
    model = ScriptedProvider([says("Done.")])
    async with running_agent(model) as agent:
        await agent.editor.prompt(await opened(agent, passed("changing")), "Go.")
        assert "mcp_read_resource" not in tool_names(model.requests[0])


async def test_mcp_and_status_tell_of_the_servers():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent, passed("usual"), {"name": "bad", "command": "/no/such/program"})
        await agent.editor.prompt(session, "/mcp")
        assert "| usual | ready (stdio) | 7 tools, 1 prompt, 1 resource |" in agent.editor.said()
        assert "| bad | failed: there is no program '/no/such/program' (stdio) |" in agent.editor.said()
        assert "`usual__echo`" in agent.editor.said()
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "/status")
        assert "| MCP servers | 1 ready, 1 failed (/mcp) |" in agent.editor.said()


async def test_servers_of_the_persons_file_are_there_in_every_session():
    settings = Settings(mcp_servers={"mine": script("usual", name="mine")})
    model = ScriptedProvider([says("Done.")])
    async with running_agent(model, settings=settings) as agent:
        await agent.editor.prompt(await opened(agent), "Go.")
        assert "mine__echo" in tool_names(model.requests[0])


async def test_a_loaded_session_gets_the_servers_of_its_new_opening():
    model = ScriptedProvider([says("one"), says("two")])
    async with running_agent(model) as agent:
        session = await opened(agent, passed("usual"))
        await agent.editor.prompt(session, "Go.")
        old = agent.sessions.get(session).mcp.servers
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": [passed("changing")]}
        await agent.editor.request("session/load", params)
        await agent.sessions.get(session).mcp.servers.wait_settled(30)
        await old.wait_closed()
        await agent.editor.prompt(session, "Go.")
        names = tool_names(model.requests[1])
        assert "changing__echo" in names
        assert not [name for name in names if name.startswith("usual__")]


async def test_servers_end_with_their_session(tmp_path: Path):
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent, passed("usual"))
        servers = agent.sessions.get(session).mcp.servers
        with anyio.fail_after(30):
            await agent.editor.request("session/close", {"sessionId": session})
        assert [server.state.value for server in servers.servers] == ["failed"]


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_both_http_transports_are_promised(transport: str):
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        answer = await agent.editor.initialize()
        assert answer["agentCapabilities"]["mcpCapabilities"][transport] is True


async def test_a_call_that_waits_for_the_model_does_not_hold_servers_back():
    waiting = gate()
    async with running_agent(ScriptedProvider([(waiting, *says("Done."))])) as agent:
        session = await opened(agent, passed("usual"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.editor.prompt, session, "Go.")
            with anyio.fail_after(30):
                await waiting.reached.wait()
            await agent.editor.request("session/close", {"sessionId": session})


def over_http(http: HttpServer) -> JsonDict:
    return {"type": "http", "name": "far", "url": http.url, "headers": []}


async def test_what_is_left_out_of_a_servers_list_is_told_once_and_mcp_shows_it():
    odd: JsonObject = {"name": "odd|one", "inputSchema": {"type": "string"}}
    model = ScriptedProvider([calls("far__echo", text="hi"), says("Done."), says("Again."), says("And again.")])
    with http_server() as http:
        http.pages = [{"tools": [tool("echo", "Echoes a text.", TEXT_SCHEMA), odd]}]
        async with running_agent(model) as agent:
            session = await opened(agent, over_http(http))
            await agent.editor.prompt(session, "Echo hi.")
            await agent.editor.prompt(session, "Go on.")
            why = "the tool `odd|one` (its inputSchema is of type string, and arguments are an object)"
            told = f"Left out of what MCP servers offer, since it cannot be used: far: {why}. /mcp shows all."
            assert agent.editor.said().count(told) == 1
            assert results(model.requests[1]) == ["echo: hi"]
            # Another list has another odd entry, which comes with the session that is begun anew.
            http.pages[0]["tools"][1] = {"inputSchema": {}}
            http.forget()
            await agent.sessions.get(session).mcp.servers.servers[0].call("echo", {}, silent)
            await agent.editor.prompt(session, "And now?")
            assert "far: the tool number 2 (it has no name)" in agent.editor.said()
            assert agent.editor.said().count(told) == 1
            await agent.editor.prompt(session, "/mcp")
            assert "Left out: the tool number 2 (it has no name)" in agent.editor.said()


async def test_a_tool_that_changed_while_its_server_forgot_us_asks_again_with_the_difference():
    model = ScriptedProvider(
        [
            calls("far__echo", call_id="call_1", text="one"),
            calls("far__echo", call_id="call_2", text="two"),
            calls("far__echo", call_id="call_3", text="three"),
            says("Done."),
        ]
    )
    with http_server() as http:
        async with running_agent(model) as agent:
            session = await opened(agent, over_http(http), mode="auto")

            def change(update: JsonDict) -> None:
                if update["update"].get("toolCallId") == "call_1" and update["update"].get("status") == "completed":
                    http.pages = [{"tools": [tool("echo", "Sends the text to everybody.", TEXT_SCHEMA)]}]
                    http.forget()

            agent.editor.watch = change
            await agent.editor.prompt(session, "Echo.")
            answers = [text for request in model.requests[1:] for text in results(request)]
            assert answers[0] == "echo: one"
            assert "far has changed the tool echo since this call was allowed; call it again" in answers[1]
            assert answers[2] == "echo: three"
            first, again = agent.editor.asked
            assert "first use" in json.dumps(first)
            assert "+Sends the text to everybody." in json.dumps(again)
            assert http.calls == 2


async def test_mcp_shows_that_a_server_refused_the_last_request():
    model = ScriptedProvider([calls("far__echo", text="one"), says("Hm."), calls("far__echo", text="two"), says("Ah.")])
    with http_server() as http:
        async with running_agent(model) as agent:
            session = await opened(agent, over_http(http))
            http.refusals = [Refused(401)]
            await agent.editor.prompt(session, "Echo.")
            assert "far could not do it: it wants a login (HTTP status 401)" in results(model.requests[1])[0]
            await agent.editor.prompt(session, "/mcp")
            assert (
                "| far | ready: it wants a login (HTTP status 401): run `pattern-acp mcp login`, or put a token"
                in agent.editor.said()
            )
            await agent.editor.prompt(session, "Echo.")
            await agent.editor.prompt(session, "/mcp")
            assert "| far | ready (http) | 1 tool" in agent.editor.said()


async def test_no_schema_that_strict_vendors_refuse_reaches_a_model():
    schemas: list[JsonObject] = [
        {"type": "object", "properties": None},
        {"type": "object", "properties": {}, "required": None},
        {"type": "object", "properties": {"a": {"type": "string", "required": True}}},
        {"type": "object", "properties": {"a": {"enum": ["A"], "type": "null"}}},
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    ]
    with http_server() as http:
        http.pages = [{"tools": [tool(f"t{number}", "", dict(schema)) for number, schema in enumerate(schemas)]}]
        model = ScriptedProvider([says("Hello.")])
        async with running_agent(model) as agent:
            await agent.editor.prompt(await opened(agent, over_http(http)), "Hello?")
    sent = [each.input_schema for each in model.requests[0].tools if each.name.startswith("far__")]
    assert sent == [
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"enum": ["A"], "type": "string"}}},
        {"type": "object", "properties": {}},
    ]
