"""What a streamed answer looks like to the editor."""

import json
from itertools import pairwise

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from pattern_acp.domain.messages import ThinkingPart
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import MessagePartial, MessageRecorded, SessionTitled, UsageReported
from pattern_acp.providers.base import Retrying, UsageKnown
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import JsonDict
from tests.support.heard import conversation
from tests.support.scripts import calls, gate, says, thinks, uses
from tests.support.turns import events_of, of_type, prompting


async def test_each_message_has_an_id_of_its_own_and_so_has_its_reasoning():
    model = ScriptedProvider(
        [
            thinks("Hm.") + says("Let me ", "look.") + calls("list_directory", path="."),
            thinks("Ah.") + says("It is ", "there."),
        ]
    )
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        texts = by_message(agent.editor.of_kind("agent_message_chunk"))
        thoughts = by_message(agent.editor.of_kind("agent_thought_chunk"))
        assert list(texts.values()) == ["Let me look.", "It is there."]
        assert list(thoughts.values()) == ["Hm.", "Ah."]
        assert not set(texts) & set(thoughts)


def by_message(chunks: list[JsonDict]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for chunk in chunks:
        texts[chunk["messageId"]] = texts.get(chunk["messageId"], "") + chunk["content"]["text"]
    return texts


async def test_text_comes_before_the_call_the_question_and_the_answer_that_follow_it():
    model = ScriptedProvider(
        [
            says(*"I will write a file.") + calls("write_file", path="new.txt", content="x\n"),
            says(*"It is written."),
        ]
    )
    async with running_agent(model) as agent:
        said_when_asked: list[str] = []

        async def look(params: JsonDict) -> JsonDict:
            del params
            said_when_asked.append(agent.editor.said())
            return {"outcome": "selected", "optionId": "allow_once"}

        agent.editor.permission = look
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert said_when_asked == ["I will write a file."]
        assert agent.editor.said() == "I will write a file.It is written."
        kinds = [update["update"]["sessionUpdate"] for update in agent.editor.updates]
        shown = [kind for kind in kinds if kind in {"agent_message_chunk", "tool_call", "tool_call_update"}]
        runs = [shown[0], *(after for before, after in pairwise(shown) if after != before)]
        assert runs == ["agent_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]


async def test_many_small_deltas_become_few_updates():
    model = ScriptedProvider([says(*("word " for _ in range(2_000)))])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        chunks = agent.editor.of_kind("agent_message_chunk")
        assert "".join(chunk["content"]["text"] for chunk in chunks) == "word " * 2_000
        # 400 characters a chunk make 25; on a slow machine more go out because 40 ms have passed.
        assert len(chunks) <= 500


async def test_the_first_words_are_shown_at_once():
    waits = gate()
    model = ScriptedProvider([(*says("One"), waits, *says(" two"))])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await waits.reached.wait()
            await agent.editor.wait_until(lambda: agent.editor.said() == "One")
            waits.opened.set()
            await flight.stop_reason()
        assert agent.editor.said() == "One two"


async def test_waiting_text_is_shown_although_nothing_follows():
    waits = gate()
    model = ScriptedProvider([(*says("One", " two", " three"), waits)])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: agent.editor.said() == "One two three")
            waits.opened.set()
            await flight.stop_reason()


async def test_an_answer_of_400_kilobytes_comes_whole_in_short_lines():
    text = "0123456789" * 40_000
    for deltas in (says(text), says(*(text[at : at + 1_000] for at in range(0, len(text), 1_000)))):
        async with running_agent(ScriptedProvider([deltas])) as agent:
            session = await agent.editor.open_session(str(agent.folder))
            await agent.editor.prompt(session, "Go.")
            assert agent.editor.said() == text
            sizes = [len(line) for by_agent, line in agent.editor.recording.both if by_agent]
            assert max(sizes) < 1_000_000


async def test_characters_that_json_cannot_carry_do_not_stop_the_turn():
    model = ScriptedProvider([says("half \ud83d", " more"), says("Still here.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        assert agent.editor.said().startswith("half ")
        assert agent.editor.said().endswith(" more")
        assert await agent.editor.prompt(session, "Go on.") == {"stopReason": "end_turn"}


async def test_usage_is_what_is_in_the_context_now():
    model = ScriptedProvider(
        [
            calls("list_directory", path=".") + uses(1_000, 50),
            says("Done.") + uses(200, 30, cache_read=1_000, cache_write=50),
        ]
    )
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        shown = [(update["used"], update["size"]) for update in agent.editor.of_kind("usage_update")]
        assert shown == [(1_050, 100_000), (1_280, 100_000)]
        assert [item.used for item in of_type(await events_of(agent, session), UsageReported)] == [1_050, 1_280]


async def test_usage_follows_what_changes_the_context_without_a_request():
    long = says("All of it. " * 2_000)
    answers = [long + uses(3_000, 5_500), long + uses(8_500, 5_500), says("Short.") + uses(3_000, 10)]
    model, spare = ScriptedProvider(answers), ScriptedProvider([], name="spare")
    async with running_agent(model, others={"spare": spare}) as agent:
        infos = agent.models.infos
        infos["spare"] = replace(infos["spare"], context_window=50_000)
        session = await agent.editor.open_session(str(agent.folder))

        async def told(prompt: str) -> tuple[int, int]:
            agent.editor.updates.clear()
            await agent.editor.prompt(session, prompt)
            return last_told()

        def last_told() -> tuple[int, int]:
            last = agent.editor.of_kind("usage_update")[-1]
            return last["used"], last["size"]

        first, _ = await told("Go.")
        second, _ = await told("Go on.")
        back, _ = await told("/rewind 2 conversation")
        assert back < second
        cleared, size = await told("/clear")
        assert cleared < first
        agent.editor.updates.clear()
        loaded: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", loaded)
        assert last_told() == (cleared, size)
        assert (await told("/model spare/test"))[1] == 50_000
        agent.editor.updates.clear()
        await told("/model scripted/test")
        await told("Once more.")
        agent.editor.updates.clear()
        chosen = {"sessionId": session, "configId": "model", "value": "spare/test"}
        await agent.editor.request("session/set_config_option", chosen)
        with anyio.fail_after(30):
            while not agent.editor.of_kind("usage_update"):
                await anyio.lowlevel.checkpoint()
        assert last_told()[1] == 50_000


async def test_the_cost_is_that_of_the_session():
    one, other = (UsageKnown(Usage(10, 1), Cost(amount)) for amount in (250_000, 500_000))
    model = ScriptedProvider([(*says("One."), one), (*says("Two."), other)])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        await agent.editor.prompt(session, "Go on.")
        costs = [update["cost"] for update in agent.editor.of_kind("usage_update")]
        assert costs == [{"amount": 0.25, "currency": "USD"}, {"amount": 0.75, "currency": "USD"}]


async def test_the_title_comes_from_the_first_prompt_and_stays():
    model = ScriptedProvider([says("One."), says("Two.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "# Mend the parser\nIt is broken.")
        await agent.editor.prompt(session, "Something else.")
        titles = [update["title"] for update in agent.editor.of_kind("session_info_update")]
        assert titles == ["Mend the parser"]
        assert [item.title for item in of_type(await events_of(agent, session), SessionTitled)] == titles


async def test_a_retry_is_told_as_a_thought():
    model = ScriptedProvider([(Retrying(1, 10, "The provider is busy; trying again."), *says("Here."))])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert "busy" in agent.editor.of_kind("agent_thought_chunk")[0]["content"]["text"]
        assert agent.editor.said() == "Here."


async def test_signatures_and_hidden_reasoning_go_back_to_the_model_and_not_to_the_editor():
    model = ScriptedProvider(
        [
            thinks("Hm.", signature="c2ln") + thinks("", redacted="cmVk") + calls("list_directory", path="."),
            says("Done."),
        ]
    )
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        parts = of_type(conversation(model.requests[1])[1].parts, ThinkingPart)
        thinking = [(part.signature, part.redacted) for part in parts]
        assert thinking == [("c2ln", ""), ("", "cmVk")]
        written = b"".join(line for by_agent, line in agent.editor.recording.both if by_agent)
        assert b"c2ln" not in written
        assert b"cmVk" not in written


async def test_text_that_is_still_streaming_is_committed_within_a_second():
    waits = gate()
    model = ScriptedProvider([(*says("One", " two"), waits, *says("."))])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await waits.reached.wait()
            partials: list[MessagePartial] = []
            await agent.editor.wait_until(lambda: agent.editor.said() == "One two")
            while not partials:
                partials = of_type(await events_of(agent, session), MessagePartial)
            assert "".join(partial.text for partial in partials) == "One two"
            waits.opened.set()
            await flight.stop_reason()
        (recorded,) = of_type(await events_of(agent, session), MessageRecorded)
        assert recorded.message.text == "One two."
        assert recorded.message.message_id == partials[-1].message_id


async def test_lines_are_one_json_object_each():
    model = ScriptedProvider([says("line\nline\r\n\u2028end")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        for by_agent, line in agent.editor.recording.both:
            if by_agent:
                assert isinstance(json.loads(line), dict)
                assert line.count(b"\n") == 1
