"""Memory on its way into requests: recalled before a turn, told whole once, and then by what changed."""

from collections.abc import Sequence
from itertools import pairwise

import anyio
from msgspec.structs import replace

from pattern_acp.config.settings import MemorySettings, Settings
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.events import MemoryRecalled, MemoryShown, ToolCallFinished, ToolCallStarted
from pattern_acp.journal.reader import read_stream
from pattern_acp.memory.embeddings import EmbeddingModel, HashedNgrams, TextUse, Vector
from pattern_acp.memory.indexer import Indexer
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import calls, gate, says


def searches(agent: RunningAgent) -> list[JsonDict]:
    return [call for call in agent.editor.of_kind("tool_call") if call.get("kind") == "search"]


async def remember(agent: RunningAgent, text: str) -> None:
    """Let an earlier session keep a message."""
    session = await agent.editor.open_session(str(agent.folder))
    await agent.editor.prompt(session, text)


async def test_what_an_earlier_session_said_is_recalled_in_sight_of_the_person():
    model = ScriptedProvider([says("Noted."), says("5433.")])
    async with running_agent(model) as agent:
        await remember(agent, "The staging database listens on port 5433.")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Which port has the staging database?")

        (call,) = searches(agent)
        assert call["title"] == "Recalled: The staging database listens on port 5433."
        assert call["rawInput"] == {"query": "Which port has the staging database?"}
        (end,) = agent.editor.of_kind("tool_call_update")
        assert end["status"] == "completed"
        shown = end["content"][0]["content"]["text"]
        assert "listens on port 5433" in shown
        assert "words:" not in shown
        assert "listens on port 5433" in model.requests[1].volatile
        assert "listens on port 5433" not in str(model.requests[1].messages)


async def test_the_person_reads_the_title_of_a_session_and_never_its_id():
    model = ScriptedProvider([says("Noted."), says("5433."), says("Yes.")])
    async with running_agent(model) as agent:
        earlier = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(earlier, "The staging database listens on port 5433.")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Which port has the staging database?")
        (end,) = agent.editor.of_kind("tool_call_update")
        recalled = end["content"][0]["content"]["text"]
        assert "you in “The staging database listens on port 5433.”" in recalled
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "/recall staging database")
        said = agent.editor.said()
        assert "you in “The staging database listens on port 5433.”" in said
        assert earlier not in recalled + said
        assert earlier in model.requests[1].volatile, "the model can ask for the session by its id"


async def test_a_session_does_not_find_its_own_prompts():
    turns = [says("Noted."), calls("memory_search", query="zeppelin hangar"), says("Nothing.")]
    model = ScriptedProvider(turns)
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Where is the zeppelin hangar?")
        await agent.editor.prompt(session, "Look for the zeppelin hangar.")
        assert "Nothing was found" in str(model.requests[2].messages)
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "/recall zeppelin")
        assert agent.editor.said().startswith("Nothing in memory")


async def test_what_was_recalled_is_in_the_journal_and_in_a_replay():
    async with running_agent(ScriptedProvider([says("Noted."), says("5433.")])) as agent:
        await remember(agent, "The staging database listens on port 5433.")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Which port has the staging database?")
        recorded = await agent.database.read(lambda tx: [item.event for item in read_stream(tx, session)])
        started = [event for event in recorded if isinstance(event, ToolCallStarted)]
        ended = [event for event in recorded if isinstance(event, ToolCallFinished)]
        assert [event.call.name for event in started] == ["memory_recall"]
        assert "port 5433" in ended[0].result_text
        agent.editor.updates.clear()
        load: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", load)
        assert [call["title"] for call in searches(agent)] == ["Recalled: The staging database listens on port 5433."]


async def test_a_greeting_recalls_nothing():
    async with running_agent(ScriptedProvider([says("Hello."), says("Hello again.")])) as agent:
        await remember(agent, "Hello, how are you?")
        await remember(agent, "Hello, how are you?")
        assert searches(agent) == []
        assert "<recalled>" not in agent.model.requests[1].volatile


async def test_a_question_of_before_recalls_its_answer_and_not_itself():
    provider = ScriptedProvider([says("The staging database listens on port 5433."), says("On 5433.")])
    async with running_agent(provider) as agent:
        await remember(agent, "Which port does the staging database use?")
        await remember(agent, "Which port does the staging database use?")
        recalled = provider.requests[1].volatile
        assert "listens on port 5433" in recalled
        assert "Which port" not in recalled


async def test_an_answer_that_says_nothing_is_not_recalled_for_its_question():
    provider = ScriptedProvider([says("OK, I did it."), says("Done.")])
    async with running_agent(provider) as agent:
        await remember(agent, "The zeppelin parser reads nested lists on Windows.")
        await remember(agent, "The zeppelin parser reads nested lists on Windows.")
        assert "<recalled>" not in provider.requests[1].volatile


async def test_what_the_agent_announced_before_a_call_is_not_recalled():
    note = says("I look at the zeppelin parser.") + calls("run_command", command="true")
    provider = ScriptedProvider([note, says("The zeppelin parser reads nested lists now."), says("That.")])
    async with running_agent(provider, settings=Settings(mode="auto")) as agent:
        await remember(agent, "Let it read them.")
        await remember(agent, "What did we do yesterday on the zeppelin parser?")
        recalled = provider.requests[2].volatile
        assert "reads nested lists" in recalled
        assert "I look at" not in recalled


async def test_nothing_of_this_session_is_recalled():
    provider = ScriptedProvider([says("Noted."), says("On 5433.")])
    async with running_agent(provider) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "The staging database listens on port 5433.")
        await agent.editor.prompt(session, "Which port has the staging database?")
        assert searches(agent) == []


async def test_recalling_can_be_switched_off():
    settings = Settings(editor_deadline_seconds=5, memory=replace(MemorySettings(), recall_tokens=0))
    async with running_agent(ScriptedProvider([says("Noted."), says("5433.")]), settings=settings) as agent:
        await remember(agent, "The staging database listens on port 5433.")
        await remember(agent, "Which port has the staging database?")
        assert searches(agent) == []


async def test_a_block_that_is_in_the_context_is_not_recalled():
    async with running_agent(ScriptedProvider([says("5433.")])) as agent:
        await remember(agent, "/remember project: The staging database listens on port 5433.")
        await remember(agent, "Which port has the staging database?")
        assert searches(agent) == []


async def test_all_of_memory_is_told_once_and_then_what_changed_with_its_author():
    turns = [
        says("one"),
        calls("memory_write", label="human", operation="append", text="Likes tea.", reason="Said so."),
        says("two"),
        says("three"),
    ]
    model = ScriptedProvider(turns)
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "One.")
        await agent.editor.prompt(session, "Two.")
        await agent.editor.prompt(session, "/remember Lives in Lisbon.")
        await agent.editor.prompt(session, "Three.")

        first, second, after_write, third = model.requests
        assert "<memory_block" in first.messages[0].text
        assert not [request for request in (first, second) if "memory" in request.volatile]
        assert '<memory_change label="human" by="you"' in after_write.volatile
        assert "+Likes tea." in after_write.volatile
        assert 'by="you, the user"' in third.volatile
        assert "+Lives in Lisbon." in third.volatile
        assert str(third.messages).count("<memory_block label=") == str(first.messages).count("<memory_block label=")


def starts_with(later: ProviderRequest, earlier: ProviderRequest) -> bool:
    kept = [(message.role, message.parts) for message in earlier.messages]
    return [(message.role, message.parts) for message in later.messages[: len(kept)]] == kept


async def test_the_prefix_stays_the_same_over_turns_and_processes_while_memory_changes():
    with_write = calls("memory_write", label="human", operation="append", text="Likes tea.", reason="x") + says("a")
    first = ScriptedProvider([with_write, says("b"), says("c")])
    second = ScriptedProvider([says("d")])
    async with running_agent(first) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "One.")
        await agent.editor.prompt(session, "/remember Lives in Lisbon.")
        await agent.editor.prompt(session, "Two.")
        await agent.editor.request("session/close", {"sessionId": session})
        async with running_agent(second, database=agent.database.path) as other:
            load: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
            await other.editor.request("session/load", load)
            await other.editor.prompt(session, "/remember project: Uses ninja.")
            await other.editor.prompt(session, "Three.")
        requests = [*first.requests, *second.requests]
        assert len(requests) == 4
        for earlier, later in pairwise(requests):
            assert starts_with(later, earlier)
            assert (earlier.system, earlier.tools) == (later.system, later.tools)
        assert "+Uses ninja." in requests[-1].volatile


async def test_when_much_changed_all_is_told_anew_behind_what_was_said():
    model = ScriptedProvider([says("one"), says("two"), says("three")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "One.")
        await agent.editor.prompt(session, "/remember me: " + " ".join(f"Fact{number}." for number in range(400)))
        await agent.editor.prompt(session, "Two.")
        await agent.editor.prompt(session, "Three.")
        assert [message.text[:8] for message in model.requests[1].messages] == [
            "<memory>",
            "One.",
            "one",
            "<memory>",
            "Two.",
        ]
        assert "Fact399." in model.requests[1].messages[3].text
        assert "memory_change" not in model.requests[1].volatile
        assert starts_with(model.requests[2], model.requests[1])

        def shown(tx: Transaction) -> int:
            return sum(isinstance(item.event, MemoryShown) for item in read_stream(tx, session))

        assert await agent.database.read(shown) == 2


async def test_all_is_told_anew_once_the_conversation_was_shortened():
    model = ScriptedProvider([says("one"), says("two"), says("three"), says("four")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/remember likes tea")
        await agent.editor.prompt(session, "One.")
        await agent.editor.prompt(session, "/remember likes coffee")
        conversation = agent.sessions.get(SessionId(session)).state.history
        del conversation[:2]
        await agent.editor.prompt(session, "Two.")
        texts = [message.text for message in model.requests[1].messages]
        assert [text.startswith("<memory>") for text in texts] == [False, True, False]
        assert "likes tea\nlikes coffee" in texts[1]
        assert "memory_change" not in str(model.requests[1])
        await agent.editor.prompt(session, "Three.")
        assert starts_with(model.requests[2], model.requests[1])


async def test_what_is_forgotten_leaves_the_state_that_the_model_was_shown():
    model = ScriptedProvider([says("one"), says("two")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/remember me: the wintergarden 90317 code")
        await agent.editor.prompt(session, "One.")
        assert "wintergarden" in str(model.requests[0])
        await agent.editor.prompt(session, "/memory forget human the wintergarden 90317 code")
        await agent.editor.prompt(session, "Two.")
        assert "wintergarden" not in str(model.requests[1])


async def test_what_another_process_forgets_leaves_an_open_session_before_its_next_prompt():
    secret = "wintergarden 90317 code"
    model = ScriptedProvider([says("one"), says("two"), says("three")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, f"/remember me: the {secret}")
        await agent.editor.prompt(session, f"Mind that the {secret} is mine")
        assert "wintergarden" in str(model.requests[0])
        async with running_agent(ScriptedProvider([]), database=agent.database.path) as other:
            elsewhere = await other.editor.open_session(str(other.folder))
            await other.editor.prompt(elsewhere, f"/memory forget human the {secret}")
        await agent.editor.prompt(session, "Two.")
        assert "wintergarden" not in str(model.requests[1])
        assert "90317" not in str(model.requests[1])
        assert "Mind that [forgotten] is mine" in str(model.requests[1].messages)
        await agent.editor.prompt(session, "Three.")
        assert "wintergarden" not in str(model.requests[2])
        assert starts_with(model.requests[2], model.requests[1])


async def test_what_is_forgotten_while_a_turn_runs_is_not_sent_again_in_that_turn():
    secret = "wintergarden 90317 code"
    waiting = gate()
    model = ScriptedProvider([(waiting, *calls("memory_read", label="persona")), says("two"), says("three")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, f"/remember me: the {secret}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.editor.prompt, session, f"Mind that the {secret} is mine")
            await waiting.reached.wait()
            async with running_agent(ScriptedProvider([]), database=agent.database.path) as other:
                elsewhere = await other.editor.open_session(str(other.folder))
                await other.editor.prompt(elsewhere, f"/memory forget human the {secret}")
            waiting.opened.set()
        assert "wintergarden" in str(model.requests[0])
        assert "wintergarden" not in str(model.requests[1])
        assert "Mind that [forgotten] is mine" in str(model.requests[1].messages)
        await agent.editor.prompt(session, "Three.")
        assert "wintergarden" not in str(model.requests[2])
        assert "two" in str(model.requests[2].messages)


async def test_what_was_recalled_is_not_sent_again_once_it_is_forgotten():
    waiting = gate()
    noted = "The zeppelin hangar opens with the code 90317."
    turns = [says("Noted."), (waiting, *calls("memory_read", label="persona")), says("Gone.")]
    model = ScriptedProvider(turns)
    async with running_agent(model) as agent:
        await remember(agent, noted)
        session = await agent.editor.open_session(str(agent.folder))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.editor.prompt, session, "Which code opens the zeppelin hangar?")
            await waiting.reached.wait()
            other = await agent.editor.open_session(str(agent.folder))
            await agent.editor.prompt(other, f"/memory forget project {noted}")
            waiting.opened.set()
        assert "90317" in model.requests[1].volatile
        assert "90317" not in str(model.requests[2])


class SilentEmbedder:
    """An embedder that never answers."""

    model = EmbeddingModel("silent", 4, 0.0, 1.0)
    is_immediate = False

    async def prepare(self) -> None:
        """See `Embedder.prepare`."""

    async def embed(self, texts: Sequence[str], use: TextUse) -> tuple[Vector, ...]:
        del texts, use
        await anyio.sleep_forever()
        raise AssertionError("it sleeps for ever")


async def test_a_turn_does_not_wait_for_a_search_that_takes_longer_than_it_may():
    async with running_agent(ScriptedProvider([says("Noted."), says("5433.")])) as agent:
        await remember(agent, "The staging database listens on port 5433.")
        shared = agent.sessions.constellation
        shared.indexer, shared.recall_seconds = Indexer(agent.database, SilentEmbedder(), shared.clock), 0
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Which port has the staging database?")
        assert searches(agent) == []
        assert agent.editor.said().endswith("5433.")


async def test_words_are_recalled_for_a_turn_while_the_embedder_is_silent():
    async with running_agent(ScriptedProvider([says("Noted."), says("5433.")])) as agent:
        await remember(agent, "The staging database listens on port 5433.")
        shared = agent.sessions.constellation
        shared.indexer = Indexer(agent.database, SilentEmbedder(), shared.clock)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Which port has the staging database?")
        (end,) = agent.editor.of_kind("tool_call_update")
        assert "listens on port 5433" in end["content"][0]["content"]["text"]
        # Only the hurry was why, so the next search asks the embedder again.
        assert (await shared.indexer.state()).problem == ""
        recorded = await agent.database.read(lambda tx: [item.event for item in read_stream(tx, session)])
        assert [event.left_out_meaning for event in recorded if isinstance(event, MemoryRecalled)] == [True]


async def test_a_working_block_that_is_not_in_the_context_is_recalled():
    model = ScriptedProvider([says("ok")])
    async with running_agent(model) as agent:
        await remember(agent, "/remember project: The staging database listens on port 5433.")

        def put_aside(tx: Transaction) -> int:
            return tx.execute("UPDATE blocks SET tier = 'working' WHERE label = 'project'")

        await agent.database.write(put_aside)
        await remember(agent, "Which port has the staging database?")
        assert "listens on port 5433" in model.requests[0].volatile
        assert "listens on port 5433" not in str(model.requests[0].messages)


async def test_the_same_form_of_a_question_recalls_nothing():
    async with running_agent(ScriptedProvider([says("So.")], repeat=True)) as agent:
        shared = agent.sessions.constellation
        shared.indexer = Indexer(agent.database, HashedNgrams(), shared.clock)
        await remember(agent, "Can you explain how the parser computes it")
        await remember(agent, "Can you explain how the server manages it")
        assert searches(agent) == []


async def test_what_hardly_answers_a_question_is_said_to_be_a_guess():
    async with running_agent(ScriptedProvider([])) as agent:
        await remember(agent, "/remember project: The staging database listens on port 5433 behind a proxy.")
        shared = agent.sessions.constellation
        shared.indexer = Indexer(agent.database, HashedNgrams(), shared.clock)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/recall Which colours has the logo of the database vendor's mascot?")
        told = agent.editor.said()
        assert "may not be known; the nearest there is:" in told
        assert "listens on port 5433" in told, "it is shown all the same"
        await agent.editor.prompt(session, "/recall Which port has the staging database?")
        assert "may not be known" not in agent.editor.said()[len(told) :]
