"""Questions of the model to the user: as a form, as buttons, or in prose; the answer is the user's."""

import pytest

from pattern_acp.cli.journal import current_means
from pattern_acp.config.settings import Settings
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import Json
from pattern_acp.journal.events import ToolCallFinished
from pattern_acp.journal.history import read_history
from pattern_acp.policy.decision import Mode
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.replay.comparison import replay_turns
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.scripts import calls, says
from tests.support.turns import last_result

FORMS: JsonDict = {"elicitation": {"form": {}}}
OPTIONS: list[Json] = ["PostgreSQL", "SQLite"]
QUESTION = calls("ask_user", question="Which database?", options=OPTIONS)


async def answered(agent: RunningAgent) -> str:
    session = await agent.editor.open_session(str(agent.folder))
    await agent.editor.prompt(session, "Set up the database.")
    recorded = await agent.database.read(lambda tx: read_history(tx, session))
    (finished,) = [one for one in recorded if isinstance(one.event, ToolCallFinished)]
    text = last_result(agent.model.requests[1]).text
    by_user = (finished.actor, finished.origin) == (Actor.HUMAN, Origin.PERSON)
    assert by_user is text.startswith("The user answered: ")
    report = await replay_turns(session, recorded, current_means())
    assert (report.difference, report.calls) == (None, 1)
    return text


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"action": "accept", "content": {"answer": "SQLite"}}, "The user answered: SQLite"),
        ({"action": "accept", "content": {"answer": "SQLite", "own_words": "one file"}}, "SQLite. one file"),
        ({"action": "accept", "content": {"own_words": "Neither."}}, "The user answered: Neither."),
        ({"action": "accept", "content": {}}, "The user gave no answer."),
        ({"action": "decline"}, "The user gave no answer."),
        ({"action": "cancel"}, "The user gave no answer."),
    ],
)
async def test_a_client_with_forms_shows_one(answer: JsonDict, told: str):
    async with running_agent(ScriptedProvider([QUESTION, says("Done.")]), capabilities=FORMS) as agent:
        agent.editor.form = answer
        assert told in await answered(agent)
        (form,) = agent.editor.forms
        assert (form["mode"], form["message"]) == ("form", "Which database?")
        assert form["requestedSchema"]["properties"]["answer"]["enum"] == OPTIONS
        assert agent.editor.asked == []


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("allow_once_2", "The user answered: SQLite"),
        ("reject_once", "Put it with its options into your answer and end your turn"),
        ("other", "Put it with its options into your answer and end your turn"),
    ],
)
async def test_a_client_without_forms_shows_buttons(option: str, told: str):
    async with running_agent(ScriptedProvider([QUESTION, says("Done.")]), permission=choose(option)) as agent:
        assert told in await answered(agent)
        (asked,) = agent.editor.asked
        assert [one["name"] for one in asked["options"]] == [*OPTIONS, "Answer in my own words"]
        assert asked["toolCall"]["title"] == "Ask: Which database?"


async def test_without_forms_and_options_the_model_asks_in_its_answer():
    model = ScriptedProvider([calls("ask_user", question="Which name?"), says("Which name?")])
    async with running_agent(model) as agent:
        assert "end your turn" in await answered(agent)
        assert agent.editor.asked == []


async def test_a_form_without_options_asks_for_words():
    model = ScriptedProvider([calls("ask_user", question="Which name?"), says("Done.")])
    async with running_agent(model, capabilities=FORMS) as agent:
        agent.editor.form = {"action": "accept", "content": {"own_words": "Zebra"}}
        assert await answered(agent) == "The user answered: Zebra"
        assert agent.editor.forms[0]["requestedSchema"]["required"] == ["own_words"]


@pytest.mark.parametrize("mode", Mode)
async def test_every_mode_lets_the_model_ask(mode: Mode):
    settings = Settings(editor_deadline_seconds=30, mode=mode.value)
    model = ScriptedProvider([QUESTION, says("Done.")])
    async with running_agent(model, permission=choose("allow_once"), settings=settings) as agent:
        assert await answered(agent) == "The user answered: PostgreSQL"


async def test_one_option_is_no_choice():
    model = ScriptedProvider([calls("ask_user", question="Go on?", options=["Yes"]), says("Done.")])
    async with running_agent(model) as agent:
        assert "must be 2 to 4 different answers" in await answered(agent)
