"""Subagents, driven through `session/prompt` over the wire."""

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import DelegateSettings, HookSettings, Settings, TurnSettings
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import (
    BlockCommitted,
    GrantStored,
    PermissionAsked,
    SubagentRecorded,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from pattern_acp.journal.reader import verify_stream
from pattern_acp.providers.base import ProviderRequest, ProviderStop, Stopped, TextDelta, UsageKnown
from pattern_acp.providers.http_errors import ContextTooLongError
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.session import AT_ONCE
from tests.support.agent import RunningAgent, running_agent
from tests.support.constellation import FakeClock
from tests.support.editor import JsonDict, PermissionAnswer, choose
from tests.support.scripts import Turn, calls, gate, says
from tests.support.turns import (
    CANCEL_SECONDS,
    events_of,
    last_result,
    of_type,
    prompting,
    results_of,
    statuses,
    thread_of_call,
    unpaired_calls,
)


def settings(
    mode: str = "edit",
    *,
    delegate: DelegateSettings | None = None,
    requests: int = 100,
    hooks: tuple[HookSettings, ...] = (),
) -> Settings:
    return Settings(
        editor_deadline_seconds=30,
        hooks=hooks,
        mode="plan" if mode == "plan" else "auto" if mode == "auto" else "edit",
        delegate=delegate or DelegateSettings(),
        turn=TurnSettings(max_model_requests=requests),
    )


def delegates(kind: str, name: str, **more: str | bool | list[str]) -> Turn:
    return calls("delegate", kind=kind, name=name, task=f"The task of {name}.", **more)


def model_of(*turns: Turn, **subagents: Sequence[Turn]) -> ScriptedProvider:
    return ScriptedProvider(turns, subagents=subagents)


def requests_of(model: ScriptedProvider, name: str) -> list[ProviderRequest]:
    return [request for request in model.requests if request.cache_key.partition("/")[2] == name]


def names(request: ProviderRequest) -> set[str]:
    return {tool.name for tool in request.tools}


def shown_of(agent: RunningAgent, call_id: str) -> list[JsonDict]:
    return [each for each in agent.editor.of_kind("tool_call_update") if each["toolCallId"] == call_id]


async def run(agent: RunningAgent, text: str = "Go on.") -> str:
    session = await agent.editor.open_session(str(agent.folder))
    assert await agent.editor.prompt(session, text) == {"stopReason": "end_turn"}
    return session


async def test_a_subagent_thinks_as_its_session_does():
    model = model_of(delegates("explorer", "finder"), says("Done."), finder=[says("Nothing.")])
    async with running_agent(model, settings=replace(settings(), thinking="high")) as agent:
        await run(agent, "Look.")
        (asked,) = requests_of(model, "finder")
        assert asked.thought_level == "high"


async def test_an_explorer_reads_in_a_context_of_its_own_and_only_its_report_comes_back():
    look = [calls("read_file", path="a.txt"), says("a.txt:1 holds plum.")]
    model = model_of(delegates("explorer", "finder"), says("It is plum."), finder=look)
    async with running_agent(model, settings=settings()) as agent:
        (agent.folder / "a.txt").write_text("plum\n")
        session = await run(agent, "What does a.txt hold?")
        first, second = requests_of(model, "finder")
        assert "What does a.txt hold?" not in str(first.messages)
        assert "The task of finder." in str(first.messages)
        assert names(first) >= {"read_file", "search_text", "memory_read"}
        assert names(first).isdisjoint({"delegate", "write_file", "edit_file", "run_command", "memory_write"})
        assert "plum" in last_result(second).text
        assert last_result(model.requests[-1]).text == "a.txt:1 holds plum."
        assert "plum\\n" not in str(model.requests[-1].messages)
        # How often it is shown meanwhile depends on how long it takes.
        assert {call: [status for status, _ in groupby(seen)] for call, seen in statuses(agent.editor).items()} == {
            "call_1": ["pending", "in_progress", "completed"]
        }
        events = await events_of(agent, session)
        thread = thread_of_call(events, "call_1")
        assert isinstance(thread[0], TurnStarted)
        assert isinstance(thread[-1], TurnEnded)
        assert [each.call.title for each in of_type(thread, ToolCallStarted)] == ["Read a.txt"]
        chain = await agent.database.read(lambda tx: verify_stream(tx, session))
        assert chain.ok


async def test_its_progress_is_shown_in_its_call_and_the_title_ends_with_what_it_did():
    model = model_of(
        delegates("explorer", "finder"), says("Done."), finder=[calls("list_directory", path="."), says("Empty.")]
    )
    async with running_agent(model, settings=settings()) as agent:
        agent.sessions.constellation.clock = FakeClock()
        await run(agent)
        (started,) = agent.editor.of_kind("tool_call")
        assert (started["title"], started["kind"]) == ("Explorer: finder", "think")
        titles = [each["title"] for each in shown_of(agent, "call_1") if "title" in each]
        assert titles[0] == "Explorer: finder · thinking (0 calls, 0 s)"
        assert titles[1].startswith("Explorer: finder · List")
        assert titles[-1] == "Explorer: finder (1 call, 0 s)"
        texts = [str(each.get("content")) for each in shown_of(agent, "call_1")]
        assert any("1 call, 0 s\\n- List" in text for text in texts)
        assert "Empty." in texts[-1]


async def test_a_reload_shows_one_call_and_goes_on_from_the_same_conversation():
    model = model_of(
        delegates("explorer", "finder"),
        says("Found."),
        says("And on."),
        finder=[calls("list_directory", path="."), says("The report.")],
    )
    async with running_agent(model, settings=settings()) as agent:
        agent.sessions.constellation.clock = FakeClock()
        session = await run(agent)
        before = model.requests[-1].messages
        agent.editor.updates.clear()
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        assert [each["toolCallId"] for each in agent.editor.of_kind("tool_call")] == ["call_1"]
        (ended,) = agent.editor.of_kind("tool_call_update")
        assert (ended["status"], ended["title"]) == ("completed", "Explorer: finder (1 call, 0 s)")
        await agent.editor.prompt(session, "More.")
        assert str(before[-1].parts) in str([message.parts for message in model.requests[-1].messages])
        assert unpaired_calls(model.requests[-1]) == []


async def test_a_worker_edits_and_its_call_names_and_shows_what_changed():
    work = [
        calls("write_file", path="src/new.py", content="x = 1\n"),
        calls("memory_write", label="human", operation="append", text="Likes tests."),
        says("Made it."),
    ]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=work)
    async with running_agent(model, settings=settings()) as agent:
        session = await run(agent)
        told = last_result(model.requests[-1]).text
        assert told == "Made it.\n\nFiles changed: src/new.py.\nMemory changed: human."
        assert (agent.folder / "src" / "new.py").read_text() == "x = 1\n"
        ended = shown_of(agent, "call_1")[-1]
        assert [item["type"] for item in ended["content"]] == ["content", "diff"]
        assert ended["locations"] == [{"path": str(agent.folder / "src" / "new.py")}]
        events = await events_of(agent, session)
        (commit,) = [each for each in of_type(events, BlockCommitted) if each.operation == "append"]
        assert commit.reason == "Subagent maker"
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "/diff")
        assert "1 file changed by edits of this session." in agent.editor.said()
        assert agent.editor.said().count("+x = 1") == 1


async def test_a_worker_writes_only_where_it_was_told_to():
    work = [
        calls("write_file", path="src/ok.py", content="1\n"),
        calls("write_file", path="other.py", content="2\n"),
        calls("run_command", command="echo hi > other.py"),
        says("Done."),
    ]
    model = model_of(delegates("worker", "maker", paths=["src"]), says("Done."), maker=work)
    async with running_agent(model, settings=settings("auto"), permission=choose("reject_once")) as agent:
        await run(agent)
        assert (agent.folder / "src" / "ok.py").exists()
        assert not (agent.folder / "other.py").exists()
        results = [last_result(request) for request in requests_of(model, "maker")[1:]]
        assert [result.is_error for result in results] == [False, True, True]
        assert "The subagent maker may write only in" in results[1].text
        (asked,) = agent.editor.asked
        assert asked["toolCall"]["title"].startswith("maker: ")


async def test_tools_can_be_narrowed_and_unknown_ones_are_named():
    model = model_of(
        delegates("worker", "maker", tools=["read_file", "fly"]),
        delegates("explorer", "maker", tools=["write_file"]),
        delegates("explorer", "maker", paths=["src"]),
        delegates("worker", "maker", tools=["read_file"]),
        says("Done."),
        maker=[calls("write_file", path="a", content="x"), says("I could not.")],
    )
    async with running_agent(model, settings=settings()) as agent:
        await run(agent)
        errors = [last_result(request).text for request in model.requests[1:4]]
        assert "has no tool 'fly'; it has read_file, write_file" in errors[0]
        assert "kind explorer has no tool 'write_file'" in errors[1]
        assert "paths is for a worker" in errors[2]
        assert names(requests_of(model, "maker")[0]) == {"read_file"}
        assert not (agent.folder / "a").exists()


@pytest.mark.parametrize("kind", ["explorer", "reviewer", "worker"])
async def test_in_plan_mode_nobody_changes_anything(kind: str):
    work = [calls("write_file", path="a", content="x"), calls("run_command", command="touch a"), says("No.")]
    model = model_of(delegates(kind, "maker"), says("Done."), maker=work)
    async with running_agent(model, settings=settings("plan")) as agent:
        await run(agent)
        assert names(requests_of(model, "maker")[0]).isdisjoint({"write_file", "run_command", "memory_write"})
        assert all(last_result(request).is_error for request in requests_of(model, "maker")[1:])
        assert list(agent.folder.glob("a")) == []


async def test_an_explorer_cannot_delegate():
    model = model_of(
        delegates("explorer", "finder"), says("Done."), finder=[delegates("explorer", "deeper"), says("I cannot.")]
    )
    async with running_agent(model, settings=settings()) as agent:
        await run(agent)
        assert "There is no tool named 'delegate'" in last_result(requests_of(model, "finder")[1]).text
        assert requests_of(model, "deeper") == []


async def test_a_reviewer_is_given_what_the_session_changed():
    model = model_of(
        calls("write_file", path="a.py", content="x = 1\n"),
        delegates("reviewer", "judge"),
        says("Done."),
        judge=[says("a.py:1 is fine.")],
    )
    async with running_agent(model, settings=settings()) as agent:
        await run(agent)
        (request,) = requests_of(model, "judge")
        assert "+x = 1" in str(request.messages)
        assert "write_file" not in names(request)


async def test_eight_run_at_once_and_the_ninth_waits():
    held = [gate() for _ in range(AT_ONCE + 1)]
    asked: Turn = ()
    scripts: dict[str, Sequence[Turn]] = {}
    for number, each in enumerate(held):
        asked += delegates("explorer", f"s{number}")
        scripts[f"s{number}"] = [(each, *calls("list_directory", path=".")), says(f"Report {number}.")]
    model = model_of(asked, says("Done."), **scripts)
    async with running_agent(model, settings=settings()) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                while sum(each.reached.is_set() for each in held) < AT_ONCE:
                    await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            assert len(model.requests) == 1 + AT_ONCE
            assert sum(each.reached.is_set() for each in held) == AT_ONCE
            for each in held:
                each.opened.set()
            assert await prompt.stop_reason() == "end_turn"
        results = results_of(model.requests[-1])
        assert [result.text for result in results] == [f"Report {number}." for number in range(AT_ONCE + 1)]
        events = await events_of(agent, session)
        inner = [each.event for each in of_type(events, SubagentRecorded)]
        ids = [each.call.call_id for each in of_type(inner, ToolCallStarted)]
        assert len(set(ids)) == len(held)


async def test_its_questions_name_it_in_the_call_that_the_client_knows_and_an_always_holds_for_the_session():
    run_it = calls("run_command", command="touch one")
    model = model_of(
        delegates("worker", "maker"),
        run_it,
        says("Done."),
        maker=[run_it, calls("list_directory", path="."), says("Ok.")],
    )
    async with running_agent(model, settings=settings(), permission=choose("allow_always")) as agent:
        session = await run(agent)
        (asked,) = agent.editor.asked
        assert asked["sessionId"] == session
        call = asked["toolCall"]
        assert call["toolCallId"] == "call_1"
        assert call["title"].startswith("maker: ")
        assert "touch one" in call["title"]
        events = await events_of(agent, session)
        assert len(of_type(events, GrantStored)) == 1
        assert of_type(events, PermissionAsked) == []
        assert len(of_type([e.event for e in of_type(events, SubagentRecorded)], PermissionAsked)) == 1


async def test_two_questions_of_one_subagent_come_one_after_the_other():
    asking = anyio.Event()
    inside: list[int] = []
    most = 0

    async def answer(_params: JsonDict) -> JsonDict:
        nonlocal most
        inside.append(1)
        most = max(most, len(inside))
        asking.set()
        await anyio.lowlevel.checkpoint()
        inside.pop()
        return {"outcome": "selected", "optionId": "allow_once"}

    outside = calls("read_file", path="/etc/hostname") + calls("read_file", path="/etc/hosts")
    model = model_of(delegates("explorer", "finder"), says("Done."), finder=[outside, says("Read.")])
    permission: PermissionAnswer = answer
    async with running_agent(model, settings=settings(), permission=permission) as agent:
        await run(agent)
        assert (len(agent.editor.asked), most) == (2, 1)


async def test_a_cancel_ends_the_subagent_with_its_turn_and_every_call_once():
    held = gate()
    model = model_of(
        delegates("worker", "maker"),
        says("Again."),
        maker=[calls("write_file", path="a.py", content="x\n"), (held, *says("Never."))],
    )
    async with running_agent(model, settings=settings()) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                await held.reached.wait()
            await agent.editor.cancel(session)
            assert await prompt.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        assert statuses(agent.editor)["call_1"].count("failed") == 1
        assert shown_of(agent, "call_1")[-1]["title"] == "Worker: maker"
        events = await events_of(agent, session)
        assert len(of_type(events, ToolCallFinished)) == 1
        thread = thread_of_call(events, "call_1")
        assert [each.stop_reason for each in of_type(thread, TurnEnded)] == ["cancelled"]
        await agent.editor.prompt(session, "Go on.")
        assert "a.py" in last_result(model.requests[-1]).text
        assert unpaired_calls(model.requests[-1]) == []


async def test_one_subagent_is_stopped_alone_and_the_turn_goes_on_with_what_it_did():
    held, other = gate(), gate()
    model = model_of(
        (*delegates("worker", "maker"), *delegates("explorer", "finder")),
        says("Then I do it myself."),
        maker=[calls("write_file", path="a.py", content="x\n"), (held, *says("Never."))],
        finder=[(other, *says("Found."))],
    )
    async with running_agent(model, settings=settings()) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                await held.reached.wait()
                await other.reached.wait()
            asked: JsonDict = {"sessionId": session, "toolCallId": "call_1"}
            assert await agent.editor.request("_pattern/subagent/stop", asked) == {"toolCallId": "call_1"}
            other.opened.set()
            assert await prompt.stop_reason() == "end_turn"
        assert await agent.editor.request("_pattern/subagent/stop", {"sessionId": session}) == {"toolCallId": ""}
        stopped, found = results_of(model.requests[-1])
        assert "The user stopped it" in stopped.text
        assert "a.py" in stopped.text
        assert "Found." in found.text
        thread = thread_of_call(await events_of(agent, session), "call_1")
        assert [each.stop_reason for each in of_type(thread, TurnEnded)] == ["cancelled"]


def spends(tokens: int, micro_units: int) -> Turn:
    return (UsageKnown(Usage(tokens, 0), Cost(micro_units, "USD")),)


async def test_what_it_costs_is_the_sessions_cost():
    model = model_of(
        delegates("explorer", "finder") + spends(10, 100),
        says("Done.") + spends(10, 1),
        finder=[says("Report.") + spends(10, 20)],
    )
    async with running_agent(model, settings=settings()) as agent:
        session = await run(agent)
        events = await events_of(agent, session)
        assert [each.cost for each in of_type(events, UsageReported)] == [Cost(100, "USD"), Cost(121, "USD")]
        assert agent.sessions.get(session).state.cost == Cost(121, "USD")


LIMITS: Mapping[str, DelegateSettings] = {
    "2 model requests": DelegateSettings(max_model_requests=2),
    "2 tool calls": DelegateSettings(max_tool_calls=2),
    "100 tokens": DelegateSettings(max_tokens=100),
}


@pytest.mark.parametrize("limit", LIMITS)
async def test_at_its_limit_it_is_asked_for_its_report_without_further_calls(limit: str):
    look = calls("list_directory", path=".") + spends(50, 0)
    model = model_of(delegates("explorer", "finder"), says("Done."), finder=[look, look, says("So far: nothing.")])
    async with running_agent(model, settings=settings(delegate=LIMITS[limit])) as agent:
        await run(agent)
        assert len(requests_of(model, "finder")) == 3
        assert f"You reached its limit of {limit}" in str(requests_of(model, "finder")[-1].messages[-1])
        told = last_result(model.requests[-1])
        assert not told.is_error
        assert told.text == f"So far: nothing.\n\nIt was stopped: it reached its limit of {limit}."


async def test_its_requests_come_out_of_the_turns_and_leave_it_one_to_answer():
    look = calls("list_directory", path=".")
    model = model_of(delegates("explorer", "finder"), says("Done."), finder=[look, look, look, look])
    async with running_agent(model, settings=settings(requests=4)) as agent:
        await run(agent)
        assert len(requests_of(model, "finder")) == 2
        assert len(model.requests) == 4
        told = last_result(model.requests[-1])
        assert told.is_error
        assert "it reached the turn's limit of 4 model requests" in told.text


async def test_another_model_answers_for_a_kind_that_has_one():
    other = ScriptedProvider([says("From the other.")], name="other")
    model = model_of(delegates("explorer", "finder"), says("Done."))
    wanted = DelegateSettings(model="scripted/test", explorer_model="other/test")
    async with running_agent(model, settings=settings(delegate=wanted), others={"other": other}) as agent:
        await run(agent)
        assert len(other.requests) == 1
        assert last_result(model.requests[-1]).text == "From the other."


async def test_a_model_without_a_key_is_a_failed_call_with_the_reason():
    model = model_of(delegates("explorer", "finder"), says("Done."))
    wanted = DelegateSettings(explorer_model="other/test")
    other = ScriptedProvider([])
    async with running_agent(model, settings=settings(delegate=wanted), others={"other": other}) as agent:
        agent.models.without_key["other"] = "The key of other is missing."
        await run(agent)
        assert last_result(model.requests[-1]).is_error
        assert last_result(model.requests[-1]).text == "The key of other is missing."


async def test_a_subagents_model_that_cannot_be_used_tells_the_agent_why():
    model = model_of(delegates("explorer", "finder"), says("Done."))
    wanted = DelegateSettings(model="nobody/test")
    async with running_agent(model, settings=settings(delegate=wanted)) as agent:
        await run(agent)
        assert "There is no provider 'nobody'" in last_result(model.requests[-1]).text


async def test_a_failing_model_request_keeps_what_was_changed_in_the_result():
    broken: Turn = (ContextTooLongError("The context is too long."),)
    model = model_of(
        delegates("worker", "maker"),
        says("Done."),
        maker=[calls("write_file", path="a.py", content="x\n"), broken],
    )
    async with running_agent(model, settings=settings()) as agent:
        await run(agent)
        told = last_result(model.requests[-1])
        assert told.is_error
        assert "It could not continue: The context is too long." in told.text
        assert "Files changed: a.py." in told.text


async def test_a_report_that_breaks_off_goes_on_and_is_told_whole():
    half: Turn = (TextDelta("It is in a"), Stopped(ProviderStop.INTERRUPTED, "It broke."))
    model = model_of(delegates("explorer", "finder"), says("Done."), finder=[half, says(".py.")])
    async with running_agent(model, settings=settings()) as agent:
        await run(agent)
        assert len(requests_of(model, "finder")) == 2
        told = last_result(model.requests[-1]).text
    assert "It is in a.py." in told


async def test_memory_is_shown_to_it_and_a_rewrite_keeps_what_others_wrote_meanwhile():
    held = gate()
    worker = [
        (held, *calls("memory_write", label="human", operation="rewrite", text="Likes tea.\nUses Linux.\n")),
        says("Ok."),
    ]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=worker)
    async with running_agent(model, settings=settings()) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/remember Likes tea.")
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                await held.reached.wait()
            other = await agent.editor.open_session(str(agent.folder))
            await agent.editor.prompt(other, "/remember Has a dog.")
            await agent.sessions.get(session).memory.blocks()
            held.opened.set()
            assert await prompt.stop_reason() == "end_turn"
        assert "Likes tea." in requests_of(model, "maker")[0].volatile
        assert last_result(model.requests[-1]).text.endswith("Memory changed: human.")
        text = next(b.text for b in await agent.sessions.get(session).memory.blocks() if b.label == "human")
        assert sorted(line for line in text.splitlines() if line) == ["Has a dog.", "Likes tea.", "Uses Linux."]


async def test_it_is_told_the_instructions_of_the_folders_that_it_reads_and_the_agent_is_not():
    look = [calls("read_file", path="src/a.py"), calls("read_file", path="src/a.py"), says("x is 1.")]
    asked = delegates("explorer", "one") + delegates("explorer", "two")
    model = model_of(asked, says("Done."), one=look, two=look)
    async with running_agent(model, settings=settings()) as agent:
        (agent.folder / "src").mkdir()
        (agent.folder / "src" / "AGENTS.md").write_text("Rules of src.")
        (agent.folder / "src" / "a.py").write_text("x = 1\n")
        await run(agent)
        for name in ("one", "two"):
            told = [str(request.messages).count("Rules of src.") for request in requests_of(model, name)]
            assert told == [0, 1, 1]
            assert all(unpaired_calls(request) == [] for request in requests_of(model, name))
        assert "Rules of src." not in str(model.requests[-1].messages)
        assert len(agent.editor.of_kind("tool_call")) == 2


async def test_a_hook_lets_a_subagent_go_on_with_its_reason():
    script = """grep -q '"stop_hook_active": true' && exit 0; echo "name the line too" >&2; exit 2"""
    hook = HookSettings("SubagentStop", script, "explorer")
    asked = delegates("explorer", "finder") + delegates("reviewer", "judge")
    model = model_of(asked, says("Done."), finder=[says("a.txt"), says("a.txt:1")], judge=[says("Fine.")])
    async with running_agent(model, settings=settings(hooks=(hook,))) as agent:
        await run(agent)
        assert "name the line too" in str(requests_of(model, "finder")[1].messages)
        assert [result.text for result in results_of(model.requests[-1])] == ["a.txt:1", "Fine."]


async def test_a_hook_that_ends_the_turn_ends_it_from_within_a_subagent():
    hook = HookSettings("PreToolUse", """echo '{"continue": false, "stopReason": "enough"}'""", "LS|list_directory")
    look = [calls("list_directory", path="."), says("Never.")]
    model = model_of(delegates("explorer", "finder"), says("Never."), finder=look)
    async with running_agent(model, settings=settings(hooks=(hook,))) as agent:
        await run(agent)
        assert "enough" in agent.editor.said()
        assert [request.cache_key.partition("/")[2] for request in model.requests] == ["", "finder"]


async def test_what_is_forgotten_is_taken_out_of_its_thread_too():
    note = "The launch word is marmalade sandwich."
    work = [calls("memory_write", label="human", operation="append", text=note), says("Noted.")]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=work)
    async with running_agent(model, settings=settings()) as agent:
        session = await run(agent)
        assert "marmalade" in str(of_type(await events_of(agent, session), SubagentRecorded))
        await agent.editor.prompt(session, f"/memory forget human {note}")
        assert "is forgotten" in agent.editor.said()
        events = of_type(await events_of(agent, session), SubagentRecorded)
        assert "[forgotten]" in str(events)
        assert "marmalade" not in str(events)
        chain = await agent.database.read(lambda tx: verify_stream(tx, session))
        assert chain.ok


async def test_a_mode_that_changes_meanwhile_holds_for_it_at_once():
    held = gate()
    work = [(held, *calls("write_file", path="a.py", content="x")), says("I may not.")]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=work)
    async with running_agent(model, settings=settings("auto")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                await held.reached.wait()
            await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "plan"})
            held.opened.set()
            assert await prompt.stop_reason() == "end_turn"
        assert "Plan mode changes no files." in last_result(requests_of(model, "maker")[1]).text
        assert not (agent.folder / "a.py").exists()


async def test_a_reviewer_can_read_all_of_changes_that_are_too_long_to_be_sent_whole():
    content = "".join(f"line {number}\n" for number in range(12_000))
    model = model_of(
        calls("write_file", path="big.txt", content=content),
        delegates("reviewer", "judge"),
        says("Done."),
        judge=[says("Fine.")],
    )
    async with running_agent(model, settings=settings()) as agent:
        await run(agent)
        (request,) = requests_of(model, "judge")
        assert sum(len(str(part)) for part in request.messages[0].parts) < 70_000
        assert "read_attachment" in names(request)


async def test_a_long_task_is_read_on_by_the_subagent_itself():
    task = "x" * 40_000 + "PLUM" + "y" * 40_000
    held = gate()
    script: list[Turn] = [(held, *calls("list_directory", path=".")), says("to come"), says("Found.")]
    first = calls("delegate", kind="explorer", name="finder", task=task)
    async with running_agent(model_of(first, says("Done."), finder=script), settings=settings()) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                await held.reached.wait()
            sent = str(requests_of(agent.model, "finder")[0].messages)
            assert "PLUM" not in sent
            text_id = sent.partition("read_attachment with id ")[2].partition(" ")[0]
            script[1] = calls("read_attachment", id=text_id, start=30_000)
            held.opened.set()
            assert await prompt.stop_reason() == "end_turn"
        assert "PLUM" in last_result(requests_of(agent.model, "finder")[2]).text


@pytest.mark.skipif(sys.platform == "win32", reason="the command line is written for a POSIX shell")
async def test_files_that_its_commands_changed_are_named_too():
    worker = [
        calls("write_file", path="a.txt", content="x\n"),
        calls("run_command", command="echo y > made.txt"),
        says("Made both."),
    ]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=worker)
    async with running_agent(model, settings=settings("auto"), permission=choose("allow_once")) as agent:
        await run(agent)
        told = last_result(model.requests[-1]).text
        assert told == "Made both.\n\nFiles changed: a.txt.\nChanged by its commands: made.txt."
