"""Sessions that were recorded are run again, and nothing differs."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.bootstrap.process import start_process
from pattern_acp.bootstrap.project import read_project
from pattern_acp.cli.journal import current_means
from pattern_acp.config.settings import (
    CheckSettings,
    CompactionSettings,
    Flags,
    HookSettings,
    Settings,
    TurnSettings,
)
from pattern_acp.domain.messages import ToolResultPart
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.codec import decode, encode
from pattern_acp.journal.events import (
    ContextCompacted,
    ErrorReported,
    Event,
    MessageRecorded,
    ModelRequested,
    PermissionAnswered,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
)
from pattern_acp.journal.history import read_history
from pattern_acp.journal.reader import Recorded
from pattern_acp.journal.redact import redacted_among
from pattern_acp.providers.base import WINDOW_FULL, ProviderStop, Retrying, Stopped, TextDelta, UsageKnown, UsageMissing
from pattern_acp.providers.http_errors import ContextTooLongError, ProviderOverloadedError
from pattern_acp.providers.scripted import ScriptedProvider, Step
from pattern_acp.replay.comparison import TurnsReport, replay_turns
from pattern_acp.session.redaction import RedactionWanted, redact_session
from pattern_acp.session.session_row_rebuild import replay
from pattern_acp.turn.budget import NOTE_BEGINS
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.scripts import Turn, calls, calls_raw, gate, says, stops, thinks, uses
from tests.support.turns import events_of, of_type, prompting, statuses

ALLOWED = choose("allow_once")

QUICK = Settings(editor_deadline_seconds=5)


def in_earlier_words(recorded: Sequence[Recorded]) -> list[Recorded]:
    """The events as journals of 2026 have them: results speak of the person, and requests have no parts."""

    def earlier(event: Event) -> Event:
        if isinstance(event, ToolCallFinished):
            stored = encode(event)
            text = json.dumps(stored.payload).replace("he user", "he person")
            return decode(stored.kind, stored.version, json.loads(text))
        return replace(event, parts=None) if isinstance(event, ModelRequested) else event

    return [replace(one, event=earlier(one.event)) for one in recorded]


async def replayed(agent: RunningAgent, session: str, turn: int = 0) -> TurnsReport:
    recorded = await agent.database.read(lambda tx: read_history(tx, session))
    return await replay_turns(session, recorded, current_means(), turn=turn)


async def open_with_file(agent: RunningAgent) -> str:
    (agent.folder / "a.txt").write_text("hello\n", encoding="utf-8")
    return await agent.editor.open_session(str(agent.folder))


async def test_tools_thoughts_plans_and_usage_replay_the_same():
    model = ScriptedProvider(
        [
            thinks("Which?", signature="sig") + says("Let me look.") + calls("read_file", path="a.txt") + uses(100, 10),
            calls("read_file", path="no.txt") + calls("read_file", path="a.txt") + calls("list_directory", path="."),
            calls("update_plan", entries=[{"content": "Look", "status": "completed", "priority": "high"}]),
            calls("edit_file", path="a.txt", edits=[{"old_text": "hello", "new_text": "bye"}]),
            calls("no_such_tool", x=1),
            calls_raw("read_file", "{broken", call_id="call_broken"),
            calls("run_command", command="echo hi"),
            says("Done.") + uses(140, 14),
            calls("memory_write", label="human", operation="append", text="Likes tests.", reason="told"),
            says("I know it now."),
        ]
    )
    async with running_agent(model, permission=ALLOWED) as agent:
        session = await open_with_file(agent)
        await agent.editor.prompt(session, "Say bye in a.txt.")
        await agent.editor.prompt(session, "Remember that I like tests.")
        report = await replayed(agent, session)
        second = await replayed(agent, session, turn=2)
    assert report.difference is None
    assert (report.turns, report.requests, report.calls, report.not_compared) == (2, 10, 10, ())
    assert (second.turns, second.requests, second.calls, second.difference) == (1, 2, 1, None)


async def test_the_note_on_calls_without_arguments_that_fail_alike_replays_the_same():
    async with running_agent(ScriptedProvider([calls("read_file") * 3, says("Well.")])) as agent:
        session = await open_with_file(agent)
        await agent.editor.prompt(session, "Go.")
        results = [event.result_text for event in of_type(await events_of(agent, session), ToolCallFinished)]
        report = await replayed(agent, session)
    assert [NOTE_BEGINS in text for text in results] == [False, False, True]
    assert report.difference is None, report.difference


async def test_a_call_that_failed_for_a_reason_of_its_own_replays_the_same():
    # A file that is there and was not read is refused in the tool's run, one that is missing when it is prepared.
    tries = calls("write_file", path="a.txt", content="x") + calls("edit_file", path="a.txt", edits=[])
    model = ScriptedProvider([tries, calls("read_file", path="a.txt", start_line=99), says("Well.")])
    async with running_agent(model, permission=ALLOWED) as agent:
        session = await open_with_file(agent)
        await agent.editor.prompt(session, "Go.")
        events = await events_of(agent, session)
        codes = [event.failure for event in events if isinstance(event, ToolCallFinished)]
        assert len({*codes} - {"", "tool.failed"}) > 1, codes
        report = await replayed(agent, session)
    assert report.difference is None, report.difference


async def test_what_the_user_refuses_and_calls_that_fail_again_and_again_replay_the_same():
    fails = calls("read_file", path="no.txt")
    model = ScriptedProvider([calls("run_command", command="touch x"), says("Well."), *[fails] * 5])
    async with running_agent(model, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        await agent.editor.prompt(session, "Go on.")
        report = await replayed(agent, session)
        assert "same call of read_file again and again" in agent.editor.said()
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        earlier = await replay_turns(session, in_earlier_words(recorded), current_means())
    assert "The person refused" in str(in_earlier_words(recorded))
    assert (report.difference, report.requests) == (None, 7)
    assert earlier.difference is None


async def test_a_refusal_with_the_users_words_reaches_the_model_is_recorded_and_replays_the_same():
    async def refuse(_params: JsonDict) -> JsonDict:
        return {"outcome": "selected", "optionId": "reject_once", "_meta": {"pattern": {"words": " Use make. "}}}

    model = ScriptedProvider([calls("run_command", command="touch x"), says("Well.")])
    async with running_agent(model, permission=refuse) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        report = await replayed(agent, session)
        [result] = [one for one in model.requests[1].messages[-1].parts if isinstance(one, ToolResultPart)]
        assert (
            result.text == "The user refused this call. It did not run and nothing was changed. They wrote: Use make."
        )
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
    assert [one.event.words for one in recorded if isinstance(one.event, PermissionAnswered)] == ["Use make."]
    assert (report.difference, report.requests) == (None, 2)


@pytest.mark.parametrize("place", ["before", "text", "permission", "command"])
async def test_a_turn_that_was_cancelled_replays_up_to_there(place: str):
    waits = gate()
    steps: dict[str, Turn] = {
        "before": (waits, *says("never")),
        "text": (*thinks("Hm."), *says("One, "), waits, *says("never")),
        "permission": calls("read_file", path="a.txt") + calls("run_command", command="touch x"),
        "command": says("I wait.") + calls("run_command", command="sleep 30"),
    }
    model = ScriptedProvider([steps[place], says("Here again.")])
    mode = "auto" if place == "command" else "ask"
    asked = gate()

    async def never(params: dict[str, object]) -> dict[str, object]:
        del params
        asked.reached.set()
        await asked.opened.wait()
        return {"outcome": "cancelled"}

    async with running_agent(model, settings=replace(QUICK, mode=mode), permission=never) as agent:
        session = await open_with_file(agent)
        async with prompting(agent.editor, session, "Go.") as flight:
            if place == "permission":
                await asked.reached.wait()
            elif place == "command":
                await agent.editor.wait_until(lambda: "in_progress" in str(statuses(agent.editor)))
            else:
                await waits.reached.wait()
            await agent.editor.cancel(session)
            assert await flight.stop_reason() == "cancelled"
        await agent.editor.prompt(session, "And now?")
        report = await replayed(agent, session)
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        earlier = await replay_turns(session, in_earlier_words(recorded), current_means())
    assert (report.difference, report.turns, report.requests) == (None, 2, 2)
    assert earlier.difference is None


@pytest.mark.parametrize(
    "answer",
    [
        (ProviderOverloadedError("It is busy."),),
        (*says("One"), ProviderOverloadedError("It broke.")),
        (Retrying(1, 5, "Busy; trying again."), *says("There.")),
        (Retrying(1, 5, "Busy."), Retrying(2, 5, "Still."), ProviderOverloadedError("It is busy.")),
        thinks("Nothing to say."),
        (),
        says("Long") + stops(ProviderStop.MAX_TOKENS, WINDOW_FULL),
        says("No.") + stops(ProviderStop.REFUSAL, "I will not."),
        says("Fil") + stops(ProviderStop.CONTENT_FILTER),
        (*says("Half"), Stopped(ProviderStop.INTERRUPTED, "The key was refused.", is_final=True)),
        (RuntimeError("A fault of ours."),),
    ],
    ids=str,
)
async def test_whatever_becomes_of_an_answer_replays_the_same(answer: tuple[Step, ...]):
    model = ScriptedProvider([calls("list_directory", path="."), answer, says("Better.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        await agent.editor.prompt(session, "Again.")
        report = await replayed(agent, session)
    assert (report.difference, report.turns, report.requests) == (None, 2, 3)


async def test_a_limit_of_requests_and_a_model_that_stands_in_replay_the_same():
    model = ScriptedProvider([calls("list_directory", path=".")] * 2 + [(ProviderOverloadedError("Out."),)])
    spare = ScriptedProvider([says("I stand in.") + uses(10, 5)], name="spare")
    few = replace(QUICK, turn=TurnSettings(max_model_requests=2))
    async with running_agent(model, others={"spare": spare}, settings=few) as agent:
        agent.models.fallback = ("spare/test",)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        await agent.editor.prompt(session, "Again.")
        report = await replayed(agent, session)
        assert "its limit of 2 model requests" in agent.editor.said()
    assert (report.difference, report.turns, report.requests) == (None, 2, 3)


async def test_a_request_that_was_too_long_and_compacted_replays_the_same():
    model = ScriptedProvider(
        [*(says(f"Answer {n}. " * 200) for n in range(6)), (ContextTooLongError("Too long."),), says("Fits.")]
    )
    truncating = replace(QUICK, compaction=CompactionSettings("truncate"))
    async with running_agent(model, settings=truncating) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for number in range(7):
            await agent.editor.prompt(session, f"Question {number}?")
        await agent.editor.prompt(session, "/compact")
        events = await events_of(agent, session)
        report = await replayed(agent, session)
    assert of_type(events, ContextCompacted)
    assert (report.difference, report.requests) == (None, 8)
    assert any("compactions" in sentence for sentence in report.not_compared)


async def test_an_answer_that_broke_off_as_too_long_and_was_compacted_replays_the_same():
    cut: Turn = (*says("Half an "), ContextTooLongError("Too long."))
    model = ScriptedProvider([*(says(f"Answer {n}. " * 200) for n in range(6)), cut, says("Fits.")])
    truncating = replace(QUICK, compaction=CompactionSettings("truncate"))
    async with running_agent(model, settings=truncating) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for number in range(7):
            await agent.editor.prompt(session, f"Question {number}?")
        report = await replayed(agent, session)
    assert (report.difference, report.requests) == (None, 8)


async def test_going_back_forks_and_clearing_replay_the_same():
    answers = [says("One."), calls("read_file", path="a.txt"), *(says(f"Number {n}.") for n in range(6))]
    async with running_agent(ScriptedProvider(answers)) as agent:
        session = await open_with_file(agent)
        for text in ("first", "second", "/rewind 2 conversation", "third", "/clear", "fourth"):
            await agent.editor.prompt(session, text)
        opening: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": [], "turn": 1}
        fork = (await agent.editor.request("session/fork", opening))["sessionId"]
        await agent.editor.prompt(fork, "And in the fork?")
        report, forked = await replayed(agent, session), await replayed(agent, fork)
    assert (report.difference, report.turns, report.requests) == (None, 4, 5)
    assert (forked.difference, forked.turns, forked.requests) == (None, 1, 1)


async def test_subagents_are_as_they_were_recorded_and_this_is_said():
    task = calls("delegate", kind="explorer", name="finder", task="Look.") + calls(
        "delegate", kind="explorer", name="other", task="Look too."
    )
    scripts = {"finder": [calls("read_file", path="a.txt"), says("It is hello.")], "other": [says("Nothing.")]}
    model = ScriptedProvider([task, says("It is hello.")], subagents=scripts)
    async with running_agent(model, settings=replace(QUICK, mode="edit")) as agent:
        session = await open_with_file(agent)
        await agent.editor.prompt(session, "What is in it?")
        report = await replayed(agent, session)
    assert (report.difference, report.requests, report.calls) == (None, 2, 2)
    assert report.not_compared == ("subagents, which are not run again: 2",)


async def test_checks_and_hooks_are_as_they_were_recorded(tmp_path: Path):
    lint = CheckSettings("lint", "echo linted {files}; exit 3", ("*.txt",))
    answer = '{"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "echo instead"}}}'
    script = tmp_path / "hook.sh"
    script.write_text(f"cat > /dev/null; echo '{answer}'\n", encoding="utf-8")
    hook = HookSettings("PreToolUse", f"sh {script}", "Bash")
    stop = HookSettings("Stop", 'grep -q \'"stop_hook_active": true\' || { echo "go on" >&2; exit 2; }')
    made = replace(QUICK, mode="auto", checks=(lint,), hooks=(hook, stop))
    model = ScriptedProvider(
        [
            calls("write_file", path="a.txt", content="a\n") + calls("write_file", path="b.txt", content="b\n"),
            calls("run_command", command="echo hi"),
            says("Done."),
            says("Now really."),
        ]
    )
    async with running_agent(model, settings=made) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        report = await replayed(agent, session)
    assert (report.difference, report.requests) == (None, 4)
    assert report.not_compared == ("calls with arguments that a hook changed: 1",)


async def test_a_command_that_narrows_the_tools_replays_the_same(tmp_path: Path):
    process = start_process(Flags(), {"PATTERN_ACP_HOME": str(tmp_path / ".home")})
    command = process.loaded.paths.config / "commands" / "look.md"
    command.parent.mkdir(parents=True)
    command.write_text("---\nallowed-tools: Read\n---\nLook.", encoding="utf-8")
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    known, unknown = calls("list_directory"), calls("no_such_tool")
    model = ScriptedProvider([known + unknown + calls("read_file", path="a.txt"), says("Done.")])
    async with running_agent(model) as agent:
        agent.sessions.constellation.settings_for = lambda folder: read_project(process, folder)
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "/look")
        assert "the tools are read_file." in str(model.requests[1].messages)
        report = await replayed(agent, session)
    assert (report.difference, report.calls) == (None, 3)


async def test_a_session_that_goes_on_in_another_process_replays_the_same(tmp_path: Path):
    answers = [calls("list_directory", path="."), says("There.")]
    async with running_agent(ScriptedProvider(answers), database=tmp_path / "c.db") as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Look.")
    async with running_agent(ScriptedProvider(answers), database=tmp_path / "c.db") as agent:
        opening: JsonDict = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        await agent.editor.request("session/load", opening)
        await agent.editor.prompt(session, "Look again.")
        report = await replayed(agent, session)
    assert (report.difference, report.requests) == (None, 4)


async def test_words_that_were_forgotten_are_no_difference():
    model = ScriptedProvider([says("I see."), says("Yes."), says("Still.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "My dog is called Barnaby-42.")
        await agent.editor.prompt(session, "Go on.")
        await redact_session(agent.database, RedactionWanted(session, match="Barnaby-42"), at_ms=1)
        await agent.editor.prompt(session, "And now?")
        report = await replayed(agent, session)
    assert (report.difference, report.requests) == (None, 3)
    assert any("redacted or forgotten" in sentence for sentence in report.not_compared)


@pytest.mark.parametrize("word", ["path", "old_text", "hello", "secretplan", "src/", "nosuch", "read_file", ""])
async def test_what_follows_from_words_that_are_gone_is_no_difference(word: str, tmp_path: Path):
    model = ScriptedProvider(
        [
            calls("read_file", path="src/secretplan.txt"),
            calls("edit_file", path="src/secretplan.txt", edits=[{"old_text": "hello", "new_text": "bye"}]),
            calls("no_such_tool", path="x") + calls("nosuch", path="x") + calls("read_file", pathh="x"),
            calls_raw("read_file", '{"path": "src/secretplan.txt", oops', call_id="call_broken"),
            calls("update_plan", entries=[{"content": "Look at it", "status": "completed", "priority": "high"}]),
            says("Done with secretplan."),
            calls("list_directory", path="."),
            says("Yes."),
        ]
    )
    folder = tmp_path / "folder-of"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "secretplan.txt").write_text("hello\n", encoding="utf-8")
    async with running_agent(model, permission=ALLOWED) as agent:
        session = await agent.editor.open_session(str(folder))
        await agent.editor.prompt(session, "Look at secretplan.")
        before = await agent.database.read(lambda tx: read_history(tx, session))
        # Without a word, a whole message with a call.
        place = next(entry.session_seq for entry in before if isinstance(entry.event, MessageRecorded))
        wanted = RedactionWanted(session, match=word) if word else RedactionWanted(session, place=place)
        await redact_session(agent.database, wanted, at_ms=1)
        await agent.editor.prompt(session, "And now?")
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        lost = await agent.database.read(lambda tx: redacted_among(tx, [entry.seq for entry in recorded]))
        report = await replay_turns(session, recorded, current_means(), forgotten=lost)
        other = [replace(entry, event=_with_other_input(entry.event)) for entry in recorded]
        differing = await replay_turns(session, other, current_means(), forgotten=lost)
    assert (report.difference, report.turns) == (None, 2)
    assert any("redacted or forgotten" in sentence for sentence in report.not_compared)
    # The turn behind, of which nothing was forgotten, is compared as ever.
    assert differing.difference is not None
    assert differing.difference.turn == 2


def _with_other_input(event: Event) -> Event:
    if isinstance(event, ToolCallStarted) and event.call.name == "list_directory":
        return replace(event, call=replace(event.call, raw_input={"path": "elsewhere"}))
    return event


words = st.text(min_size=1, max_size=12)
work = st.sampled_from(
    [
        calls("read_file", path="a.txt"),
        calls("read_file", path="missing.txt"),
        calls("read_file"),
        calls("write_file", path="b.txt", content="new\n"),
        calls("edit_file", path="a.txt", edits=[{"old_text": "hello", "new_text": "hello"}]),
        calls("update_plan", entries=[{"content": "Look", "status": "in_progress", "priority": "medium"}]),
        calls("memory_write", label="human", operation="append", text="A fact.", reason="told"),
        calls("run_command", command="echo hi"),
        calls("NO_such_tool", x=1),
    ]
)
steps = st.tuples(
    st.lists(st.one_of(words.map(says), words.map(thinks)), max_size=3), st.lists(work, min_size=1, max_size=4)
).map(lambda pieces: tuple(step for piece in (*pieces[0], *pieces[1]) for step in piece))
ends = st.one_of(
    words.map(says), st.just(()), st.just((*says("Cut"), ProviderOverloadedError("Out."))), st.just((TextDelta(""),))
)
conversations = st.lists(st.tuples(st.lists(steps, max_size=2), ends), min_size=1, max_size=3)


@pytest.mark.slow
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(conversations, st.sampled_from(["allow_once", "allow_always", "reject_once", "reject_always"]))
async def test_whatever_a_model_does_replays_the_same(turns: list[tuple[list[Turn], Turn]], answer: str):
    script: list[Turn] = [turn for before, end in turns for turn in (*before, end)]
    async with running_agent(ScriptedProvider(script), permission=choose(answer)) as agent:
        session = await open_with_file(agent)
        for number in range(len(turns)):
            await agent.editor.prompt(session, f"Prompt {number}.")
        report = await replayed(agent, session)
    assert report.difference is None
    assert report.requests > 0


@pytest.mark.parametrize("before", [(), calls("read_file", path="a.txt")])
@pytest.mark.parametrize("end", [(), stops(ProviderStop.MAX_TOKENS), stops(ProviderStop.INTERRUPTED)])
async def test_an_answer_that_brought_no_message_and_no_counts_replays_the_same(before: Turn, end: Turn):
    async with running_agent(ScriptedProvider([(*before, UsageMissing(), *end), says("Well.")])) as agent:
        session = await open_with_file(agent)
        await agent.editor.prompt(session, "Go.")
        report = await replayed(agent, session)
    assert report.difference is None, report.difference


async def test_a_call_that_a_neighbours_answer_for_good_covers_replays_the_same():
    outside = calls("read_file", path="../out/a.txt") + calls("read_file", path="../out/a.txt")
    model = ScriptedProvider([outside, says("Well.")])
    async with running_agent(model, permission=choose("allow_always")) as agent:
        for name in ("in", "out"):
            (agent.folder / name).mkdir()
        (agent.folder / "out" / "a.txt").write_text("x\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder / "in"))
        await agent.editor.prompt(session, "Go.")
        assert len(agent.editor.asked) == 1
        report = await replayed(agent, session)
    assert (report.difference, report.calls) == (None, 2)


async def test_texts_around_a_call_that_was_cut_replay_the_same():
    cut = says("One, ") + calls("read_file", path="a.txt") + says("two") + stops(ProviderStop.MAX_TOKENS)
    async with running_agent(ScriptedProvider([cut])) as agent:
        session = await open_with_file(agent)
        await agent.editor.prompt(session, "Go.")
        report = await replayed(agent, session)
    assert report.difference is None, report.difference


BROKEN = stops(ProviderStop.INTERRUPTED, "It broke.")


@pytest.mark.parametrize(
    "broken",
    [
        says("Half"),
        says("Half") + calls("read_file", path="a.txt"),
        calls("read_file", path="a.txt"),
        thinks("Hm."),
        thinks("Hm.") + says("Half") + uses(10, 2),
        (Retrying(1, 5, "Busy."), *says("Half")),
        (),
    ],
)
@pytest.mark.parametrize("breaks", [1, 2, 5])
async def test_answers_that_broke_off_and_went_on_replay_the_same(broken: Turn, breaks: int):
    model = ScriptedProvider([*[(*broken, *BROKEN)] * breaks, calls("read_file", path="a.txt"), says("Done.")])
    async with running_agent(model) as agent:
        session = await open_with_file(agent)
        await agent.editor.prompt(session, "Go.")
        await agent.editor.prompt(session, "Again.")
        report = await replayed(agent, session)
        plain = await agent.database.read(lambda tx: replay(tx, session))
    assert (report.difference, plain.difference) == (None, None)
    assert report.requests == (breaks + 3 if breaks < 5 else 7)


@pytest.mark.parametrize("cut", [says("Half"), thinks("Hm."), (), thinks("Hm.") + says("Half") + uses(10, 2)])
@pytest.mark.parametrize("cuts", [1, 2, 3])
async def test_answers_that_the_limit_of_tokens_cut_replay_the_same(cut: Turn, cuts: int):
    script = [(*cut, *stops(ProviderStop.MAX_TOKENS))] * cuts
    model = ScriptedProvider([*script, calls("read_file", path="a.txt"), says("Done.")])
    async with running_agent(model) as agent:
        session = await open_with_file(agent)
        ended = (await agent.editor.prompt(session, "Go."))["stopReason"]
        report = await replayed(agent, session)
        plain = await agent.database.read(lambda tx: replay(tx, session))
    assert ended == ("end_turn" if cuts < 3 else "max_tokens")
    assert (report.difference, plain.difference) == (None, None)
    assert report.requests == (cuts + 2 if cuts < 3 else 3)


async def test_a_text_that_the_limit_cut_before_the_model_was_asked_to_go_on_replays_as_it_ended():
    async with running_agent(ScriptedProvider([says("Long") + stops(ProviderStop.MAX_TOKENS, WINDOW_FULL)])) as agent:
        session = await open_with_file(agent)
        await agent.editor.prompt(session, "Go.")
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        earlier = [replace(entry, event=_ended_by_the_limit(entry.event)) for entry in recorded]
        report = await replay_turns(session, earlier, current_means())
    assert report.difference is None, report.difference


def _ended_by_the_limit(event: Event) -> Event:
    """The event as it was recorded when a text that was cut ended the turn."""
    sentence = "The answer reached its limit of tokens."
    return replace(event, sentence=sentence) if isinstance(event, TurnEnded | ErrorReported) else event


@pytest.mark.parametrize("answers", [1, 3])
async def test_calls_that_the_limit_of_tokens_cut_replay_the_same(answers: int):
    whole = calls_raw("read_file", '{"path": "a.txt"}', call_id="call_whole")
    cut = calls_raw("write_file", '{"path": "b.txt", "content": "one t', index=1, call_id="call_cut")
    script = [says("I write.") + whole + cut + uses(10, 500) + stops(ProviderStop.MAX_TOKENS)] * answers
    async with running_agent(ScriptedProvider([*script, says("Done.")])) as agent:
        session = await open_with_file(agent)
        ended = (await agent.editor.prompt(session, "Go."))["stopReason"]
        report = await replayed(agent, session)
    assert ended == ("end_turn" if answers == 1 else "max_tokens")
    assert (report.difference, report.calls) == (None, 2 * answers)


@pytest.mark.parametrize("cached", [0, 50])
@pytest.mark.parametrize("written", [says("word " * 50), calls("read_file", path="a.txt")])
async def test_an_answer_cut_behind_the_counts_of_its_input_replays_the_same(cached: int, written: Turn):
    cut = uses(100, 1, cache_read=cached) + written + stops(ProviderStop.INTERRUPTED)
    async with running_agent(ScriptedProvider([cut])) as agent:
        session = await open_with_file(agent)
        await agent.editor.prompt(session, "Go.")
        report = await replayed(agent, session)
    assert report.difference is None, report.difference


async def test_a_cost_behind_one_that_was_estimated_replays_the_same():
    look = calls("list_directory", path=".")
    model = ScriptedProvider([(*look, UsageMissing()), (*look, UsageKnown(Usage(100, 10), Cost(50))), says("Well.")])
    async with running_agent(model) as agent:
        agent.models.infos["scripted"] = replace(agent.models.infos["scripted"], input_price=10**6, prices="of today")
        session = await open_with_file(agent)
        await agent.editor.prompt(session, "Go.")
        report = await replayed(agent, session)
    assert report.difference is None, report.difference


async def test_a_cost_behind_one_of_no_known_price_replays_the_same():
    look = calls("list_directory", path=".")
    model = ScriptedProvider([look + uses(100, 10), (*says("Well."), UsageKnown(Usage(100, 10), Cost(50)))])
    async with running_agent(model) as agent:
        session = await open_with_file(agent)
        await agent.editor.prompt(session, "Go.")
        report = await replayed(agent, session)
    assert report.difference is None, report.difference


async def test_the_work_on_a_job_replays_the_same_beside_prompts():
    write = calls("write_file", path="a.py", content="x = 1\n")
    model = ScriptedProvider([says("Hello."), write, says("Wrote it."), says("Nothing to do."), says("Bye.")])
    settings = Settings(editor_deadline_seconds=30, mode="auto")
    async with running_agent(model, settings=settings, permission=ALLOWED) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for words in ("Hello", '/job "Write a.py" --max 60k tokens', '/job "Write it again" --max 60k tokens', "Bye"):
            await agent.editor.prompt(session, words)
        report = await replayed(agent, session)
        assert report.difference is None, report.difference
        assert (report.turns, report.requests) == (4, 5)
