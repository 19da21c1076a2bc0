"""Workers whose changes land whole: checked, agreed to by the user, in an order, on several levels."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import LiteralString

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import BudgetSettings, CheckSettings, DelegateSettings, Settings, TurnSettings
from pattern_acp.domain.usage import Allowance, Usage
from pattern_acp.journal.events import (
    Event,
    JobEnded,
    JobReported,
    LandingStarted,
    PermissionAnswered,
    PermissionAsked,
    PermissionDecided,
    SubagentRecorded,
    WorkerReady,
)
from pattern_acp.policy.layers import IN_VIEW
from pattern_acp.providers.base import UsageKnown
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.subagents.background import background_of
from tests.interaction.test_subagents import delegates, model_of, names, requests_of, run, settings
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.scripts import Turn, calls, gate, says
from tests.support.turns import events_of, last_result, of_type, prompting, results_of

needs_shell = pytest.mark.skipif(sys.platform == "win32", reason="the command line is written for a POSIX shell")

WHOLE = DelegateSettings(worker_changes="whole", worker_review="never")


async def test_what_a_worker_writes_is_not_there_before_its_end_and_one_rewind_takes_it_back():
    held = gate()
    work = [
        calls("write_file", path="a.py", content="x = 1\n"),
        calls("run_command", command="cat a.py; echo y > b.py"),
        (held, *says("Made it.")),
    ]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=work)
    async with running_agent(model, settings=settings("auto", delegate=WHOLE)) as agent:
        project = agent.folder / "project"
        await anyio.Path(project).mkdir()
        session = await agent.editor.open_session(str(project))
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                await held.reached.wait()
            assert not (project / "a.py").exists()
            held.opened.set()
            assert await prompt.stop_reason() == "end_turn"
        assert "x = 1" in results_of(requests_of(model, "maker")[-1])[-1].text
        told = last_result(model.requests[-1]).text
        assert told == "Made it.\n\nLanded: 2 files.\n\nFiles changed: a.py.\nChanged by its commands: b.py."
        assert ((project / "a.py").read_text(), (project / "b.py").read_text()) == ("x = 1\n", "y\n")
        await agent.editor.prompt(session, "/rewind 1 files yes")
        assert not (project / "a.py").exists()
        assert not (project / "b.py").exists()


async def test_a_worker_that_reaches_its_limit_changes_nothing():
    work = [calls("write_file", path="a.py", content="x = 1\n"), says("Half of it.")]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=work)
    limited = replace(WHOLE, max_model_requests=1)
    async with running_agent(model, settings=settings(delegate=limited)) as agent:
        await run(agent)
        assert not (agent.folder / "a.py").exists()
        assert "None of its changes were made" in last_result(model.requests[-1]).text


@pytest.mark.parametrize("first", ["one", "two"])
async def test_workers_that_changed_one_file_differently_are_refused_by_name_whoever_was_first(first: str):
    wait = gate()
    scripts: dict[str, list[Turn]] = {
        name: [calls("write_file", path="a.txt", content=f"{name}\n"), says("Written.")] for name in ("one", "two")
    }
    other = "two" if first == "one" else "one"
    scripts[other][1] = (wait, *scripts[other][1])
    both = (*delegates("worker", "two"), *delegates("worker", "one"))
    model = model_of(both, says("Done."), **scripts)
    async with running_agent(model, settings=settings(delegate=WHOLE)) as agent:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, agent)
            await wait.reached.wait()
            while len(requests_of(model, first)) < 2:
                await anyio.lowlevel.checkpoint()
            wait.opened.set()
        two, one = results_of(model.requests[-1])
        assert (one.is_error, two.is_error) == (False, True)
        assert "a.txt was changed by one and two in ways that do not fit together." in two.text
        assert (agent.folder / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    "refuse",
    [
        "CREATE TRIGGER planted BEFORE INSERT ON events WHEN NEW.kind = 'landing_started' "
        "BEGIN SELECT RAISE(ABORT, 'planted'); END",
        "CREATE TRIGGER planted BEFORE INSERT ON events WHEN NEW.kind = 'landing_ended' "
        "BEGIN SELECT RAISE(ABORT, 'planted'); END",
    ],
    ids=["begin", "end"],
)
async def test_a_landing_that_cannot_be_recorded_ends_the_turn_and_no_worker_of_the_answer_with_a_fault(
    refuse: LiteralString, caplog: pytest.LogCaptureFixture
):
    scripts: dict[str, list[Turn]] = {
        name: [calls("write_file", path=f"{name}.txt", content="x\n"), says("Written.")] for name in ("one", "two")
    }
    model = model_of((*delegates("worker", "one"), *delegates("worker", "two")), says("Done."), **scripts)
    async with running_agent(model, settings=settings(delegate=WHOLE)) as agent:
        await agent.database.write(lambda tx: tx.execute(refuse))
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go on.")
        assert "Nothing more was saved" in agent.editor.said()
        assert "the tool delegate failed" not in caplog.messages


ASKS = DelegateSettings(worker_changes="whole")
FORMS: JsonDict = {"elicitation": {"form": {}}}
TWO_FILES: Turn = (
    *calls("write_file", path="a.txt", content="a\n"),
    *calls("write_file", path="b.txt", content="b\n"),
)


def form(answer: str = "", own_words: str = "") -> JsonDict:
    return {"action": "accept", "content": {"answer": answer, "own_words": own_words}}


def there(agent: RunningAgent) -> list[str]:
    return sorted(each.name for each in agent.folder.iterdir() if each.is_file())


async def test_mode_ask_asks_once_about_what_a_worker_changed_and_not_about_each_edit():
    model = model_of(delegates("worker", "maker"), says("Done."), maker=[TWO_FILES, says("Made it.")])
    async with running_agent(model, settings=settings("ask", delegate=ASKS), capabilities=FORMS) as agent:
        agent.editor.form = form("Accept")
        session = await run(agent)
        assert there(agent) == ["a.txt", "b.txt"]
        thread = inner(await events_of(agent, session))
        assert len(of_type(thread, PermissionAsked)) == 1
        edits = [each for each in of_type(thread, PermissionDecided) if each.rule == "inside_write"]
        assert {(each.verdict, each.reason) for each in edits} == {("allow", IN_VIEW)}


async def session_told(agent: RunningAgent, model: ScriptedProvider, words: str) -> str:
    """The session's own newest request with these words, once there is one: workers ask the model beside it."""

    def found() -> list[str]:
        return [text for each in requests_of(model, "") if words in (text := str(each.messages))]

    await agent.editor.wait_until(lambda: bool(found()))
    return found()[-1]


def inner(events: Sequence[Event]) -> list[Event]:
    return [each.event for each in events if isinstance(each, SubagentRecorded)]


@pytest.mark.parametrize(
    ("answer", "landed", "told"),
    [
        (form("Accept"), ["a.txt", "b.txt"], "The user accepted it.\nLanded: 2 files."),
        (form("Accept some files", "b.txt"), ["b.txt"], "The user accepted it without a.txt.\nLanded: 1 file."),
        (form("Drop it", "Wrong idea."), [], "the user dropped them. They said: Wrong idea."),
        ({"action": "decline"}, [], "None of its changes landed: the user dropped them."),
    ],
)
async def test_the_user_says_what_becomes_of_a_result(answer: JsonDict, landed: list[str], told: str):
    model = model_of(delegates("worker", "maker"), says("Done."), maker=[TWO_FILES, says("Made it.")])
    async with running_agent(model, settings=settings(delegate=ASKS), capabilities=FORMS) as agent:
        agent.editor.form = answer
        session = await run(agent)
        (asked,) = agent.editor.forms
        assert asked["requestedSchema"]["properties"]["answer"]["enum"] == [
            "Accept",
            "Accept some files",
            "Ask for changes",
            "Drop it",
        ]
        assert "**maker** has finished: 2 changed files." in asked["message"]
        assert there(agent) == landed
        assert told in last_result(model.requests[-1]).text
        shown = [each for each in agent.editor.of_kind("tool_call_update") if "accept 2" in str(each.get("title"))]
        assert [part["type"] for part in shown[0]["content"]] == ["content", "diff", "diff"]
        thread = inner(await events_of(agent, session))
        assert (len(of_type(thread, PermissionAsked)), len(of_type(thread, PermissionAnswered))) == (1, 1)


async def test_a_worker_goes_on_with_the_changes_that_the_user_asks_for():
    more = [TWO_FILES, says("Made it."), calls("write_file", path="c.txt", content="c\n"), says("Now with c.")]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=more)
    async with running_agent(model, settings=settings(delegate=ASKS), capabilities=FORMS) as agent:
        agent.editor.form = form("Ask for changes", "Write c, too.")
        session = await agent.editor.open_session(str(agent.folder))
        fourth = gate()
        more[3] = (fourth, *more[3])
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                await fourth.reached.wait()
            assert there(agent) == []
            agent.editor.form = form("Accept")
            fourth.opened.set()
            assert await prompt.stop_reason() == "end_turn"
        assert "asks for this: Write c, too." in str(requests_of(model, "maker")[2].messages[-1].parts)
        assert there(agent) == ["a.txt", "b.txt", "c.txt"]
        assert last_result(model.requests[-1]).text.startswith("Now with c.")


async def test_a_client_without_forms_shows_buttons_and_asks_for_each_file():
    async def answer(params: JsonDict) -> JsonDict:
        title = params["toolCall"]["title"]
        some = next((one["optionId"] for one in params["options"] if one["name"] == "Accept some files"), "")
        chosen = some or ("allow_once" if "b.txt" in title else "reject_once")
        return {"outcome": "selected", "optionId": chosen}

    model = model_of(delegates("worker", "maker"), says("Done."), maker=[TWO_FILES, says("Made it.")])
    async with running_agent(model, settings=settings(delegate=ASKS), permission=answer) as agent:
        await run(agent)
        assert [each["toolCall"]["title"] for each in agent.editor.asked] == [
            "maker: accept 2 changed files?",
            "maker: take a.txt?",
            "maker: take b.txt?",
        ]
        assert there(agent) == ["b.txt"]


async def test_without_forms_the_next_message_says_what_a_worker_is_to_change():
    async def answer(params: JsonDict) -> JsonDict:
        wanted = "Ask for changes" if len(agent.editor.asked) == 1 else "Accept"
        chosen = next(one["optionId"] for one in params["options"] if one["name"] == wanted)
        return {"outcome": "selected", "optionId": chosen}

    more = [TWO_FILES, says("Made it."), calls("write_file", path="c.txt", content="c\n"), says("Now with c.")]
    model = model_of(delegates("worker", "maker"), *[says("What is to change?")] * 3, maker=more)
    async with running_agent(model, settings=settings(delegate=ASKS), permission=answer) as agent:
        session = await run(agent)
        assert "Their next message says which" in str(model.requests[-1].messages)
        assert there(agent) == []
        await agent.editor.prompt(session, "/workers")
        assert "**maker** (worker1) waits for your words" in agent.editor.said()
        await agent.editor.prompt(session, "Write c, too.")
        await until_finished(agent, session)
        assert "asks for this: Write c, too." in str(requests_of(model, "maker")[2].messages[-1].parts)
        await agent.editor.prompt(session, "Go on.")
        assert there(agent) == ["a.txt", "b.txt", "c.txt"]
        assert await session_told(agent, model, "Now with c.")


@pytest.mark.parametrize(
    ("mode", "review", "questions"), [("auto", "by_mode", 0), ("auto", "always", 1), ("edit", "never", 0)]
)
async def test_mode_and_setting_say_whether_the_user_is_asked(mode: str, review: str, questions: int):
    model = model_of(delegates("worker", "maker"), says("Done."), maker=[TWO_FILES, says("Made it.")])
    chosen = replace(ASKS, worker_review="always" if review == "always" else "by_mode")
    chosen = replace(chosen, worker_review="never") if review == "never" else chosen
    async with running_agent(model, settings=settings(mode, delegate=chosen)) as agent:
        await run(agent)
        assert len(agent.editor.asked) == questions
        assert there(agent) == ["a.txt", "b.txt"]


def with_check(command: str) -> Settings:
    check = CheckSettings("same", command, ("*.txt",), "test", "on_stop")
    return replace(settings("auto", delegate=ASKS), checks=(check,))


@needs_shell
async def test_nothing_lands_while_a_check_fails_and_the_worker_may_mend_it():
    mended = [TWO_FILES, says("Made it."), calls("write_file", path="b.txt", content="a\n"), says("Mended.")]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=mended)
    async with running_agent(model, settings=with_check("cmp a.txt b.txt")) as agent:
        session = await run(agent)
        told = str(requests_of(model, "maker")[2].messages[-1].parts)
        assert "Your changes did not land, since a check failed on them." in told
        assert "differ" in told
        assert (agent.folder / "b.txt").read_text() == "a\n"
        assert "Landed: 2 files." in last_result(model.requests[-1]).text
        (landing,) = of_type(await events_of(agent, session), LandingStarted)
        assert landing.workers == ("maker",)


@needs_shell
async def test_a_check_that_the_delegate_call_names_runs_where_the_worker_works_and_red_is_not_landed():
    model = model_of(
        delegates("worker", "maker", checks=["cmp a.txt b.txt"]),
        says("Done."),
        maker=[TWO_FILES, says("Made it."), says("It is fine."), says("Really.")],
    )
    async with running_agent(model, settings=settings("auto", delegate=ASKS)) as agent:
        session = await run(agent)
        assert there(agent) == []
        result = last_result(model.requests[-1])
        assert result.is_error
        assert "None of its changes landed, since a check failed on them." in result.text
        assert "differ" in result.text
        assert of_type(await events_of(agent, session), WorkerReady) == []


@needs_shell
async def test_policy_decides_on_a_check_that_the_model_names():
    model = model_of(
        delegates("worker", "maker", checks=["touch passed"]),
        says("Done."),
        maker=[TWO_FILES, says("Made it."), says("Again."), says("And again.")],
    )
    async with running_agent(model, settings=settings(delegate=ASKS), permission=choose("reject_once")) as agent:
        await run(agent)
        assert there(agent) == []
        assert agent.editor.asked[0]["toolCall"]["title"] == "maker: Check of maker: touch passed"
        assert "It did not run" in last_result(model.requests[-1]).text


async def test_a_worker_starts_from_the_results_of_those_that_it_needs_and_all_land_in_one_step():
    first = [calls("write_file", path="a.txt", content="one\n"), says("Wrote one.")]
    second = [
        calls("read_file", path="a.txt"),
        calls("edit_file", path="a.txt", edits=[{"old_text": "one", "new_text": "two"}]),
        calls("run_command", command="cat a.txt"),
        says("Made it two."),
    ]
    # By its name the second would come first.
    both = (*delegates("worker", "after", needs=["before"]), *delegates("worker", "before"))
    model = model_of(both, says("Done."), before=first, after=second)
    async with running_agent(model, settings=settings("auto", delegate=WHOLE)) as agent:
        session = await run(agent)
        assert "Wrote one." in str(requests_of(model, "after")[0].messages)
        assert "two" in last_result(requests_of(model, "after")[3]).text
        assert (agent.folder / "a.txt").read_text() == "two\n"
        (landing,) = of_type(await events_of(agent, session), LandingStarted)
        assert landing.workers == ("before", "after")
        after, before = (result.text for result in results_of(model.requests[-1]))
        assert "Landed: 1 file, together with before." in after
        assert "Landed: 1 file, together with after." in before


async def test_a_failure_names_the_worker_what_it_affects_and_what_can_be_done():
    asked = (
        *delegates("worker", "one"),
        *delegates("worker", "two", needs=["one"]),
        *delegates("explorer", "three", needs=["two"]),
        *delegates("worker", "four"),
    )
    script = [calls("write_file", path="a.txt", content="a\n"), says("Half.")]
    four = [calls("write_file", path="b.txt", content="b\n"), says("Done.")]
    model = model_of(asked, says("Done."), one=script, two=[says("Never.")], three=[says("Never.")], four=four)
    limited = replace(WHOLE, max_model_requests=2)
    script[1] = calls("write_file", path="c.txt", content="c\n")
    async with running_agent(model, settings=settings(delegate=limited)) as agent:
        await run(agent)
        one, two, three, four_text = (result.text for result in results_of(model.requests[-1]))
        assert "two, three need one and did not start. Delegate one again" in one
        assert two.startswith("two was not started. one did not succeed: ")
        assert three.startswith("three was not started. two did not succeed: ")
        assert "Landed: 1 file." in four_text
        assert requests_of(model, "two") == requests_of(model, "three") == []
        assert there(agent) == ["b.txt"]


async def test_a_circle_and_a_name_that_is_not_there_are_refused_by_name():
    asked = (
        *delegates("worker", "one", needs=["two"]),
        *delegates("worker", "two", needs=["one"]),
        *delegates("worker", "three", needs=["nobody"]),
        *delegates("worker", "four", needs=["one"]),
    )
    model = model_of(asked, says("Done."))
    async with running_agent(model, settings=settings(delegate=WHOLE)) as agent:
        await run(agent)
        one, two, three, four = (result.text for result in results_of(model.requests[-1]))
        assert one == two
        assert "circle: one needs two needs one. Leave one of these needs out." in one
        assert three == "three needs nobody, which this answer does not have; it has four, one, two."
        assert four.startswith("four was not started. one did not succeed: ")


async def test_workers_delegate_down_to_the_third_level_and_all_of_it_lands_with_the_first():
    inside = "top/middle"
    model = ScriptedProvider(
        [delegates("worker", "top"), says("Done.")],
        subagents={
            "top": [delegates("worker", "middle"), calls("read_file", path="c.txt"), says("Top.")],
            inside: [
                calls("write_file", path="b.txt", content="b\n"),
                delegates("worker", "low"),
                says("Middle."),
            ],
            f"{inside}/low": [
                calls("read_file", path="b.txt"),
                calls("write_file", path="c.txt", content="c\n"),
                says("Low."),
            ],
        },
    )
    async with running_agent(model, settings=settings(delegate=ASKS)) as agent:
        session = await run(agent)
        low = requests_of(model, f"{inside}/low")
        assert "delegate" not in names(low[0])
        assert "delegate" in names(requests_of(model, inside)[0])
        assert not last_result(low[1]).is_error
        assert "c" in last_result(requests_of(model, "top")[2]).text
        assert there(agent) == ["b.txt", "c.txt"]
        assert len(agent.editor.asked) == 1
        (landing,) = of_type(await events_of(agent, session), LandingStarted)
        assert landing.workers == ("top",)


async def test_subagents_of_a_worker_write_only_where_it_may():
    model = ScriptedProvider(
        [delegates("worker", "top", paths=["src"]), says("Done.")],
        subagents={
            "top": [
                delegates("worker", "wide", paths=["other"]),
                delegates("worker", "low"),
                says("Top."),
            ],
            "top/low": [calls("write_file", path="other.txt", content="b\n"), says("Low.")],
        },
    )
    async with running_agent(model, settings=settings(delegate=WHOLE)) as agent:
        await run(agent)
        assert "top may not write in" in last_result(requests_of(model, "top")[1]).text
        assert "may write only in" in last_result(requests_of(model, "top/low")[1]).text
        assert there(agent) == []


def unwoken(mode: str = "edit") -> Settings:
    """Settings with which the end of background work wakes nobody, in version 2 of ACP too."""
    return replace(settings(mode, delegate=ASKS), turn=TurnSettings(wakes=0))


async def until_finished(agent: RunningAgent, session: str) -> None:
    workers = background_of(agent.sessions.get(session))
    with anyio.fail_after(30):
        for worker in workers.all():
            await worker.done.wait()


async def test_a_worker_in_the_background_outlives_its_prompt_and_lands_with_the_next():
    held = gate()
    work = [calls("write_file", path="a.txt", content="a\n"), (held, *says("Made it."))]
    model = model_of(
        delegates("worker", "maker", background=True), says("It works."), says("I see it."), says("Fine."), maker=work
    )
    async with running_agent(model, settings=unwoken("auto")) as agent:
        session = await run(agent)
        assert any("maker works in the background (worker1)" in str(each.messages) for each in model.requests)
        await agent.editor.prompt(session, "/workers")
        assert "**maker** (worker1) works: The task of maker." in agent.editor.said()
        held.opened.set()
        await until_finished(agent, session)
        assert there(agent) == []
        await agent.editor.prompt(session, "/workers maker")
        assert "+a" in agent.editor.said()
        assert there(agent) == []
        await agent.editor.prompt(session, "Go on.")
        assert there(agent) == ["a.txt"]
        assert "Landed: 1 file." in await session_told(agent, model, "Made it.")
        events = await events_of(agent, session)
        assert [each.outcome for each in of_type(events, JobEnded)] == ["exited"]
        shown = [each["title"] for each in agent.editor.of_kind("tool_call")]
        assert "Worker: maker (in the background)" in shown


@pytest.mark.parametrize("answer", ["Accept", "Ask for changes"])
async def test_a_result_that_waits_is_settled_by_the_first_prompt_of_a_later_process(tmp_path: Path, answer: str):
    database, folder = tmp_path / "c" / "constellation.db", tmp_path / "project"
    folder.mkdir()
    (folder / "old.txt").write_text("old\n")
    model = model_of(delegates("worker", "maker", background=True), says("Fine."), maker=[TWO_FILES, says("Made it.")])
    async with running_agent(model, settings=settings(delegate=ASKS), database=database) as agent:
        session = await agent.editor.open_session(str(folder))
        await agent.editor.prompt(session, "Go.")
        await until_finished(agent, session)
        (reported,) = of_type(await events_of(agent, session), JobReported)
        assert (reported.name, reported.report, reported.lands) == ("maker", "Made it.", True)
    more = [calls("write_file", path="c.txt", content="c\n"), says("Now with c.")]
    model = model_of(*[says("Fine.")] * 3, maker=more)
    async with running_agent(model, settings=settings(delegate=ASKS), database=database, capabilities=FORMS) as agent:
        agent.editor.form = form(answer, "Write c, too." if answer == "Ask for changes" else "")
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(folder), "mcpServers": []})
        await agent.editor.prompt(session, "/workers")
        assert "**maker** (worker1) has finished, and waits for your next prompt" in agent.editor.said()
        assert list(folder.glob("*.txt")) == [folder / "old.txt"]
        await agent.editor.prompt(session, "Go on.")
        if answer == "Ask for changes":
            await until_finished(agent, session)
            agent.editor.form = form("Accept")
            await agent.editor.prompt(session, "Go on.")
        names = ["a.txt", "b.txt", *(["c.txt"] if answer == "Ask for changes" else []), "old.txt"]
        assert sorted(each.name for each in folder.glob("*.txt")) == names
        assert await session_told(agent, model, "Now with c." if answer == "Ask for changes" else "Made it.")
        ended = of_type(await events_of(agent, session), JobEnded)
        assert [(each.job_id, each.outcome) for each in ended] == [("worker1", "exited")]


async def test_each_turn_shows_in_a_call_what_works_in_the_background():
    held = gate()
    work = [calls("write_file", path="a.txt", content="a\n"), (held, *says("Made it."))]
    model = model_of(delegates("worker", "maker", background=True), *[says("Fine.")] * 2, maker=work)
    async with running_agent(model, settings=settings("auto", delegate=ASKS)) as agent:
        session = await run(agent)
        await held.reached.wait()
        await agent.editor.prompt(session, "And now?")
        title = "Worker: maker (in the background)"
        announced = [each["toolCallId"] for each in agent.editor.of_kind("tool_call") if each["title"] == title]
        updates = [each for each in agent.editor.of_kind("tool_call_update") if each["toolCallId"] == announced[-1]]
        assert len(announced) == 2
        assert updates[-1]["status"] == "completed"
        assert "maker works." in str(updates[-1]["content"])
        assert "1 call" in str(updates)
        held.opened.set()
        await until_finished(agent, session)


async def test_a_worker_in_the_background_goes_on_with_what_the_user_asks_for_at_the_next_prompt():
    more = [TWO_FILES, says("Made it."), calls("write_file", path="c.txt", content="c\n"), says("Now with c.")]
    model = model_of(delegates("worker", "maker", background=True), *[says("Fine.")] * 3, maker=more)
    async with running_agent(model, settings=unwoken(), capabilities=FORMS) as agent:
        agent.editor.form = form("Ask for changes", "Write c, too.")
        session = await run(agent)
        await until_finished(agent, session)
        assert agent.editor.forms == []
        await agent.editor.prompt(session, "Go on.")
        await until_finished(agent, session)
        assert there(agent) == []
        agent.editor.form = form("Accept")
        await agent.editor.prompt(session, "Go on.")
        assert there(agent) == ["a.txt", "b.txt", "c.txt"]
        assert await session_told(agent, model, "Now with c.")


async def test_a_worker_in_the_background_is_stopped_by_the_user_and_with_its_session():
    waits = gate(), gate()
    model = model_of(
        delegates("worker", "one", background=True) + delegates("explorer", "two", background=True),
        says("Both work."),
        one=[(waits[0], *says("Never."))],
        two=[(waits[1], *says("Never."))],
    )
    async with running_agent(model, settings=unwoken()) as agent:
        session = await run(agent)
        for wait in waits:
            await wait.reached.wait()
        await agent.editor.prompt(session, "/workers stop one")
        assert "**one** (worker1) was stopped" in agent.editor.said()
        await agent.editor.prompt(session, "/workers stop three")
        assert "There is no worker 'three' in the background; there is one, two." in agent.editor.said()
        await agent.editor.request("session/close", {"sessionId": session})
        events = await events_of(agent, session)
        assert [(each.job_id, each.outcome) for each in of_type(events, JobEnded)] == [
            ("worker1", "stopped"),
            ("worker2", "stopped"),
        ]


@needs_shell
async def test_nobody_is_asked_for_a_worker_in_the_background():
    work = [calls("run_command", command="touch made"), says("I could not.")]
    model = model_of(delegates("worker", "maker", background=True), *[says("Fine.")] * 2, maker=work)
    async with running_agent(model, settings=unwoken()) as agent:
        session = await run(agent)
        await until_finished(agent, session)
        assert "nobody can be asked" in str(requests_of(model, "maker")[0].messages)
        assert last_result(requests_of(model, "maker")[1]).is_error
        await agent.editor.prompt(session, "Go on.")
        assert agent.editor.asked == []
        assert await session_told(agent, model, "I could not.")


async def test_between_turns_no_budget_asks_and_what_it_says_comes_with_the_next_prompt():
    held = gate()
    used = (UsageKnown(Usage(90_000)),)
    work = [(held, *calls("list_directory", path="."), *used), calls("list_directory", path=".") + used, says("Never.")]
    model = model_of(delegates("explorer", "finder", background=True), *[says("Fine.")] * 2, finder=work)
    limited = replace(unwoken(), budget=BudgetSettings(session="100k tokens"))
    async with running_agent(model, settings=limited) as agent:
        session = await run(agent)
        held.opened.set()
        await until_finished(agent, session)
        assert agent.editor.asked == []
        assert len(requests_of(model, "finder")) == 2
        agent.sessions.get(session).state.budgets.changed["session"] = Allowance()
        await agent.editor.prompt(session, "Go on.")
        assert "This session has used 90,000 of 100,000 tokens (/budget)." in agent.editor.said()
        assert await session_told(agent, model, "Stopped: This session has used 180,000 of 100,000 tokens")


async def test_only_what_lands_works_in_the_background():
    model = model_of(delegates("worker", "maker", background=True), says("Done."))
    async with running_agent(model, settings=settings()) as agent:
        await run(agent)
        assert "worker_changes" in last_result(model.requests[-1]).text
        await agent.editor.prompt(await agent.editor.open_session(str(agent.folder)), "/workers")
        assert "No subagent works in the background of this session." in agent.editor.said()
