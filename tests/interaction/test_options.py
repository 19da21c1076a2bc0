"""session/set_mode, session/set_config_option and /model: always in step, always the whole list."""

import anyio
import pytest

from pattern_acp.config.settings import ModelSettings, Settings
from pattern_acp.jsonrpc.messages import INVALID_PARAMS, RESOURCE_NOT_FOUND
from pattern_acp.providers.base import ModelInfo
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.requests import begin_prompt, kinds_of, option, refused, updates_of
from tests.support.scripts import calls, gate, says


async def choose(agent: RunningAgent, session: str, option_id: str, value: object, **more: object) -> list[JsonDict]:
    params: JsonDict = {"sessionId": session, "configId": option_id, "value": value, **more}
    answer = await agent.editor.request("session/set_config_option", params)
    return answer["configOptions"]


async def load(agent: RunningAgent, session: str) -> JsonDict:
    params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
    return await agent.editor.request("session/load", params)


async def test_every_answer_holds_the_whole_list():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for option_id, value in (("mode", "plan"), ("model", "scripted/test"), ("thought_level", "high")):
            options = await choose(agent, session, option_id, value)
            assert [item["id"] for item in options] == ["mode", "model", "thought_level"]
            assert option(options, option_id)["currentValue"] == value


@pytest.mark.parametrize(
    ("option_id", "value"),
    [
        ("mode", "yolo"),
        ("mode", ""),
        ("mode", True),
        ("model", "no-such-provider/model"),
        ("model", ""),
        ("thought_level", "extreme"),
        ("verbosity", "high"),
        ("", "ask"),
    ],
)
async def test_an_unknown_option_or_value_is_refused_and_changes_nothing(option_id: str, value: object):
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        params: JsonDict = {"sessionId": session, "configId": option_id, "value": value}
        error = await refused(agent.editor, "session/set_config_option", params)
        assert error.code == INVALID_PARAMS
        assert error.message.endswith(".")
        options = await choose(agent, session, "mode", "ask")
        assert [item["currentValue"] for item in options] == ["ask", "scripted/test", "auto"]


@pytest.mark.parametrize("params", [{"configId": "mode"}, {"value": "ask"}, {"configId": "mode", "value": 5}])
async def test_a_request_that_lacks_something_is_refused(params: JsonDict):
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        error = await refused(agent.editor, "session/set_config_option", {"sessionId": session, **params})
        assert error.code == INVALID_PARAMS


@pytest.mark.first_version("an option takes values of type `id` alone")
async def test_a_boolean_value_is_understood_and_refused_where_there_is_no_switch():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        params: JsonDict = {"sessionId": session, "configId": "mode", "type": "boolean", "value": True}
        error = await refused(agent.editor, "session/set_config_option", params)
        assert error.code == INVALID_PARAMS
        assert "'true'" in error.message


async def test_an_unknown_mode_or_session_is_refused():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        error = await refused(agent.editor, "session/set_mode", {"sessionId": session, "modeId": "yolo"})
        assert error.code == INVALID_PARAMS
        unknown: list[tuple[str, JsonDict]] = [
            ("session/set_mode", {"modeId": "ask"}),
            ("session/set_config_option", {"configId": "mode", "value": "ask"}),
        ]
        for method, params in unknown:
            error = await refused(agent.editor, method, {"sessionId": "ses_unknown", **params})
            assert error.code == RESOURCE_NOT_FOUND


@pytest.mark.first_version("there are no modes")
async def test_modes_and_options_stay_in_step_whichever_is_set():
    async with running_agent(ScriptedProvider([])) as agent:
        editor = agent.editor
        session = await editor.open_session(str(agent.folder))
        await editor.wait_until(lambda: bool(editor.updates))
        editor.updates.clear()

        assert await editor.request("session/set_mode", {"sessionId": session, "modeId": "edit"}) == {}
        await editor.wait_until(lambda: bool(editor.updates))
        (update,) = updates_of(editor, session)
        assert update["sessionUpdate"] == "config_option_update"
        assert option(update["configOptions"], "mode")["currentValue"] == "edit"
        assert len(update["configOptions"]) == 3
        editor.updates.clear()

        await choose(agent, session, "mode", "auto")
        await editor.wait_until(lambda: bool(editor.updates))
        assert updates_of(editor, session) == [{"sessionUpdate": "current_mode_update", "currentModeId": "auto"}]

        loaded = await load(agent, session)
        assert loaded["modes"]["currentModeId"] == "auto"
        assert option(loaded["configOptions"], "mode")["currentValue"] == "auto"


async def test_mode_model_and_thought_level_are_kept_over_a_load():
    async with running_agent(ScriptedProvider([]), others={"other": ScriptedProvider([says("I am other.")])}) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await choose(agent, session, "model", "other/test")
        await choose(agent, session, "thought_level", "low")
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "plan"})
        loaded = await load(agent, session)
        assert [item["currentValue"] for item in loaded["configOptions"]] == ["plan", "other/test", "low"]
        await agent.editor.prompt(session, "Who are you?")
        assert agent.editor.said() == "I am other."


async def test_a_model_that_does_not_think_has_no_thought_level():
    async with running_agent(
        ScriptedProvider([says("Hi.")]), others={"plain": ScriptedProvider([says("Hi.")])}
    ) as agent:
        agent.models.infos["plain"] = ModelInfo("plain", "test")
        session = await agent.editor.open_session(str(agent.folder))
        await choose(agent, session, "thought_level", "high")
        options = await choose(agent, session, "model", "plain/test")
        assert [item["id"] for item in options] == ["mode", "model"]
        params: JsonDict = {"sessionId": session, "configId": "thought_level", "value": "low"}
        assert (await refused(agent.editor, "session/set_config_option", params)).code == INVALID_PARAMS
        options = await choose(agent, session, "model", "scripted/test")
        assert option(options, "thought_level")["currentValue"] == "high"
        await agent.editor.prompt(session, "Hi")
        assert agent.model.requests[-1].thought_level == "high"


@pytest.mark.first_version("there are no modes")
async def test_the_command_that_switches_the_model_tells_modes_and_options():
    async with running_agent(ScriptedProvider([]), others={"other": ScriptedProvider([])}) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/model other/test")
        kinds = kinds_of(updates_of(agent.editor, session))
        assert "current_mode_update" in kinds
        assert "config_option_update" in kinds
        (update,) = agent.editor.of_kind("config_option_update")
        assert option(update["configOptions"], "model")["currentValue"] == "other/test"


async def test_a_new_session_asks_for_no_thinking_unless_the_settings_do():
    for settings, level in ((Settings(), "auto"), (Settings(thinking="high"), "high")):
        async with running_agent(ScriptedProvider([says("Hi.")]), settings=settings) as agent:
            session = await agent.editor.open_session(str(agent.folder))
            await agent.editor.prompt(session, "Hi")
            assert agent.model.requests[-1].thought_level == level
            options = (await load(agent, session))["configOptions"]
            assert option(options, "thought_level")["currentValue"] == level
            values = [choice["value"] for choice in option(options, "thought_level")["options"]]
            assert values == ["auto", "off", "low", "high"]


async def test_the_command_for_thinking_shows_the_choices_and_sets_one():
    async with running_agent(ScriptedProvider([says("Hi.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/thinking")
        shown = agent.editor.said()
        assert [line for line in shown.splitlines() if "in use" in line] == [
            "- `auto`: As much as the model's vendor sets by default; medium where that is nothing. ← in use"
        ]
        assert all(f"- `{level}`" in shown for level in ("off", "low", "high"))
        await agent.editor.prompt(session, "/thinking HIGH")
        (update,) = agent.editor.of_kind("config_option_update")
        assert option(update["configOptions"], "thought_level")["currentValue"] == "high"
        await agent.editor.prompt(session, "/thinking")
        assert "- `high` ← in use" in agent.editor.said()
        await agent.editor.prompt(session, "Hi")
        assert agent.model.requests[-1].thought_level == "high"
        options = (await load(agent, session))["configOptions"]
        assert option(options, "thought_level")["currentValue"] == "high"


async def test_the_command_for_thinking_names_the_choices_or_that_there_are_none():
    async with running_agent(ScriptedProvider([]), others={"plain": ScriptedProvider([])}) as agent:
        agent.models.infos["plain"] = ModelInfo("plain", "test")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/thinking extreme")
        assert "has no level `extreme`; choose one of auto, off, low, high." in agent.editor.said()
        await agent.editor.prompt(session, "/model plain/test")
        for typed in ("/thinking", "/thinking high"):
            await agent.editor.prompt(session, typed)
            assert "How much `plain/test` thinks cannot be chosen" in agent.editor.said()


async def test_a_change_of_model_follows_its_table_until_the_user_chooses_a_level():
    own = {"other/test": ModelSettings(thinking_level="high")}
    others = {"other": ScriptedProvider([])}
    async with running_agent(ScriptedProvider([]), settings=Settings(models=own), others=others) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for name, level in (("other/test", "high"), ("scripted/test", "auto"), ("other/test", "high")):
            options = await choose(agent, session, "model", name)
            assert option(options, "thought_level")["currentValue"] == level
        options = (await load(agent, session))["configOptions"]
        assert option(options, "thought_level")["currentValue"] == "high"
        await choose(agent, session, "thought_level", "low")
        options = await choose(agent, session, "model", "scripted/test")
        assert option(options, "thought_level")["currentValue"] == "low"


async def test_the_level_that_was_chosen_last_for_a_model_is_that_of_new_sessions():
    others = {"other": ScriptedProvider([])}
    async with running_agent(ScriptedProvider([]), others=others) as agent:
        first = await agent.editor.open_session(str(agent.folder))
        await choose(agent, first, "thought_level", "high")
        second = await agent.editor.open_session(str(agent.folder))
        assert await level_of(agent, second) == "high"
        # It goes along to a model for which nothing was chosen, without counting as a choice for that.
        await choose(agent, second, "model", "other/test")
        assert await level_of(agent, second) == "high"
        await agent.editor.prompt(first, "/thinking low")
        await choose(agent, second, "thought_level", "off")
        await choose(agent, second, "model", "scripted/test")
        assert await level_of(agent, second) == "low"
        await choose(agent, second, "model", "other/test")
        assert await level_of(agent, second) == "off"


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        (Settings(thinking="low"), "low"),
        (Settings(thinking_is_set=True), "auto"),
        (Settings(models={"scripted/test": ModelSettings(thinking_level="off")}), "off"),
    ],
)
async def test_settings_win_over_the_level_that_was_chosen_last(settings: Settings, level: str):
    async with running_agent(ScriptedProvider([]), settings=settings) as agent:
        await choose(agent, await agent.editor.open_session(str(agent.folder)), "thought_level", "high")
        assert await level_of(agent, await agent.editor.open_session(str(agent.folder))) == level


async def level_of(agent: RunningAgent, session: str) -> object:
    return option((await load(agent, session))["configOptions"], "thought_level")["currentValue"]


async def test_a_session_that_was_recorded_with_thinking_off_opens_with_it_off():
    async with running_agent(ScriptedProvider([says("Hi.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.database.write(
            lambda tx: tx.execute("UPDATE sessions SET thought_level = 'off' WHERE id = :id", {"id": session})
        )
        await agent.editor.request("session/close", {"sessionId": session})
        options = (await load(agent, session))["configOptions"]
        assert option(options, "thought_level")["currentValue"] == "off"


async def test_a_mode_set_while_a_turn_runs_counts_for_its_next_call():
    waiting = gate()
    model = ScriptedProvider(
        [(waiting, *calls("write_file", path="a.txt", content="x\n")), says("Done.")],
    )
    async with running_agent(model) as agent, anyio.create_task_group() as tasks:
        session = await agent.editor.open_session(str(agent.folder))
        running = begin_prompt(tasks, agent.editor, session, "Write it")
        with anyio.fail_after(30):
            await waiting.reached.wait()
        options = await choose(agent, session, "mode", "auto")
        assert option(options, "mode")["currentValue"] == "auto"
        waiting.opened.set()
        assert await running.end() == {"stopReason": "end_turn"}
        assert agent.editor.asked == []
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "x\n"


async def test_an_option_that_could_not_be_recorded_was_not_set():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.database.write(
            lambda tx: tx.execute(
                "CREATE TRIGGER refuse BEFORE UPDATE OF mode ON sessions BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )
        )
        error = await refused(agent.editor, "session/set_mode", {"sessionId": session, "modeId": "auto"})
        assert error.code == -32603
        await agent.database.write(lambda tx: tx.execute("DROP TRIGGER refuse"))
        options = await choose(agent, session, "thought_level", "off")
        assert option(options, "mode")["currentValue"] == "ask"
