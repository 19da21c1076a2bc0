"""Work ahead above `[jobs] ask_above`: the turn asks once, and goes on as a job, without one, or ends."""

import sys

import pytest

from pattern_acp.cli.board import JobDesk, verify
from pattern_acp.cli.journal import current_means
from pattern_acp.commands.document import markdown
from pattern_acp.config.settings import DelegateSettings, JobSettings, Settings
from pattern_acp.jobs.model import JobOutcome
from pattern_acp.journal.events import JobMoved, JobQuoted, JobSettled, PermissionDecided, TurnEnded
from pattern_acp.journal.history import read_history
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.replay.comparison import replay_turns
from tests.interaction.test_agreed_jobs import costs, job_of, priced, write
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, PermissionAnswer, choose
from tests.support.scripts import Turn, calls, says
from tests.support.turns import events_of, last_result, of_type, results_of

FORMS: JsonDict = {"elicitation": {"form": {}}}
GREEN = f'"{sys.executable}" -c "open(\'a.py\').read()"'
JOB, WITHOUT, STOP = "allow_once", "allow_always", "reject_once"


def asks_above(amount: str, *, whole: bool = False, mode: str = "auto") -> Settings:
    delegate = DelegateSettings(worker_changes="whole") if whole else DelegateSettings()
    jobs = JobSettings(ask_above=amount)
    return Settings(editor_deadline_seconds=30, mode="plan" if mode == "plan" else "auto", jobs=jobs, delegate=delegate)


def plans(*steps: str, done: int = 0) -> Turn:
    entries = [{"content": step, "status": "completed" if n < done else "pending"} for n, step in enumerate(steps)]
    return calls("update_plan", entries=entries)


def delegates(name: str, *, paths: list[str], checks: list[str]) -> Turn:
    return calls("delegate", kind="worker", name=name, task=f"Write {name}.", paths=paths, checks=checks)


def button(option: str) -> PermissionAnswer:
    """Answers the question about a job with one of its three buttons, of a client that shows one of a kind or all."""

    async def answer(params: JsonDict) -> JsonDict:
        at = {JOB: 0, WITHOUT: 1, STOP: -1}[option]
        return {"outcome": "selected", "optionId": params["options"][at]["optionId"]}

    return answer


async def assert_replays_the_same(agent: RunningAgent, session: str) -> None:
    recorded = await agent.database.read(lambda tx: read_history(tx, session))
    report = await replay_turns(session, recorded, current_means())
    assert report.difference is None, report.difference


async def test_a_plan_above_the_limit_becomes_a_job_that_counts_from_the_agreement_on():
    model = ScriptedProvider(
        [
            write("before.py") + costs(500, 50),
            plans("Write a.py", "Write b.py") + costs(1_000, 100),
            write("a.py") + costs(2_000, 200),
            says("Done.") + costs(3_000, 300),
        ]
    )
    async with running_agent(model, settings=asks_above("1k tokens"), permission=button(JOB)) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Write two files")
        (asked,) = agent.editor.asked
        assert asked["toolCall"]["title"].startswith("The work ahead is estimated at about")
        names = [one["name"] for one in asked["options"]]
        assert names[0].startswith("Make it a job: about")
        assert names[1:] == ["Continue without a job", "Stop here"]
        row, holds = await job_of(agent)
        assert (row.state, row.outcome) == ("completed", "completed")
        events = await events_of(agent, session)
        assert [event.state for event in of_type(events, JobMoved)] == ["agreed", "working", "settling"]
        (receipt,) = of_type(events, JobSettled)
        assert receipt.used is not None
        assert (receipt.used.requests, receipt.used.tokens, receipt.used.micro_units) == (2, 500, 5_000)
        assert [file.path.rpartition("/")[2] for file in receipt.files] == ["a.py"]
        assert next(hold.spent for hold in holds if hold.meter == "money") == 5_000
        checked = await verify(JobDesk(agent.database), 1)
        assert not checked.is_failure, markdown(checked.document)
        # The model reads of the job, and of its budget, with its next request.
        assert "Do job 1, to which I agreed: Write two files" in str(model.requests[2].messages)
        await assert_replays_the_same(agent, session)


async def test_a_question_of_the_agent_itself_has_no_button_for_own_words_and_its_last_one_refuses():
    model = ScriptedProvider([plans("Write a.py")])
    async with running_agent(model, settings=asks_above("1k tokens"), permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Write a file")
        (asked,) = agent.editor.asked
        kinds = [(one["kind"], one["optionId"]) for one in asked["options"]]
        assert kinds[-1] == ("reject_once", "reject_once")
        assert [kind for kind, _ in kinds[:-1]] == ["allow_once", "allow_once"]
        assert "was stopped before it began" in agent.editor.said()


async def test_the_agreement_is_asked_for_once_and_without_it_the_turn_goes_on_as_it_was():
    model = ScriptedProvider(
        [plans("Write a.py"), write("a.py"), plans("Write a.py", "Test it", done=1), says("Done."), says("Well.")]
    )
    async with running_agent(model, settings=asks_above("1k tokens"), permission=button(WITHOUT)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Write a file")
        assert len(agent.editor.asked) == 1
        row, holds = await job_of(agent)
        assert (row.outcome, holds) == ("declined", ())
        assert (agent.folder / "a.py").exists()
        assert "Job 1" not in str(model.requests[-1].messages)
        await assert_replays_the_same(agent, session)


async def test_who_stops_at_the_plan_ends_the_turn_before_another_request():
    model = ScriptedProvider([plans("Write a.py"), says("Never said.")])
    async with running_agent(model, settings=asks_above("1k tokens"), permission=button(STOP)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        answer = await agent.editor.prompt(session, "Write a file")
        assert answer["stopReason"] == "end_turn"
        assert len(model.requests) == 1
        assert "was stopped before it began" in agent.editor.said()
        assert (await job_of(agent))[0].outcome == "declined"
        await assert_replays_the_same(agent, session)


@pytest.mark.parametrize(("option", "outcome"), [(JOB, JobOutcome.COMPLETED), (STOP, JobOutcome.DECLINED)])
async def test_workers_are_quoted_before_they_begin_and_draw_on_the_job(option: str, outcome: JobOutcome):
    work = [write("b.py") + costs(10, 1), write("a.py") + costs(1_000, 100), says("Wrote it.") + costs(2_000, 200)]
    model = ScriptedProvider(
        [delegates("maker", paths=["a.py"], checks=[GREEN]) + costs(500, 50), says("Done.") + costs(3_000, 300)],
        subagents={"maker": work},
    )
    async with running_agent(model, settings=asks_above("1k tokens", whole=True), permission=button(option)) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Have a.py written")
        row, _ = await job_of(agent)
        assert row.outcome == outcome
        events = await events_of(agent, session)
        (quoted,) = of_type(events, JobQuoted)
        assert (quoted.terms.paths, quoted.terms.checks, quoted.terms.workers) == (("a.py",), (GREEN,), 1)
        assert quoted.plan[0].startswith("Worker maker: about")
        (receipt,) = of_type(events, JobSettled)
        if option == STOP:
            assert len(model.requests) == 1
            assert not (agent.folder / "a.py").exists()
            (ended,) = of_type(events, TurnEnded)
            assert "was stopped before it began" in ended.sentence
        else:
            assert receipt.used is not None
            assert (receipt.used.requests, receipt.used.tokens) == (4, 601)
            assert [(part.node, part.tokens) for part in receipt.parts] == [("maker", 301)]
            assert [check.exit_code for check in receipt.checks] == [0]
            assert (agent.folder / "a.py").read_text(encoding="utf-8") == "new\n"
            assert not (agent.folder / "b.py").exists()
        await assert_replays_the_same(agent, session)


async def test_terms_that_are_typed_narrow_the_offer_and_hold_for_the_rest_of_the_turn():
    model = ScriptedProvider([plans("Write a.py"), write("src/b.py"), write("a.py"), says("Done.")])
    async with running_agent(model, settings=asks_above("1k tokens"), capabilities=FORMS) as agent:
        answers = ["--max lots", "--paths a.py --max 90k tokens"]

        def fill(form: JsonDict) -> JsonDict:
            content: JsonDict = {"answer": form["requestedSchema"]["properties"]["answer"]["enum"][0]}
            return {"action": "accept", "content": {"own_words": answers.pop(0)} if answers else content}

        agent.editor.form = fill
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Write a file")
        events = await events_of(agent, session)
        quoted = of_type(events, JobQuoted)
        assert [(one.round, one.terms.paths, one.terms.most) for one in quoted] == [
            (1, (), ""),
            (2, ("a.py",), "90000 tokens"),
        ]
        assert "--max takes money, tokens or time" in agent.editor.forms[1]["message"]
        row, _ = await job_of(agent)
        assert (row.round, row.outcome) == (2, "completed")
        assert [one.rule for one in of_type(events, PermissionDecided) if one.verdict == "deny"] == ["job_paths"]
        assert sorted(path.name for path in agent.folder.glob("**/?.py")) == ["a.py"]


@pytest.mark.parametrize(
    ("amount", "mode"), [("", "auto"), ("90M tokens", "auto"), ("0.01 USD", "auto"), ("1 tokens", "plan")]
)
async def test_nobody_is_asked_below_the_limit_without_a_price_or_in_plan_mode(amount: str, mode: str):
    model = ScriptedProvider([plans("Write a.py"), says("Done.")])
    async with running_agent(model, settings=asks_above(amount, mode=mode), permission=choose(STOP)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Write a file")
        assert agent.editor.asked == []
        assert len(model.requests) == 2
        assert of_type(await events_of(agent, session), JobQuoted) == []


async def test_the_budget_of_a_job_in_the_middle_of_a_turn_counts_nothing_of_what_came_before():
    model = ScriptedProvider(
        [plans("Write a.py") + costs(90_000, 900), write("a.py") + costs(1_000, 10), says("Done.") + costs(1_000, 10)]
    )
    async with running_agent(model, settings=asks_above("1k tokens"), permission=button(JOB)) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Write a file")
        assert len(agent.editor.asked) == 1
        assert "A budget is used up" not in str(agent.editor.asked)
        assert (await job_of(agent))[0].outcome == "completed"
        assert "Done." in agent.editor.said()
        assert last_result(model.requests[1]).text.startswith("The plan is shown")
        assert len(results_of(model.requests[2])) == 2
