"""What the person sees of tool calls, and in which order they run."""

import json
import re
from typing import Literal

import anyio
import anyio.lowlevel
import pytest
from PIL import Image

from pattern_acp.config.settings import Settings
from pattern_acp.journal.events import ToolCallFinished, ToolCallStarted
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import FULL_CLIENT, RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import Turn, calls, calls_raw, says
from tests.support.turns import events_of, last_result, of_type, prompting, results_of, statuses, unpaired_calls

EDIT_MODE = Settings(editor_deadline_seconds=30, mode="edit")


def several(*turns: Turn) -> Turn:
    return tuple(step for turn in turns for step in turn)


async def nothing_more_happens() -> None:
    for _ in range(100):
        await anyio.lowlevel.checkpoint()


async def test_a_call_is_announced_then_runs_then_ends():
    model = ScriptedProvider([calls("read_file", path="a.txt"), says("Done.")])
    async with running_agent(model) as agent:
        (agent.folder / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        (announced,) = agent.editor.of_kind("tool_call")
        path = str(agent.folder / "a.txt")
        assert announced == {
            "sessionUpdate": "tool_call",
            "toolCallId": announced["toolCallId"],
            "title": "Read a.txt",
            "kind": "read",
            "status": "pending",
            "name": "read_file",
            "locations": [{"path": path, "line": 1}],
            "rawInput": {"path": "a.txt"},
        }
        assert list(statuses(agent.editor).values()) == [["pending", "in_progress", "completed"]]
        assert last_result(model.requests[1]).text == "1\tone\n2\ttwo"


async def test_at_most_four_reads_run_side_by_side():
    reads = [calls("read_file", path=f"{number}.txt") for number in range(6)]
    model = ScriptedProvider([several(*reads), says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        for number in range(6):
            (agent.folder / f"{number}.txt").write_text(f"text {number}\n", encoding="utf-8")
        held = agent.editor.disk.habits.hold = anyio.Event()
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: len(agent.editor.requests) == 4)
            await nothing_more_happens()
            assert len(agent.editor.requests) == 4
            held.set()
            assert await flight.stop_reason() == "end_turn"
        texts = [result.text for result in results_of(model.requests[1])]
        assert texts == [f"1\ttext {number}" for number in range(6)]


async def test_what_changes_things_runs_alone_and_in_order():
    model = ScriptedProvider(
        [
            several(
                calls("write_file", path="a.txt", content="a\n"),
                calls("write_file", path="b.txt", content="b\n"),
                calls("read_file", path="b.txt"),
                calls("read_file", path="a.txt"),
                calls("write_file", path="c.txt", content="c\n"),
            ),
            says("Done."),
        ]
    )
    async with running_agent(model, capabilities=FULL_CLIENT, settings=EDIT_MODE) as agent:
        running: list[str] = []
        together: list[tuple[str, ...]] = []

        def follow(update: JsonDict) -> None:
            inner = update["update"]
            if inner.get("status") == "in_progress" and inner["toolCallId"] not in running:
                running.append(inner["toolCallId"])
                together.append(tuple(running))
            elif inner.get("status") in {"completed", "failed"}:
                running.remove(inner["toolCallId"])

        agent.editor.watch = follow
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        order = [call["toolCallId"] for call in agent.editor.of_kind("tool_call")]
        first, second, *reads, last = order
        assert [names for names in together if first in names] == [(first,)]
        assert [names for names in together if second in names] == [(second,)]
        assert [names for names in together if last in names] == [(last,)]
        assert {*reads} == {name for names in together[2:4] for name in names}
        assert [part.is_error for part in results_of(model.requests[1])] == [False] * 5


async def test_a_write_waits_for_the_write_before_it():
    writes = [calls("write_file", path=f"{name}.txt", content=f"{name}\n") for name in "ab"]
    model = ScriptedProvider([several(*writes), says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT, settings=EDIT_MODE) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        held = agent.editor.disk.habits.hold = anyio.Event()
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: len(agent.editor.requests) == 1)
            await nothing_more_happens()
            assert len(agent.editor.of_kind("tool_call")) <= 1
            held.set()
            assert await flight.stop_reason() == "end_turn"
        assert [method for method, _ in agent.editor.requests].count("fs/write_text_file") == 2


async def test_one_call_that_fails_does_not_stop_those_beside_it():
    model = ScriptedProvider(
        [several(calls("read_file", path="missing.txt"), calls("read_file", path="a.txt")), says("Done.")]
    )
    async with running_agent(model) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert [result.is_error for result in results_of(model.requests[1])] == [True, False]
        # Which of the two is announced first is a race between them.
        assert sorted(shown[-1] for shown in statuses(agent.editor).values()) == ["completed", "failed"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("{not json", "JSON"),
        ("[1, 2]", "object"),
        ("{}", "path"),
        ('{"path": 7}', "path"),
        ('{"path": "a.txt", "lines": 3}', "lines"),
        ('{"path": "a.txt", "start_line": 0}', "start_line"),
    ],
)
async def test_wrong_arguments_go_back_to_the_model_with_the_field_named(arguments: str, named: str):
    model = ScriptedProvider([calls_raw("read_file", arguments), says("I see.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        result = last_result(model.requests[1])
        assert result.is_error
        assert named in result.text
        assert list(statuses(agent.editor).values()) == [["pending", "failed"]]
        (call,) = agent.editor.of_kind("tool_call")
        assert isinstance(call["rawInput"], dict)


async def test_ids_that_a_model_uses_twice_or_leaves_out_are_made_unique():
    model = ScriptedProvider(
        [
            several(calls_raw("read_file", '{"path": "a.txt"}', call_id="call_0")),
            several(
                calls_raw("read_file", '{"path": "b.txt"}', call_id="call_0"),
                calls_raw("read_file", '{"path": "c.txt"}', index=1, call_id=""),
            ),
            says("Done."),
        ]
    )
    async with running_agent(model) as agent:
        for name in "abc":
            (agent.folder / f"{name}.txt").write_text(f"{name}\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        ids = [call["toolCallId"] for call in agent.editor.of_kind("tool_call")]
        assert len(set(ids)) == 3
        assert all(ids)
        assert [result.text for result in results_of(model.requests[2])] == ["1\ta", "1\tb", "1\tc"]
        assert unpaired_calls(model.requests[2]) == []


async def test_the_plan_is_shown_whole_every_time():
    first = [{"content": "Look", "status": "in_progress"}, {"content": "Change", "priority": "high"}]
    second = [{"content": "Look", "status": "completed"}, {"content": "Change", "status": "in_progress"}]
    model = ScriptedProvider([calls("update_plan", entries=first), calls("update_plan", entries=second), says("Done.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert [update["entries"] for update in agent.editor.of_kind("plan")] == [
            [
                {"content": "Look", "priority": "medium", "status": "in_progress"},
                {"content": "Change", "priority": "high", "status": "pending"},
            ],
            [
                {"content": "Look", "priority": "medium", "status": "completed"},
                {"content": "Change", "priority": "medium", "status": "in_progress"},
            ],
        ]


async def test_a_long_result_is_cut_for_the_model():
    settings = Settings(editor_deadline_seconds=30)
    small = Settings(editor_deadline_seconds=30, turn=type(settings.turn)(tool_result_chars=2_000))
    model = ScriptedProvider([calls("read_file", path="long.txt"), says("Done.")])
    async with running_agent(model, settings=small) as agent:
        (agent.folder / "long.txt").write_text("line of text\n" * 5_000, encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        text = last_result(model.requests[1]).text
        # A file may have two and a half times as much as other results.
        assert 4_500 < len(text) <= 5_000
        assert "left; continue with start_line=" in text


async def test_every_started_call_has_one_end_in_the_journal_with_its_duration():
    model = ScriptedProvider([several(*(calls("read_file", path="a.txt") for _ in range(3))), says("Done.")])
    async with running_agent(model) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        events = await events_of(agent, session)
        started = [item.call.call_id for item in of_type(events, ToolCallStarted)]
        finished = [item.call_id for item in of_type(events, ToolCallFinished)]
        assert sorted(started) == sorted(finished)
        assert len(set(started)) == 3


async def run_and_measure(agent: RunningAgent) -> list[int]:
    session = await agent.editor.open_session(str(agent.folder))
    assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "end_turn"
    return [len(line) for by_agent, line in agent.editor.recording.both if by_agent]


@pytest.mark.parametrize("character", ["x", "中", "\x01", '"'])
async def test_a_file_of_two_megabytes_is_written_in_short_lines(character: str):
    content = (character * 99 + "\n") * (2_000_000 // 100 // len(json.dumps(character, ensure_ascii=False).encode()))
    model = ScriptedProvider([calls("write_file", path="big.txt", content=content), says("Done.")])
    async with running_agent(model) as agent:
        sizes = await run_and_measure(agent)
        assert max(sizes) < 1_000_000
        assert (agent.folder / "big.txt").read_text(encoding="utf-8") == content


@pytest.mark.first_version("diffs are patches")
async def test_an_edit_of_a_large_file_shows_the_changed_region():
    lines = [f"line {number}\n" for number in range(100_000)]
    model = ScriptedProvider(
        [calls("edit_file", path="big.txt", edits=[{"old_text": "line 50000\n", "new_text": "changed\n"}]), says("Ok.")]
    )
    async with running_agent(model) as agent:
        (agent.folder / "big.txt").write_text("".join(lines), encoding="utf-8")
        sizes = await run_and_measure(agent)
        assert max(sizes) < 20_000
        diff = agent.editor.of_kind("tool_call")[0]["content"][0]
        assert "line 50000\n" in diff["oldText"]
        assert "changed\n" in diff["newText"]


async def test_an_image_that_is_too_large_for_a_line_is_shown_small():
    model = ScriptedProvider([calls("read_file", path="big.png"), says("Done.")])
    async with running_agent(model) as agent:
        Image.effect_noise((1200, 1200), 100).save(agent.folder / "big.png")
        sizes = await run_and_measure(agent)
        [sent] = last_result(model.requests[1]).images
        [shown] = [
            each["content"]
            for each in agent.editor.of_kind("tool_call_update")[-1]["content"]
            if each["content"]["type"] == "image"
        ]
        assert len(shown["data"]) < len(sent.data) / 3
        assert max(sizes) < len(sent.data) / 2


@pytest.mark.parametrize("levels", [40, 900, 50_000])
async def test_arguments_nested_too_deep_fail_their_call_and_nothing_else(levels: int):
    deep = '{"path":' + "[" * levels + "]" * levels + "}"
    model = ScriptedProvider([calls_raw("read_file", deep), says("Sorry."), says("Again.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert list(statuses(agent.editor).values()) == [["pending", "failed"]]
        assert last_result(model.requests[1]).is_error
        await agent.editor.prompt(session, "And now?")
        assert agent.editor.said() == "Sorry.Again."
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []})


async def test_ids_and_names_that_a_model_made_up_stay_short_and_printable():
    made_up = several(
        calls_raw("x" * 100_000, "{}", index=0, call_id="a\ud800"),
        calls_raw("", "{}", index=1, call_id="i" * 100_000),
    )
    model = ScriptedProvider([made_up, says("Done.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        announced = agent.editor.of_kind("tool_call")
        assert all(re.fullmatch("[!-~]{1,256}", call["toolCallId"]) for call in announced)
        assert [len(call["title"]) for call in announced] == [80, len("unnamed tool")]
        assert len(max(agent.editor.recording.lines, key=len)) < 10_000
        assert not unpaired_calls(model.requests[1])


async def test_an_id_from_before_a_clear_or_a_restart_is_not_given_to_another_call():
    look = several(calls_raw("read_file", '{"path": "a.txt"}', call_id="call_0"))
    model = ScriptedProvider([look, says("Done.")], repeat=True)
    async with running_agent(model) as agent:
        (agent.folder / "a.txt").write_text("a\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        await agent.editor.prompt(session, "/clear")
        await agent.editor.prompt(session, "Go again.")
        first = [call["toolCallId"] for call in agent.editor.of_kind("tool_call")]
        await agent.editor.prompt(session, "/clear")
        await agent.editor.request("session/close", {"sessionId": session})
        agent.editor.updates.clear()
        await agent.editor.request("session/resume", {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []})
        await agent.editor.prompt(session, "And again.")
        second = [call["toolCallId"] for call in agent.editor.of_kind("tool_call")]
        assert len({*first, *second}) == len(first) + len(second) >= 3


FAILING: dict[str, tuple[Turn, Literal["ask", "edit", "plan"]]] = {
    "tool.target-missing": (calls("read_file", path="not-there.txt"), "ask"),
    "tool.arguments-wrong": (calls("read_file", road="a.txt"), "ask"),
    "tool.passage-not-unique": (calls("edit_file", path="a.txt", edits=[{"old_text": "zzz", "new_text": "y"}]), "edit"),
    "workspace.path-unusable": (calls("read_file", path="a\0b"), "ask"),
    "policy.refused": (calls("write_file", path="b.txt", content="x"), "plan"),
}


@pytest.mark.parametrize("code", FAILING)
async def test_a_call_that_failed_is_recorded_with_the_code_of_its_failure(code: str):
    turn, mode = FAILING[code]
    means = Settings(editor_deadline_seconds=30, mode=mode)
    async with running_agent(ScriptedProvider([turn, says("Well.")]), settings=means) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        (finished,) = of_type(await events_of(agent, session), ToolCallFinished)
        assert finished.failure == code
        await agent.editor.prompt(session, "/export conversation.md")
        assert f"(failed: `{code}`)" in (agent.folder / "conversation.md").read_text(encoding="utf-8")


async def test_calls_in_the_words_of_other_agents_do_what_ours_do():
    edit = calls("Edit", file_path="a.txt", old_string="one", new_string="two")
    model = ScriptedProvider(
        [calls("Read", file_path="a.txt", offset=1), edit, calls("Bash", command="echo hi"), says("Done.")]
    )
    async with running_agent(model, settings=EDIT_MODE) as agent:
        (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "two\n"
        assert "hi" in last_result(model.requests[3]).text
        started = of_type(await events_of(agent, session), ToolCallStarted)
        assert [event.call.name for event in started] == ["read_file", "edit_file", "run_command"]
        assert all(event.repairs for event in started)


async def test_an_unknown_tool_is_answered_with_the_nearest_of_those_that_the_model_has():
    model = ScriptedProvider([calls("read_fyle", path="a.txt"), says("Done.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        answer = last_result(model.requests[1]).text
        assert answer.endswith(" Did you mean read_file?")
        offered = ", ".join(sorted(tool.name for tool in model.requests[0].tools))
        assert f"There is no tool named 'read_fyle'; the tools are {offered}." in answer
        assert "apply_patch" not in answer
