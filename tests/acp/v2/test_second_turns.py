"""Turns of ACP v2: prompts, their insertion, states, calls, questions and terminals."""

import secrets
from typing import cast

import anyio
import pytest

from pattern_acp.config.settings import Settings, TurnSettings
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers.scripted import ScriptedProvider, ScriptStep
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.requests import refused
from tests.support.scripts import calls, gate, says, thinks
from tests.support.second_editor import SECOND, kinds, prompt_of, send, states, until_idle
from tests.support.turns import last_result


async def opened(agent: RunningAgent) -> str:
    assert (await agent.editor.initialize(SECOND))["protocolVersion"] == 2
    return await agent.editor.open_session(str(agent.folder))


async def test_a_prompt_is_answered_by_its_insertion_and_the_turn_ends_with_a_state():
    async with running_agent(ScriptedProvider([thinks("hm") + says("Hel", "lo.")]), introduce=False) as agent:
        session = await opened(agent)
        message = await send(agent.editor, session, "Hi")
        await until_idle(agent.editor)
        (shown,) = agent.editor.of_kind("user_message")
        assert (shown["messageId"], shown["content"]) == (message, [{"type": "text", "text": "Hi"}])
        assert states(agent.editor) == ["running", "idle:end_turn"]
        assert agent.editor.said() == "Hello."
        assert all(chunk["messageId"] for chunk in agent.editor.of_kind("agent_message_chunk"))
        assert [chunk["content"]["text"] for chunk in agent.editor.of_kind("agent_thought_chunk")] == ["hm"]


async def test_a_new_session_has_its_options_and_commands_in_the_answer_and_no_modes():
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        await agent.editor.initialize(SECOND)
        answer = await agent.editor.request("session/new", {"cwd": str(agent.folder)})
        assert {option["category"] for option in answer["configOptions"]} >= {"mode", "model"}
        assert "help" in {command["name"] for command in answer["availableCommands"]}
        assert "modes" not in answer
        changed = await agent.editor.request(
            "session/set_config_option",
            {"sessionId": answer["sessionId"], "configId": "mode", "type": "id", "value": "plan"},
        )
        modes = [option["currentValue"] for option in changed["configOptions"] if option["configId"] == "mode"]
        assert modes == ["plan"]


async def test_an_option_of_an_unknown_type_or_value_is_refused_and_nothing_changes():
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        session = await opened(agent)
        params: JsonDict = {"sessionId": session, "configId": "mode", "type": "_odd", "value": 7}
        assert (await refused(agent.editor, "session/set_config_option", params)).code == -32602
        assert (
            await refused(agent.editor, "session/set_config_option", params | {"type": "id", "value": "x"})
        ).code == (-32602)
        assert agent.editor.updates == []


async def test_an_edit_is_an_upsert_whose_diff_has_changes_and_a_patch():
    script = [calls("write_file", path="new.txt", content="one\ntwo\n"), says("Done.")]
    async with running_agent(ScriptedProvider(script), introduce=False) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Write")
        await until_idle(agent.editor)
        (asked,) = agent.editor.asked
        assert asked["title"]
        assert asked["subject"]["type"] == "tool_call"
        (diff,) = [item for item in agent.editor.of_kind("tool_call_update")[-1]["content"] if item["type"] == "diff"]
        new = agent.folder / "new.txt"
        path = str(new)
        assert diff["changes"] == [{"operation": "add", "path": path, "fileType": "text"}]
        assert diff["patch"]["text"] == (
            f"diff --git {path} {path}\nnew file mode 100644\n--- /dev/null\n+++ {path}\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        )
        assert states(agent.editor) == ["running", "requires_action", "running", "idle:end_turn"]
        assert new.read_text(encoding="utf-8") == "one\ntwo\n"


async def test_a_command_is_shown_live_in_a_terminal_of_ours():
    script = [calls("run_command", command="echo hello | tee said.txt; echo more"), says("Done.")]
    async with running_agent(ScriptedProvider(script), introduce=False) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Run")
        await until_idle(agent.editor)
        (asked,) = agent.editor.asked
        assert (asked["subject"]["type"], asked["subject"]["command"]) == (
            "command",
            "echo hello | tee said.txt; echo more",
        )
        assert asked["subject"]["cwd"] == str(agent.folder)
        announced, *_, ended = agent.editor.of_kind("terminal_update")
        assert announced["command"] == "echo hello | tee said.txt; echo more"
        assert ended["exitStatus"] == {"exitCode": 0}
        assert agent.editor.of_kind("terminal_output_chunk")
        order = kinds(agent.editor)
        assert order.index("terminal_update") < order.index("terminal_output_chunk")
        last = agent.editor.of_kind("tool_call_update")[-1]
        assert last["status"] == "completed"
        assert last["content"][0] == {"type": "terminal", "terminalId": announced["terminalId"]}


async def test_a_refused_edit_fails_its_call_and_the_turn_goes_on():
    script = [calls("edit_file", path="a.txt", edits=[{"old_text": "a", "new_text": "b"}]), says("As you wish.")]
    async with running_agent(ScriptedProvider(script), introduce=False, permission=choose("reject_once")) as agent:
        (agent.folder / "a.txt").write_text("a", encoding="utf-8")
        session = await opened(agent)
        await send(agent.editor, session, "Edit")
        await until_idle(agent.editor)
        assert len(agent.editor.asked) == 1
        assert agent.editor.of_kind("tool_call_update")[-1]["status"] == "failed"
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "a"


@pytest.mark.parametrize("forms", [True, False])
async def test_a_question_of_the_model_is_a_form_or_buttons_and_waits_for_the_user(*, forms: bool):
    question = calls("ask_user", question="Which database?", options=["PostgreSQL", "SQLite"])
    model = ScriptedProvider([question, says("Done.")])
    async with running_agent(model, introduce=False, permission=choose("allow_once_2")) as agent:
        agent.editor.form = {"action": "accept", "content": {"answer": "SQLite"}}
        capabilities: JsonDict = {"elicitation": {"form": {}}} if forms else {}
        await agent.editor.initialize({**SECOND, "capabilities": capabilities})
        session = await agent.editor.open_session(str(agent.folder))
        await send(agent.editor, session, "Set it up.")
        await until_idle(agent.editor)
        assert last_result(model.requests[1]).text == "The user answered: SQLite"
        assert (len(agent.editor.forms), len(agent.editor.asked)) == (int(forms), int(not forms))
        assert states(agent.editor) == ["running", "requires_action", "running", "idle:end_turn"]


async def test_an_outcome_that_is_unknown_refuses():
    async def odd(params: JsonDict) -> JsonDict:
        del params
        return {"outcome": "_later", "when": "tomorrow"}

    script = [calls("edit_file", path="a.txt", edits=[{"old_text": "a", "new_text": "b"}]), says("Well.")]
    async with running_agent(ScriptedProvider(script), introduce=False, permission=odd) as agent:
        (agent.folder / "a.txt").write_text("a", encoding="utf-8")
        session = await opened(agent)
        await send(agent.editor, session, "Edit")
        await until_idle(agent.editor)
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "a"


async def test_prompts_that_overlap_run_one_after_the_other_in_the_order_of_their_lines():
    first = gate()
    script = [(first, *says("one")), says("two"), says("three")]
    queue = Settings(editor_deadline_seconds=30, turn=TurnSettings(overlapping="queue"))
    async with running_agent(ScriptedProvider(script), introduce=False, settings=queue) as agent:
        session = await opened(agent)
        answered: dict[str, str] = {}

        async def ask(text: str) -> None:
            answered[text] = await send(agent.editor, session, text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "A")
            await first.reached.wait()
            assert list(answered) == ["A"]
            tasks.start_soon(ask, "B")
            await agent.editor.request("session/list", {})
            tasks.start_soon(ask, "C")
            await agent.editor.request("session/list", {})
            assert list(answered) == ["A"]
            first.opened.set()
        await until_idle(agent.editor, 3)
        assert list(answered) == ["A", "B", "C"]
        assert [one["messageId"] for one in agent.editor.of_kind("user_message")] == list(answered.values())
        assert states(agent.editor) == ["running", "idle:end_turn"] * 3
        assert agent.editor.said() == "onetwothree"


async def test_a_cancel_ends_the_turn_and_drops_what_waits_without_a_trace():
    first = gate()
    async with running_agent(ScriptedProvider([(first, *says("one")), says("two")]), introduce=False) as agent:
        session = await opened(agent)
        errors: list[int] = []

        async def ask(text: str) -> None:
            try:
                await send(agent.editor, session, text)
            except RemoteError as error:
                errors.append(error.code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "A")
            await first.reached.wait()
            tasks.start_soon(ask, "B")
            await agent.editor.request("session/list", {})
            await agent.editor.cancel(session)
        await until_idle(agent.editor)
        assert errors == [-32800]
        assert states(agent.editor) == ["running", "idle:cancelled"]
        assert len(agent.editor.of_kind("user_message")) == 1
        assert [one["title"] for one in agent.editor.of_kind("notice")] == ["Not sent, as you cancelled: “B”."]
        await send(agent.editor, session, "again")
        await until_idle(agent.editor, 2)
        assert agent.editor.said().endswith("two")


async def test_closing_ends_the_turn_with_its_state_before_the_answer():
    first = gate()
    async with running_agent(ScriptedProvider([(first, *says("one"))]), introduce=False) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "A")
        await first.reached.wait()
        await agent.editor.request("session/close", {"sessionId": session})
        assert states(agent.editor) == ["running", "idle:cancelled"]


async def test_a_failure_of_the_provider_is_an_error_with_the_code_of_what_failed():
    script = [(ScriptStep(error="request", detail="There is no such model."),)]
    async with running_agent(ScriptedProvider(script), introduce=False) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Hi")
        await until_idle(agent.editor)
        last = agent.editor.of_kind("state_update")[-1]
        assert last["stopReason"] == "error"
        assert "There is no such model." in last["error"]["message"]
        assert last["error"]["data"]["failure"].startswith("provider.")


async def test_two_prompts_with_one_key_are_one():
    async with running_agent(ScriptedProvider([says("one"), says("two")]), introduce=False) as agent:
        session = await opened(agent)
        first = await send(agent.editor, session, "Hi", "k1")
        assert await send(agent.editor, session, "Hi", "k1") == first
        await until_idle(agent.editor)
        assert await send(agent.editor, session, "Hi", "k1") == first
        assert len(agent.editor.of_kind("user_message")) == 1
        assert await send(agent.editor, session, "Hi", "k2") != first
        await until_idle(agent.editor, 2)


async def test_a_key_is_known_to_the_process_after_this_one():
    async with running_agent(ScriptedProvider([says("one")]), introduce=False) as agent:
        session = await opened(agent)
        first = await send(agent.editor, session, "Hi", "k1")
        await until_idle(agent.editor)
        await agent.editor.request("session/close", {"sessionId": session})
        async with running_agent(
            ScriptedProvider([says("two")]), introduce=False, database=agent.database.path
        ) as other:
            await other.editor.initialize(SECOND)
            params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "replayFrom": {"type": "start"}}
            await other.editor.request("session/resume", params)
            assert await send(other.editor, session, "Hi", "k1") == first
            assert len(other.editor.of_kind("user_message")) == 1


async def test_a_resume_replays_whole_messages_where_it_is_asked_and_tells_the_state_before_its_answer():
    script = [calls("run_command", command="echo hello"), says("Done.")]
    async with running_agent(ScriptedProvider(script), introduce=False) as agent:
        session = await opened(agent)
        message = await send(agent.editor, session, "Run")
        await until_idle(agent.editor)
        await agent.editor.request("session/close", {"sessionId": session})
        agent.editor.updates.clear()
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder)}
        answer = await agent.editor.request("session/resume", params)
        assert kinds(agent.editor) == ["state_update"]
        assert answer["configOptions"]
        await agent.editor.request("session/close", {"sessionId": session})
        agent.editor.updates.clear()
        await agent.editor.request("session/resume", params | {"replayFrom": {"type": "start"}})
        assert agent.editor.of_kind("user_message")[0]["messageId"] == message
        assert agent.editor.of_kind("agent_message")[0]["content"] == [{"type": "text", "text": "Done."}]
        (terminal,) = agent.editor.of_kind("terminal_update")
        assert terminal["output"]["data"]
        assert kinds(agent.editor)[-1] == "state_update"


async def test_a_session_that_is_not_there_is_named_in_the_error():
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        await agent.editor.initialize(SECOND)
        for method, params in (
            ("session/prompt", prompt_of("nowhere", "Hi")),
            ("session/resume", {"sessionId": "nowhere", "cwd": str(agent.folder)}),
        ):
            error = await refused(agent.editor, method, params)
            assert error.code == -32002
            assert cast("JsonDict", error.data)["sessionId"] == "nowhere"


async def test_a_plan_is_updated_under_its_id():
    entries = [{"content": "Look", "status": "in_progress", "priority": "high"}]
    async with running_agent(
        ScriptedProvider([calls("update_plan", entries=entries), says("Done.")]), introduce=False
    ) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Plan")
        await until_idle(agent.editor)
        plans = agent.editor.of_kind("plan_update")
        assert plans
        assert plans[-1]["plan"]["type"] == "items"


@pytest.mark.parametrize("method", ["authenticate", "session/load", "session/set_mode"])
async def test_methods_of_version_1_are_not_there(method: str):
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        await agent.editor.initialize(SECOND)
        assert (await refused(agent.editor, method, {})).code == -32601


async def test_a_subagent_is_cancelled_by_its_call_and_the_turn_goes_on():
    waits = gate()
    model = ScriptedProvider(
        [calls("delegate", kind="explorer", name="finder", task="Look."), says("Done.")],
        subagents={"finder": [(waits, *says("Found."))]},
    )
    async with running_agent(model, introduce=False, settings=Settings(mode="edit")) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Go on")
        await waits.reached.wait()
        update = next(one for one in agent.editor.of_kind("tool_call_update") if one.get("capabilities"))
        assert update["capabilities"] == {"cancel": {}}
        params: JsonDict = {"sessionId": session, "toolCallId": update["toolCallId"]}
        assert await agent.editor.request("tool_call/cancel", params) == {}
        await until_idle(agent.editor)
        assert agent.editor.said() == "Done."
        controls = [one["capabilities"] for one in agent.editor.of_kind("tool_call_update") if "capabilities" in one]
        assert controls == [{"cancel": {}}, None]
        assert (await refused(agent.editor, "tool_call/cancel", params)).code == -32602


async def test_a_question_that_is_withdrawn_with_its_subagent_leaves_the_turn_running():
    asked = anyio.Event()

    async def never(params: JsonDict) -> JsonDict:
        del params
        asked.set()
        await anyio.sleep_forever()
        return {}

    model = ScriptedProvider(
        [calls("delegate", kind="worker", name="maker", task="Make."), says("Done.")],
        subagents={"maker": [calls("run_command", command="touch made.txt"), says("Made.")]},
    )
    async with running_agent(model, introduce=False, permission=never, settings=Settings(mode="edit")) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Go on")
        await asked.wait()
        update = next(one for one in agent.editor.of_kind("tool_call_update") if one.get("capabilities"))
        params: JsonDict = {"sessionId": session, "toolCallId": update["toolCallId"]}
        await agent.editor.request("tool_call/cancel", params)
        await until_idle(agent.editor)
        assert states(agent.editor) == ["running", "requires_action", "running", "idle:end_turn"]


async def test_the_state_is_requires_action_only_while_nothing_of_the_foreground_goes_on():
    works, answers = gate(), gate()

    async def late(params: JsonDict) -> JsonDict:
        del params
        answers.reached.set()
        await answers.opened.wait()
        return {"outcome": "selected", "optionId": "allow_once"}

    both = calls("delegate", kind="worker", name="maker", task="Make.") + calls(
        "delegate", kind="explorer", name="finder", task="Look."
    )
    model = ScriptedProvider(
        [both, says("Done.")],
        subagents={
            "maker": [calls("run_command", command="touch made.txt"), says("Made.")],
            "finder": [(works, *says("Found."))],
        },
    )
    async with running_agent(model, introduce=False, permission=late, settings=Settings(mode="edit")) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "Go on")
        await works.reached.wait()
        await answers.reached.wait()
        assert states(agent.editor) == ["running"]
        works.opened.set()
        await agent.editor.wait_until(lambda: states(agent.editor)[-1] == "requires_action")
        answers.opened.set()
        await until_idle(agent.editor)
        assert states(agent.editor) == ["running", "requires_action", "running", "idle:end_turn"]


async def test_limits_keep_their_stop_reasons_and_notices_are_notices():
    looks = calls("read_file", path="none.txt")
    few = Settings(editor_deadline_seconds=30, turn=TurnSettings(max_model_requests=1), persona="default")
    async with running_agent(ScriptedProvider([looks, looks]), introduce=False, settings=few) as agent:
        session = await opened(agent)
        agent.sessions.get(session).state.notices.append("A setting could not be used.")
        await send(agent.editor, session, "Hi")
        await until_idle(agent.editor)
        assert states(agent.editor)[-1] == "idle:max_turn_requests"
        (notice,) = agent.editor.of_kind("notice")
        assert notice == {"sessionUpdate": "notice", "severity": "info", "title": "A setting could not be used."}
        assert "could not be used" not in agent.editor.said()


async def test_a_prompt_that_cannot_be_recorded_is_answered_with_the_reason():
    async with running_agent(ScriptedProvider([says("Hello.")]), introduce=False) as agent:
        session = await opened(agent)
        await agent.database.write(lambda tx: tx.all("PRAGMA max_page_count = 150"))
        error = await refused(agent.editor, "session/prompt", prompt_of(session, secrets.token_hex(400_000)))
        assert error.code == -32603
        assert "Nothing more was saved" in error.message
        assert agent.editor.of_kind("user_message") == agent.editor.of_kind("state_update") == []
        assert agent.model.requests == []
        await agent.database.write(lambda tx: tx.all("PRAGMA max_page_count = 1000000"))
        await send(agent.editor, session, "Hi")
        await until_idle(agent.editor)
        assert agent.editor.said().endswith("Hello.")
