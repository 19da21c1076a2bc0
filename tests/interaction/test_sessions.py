"""session/new, resume, close and delete, and how sessions stay apart."""

from pathlib import Path

import anyio
import pytest

from pattern_acp.jsonrpc.messages import INVALID_PARAMS, RESOURCE_NOT_FOUND
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import FULL_CLIENT, RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.requests import begin_prompt, kinds_of, option, refused, updates_of
from tests.support.scripts import calls, gate, says


def opening(cwd: Path | str, **more: object) -> JsonDict:
    return {"cwd": str(cwd), "mcpServers": [], **more}


async def listed(agent: RunningAgent) -> list[str]:
    answer = await agent.editor.request("session/list", {})
    return [row["sessionId"] for row in answer["sessions"]]


@pytest.mark.parametrize(
    "params",
    [
        {"cwd": "relative/folder", "mcpServers": []},
        {"cwd": ".", "mcpServers": []},
        {"cwd": "", "mcpServers": []},
        {"cwd": "~", "mcpServers": []},
        {"mcpServers": []},
        {"cwd": None, "mcpServers": []},
        {"cwd": 7, "mcpServers": []},
        {},
    ],
)
async def test_a_folder_that_is_not_absolute_is_refused(params: JsonDict):
    async with running_agent(ScriptedProvider([])) as agent:
        error = await refused(agent.editor, "session/new", params)
        assert error.code == INVALID_PARAMS
        assert error.message.endswith(".")


@pytest.mark.parametrize("name", ["nowhere", "file.txt", "with\0nul", "x" * 5000])
async def test_a_folder_that_is_none_is_refused_with_a_sentence(name: str):
    async with running_agent(ScriptedProvider([])) as agent:
        (agent.folder / "file.txt").write_text("", encoding="utf-8")
        error = await refused(agent.editor, "session/new", opening(f"{agent.folder}/{name}"))
        assert error.code == INVALID_PARAMS
        assert "folder" in error.message


@pytest.mark.parametrize("more", [["relative"], ["/with\0nul"], "no list", [1]])
async def test_additional_directories_must_be_a_list_of_absolute_folders(more: object):
    async with running_agent(ScriptedProvider([])) as agent:
        error = await refused(agent.editor, "session/new", opening(agent.folder, additionalDirectories=more))
        assert error.code == INVALID_PARAMS


async def test_sessions_have_their_own_folder_history_and_mode():
    model = ScriptedProvider(
        [calls("read_file", path="a.txt"), says("one"), calls("read_file", path="a.txt"), says("two")]
    )
    async with running_agent(model) as agent:
        folders = [agent.folder / "first", agent.folder / "second"]
        for folder in folders:
            folder.mkdir()
            (folder / "a.txt").write_text(f"I am in {folder.name}\n", encoding="utf-8")
        first, second = [await agent.editor.open_session(str(folder)) for folder in folders]
        await agent.editor.request("session/set_mode", {"sessionId": second, "modeId": "edit"})
        await agent.editor.prompt(first, "Read it in the first")
        await agent.editor.prompt(second, "Read it in the second")

        texts = [str(request.messages) for request in model.requests]
        assert "I am in first" in texts[1]
        assert "I am in second" in texts[3]
        assert "first" not in texts[3]
        assert agent.sessions.get(first).state.policy.mode == "ask"
        assert {update["sessionId"] for update in agent.editor.updates} == {first, second}


async def test_a_prompt_of_one_session_does_not_disturb_a_running_one_of_another():
    waiting = gate()
    model = ScriptedProvider([(waiting, *says("slow")), says("quick")])
    async with running_agent(model) as agent, anyio.create_task_group() as tasks:
        first = await agent.editor.open_session(str(agent.folder))
        second = await agent.editor.open_session(str(agent.folder))
        slow = begin_prompt(tasks, agent.editor, first, "slow")
        with anyio.fail_after(30):
            await waiting.reached.wait()
        assert await agent.editor.prompt(second, "quick") == {"stopReason": "end_turn"}
        await agent.editor.cancel(second)
        waiting.opened.set()
        assert await slow.end() == {"stopReason": "end_turn"}


async def test_ids_are_unique():
    async with running_agent(ScriptedProvider([])) as agent:
        ids = [await agent.editor.open_session(str(agent.folder)) for _ in range(20)]
        assert len(set(ids)) == 20


@pytest.mark.first_version("the commands are in the answer")
async def test_nothing_is_told_of_a_session_before_its_answer_and_the_commands_follow():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.wait_until(lambda: bool(agent.editor.updates))
        assert kinds_of(updates_of(agent.editor, session)) == ["available_commands_update"]
        lines = agent.editor.recording.lines
        answer = next(at for at, line in enumerate(lines) if b'"modes"' in line)
        told = next(at for at, line in enumerate(lines) if session.encode() in line)
        assert told == answer


@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])
async def test_nothing_is_asked_of_the_editor_before_it_knows_the_session(method: str):
    async with running_agent(ScriptedProvider([says("one")]), capabilities=FULL_CLIENT) as agent:
        for name in ("AGENTS.md", "README.md"):
            (agent.folder / name).write_text("Be brief.\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        await agent.editor.request("session/close", {"sessionId": session})
        agent.editor.requests.clear()
        more = {} if method == "session/new" else {"sessionId": session}
        await agent.editor.request(method, opening(agent.folder, **more))
        assert [name for name, _ in agent.editor.requests if name.startswith(("fs/", "terminal/"))] == []


@pytest.mark.first_version("the commands are in the answer")
async def test_the_commands_are_told_again_at_the_first_prompt_and_not_at_the_second():
    async with running_agent(ScriptedProvider([says("one"), says("two")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.wait_until(lambda: bool(agent.editor.updates))
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "Hi")
        assert kinds_of(updates_of(agent.editor, session))[0] == "available_commands_update"
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "Hi again")
        assert "available_commands_update" not in kinds_of(updates_of(agent.editor, session))


@pytest.mark.parametrize(
    "servers",
    [
        [{"name": "files", "command": "/no/such/server", "args": ["--x"], "env": [{"name": "A", "value": "b"}]}],
        [{"type": "http", "name": "files", "url": "http://127.0.0.1:1/mcp", "headers": []}],
        [{"type": "sse", "name": "files", "url": "not a url", "headers": [{"name": "A", "value": "b"}]}],
        [{"type": "telepathy", "name": "files", "more": {"a": 1}}],
        [{"name": "files"}],
    ],
)
async def test_servers_that_a_client_passes_are_reported_once_and_never_fatal(servers: list[JsonDict]):
    async with running_agent(ScriptedProvider([says("one"), says("two")])) as agent:
        answer = await agent.editor.request("session/new", {"cwd": str(agent.folder), "mcpServers": servers})
        session = answer["sessionId"]
        await agent.editor.prompt(session, "Hi")
        assert "files" in agent.editor.said()
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "Hi")
        assert agent.editor.said() == "two"


@pytest.mark.parametrize(
    "servers",
    [
        "nonsense",
        5,
        {"files": {"command": "x"}},
        [5],
        [None],
        [{}],
        [{"name": 5}],
        [{"command": "x"}],
        [{"name": "files", "args": "no list", "env": [5], "headers": {"a": "b"}, "url": []}],
        [{"name": "files", "command": "x"}, "nonsense", {"name": "more", "command": "y"}],
    ],
)
async def test_servers_that_make_no_sense_are_reported_and_never_fatal(servers: object):
    async with running_agent(ScriptedProvider([says("one")])) as agent:
        answer = await agent.editor.request("session/new", {"cwd": str(agent.folder), "mcpServers": servers})
        await agent.editor.prompt(answer["sessionId"], "Hi")
        assert "MCP" in agent.editor.said()
        assert agent.editor.said().endswith("one")


async def test_missing_servers_are_no_servers():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        answer = await agent.editor.request("session/new", {"cwd": str(agent.folder)})
        await agent.editor.prompt(answer["sessionId"], "Hi")
        assert agent.editor.said() == "Hello."


async def test_modes_and_options_come_from_new_load_and_resume_alike_and_in_step():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        editor = agent.editor
        new = await editor.request("session/new", opening(agent.folder))
        session = new.pop("sessionId")
        await editor.prompt(session, "Hi")
        loaded = await editor.request("session/load", opening(agent.folder, sessionId=session))
        resumed = await editor.request("session/resume", opening(agent.folder, sessionId=session))
        assert new == loaded == resumed
        assert [o["id"] for o in new["configOptions"]] == ["mode", "model", "thought_level"]
        mode = option(new["configOptions"], "mode")
        assert mode["category"] == "mode"
        assert mode["currentValue"] == new["modes"]["currentModeId"]
        assert [c["value"] for c in mode["options"]] == [m["id"] for m in new["modes"]["availableModes"]]


async def test_close_is_quiet_for_an_unknown_session_and_ends_a_known_one():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        editor = agent.editor
        assert await editor.request("session/close", {"sessionId": "ses_unknown"}) == {}
        session = await editor.open_session(str(agent.folder))
        await editor.prompt(session, "Hi")
        assert await editor.request("session/close", {"sessionId": session}) == {}
        assert await editor.request("session/close", {"sessionId": session}) == {}
        prompt: JsonDict = {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]}
        assert (await refused(editor, "session/prompt", prompt)).code == RESOURCE_NOT_FOUND
        assert await listed(agent) == [session]
        await editor.request("session/resume", opening(agent.folder, sessionId=session))


async def test_close_cancels_the_running_turn_like_a_cancel():
    waiting = gate()
    async with (
        running_agent(ScriptedProvider([(*says("so far"), waiting)])) as agent,
        anyio.create_task_group() as tasks,
    ):
        session = await agent.editor.open_session(str(agent.folder))
        running = begin_prompt(tasks, agent.editor, session, "Hi")
        with anyio.fail_after(30):
            await waiting.reached.wait()
            assert await agent.editor.request("session/close", {"sessionId": session}) == {}
        assert await running.end() == {"stopReason": "cancelled"}


async def test_a_deleted_session_is_gone_from_the_list_from_search_and_for_good():
    model = ScriptedProvider([says("The zeppelin is green."), says("Hello.")])
    async with running_agent(model) as agent:
        editor = agent.editor
        session = await editor.open_session(str(agent.folder))
        await editor.prompt(session, "Which colour has the zeppelin?")
        other = await editor.open_session(str(agent.folder))
        await editor.prompt(other, "/recall zeppelin")
        assert "green" in editor.said()
        assert await editor.request("session/delete", {"sessionId": session}) == {}
        assert await editor.request("session/delete", {"sessionId": session}) == {}
        assert await editor.request("session/delete", {"sessionId": "ses_unknown"}) == {}
        editor.updates.clear()
        await editor.prompt(other, "/recall zeppelin")
        assert "green" not in editor.said()
        assert session not in await listed(agent)
        for method in ("session/load", "session/resume"):
            assert (await refused(editor, method, opening(agent.folder, sessionId=session))).code == RESOURCE_NOT_FOUND


async def test_a_session_that_is_deleted_while_its_turn_runs_ends_it_first():
    waiting = gate()
    async with running_agent(ScriptedProvider([(waiting,)])) as agent, anyio.create_task_group() as tasks:
        session = await agent.editor.open_session(str(agent.folder))
        running = begin_prompt(tasks, agent.editor, session, "Hi")
        with anyio.fail_after(30):
            await waiting.reached.wait()
            await agent.editor.request("session/delete", {"sessionId": session})
        assert await running.end() == {"stopReason": "cancelled"}
        assert await listed(agent) == []


async def test_a_message_id_key_in_meta_never_replaces_a_parameter():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        elsewhere = agent.folder / "elsewhere"
        elsewhere.mkdir()
        meta = {"cwd": str(elsewhere), "sessionId": "ses_other", "session_id": "ses_other", "self": 1}
        answer = await agent.editor.request("session/new", opening(agent.folder, _meta=meta))
        session = answer["sessionId"]
        assert agent.sessions.get(session).state.cwd == str(agent.folder)
        params: JsonDict = {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}], "_meta": meta}
        assert await agent.editor.request("session/prompt", params) == {"stopReason": "end_turn"}
        assert {update["sessionId"] for update in agent.editor.updates} == {session}
