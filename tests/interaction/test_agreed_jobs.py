"""Jobs over the wire: an estimate, an answer, work within the terms, checks by the engine, and a receipt."""

import contextlib
import sys
from pathlib import Path
from typing import LiteralString, cast

import pytest
from msgspec.structs import replace

from pattern_acp.cli.board import JobDesk, list_jobs, receipt, show, verify
from pattern_acp.commands.document import markdown
from pattern_acp.config.settings import Settings
from pattern_acp.db.connection import Transaction
from pattern_acp.definitions.personas import Persona
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.jobs import store
from pattern_acp.jobs.model import JobNotFoundError, JobRow
from pattern_acp.jobs.store import HoldRow
from pattern_acp.journal.events import JobMoved, JobQuoted, JobSettled, PermissionDecided
from pattern_acp.journal.reader import read_stream
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers.base import UsageKnown
from pattern_acp.providers.http_errors import ProviderAuthError
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.job_review import shown_lines
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.scripts import Turn, calls, says
from tests.support.turns import events_of, last_result, of_type

AUTO = Settings(editor_deadline_seconds=30, mode="auto")
GREEN = f'"{sys.executable}" -c "open(\'tests/a.py\').read()"'
RED = f'"{sys.executable}" -c "raise SystemExit(3)"'


def costs(micro_units: int, tokens: int = 10) -> Turn:
    return (UsageKnown(Usage(tokens), Cost(micro_units)),)


def write(path: str, content: str = "new\n") -> Turn:
    return calls("write_file", path=path, content=content)


def priced(agent: RunningAgent) -> None:
    info = agent.models.infos["scripted"]
    agent.models.infos["scripted"] = replace(info, input_price=1_000_000, output_price=1_000_000, prices="table 1")


async def job_of(agent: RunningAgent, number: int = 1) -> tuple[JobRow, tuple[HoldRow, ...]]:
    def read(tx: Transaction) -> tuple[JobRow, tuple[HoldRow, ...]]:
        row = store.job_numbered(tx, number)
        return row, store.read_holds(tx, row.id)

    return await agent.database.read(read)


async def test_a_job_is_quoted_agreed_worked_on_settled_and_closed():
    model = ScriptedProvider(
        [
            *(write("src/b.py") + costs(1_000, 100), write("tests/a.py") + costs(2_000, 200)),
            says("Moved the tests.") + costs(3_000, 300),
        ]
    )
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        answer = await agent.editor.prompt(
            session, f'/job "Move the tests" --max 2 USD --paths tests/** --check {GREEN}'
        )
        assert answer["stopReason"] == "end_turn"
        # What is outside of the agreed paths is refused, in mode auto, too.
        assert "Job 1 may write only in" in last_result(model.requests[1]).text
        assert not (agent.folder / "src" / "b.py").exists()
        assert (agent.folder / "tests" / "a.py").read_text(encoding="utf-8") == "new\n"
        row, holds = await job_of(agent)
        assert (row.state, row.outcome) == ("completed", "completed")
        assert [(hold.meter, hold.granted, hold.spent, hold.left) for hold in holds if hold.meter == "money"] == [
            ("money", 2_000_000, 6_000, 0)
        ]
        events = await events_of(agent, session)
        assert [event.state for event in of_type(events, JobMoved)] == ["agreed", "working", "settling"]
        (receipt,) = of_type(events, JobSettled)
        assert receipt.used is not None
        assert (receipt.used.requests, receipt.used.tokens, receipt.used.micro_units) == (3, 600, 6_000)
        assert [Path(file.path).name for file in receipt.files] == ["a.py"]
        assert [(check.command, check.exit_code) for check in receipt.checks] == [(GREEN, 0)]
        assert (receipt.agreed_by, receipt.by) == ("person", "engine")
        assert "Job 1: completed. 600 tokens, 0.0060 USD" in agent.editor.said()
        # The next turn is as free as before.
        assert [one.rule for one in of_type(events, PermissionDecided) if one.verdict == "deny"] == ["job_paths"]


async def test_a_job_is_shown_listed_and_verified_and_what_is_changed_is_named():
    model = ScriptedProvider(
        [write("tests/a.py") + costs(2_000, 200), says("Moved the tests.") + costs(3_000, 300)],
    )
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, f'/job "Move the tests" --max 2 USD --paths tests/** --check {GREEN}')
        for words, shown in (
            ("/job", "Move the tests"),
            ("/job 1", "tests/a.py"),
            ("/job 7", "no job 7"),
            ("/job resume 1", "is completed, so it cannot be working"),
            ("/job stop 1", "is completed, so it cannot be stopped"),
            ("/job", "/job resume N"),
        ):
            said = len(agent.editor.said())
            await agent.editor.prompt(session, words)
            assert shown in agent.editor.said()[said:], words
        desk = JobDesk(agent.database)
        assert "completed" in markdown((await list_jobs(desk)).document)
        assert "Move the tests" in markdown((await show(desk, 1)).document)
        assert "tests/a.py" in markdown((await receipt(desk, 1)).document)
        assert not (await verify(desk, None)).is_failure
        with pytest.raises(JobNotFoundError):
            await verify(desk, 7)
        for change, named in (
            (
                "UPDATE job_holds SET spent = spent + 1, released = released - 1 WHERE meter = 'money'",
                "its requests",
            ),
            (
                "UPDATE job_holds SET granted = granted + 5, released = released + 5 WHERE meter = 'money'",
                "its hold of money is",
            ),
            ("UPDATE jobs SET model = 'other/model'", "its model is other/model, by its events"),
        ):
            await agent.database.write(lambda tx, change=change: tx.execute(cast("LiteralString", change)))
            checked = await verify(desk, 1)
            assert checked.is_failure
            assert named in markdown(checked.document), change


async def test_a_job_whose_turn_broke_off_is_gone_on_with_or_ended_with_what_exists():
    broken = ProviderAuthError("The key was refused.")
    model = ScriptedProvider([(broken,), says("Done."), (broken,)])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for number, words, shown in (
            (1, "/job resume 1", "Job 1: completed"),
            (2, "/job stop 2", "Job 2: stopped"),
        ):
            with contextlib.suppress(RemoteError):
                await agent.editor.prompt(session, '/job "Do it" --max 60k tokens')
            row, _ = await job_of(agent, number)
            assert row.state == "working"
            said = len(agent.editor.said())
            await agent.editor.prompt(session, f"/job {number}")
            assert f"Job {number}: working" in agent.editor.said()[said:]
            await agent.editor.prompt(session, words)
            assert shown in agent.editor.said()[said:]


async def test_what_is_not_agreed_to_is_not_begun_and_costs_nothing():
    model = ScriptedProvider([])
    async with running_agent(model, settings=AUTO, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, '/job "Move the tests" --max 2 USD')
        assert "Job 1 was not agreed" in agent.editor.said()
        assert model.requests == []
        row, holds = await job_of(agent)
        assert (row.outcome, holds) == ("declined", ())


async def test_a_check_that_fails_is_told_and_the_third_failure_ends_the_job():
    model = ScriptedProvider([says("Done."), says("Now."), says("Really.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, f'/job "Do it" --max 60k tokens --check {RED}')
        assert len(model.requests) == 3
        row, _ = await job_of(agent)
        assert (row.state, row.outcome) == ("failed", "checks failed")
        (receipt,) = of_type(await events_of(agent, session), JobSettled)
        assert [check.exit_code for check in receipt.checks] == [3]


async def test_the_budget_pauses_names_the_sum_and_an_unfinished_job_is_never_a_success():
    model = ScriptedProvider([write("tests/a.py") + costs(40_000), says("Done.")])
    asked: list[str] = []

    async def answer(params: JsonDict) -> JsonDict:
        names = [str(option["name"]) for option in params["options"]]
        asked.extend(names)
        which = "allow_once" if "at most" in names[0] else "reject_once"
        return {"outcome": "selected", "optionId": which}

    async with running_agent(model, settings=AUTO, permission=answer) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, f'/job "Do it" --max 0.03 USD --check {GREEN}')
        row, holds = await job_of(agent)
        assert (row.state, row.outcome) == ("failed", "budget exhausted")
        money = next(hold for hold in holds if hold.meter == "money")
        assert (money.granted, money.spent, money.over) == (30_000, 30_000, 10_000)
        assert any("Continue, with 0.0300 USD more (0.0600 USD in all)" in name for name in asked)
        # The checks ran all the same: the user sees what exists.
        (receipt,) = of_type(await events_of(agent, session), JobSettled)
        assert [check.exit_code for check in receipt.checks] == [0]


@pytest.mark.parametrize("limit", ["0 tokens", "0 USD"])
async def test_zero_means_zero(limit: str):
    model = ScriptedProvider([])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        priced(agent)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, f'/job "Do it" --max {limit}')
        assert model.requests == []
        row, _ = await job_of(agent)
        assert row.outcome == "budget exhausted"


async def test_the_same_recorded_inputs_give_the_same_quotes():
    model = ScriptedProvider([])
    async with running_agent(model, settings=AUTO, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for _ in range(2):
            await agent.editor.prompt(session, '/job "Move the tests" --max 2 USD')
        first, second = of_type(await events_of(agent, session), JobQuoted)
        assert (first.quotes, first.plan, first.risks) == (second.quotes, second.plan, second.risks)
        assert (first.number, second.number) == (1, 2)


async def test_another_persona_is_quoted_by_what_its_jobs_used_and_answers_until_the_job_ends():
    model = ScriptedProvider([says("Done.") + costs(1_000, 100)] * 3)
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        priced(agent)
        personas = [Persona("default", "You do all."), Persona("builder", "You build.")]
        agent.shared.personas = {one.name: "" for one in personas}
        agent.shared.persona_named = {one.name: one for one in personas}.__getitem__
        session = await agent.editor.open_session(str(agent.folder))
        for words in ("/persona builder", '/job "Do it"', "/persona default", '/job "Do it"', "Well done."):
            await agent.editor.prompt(session, words)
        _, job, after = (request.system for request in model.requests)
        assert job.startswith("You build.")
        assert after.startswith("You do all.")
        quoted = of_type(await events_of(agent, session), JobQuoted)
        assert [(one.persona, one.percent, one.jobs) for one in quoted[0].quotes] == [("builder", 100, 0)]
        # The least share that counts, so that one small job makes no promises.
        assert [(one.persona, one.percent, one.jobs) for one in quoted[1].quotes] == [
            ("builder", 25, 1),
            ("default", 100, 0),
        ]
        first, second = ((row.persona, row.outcome) for row, _ in (await job_of(agent), await job_of(agent, 2)))
        assert first == second == ("builder", "completed")


async def test_another_persona_judges_a_job_that_is_over_by_the_numbers_of_its_events():
    judged: list[Turn] = []
    model = ScriptedProvider([write("tests/a.py"), says("Done.")], subagents={"review by sceptic": judged})
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        agent.shared.personas = {"sceptic": "Doubts everything."}
        agent.shared.persona_named = {"sceptic": Persona("sceptic", "You doubt everything.")}.__getitem__
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, f'/job "Move the tests" --paths tests/** --check {GREEN}')
        recorded = await agent.database.read(lambda tx: read_stream(tx, session))
        (seq,) = [one.seq for one in recorded if isinstance(one.event, JobSettled)]
        judged.append(says(f"Verdict: met\nThe check ended with 0 (#{seq}).\nA good job.\nSee #999999999."))
        await agent.editor.prompt(session, "/job review 1")
        said = agent.editor.said()
        assert "**Job 1, reviewed by sceptic.** This is advice: the receipt stays as it is." in said
        assert f"Verdict: met\n\nThe check ended with 0 (#{seq}).\n\n2 lines left out" in said
        asked = model.requests[-1]
        assert asked.tools == ()
        assert asked.system.startswith("You doubt everything.")
        assert f"#{seq} job_settled by system" in str(asked.messages)
        for words, shown in (("/job review 1 nobody", "There is no persona 'nobody'"), ("/job review 7", "no job 7")):
            await agent.editor.prompt(session, words)
            assert shown in agent.editor.said()


def test_a_review_that_names_no_event_has_no_verdict():
    assert shown_lines("Verdict: met\nAll is fine.", {1}).startswith("Verdict: unclear")
    assert "left out" not in shown_lines("Verdict: not met\nIt failed (#1, #2).", {1, 2})
