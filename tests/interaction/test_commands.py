"""Slash commands: answered by the program, never seen by the model, kept in the transcript."""

import re

import pytest

from pattern_acp.commands.slash import COMMANDS, command_in
from pattern_acp.config.settings import IsolationSetting, MemorySettings, Settings
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.messages import TextPart
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.heard import conversation
from tests.support.requests import updates_of
from tests.support.scripts import says
from tests.support.transcript import shown


async def answer(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    assert (await agent.editor.prompt(session, text))["stopReason"] == "end_turn"
    return agent.editor.said()


async def opened(agent: RunningAgent) -> str:
    return await agent.editor.open_session(str(agent.folder))


def test_all_commands_of_the_contract_are_there():
    assert set(COMMANDS) >= {"help", "status", "memory", "remember", "recall", "model", "doctor"}


@pytest.mark.parametrize(
    "text",
    [
        "/etc/hosts",
        "/",
        "//help",
        "/Help",
        "/helpme",
        "help",
        "see /help",
        "/etc/hosts says no",
        "/unknown",
        "/ help",
        "",
    ],
)
def test_what_is_no_known_command_stays_a_prompt(text: str):
    assert command_in(text) is None


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/help", "help", ""),
        ("  /help  ", "help", ""),
        ("/memory human", "memory", "human"),
        ("/remember\tTabs matter", "remember", "Tabs matter"),
        ("/remember  two  spaces", "remember", "two  spaces"),
        ("/remember a\nb", "remember", "a\nb"),
        ("/remember\na b", "remember", "a b"),
    ],
)
def test_a_command_and_its_argument(text: str, name: str, argument: str):
    command = command_in(text)
    assert command is not None
    assert (command.name, command.argument) == (name, argument)


async def test_blocks_that_clients_put_in_front_of_a_command_do_not_hide_it():
    model = ScriptedProvider([says("Hello.")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        for before in ("System note: be kind.", "a prompt that was cancelled", "/remember not this again"):
            agent.editor.updates.clear()
            blocks = [
                {"type": "text", "text": before},
                {"type": "text", "text": "/help"},
                {"type": "resource_link", "uri": "file:///cursor", "name": "cursor"},
            ]
            await agent.editor.request("session/prompt", {"sessionId": session, "prompt": blocks})
            assert "/recall" in agent.editor.said()
        assert model.requests == []
        assert "not this again" not in await answer(agent, session, "/memory")


async def test_a_prompt_in_the_form_of_a_client_is_titled_and_found_by_its_words_and_sent_whole():
    model = ScriptedProvider([says("Done."), says("Done again.")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        said: list[str] = []
        for words in ("Paint the zebra", "Feed the otter"):
            said.insert(0, words)
            texts = [f"<previous_user_message>{one}</previous_user_message>" for one in said]
            context = f"Continuing from previous session with {len(said)} recent user messages"
            blocks = [
                {"type": "text", "text": text} for text in (*texts, f"<system_context>{context}</system_context>")
            ]
            await agent.editor.request("session/prompt", {"sessionId": session, "prompt": blocks})
        sent = [part.text for part in model.requests[-1].messages[-1].parts if isinstance(part, TextPart)]
        assert [block["text"] for block in blocks] == sent
        (listed,) = (await agent.editor.request("session/list", {}))["sessions"]
        assert listed["title"] == "Paint the zebra"
        found = await answer(agent, session, "/search zebra")
        assert "Paint the zebra" in found.partition(", user: ")[2].partition("\n- ")[0]
        assert "previous_user_message" not in found


async def test_a_path_reaches_the_model():
    model = ScriptedProvider([says("That is a file.")])
    async with running_agent(model) as agent:
        assert await answer(agent, await opened(agent), "/etc/hosts") == "That is a file."
        assert model.requests[0].messages[-1].text == "/etc/hosts"


async def test_commands_are_advertised_with_their_hints():
    async with running_agent(ScriptedProvider([])) as agent:
        await opened(agent)
        await agent.editor.wait_until(lambda: bool(agent.editor.updates))
        (update,) = agent.editor.of_kind("available_commands_update")
        assert [command["name"] for command in update["availableCommands"]] == list(COMMANDS)
        hints = {c["name"]: c.get("input", {}).get("hint", "") for c in update["availableCommands"]}
        assert hints["remember"].endswith("TEXT")
        assert hints["help"] == "[COMMAND]"
        assert hints["status"] == ""


async def test_help_lists_every_command():
    async with running_agent(ScriptedProvider([])) as agent:
        said = await answer(agent, await opened(agent), "/help")
        assert all(f"/{name}" in said for name in COMMANDS)
        bars = [len(re.findall(r"(?<!\\)\|", row)) for row in said.splitlines()]
        assert bars == [3] * (len(COMMANDS) + 2)


@pytest.mark.parametrize("typed", ["/help memory", "/help /memory"])
async def test_help_describes_one_command(typed: str):
    async with running_agent(ScriptedProvider([])) as agent:
        said = await answer(agent, await opened(agent), typed)
        assert len(said.splitlines()) == 3
        assert said.splitlines()[2].startswith("| `/memory ")


async def test_help_of_a_command_that_there_is_not_says_where_all_are():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        assert await answer(agent, session, "/help bogus") == "There is no command /bogus. /help lists all."
        assert await answer(agent, session, "/help memory show") == "/help takes [COMMAND], not 'show' too."


async def test_status_tells_session_model_mode_folder_and_file():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "plan"})
        said = await answer(agent, session, "/status")
        for expected in (session, "scripted/test", "plan", str(agent.folder), str(agent.database.path), "bytes"):
            assert expected in said


async def test_what_is_remembered_already_is_said_kindly_and_not_written_twice():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        await answer(agent, session, "/remember I like short answers.")
        again = await answer(agent, session, "/remember I like short answers.")
        assert "That is remembered already: “I like short answers.”" in again
        assert (await answer(agent, session, "/memory human")).count("I like short answers.") == 1


async def test_what_is_remembered_is_the_persons_own_word_and_shown_by_memory():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        assert "`human`" in await answer(agent, session, "/remember I like short answers.")
        assert "project" in await answer(agent, session, "/remember project: Run make check.")
        told = await answer(agent, session, "/remember The linter is ruff.")
        assert "Remembered in `project`" in told
        assert "To have it in every project: `/memory undo project`, then `/remember me: …`." in told
        assert "Remembered in `human`" in await answer(agent, session, "/remember me: Tabs, never blanks.")
        whole = await answer(agent, session, "/memory")
        assert "I like short answers." in whole
        assert "Run make check." in whole
        only = await answer(agent, session, "/memory human")
        assert "I like short answers." in only
        assert "Run make check." not in only

        def origins(tx: Transaction) -> list[object]:
            rows = tx.all(
                "SELECT actor, origin FROM events WHERE kind = 'block_committed' AND stream = :s", {"s": session}
            )
            return [tuple(row) for row in rows]

        assert await agent.database.read(origins) == [("human", "person")] * 4


async def test_recall_finds_memory_and_other_sessions():
    async with running_agent(ScriptedProvider([says("The parser lives in reader.py.")])) as agent:
        session = await opened(agent)
        await answer(agent, session, "Where is the parser?")
        other = await opened(agent)
        await answer(agent, other, "/remember project: The parser is fragile.")
        said = await answer(agent, other, "/recall parser")
        assert "reader.py" in said
        assert "fragile" in said
        assert "Nothing" in await answer(agent, other, "/recall zeppelin")


@pytest.mark.parametrize("isolation", ["core-only", "full"])
async def test_the_person_of_an_isolated_project_sees_and_finds_all_and_is_told(isolation: IsolationSetting):
    settings = Settings(memory=MemorySettings(isolation=isolation))
    async with running_agent(ScriptedProvider([]), settings=settings) as agent:
        session = await opened(agent)
        await answer(agent, session, "/remember I like short answers.")
        assert "I like short answers." in await answer(agent, session, "/recall short answers")
        for command in ("/memory", "/status"):
            assert f"This project is isolated (memory.isolation is {isolation})" in await answer(
                agent, session, command
            )


async def test_a_project_that_is_not_isolated_is_not_called_so():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        assert "isolated" not in await answer(agent, session, "/memory") + await answer(agent, session, "/status")


async def test_lines_that_were_not_checked_for_long_are_named_where_a_block_is_shown_and_found():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        fact = "The staging server is s2 (checked 2020-01-01: `ssh s2 true`)"
        await answer(agent, session, f"/remember project: {fact}")
        assert f"> Not checked for long, so find out whether it still holds: {fact}" in await answer(
            agent, session, "/memory show project"
        )
        assert "Not checked" not in await answer(agent, session, "/memory show project 1")
        assert "(not checked for long" in await answer(agent, session, "/recall staging server")


@pytest.mark.parametrize(
    "text",
    [
        "/remember",
        "/remember project:",
        "/remember human:   ",
        "/recall",
        "/memory nowhere",
        "/model no-such/model",
        "/model nonsense",
        '/recall "unbalanced AND (',
    ],
)
async def test_a_bad_argument_is_answered_with_one_sentence(text: str):
    async with running_agent(ScriptedProvider([])) as agent:
        said = await answer(agent, await opened(agent), text)
        assert said
        assert "\n" not in said.strip()
        assert "Traceback" not in said


async def test_what_does_not_fit_into_a_block_is_refused_and_nothing_is_cut():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        said = await answer(agent, session, "/remember " + "x" * 9000)
        assert "8" in said
        assert "xxxx" not in await answer(agent, session, "/memory human")


async def test_model_lists_and_switches():
    async with running_agent(ScriptedProvider([]), others={"other": ScriptedProvider([says("other")])}) as agent:
        session = await opened(agent)
        said = await answer(agent, session, "/model")
        assert "`scripted/test` ← in use" in said
        assert "`other/test`" in said
        assert "other/test" in await answer(agent, session, "/model other/test")
        assert await answer(agent, session, "Who?") == "other"


async def test_doctor_without_a_diagnosis_says_how_to_run_one():
    async with running_agent(ScriptedProvider([])) as agent:
        assert "doctor" in await answer(agent, await opened(agent), "/doctor")


async def test_the_model_never_sees_commands_or_their_answers():
    model = ScriptedProvider([says("Hello.")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        await answer(agent, session, "/help")
        await answer(agent, session, "/status")
        await answer(agent, session, "Hi")
        assert [message.text for message in conversation(model.requests[0])] == ["Hi"]


async def test_a_command_that_there_is_not_is_answered_with_the_nearest_and_never_sent():
    model = ScriptedProvider([says("A path."), says("As it is."), says("A path.")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        assert "There is no command /bogus. /help lists all" in await answer(agent, session, "/bogus")
        assert "Did you mean /remember?" in await answer(agent, session, "/rember Tabs matter")
        assert "Did you mean /help?" in await answer(agent, session, "/Help")
        assert await answer(agent, session, "/etc/hosts says no") == "A path."
        assert agent.sessions.get(session).state.title == "/etc/hosts says no"
        assert await answer(agent, session, " /bogus") == "As it is."
        assert await answer(agent, session, f"/{agent.folder.parts[1]} is full") == "A path."
        assert len(model.requests) == 3


async def test_commands_are_replayed_and_make_no_title():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await opened(agent)
        said = await answer(agent, session, "/help")
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        agent.editor.updates.clear()
        await agent.editor.request("session/load", params)
        assert shown(updates_of(agent.editor, session))[:2] == [("user", "/help"), ("agent", said)]
        assert agent.editor.of_kind("session_info_update") == []
        await answer(agent, session, "Fix the tests")
        assert agent.editor.of_kind("session_info_update")[0]["title"] == "Fix the tests"


async def test_a_damaged_block_does_not_stop_a_prompt_and_is_told_once():
    model = ScriptedProvider([says("one"), says("two")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        await answer(agent, session, "/remember me: Something.")
        await agent.database.write(damage)
        said = await answer(agent, session, "Hi")
        assert said.endswith("one")
        assert "memory" in said
        assert await answer(agent, session, "Hi again") == "two"
        assert "> What is stored of the memory block 'human' is damaged" in await answer(agent, session, "/memory")


async def test_a_damaged_block_hides_no_other_and_can_be_deleted():
    model = ScriptedProvider([says("one")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        await answer(agent, session, "/remember project: Tabs, never blanks.")
        await answer(agent, session, "/remember me: Something.")
        await agent.database.write(damage_human)
        assert "Tabs, never blanks." in await answer(agent, session, "/memory")
        assert "Tabs, never blanks." in await answer(agent, session, "/memory show project")
        assert "its updates cannot be read" in await answer(agent, session, "/memory verify")
        assert "is damaged" in await answer(agent, session, "/memory show human")
        assert "`human` is deleted" in await answer(agent, session, "/memory delete human")
        assert await answer(agent, session, "Hi") == "one"


async def test_a_damaged_block_takes_no_other_out_of_the_context_and_is_named_to_both():
    model = ScriptedProvider([says("one"), says("two")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        await answer(agent, session, "/remember project: Tabs, never blanks.")
        await answer(agent, session, "/remember me: Something secret.")
        await agent.database.write(damage_human)
        said = await answer(agent, session, "Hi")
        assert said.startswith(
            "> This session continues without one block of memory: What is stored of the memory block"
        )
        assert await answer(agent, session, "Hi again") == "two"
        for request in agent.model.requests:
            assert "Tabs, never blanks." in str(request)
            assert "Something secret." not in str(request)
            assert "What is stored of this block is damaged" in str(request)


async def test_a_block_whose_form_cannot_be_read_stands_before_no_other():
    model = ScriptedProvider([says("one")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        await answer(agent, session, "/remember project: Tabs, never blanks.")
        await agent.database.write(lambda tx: tx.execute("UPDATE blocks SET schema = '{' WHERE label = 'human'"))
        assert "'human' is damaged" in await answer(agent, session, "Hi")
        assert "Tabs, never blanks." in str(agent.model.requests[0])
        assert "`human` is deleted" in await answer(agent, session, "/memory delete human")


def damage_human(tx: Transaction) -> None:
    of_human = "(SELECT id FROM blocks WHERE label = 'human')"
    tx.execute("UPDATE blocks SET text = text || 'tampered', base = x'00' WHERE label = 'human'")
    tx.execute(f"UPDATE block_updates SET data = x'00' WHERE block_id = {of_human}")  # noqa: S608  no value in it
    tx.execute(f"DELETE FROM block_archives WHERE block_id = {of_human}")  # noqa: S608  the same


def damage(tx: Transaction) -> None:
    tx.execute("UPDATE blocks SET text = text || 'tampered', base = x'00'")
    tx.execute("UPDATE block_updates SET data = x'00'")


async def test_status_says_what_is_assumed_of_the_model():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/status")
        row = "| Assumed of it | a window of 100,000 tokens, answers of up to 8,192 tokens, images, "
        assert row in agent.editor.said()
