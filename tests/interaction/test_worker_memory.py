"""What workers learn: a fork of memory that lands with their changes, or is dropped with them."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor
from pattern_acp.journal.events import LandingEnded, LandingStarted, MemoryForked, PermissionAnswered
from pattern_acp.memory.blocks import fork_in
from pattern_acp.memory.forks import stored_blocks
from pattern_acp.memory.service.history import MemoryHistory
from pattern_acp.memory.service.provenance import archive_mismatches, mismatches
from pattern_acp.providers.scripted import ScriptedProvider
from tests.interaction.test_groups import RACE, grouped, say
from tests.interaction.test_memory_forks import answer, fork_named, opened, remember
from tests.interaction.test_subagents import delegates, model_of, requests_of, run, settings
from tests.interaction.test_workers import ASKS, FORMS, WHOLE, form, inner, there, until_finished, unwoken
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.scripts import Turn, calls, gate, says
from tests.support.turns import events_of, last_result, of_type, prompting, results_of

FACT = "The tests of the parser need a fixture that nobody wrote down."


def learns(text: str, label: str = "project") -> Turn:
    return calls("memory_write", label=label, operation="append", text=text)


FILE = calls("write_file", path="a.txt", content="a\n")


async def text_of(agent: RunningAgent, session: str, label: str = "project") -> str:
    memory = agent.sessions.get(session).memory
    return next((block.text for block in await memory.blocks() if block.label == label), "")


async def facts_of(agent: RunningAgent, session: str) -> list[str]:
    history = MemoryHistory(agent.database, agent.sessions.get(session).memory.owner.owners)
    return [one.entry.text for one in await history.archive()]


async def assert_no_fork_is_left(agent: RunningAgent) -> None:
    """Nothing of forks is stored but what the journal names, and memory is what its events say."""

    def look(tx: Transaction) -> tuple[int, list[object]]:
        open_forks = tx.all("SELECT id FROM memory_forks WHERE outcome = 'open'")
        words = tx.all("SELECT text FROM blocks WHERE owner LIKE '%(fork_%' AND text != ''")
        facts = tx.all("SELECT id FROM archival_entries WHERE owner LIKE '%(fork_%'")
        return len(open_forks), [*words, *facts, *mismatches(tx), *archive_mismatches(tx)]

    assert await agent.database.read(look) == (0, [])


async def test_what_a_worker_learns_waits_for_its_landing_and_one_rewind_takes_both_back():
    held = gate()
    work = [FILE, learns("Use ruff."), learns(FACT, "archive"), (held, *says("Made it."))]
    model = model_of(delegates("worker", "maker"), says("Done."), says("Hm."), maker=work)
    async with running_agent(model, settings=settings("auto", delegate=WHOLE)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/remember Use make.")
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                await held.reached.wait()
            assert (await text_of(agent, session), await facts_of(agent, session)) == ("Use make.", [])
            held.opened.set()
            assert await prompt.stop_reason() == "end_turn"
        assert "Use make.\nUse ruff." in requests_of(model, "maker")[-1].volatile
        assert (await text_of(agent, session), await facts_of(agent, session)) == ("Use make.\nUse ruff.", [FACT])
        told = last_result(model.requests[-1]).text
        assert "Landed: 1 file. Memory: 1 block and 1 fact." in told
        assert told.endswith("Memory changed: project, archive.")
        blamed = await MemoryHistory(agent.database, agent.sessions.get(session).memory.owner.owners).blame("project")
        writes = [blamed.writes[line.number] for line in blamed.lines]
        assert [write.actor for write in writes] == [Actor.HUMAN, Actor.PERSONA]
        assert (writes[1].stream, writes[1].reason) == (session, "Subagent maker")
        await assert_no_fork_is_left(agent)
        await agent.editor.prompt(session, "/rewind 1 files memory yes")
        assert (await text_of(agent, session), there(agent)) == ("Use make.", [])
        await assert_no_fork_is_left(agent)


@pytest.mark.parametrize(
    ("reply", "files", "project", "told"),
    [
        (form("Accept"), ["a.txt", "b.txt"], "Use ruff.", "accepted it.\nLanded: 2 files. Memory: 1 block."),
        (
            form("Accept some files", "b.txt"),
            ["b.txt"],
            "Use ruff.",
            "accepted it without a.txt.\nLanded: 1 file. Memory: 1 block.",
        ),
        (
            form("Accept some files", "b.txt, without memory"),
            ["b.txt"],
            "",
            "accepted it without a.txt, what it learned.\nLanded: 1 file.",
        ),
        (
            form("Accept some files", "Without memory."),
            ["a.txt", "b.txt"],
            "",
            "accepted it without what it learned.\nLanded: 2 files.",
        ),
        (
            form("Accept some files", "only memory"),
            [],
            "Use ruff.",
            "accepted it without a.txt, b.txt.\nMemory: 1 block.",
        ),
        (form("Drop it"), [], "", "None of its changes landed: the user dropped them."),
        ({"action": "decline"}, [], "", "None of its changes landed: the user dropped them."),
    ],
)
async def test_one_question_decides_about_files_and_memory(reply: JsonDict, files: list[str], project: str, told: str):
    both = (*FILE, *calls("write_file", path="b.txt", content="b\n"))
    model = model_of(delegates("worker", "maker"), says("Done."), maker=[both, learns("Use ruff."), says("Made it.")])
    async with running_agent(model, settings=settings(delegate=ASKS), capabilities=FORMS) as agent:
        agent.editor.form = reply
        session = await run(agent)
        (asked,) = agent.editor.forms
        assert "**maker** has finished: 2 changed files." in asked["message"]
        assert "Memory: 1 block.\n- `project`" in asked["message"]
        assert (there(agent), await text_of(agent, session)) == (files, project)
        said = last_result(model.requests[-1]).text
        assert told in said
        assert ("Memory changed: project." in said) is bool(project)
        title = "maker: accept 2 changed files and what it learned?"
        shown = next(each for each in agent.editor.of_kind("tool_call_update") if each.get("title") == title)
        assert [part["type"] for part in shown["content"]] == ["content", "diff", "diff", "content"]
        assert "+Use ruff." in shown["content"][-1]["content"]["text"]
        await assert_no_fork_is_left(agent)


@pytest.mark.parametrize("takes", [True, False])
async def test_a_client_without_forms_asks_about_what_was_learned_like_about_one_more_file(takes: bool):
    titles: list[str] = []

    async def reply(params: JsonDict) -> JsonDict:
        titles.append(params["toolCall"]["title"])
        some = next((one["optionId"] for one in params["options"] if one["name"] == "Accept some files"), "")
        is_taken = takes is titles[-1].endswith("learned?")
        return {"outcome": "selected", "optionId": some or ("allow_once" if is_taken else "reject_once")}

    model = model_of(delegates("worker", "maker"), says("Done."), maker=[FILE, learns("Use ruff."), says("Made it.")])
    async with running_agent(model, settings=settings(delegate=ASKS), permission=reply) as agent:
        session = await run(agent)
        assert titles[1:] == ["maker: take a.txt?", "maker: take what it learned?"]
        assert (there(agent), await text_of(agent, session)) == (([], "Use ruff.") if takes else (["a.txt"], ""))
        (answered,) = of_type(inner(await events_of(agent, session)), PermissionAnswered)
        assert answered.answer == ("Accept some files" if takes else "Accept some files; a.txt; without memory")
        await assert_no_fork_is_left(agent)


@pytest.mark.parametrize("reply", ["Accept", "Drop it"])
async def test_a_worker_that_only_learned_something_is_asked_about_too(reply: str):
    model = model_of(delegates("worker", "maker"), says("Done."), maker=[learns("Use ruff."), says("Found it.")])
    async with running_agent(model, settings=settings(delegate=ASKS), capabilities=FORMS) as agent:
        agent.editor.form = form(reply)
        session = await run(agent)
        (asked,) = agent.editor.forms
        assert asked["requestedSchema"]["properties"]["answer"]["enum"] == ["Accept", "Ask for changes", "Drop it"]
        events = await events_of(agent, session)
        landed = [each.outcome for each in of_type(events, LandingEnded)]
        accepted = reply == "Accept"
        assert (await text_of(agent, session), landed) == (("Use ruff.", ["landed"]) if accepted else ("", []))
        await assert_no_fork_is_left(agent)


async def test_a_worker_that_writes_no_memory_has_no_fork():
    model = model_of(delegates("worker", "maker"), says("Done."), maker=[FILE, says("Made it.")])
    async with running_agent(model, settings=settings(delegate=WHOLE)) as agent:
        session = await run(agent)
        events = await events_of(agent, session)
        assert (of_type(events, MemoryForked), len(of_type(events, LandingStarted))) == ([], 1)
        assert await agent.database.read(lambda tx: tx.all("SELECT * FROM memory_forks")) == []


async def test_a_worker_that_lands_nothing_leaves_nothing_in_memory():
    work = [FILE, learns("Use ruff."), learns(FACT, "archive"), says("Half of it.")]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=work)
    async with running_agent(model, settings=settings(delegate=replace(WHOLE, max_model_requests=3))) as agent:
        session = await run(agent)
        told = last_result(model.requests[-1]).text
        assert "None of its changes were made" in told
        assert "Memory changed" not in told
        assert (await text_of(agent, session), await facts_of(agent, session)) == ("", [])
        await assert_no_fork_is_left(agent)


async def test_a_worker_whose_turn_is_cancelled_leaves_nothing_in_memory():
    held = gate()
    work = [learns("Use ruff."), (held, *says("Found it."))]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=work)
    async with running_agent(model, settings=settings(delegate=WHOLE)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                await held.reached.wait()
            await agent.editor.cancel(session)
            assert await prompt.stop_reason() == "cancelled"
        assert await text_of(agent, session) == ""
        await assert_no_fork_is_left(agent)


async def test_workers_of_one_answer_land_what_they_learned_together_and_the_one_that_is_refused_does_not():
    scripts: dict[str, Sequence[Turn]] = {
        "one": [FILE, learns("One was here."), says("One.")],
        "two": [calls("write_file", path="b.txt", content="b\n"), learns("Two was here."), says("Two.")],
        "three": [calls("write_file", path="a.txt", content="other\n"), learns("Three was here."), says("Three.")],
    }
    asked = tuple(part for name in scripts for part in delegates("worker", name))
    model = model_of(asked, says("Done."), **scripts)
    async with running_agent(model, settings=settings(delegate=WHOLE)) as agent:
        session = await run(agent)
        one, two, three = (result.text for result in results_of(model.requests[-1]))
        assert "together with three. Memory: 1 block." in two or "together with one. Memory: 1 block." in two
        first, refused = ("One", "Three") if "Landed" in one else ("Three", "One")
        assert "in ways that do not fit together" in (three if refused == "Three" else one)
        lines = (await text_of(agent, session)).splitlines()
        assert sorted(line for line in lines if line) == sorted([f"{first} was here.", "Two was here."])
        (landed,) = of_type(await events_of(agent, session), LandingEnded)
        assert landed.outcome == "landed"
        await assert_no_fork_is_left(agent)


async def test_a_line_that_others_changed_meanwhile_has_both_and_the_model_reads_so():
    held = gate()
    work = [
        calls("memory_write", label="project", operation="replace", old_text="Use make.", text="Use just."),
        (held, *says("Found it.")),
    ]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=work)
    async with running_agent(model, settings=settings("auto", delegate=WHOLE)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/remember Use make.")
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                await held.reached.wait()
            other = await agent.editor.open_session(str(agent.folder))
            await agent.editor.prompt(other, "/memory edit project Use ninja.")
            held.opened.set()
            assert await prompt.stop_reason() == "end_turn"
        assert "`project`: 1 place was changed on both sides" in last_result(model.requests[-1]).text
        assert {"Use just.", "Use ninja."} <= set((await text_of(agent, session)).splitlines())
        await assert_no_fork_is_left(agent)


async def test_a_worker_cannot_change_facts_from_before_and_reads_so():
    work: list[Turn] = [says("Nothing."), says("Found it.")]
    model = model_of(learns(FACT, "archive"), says("Ok."), delegates("worker", "maker"), says("Done."), maker=work)
    async with running_agent(model, settings=settings(delegate=WHOLE)) as agent:
        session = await run(agent)
        history = MemoryHistory(agent.database, agent.sessions.get(session).memory.owner.owners)
        (entry,) = await history.archive()
        work[0] = calls("memory_write", label="archive", operation="resolve", old_text=entry.entry.id, reason="Fixed.")
        await agent.editor.prompt(session, "Delegate.")
        refused = last_result(requests_of(model, "maker")[-1])
        assert refused.is_error
        assert "stays as it is until this one is merged" in refused.text
        assert await facts_of(agent, session) == [FACT]
        await assert_no_fork_is_left(agent)


@pytest.mark.parametrize("lands", [True, False])
async def test_what_is_learned_below_a_worker_becomes_part_of_what_it_learned(lands: bool):
    model = ScriptedProvider(
        [delegates("worker", "top"), says("Done.")],
        subagents={
            "top": [delegates("worker", "low"), learns("Top was here."), says("Top.")],
            "top/low": [learns("Low was here."), delegates("explorer", "eyes"), says("Low.")],
            "top/low/eyes": [says("Seen.")],
        },
    )
    async with running_agent(model, settings=settings(delegate=ASKS), capabilities=FORMS) as agent:
        agent.editor.form = form("Accept" if lands else "Drop it")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/remember Use make.")
        await agent.editor.prompt(session, "Go.")
        first, second, third = (each.volatile for each in requests_of(model, "top"))
        assert "was here" not in first
        assert "Use make.\nLow was here." in second
        assert "Use make.\nLow was here.\nTop was here." in third
        assert "Use make.\nLow was here." in requests_of(model, "top/low/eyes")[0].volatile
        assert "Memory: 1 block." in last_result(requests_of(model, "top")[1]).text
        assert len(agent.editor.forms) == 1
        said = "Use make.\nLow was here.\nTop was here." if lands else "Use make."
        assert await text_of(agent, session) == said
        await assert_no_fork_is_left(agent)


async def test_a_worker_of_forked_memory_lands_in_that_fork_which_cannot_end_before():
    later = [learns("The worker was here."), says("Found it.")]
    model = ScriptedProvider(
        [
            remember("Use make.", "project"),
            says("Ok."),
            delegates("worker", "maker", background=True),
            *[says("Fine.")] * 3,
        ],
        subagents={"maker": later},
    )

    async def reply(params: JsonDict) -> JsonDict:
        allowed = ("Bring it back", "Accept")
        option = next(one for one in params["options"] if one["name"].startswith(allowed))
        return {"outcome": "selected", "optionId": option["optionId"]}

    async with running_agent(model, settings=unwoken("edit"), permission=reply) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await answer(agent, session, "Remember.")
        fork = await opened(agent, fork_named(await answer(agent, session, "/fork --memory forked")))
        await answer(agent, fork, "Delegate.")
        await until_finished(agent, fork)
        for command in ("/merge", "/discard"):
            assert "A worker has forked this memory in turn" in await answer(agent, fork, command)
        assert "+The worker was here." in await answer(agent, fork, "/workers maker")
        await answer(agent, fork, "Go on.")
        assert await text_of(agent, fork) == "Use make.\nThe worker was here."
        assert await text_of(agent, session) == "Use make."
        assert "Merged: 1 block." in await answer(agent, fork, "/merge")
        assert await text_of(agent, session) == "Use make.\nThe worker was here."
        await assert_no_fork_is_left(agent)


@pytest.mark.parametrize("reply", ["Accept", "Drop it"])
async def test_what_a_result_that_waits_has_learned_outlives_the_process(tmp_path: Path, reply: str):
    database, folder = tmp_path / "c" / "constellation.db", tmp_path / "project"
    folder.mkdir()
    work = [FILE, learns("Use ruff."), learns(FACT, "archive"), says("Made it.")]
    model = model_of(delegates("worker", "maker", background=True), says("Fine."), maker=work)
    async with running_agent(model, settings=settings(delegate=ASKS), database=database) as agent:
        session = await agent.editor.open_session(str(folder))
        await agent.editor.prompt(session, "Go.")
        await until_finished(agent, session)
        assert await text_of(agent, session) == ""
    model = model_of(*[says("Fine.")] * 3)
    async with running_agent(model, settings=settings(delegate=ASKS), database=database, capabilities=FORMS) as agent:
        agent.editor.form = form(reply)
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(folder), "mcpServers": []})
        assert await text_of(agent, session) == ""
        await agent.editor.prompt(session, "Go on.")
        assert "Memory: 1 block and 1 fact.\n- `project`" in agent.editor.forms[0]["message"]
        lands = reply == "Accept"
        assert await text_of(agent, session) == ("Use ruff." if lands else "")
        assert await facts_of(agent, session) == ([FACT] if lands else [])
        assert (folder / "a.txt").exists() is lands
        await assert_no_fork_is_left(agent)


async def test_a_worker_in_the_background_that_is_stopped_leaves_nothing_in_memory():
    model = model_of(
        delegates("worker", "maker", background=True),
        *[says("Fine.")] * 2,
        maker=[learns("Use ruff."), says("Found it.")],
    )
    async with running_agent(model, settings=unwoken()) as agent:
        session = await run(agent)
        await until_finished(agent, session)
        await agent.editor.prompt(session, "/workers stop maker")
        assert await text_of(agent, session) == ""
        await assert_no_fork_is_left(agent)


async def test_a_worker_in_the_background_is_shown_while_one_below_it_has_learned_something():
    held = gate()
    model = ScriptedProvider(
        [delegates("worker", "top", background=True), *[says("Fine.")] * 2],
        subagents={
            "top": [FILE, delegates("worker", "low"), says("Top.")],
            "top/low": [learns("Low was here."), (held, *says("Low."))],
        },
    )
    async with running_agent(model, settings=unwoken("auto")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        with anyio.fail_after(30):
            await held.reached.wait()
        await agent.editor.prompt(session, "/workers top")
        said = agent.editor.said()
        held.opened.set()
        await until_finished(agent, session)
        assert "**top** (worker1) works" in said
        assert "a.txt" in said
        assert "one below it has learned something that has not landed yet" in said


async def test_of_try_outs_only_the_one_that_is_chosen_brings_back_what_it_learned():
    async with grouped(
        RACE,
        delegate=WHOLE,
        critic=[FILE, learns("The critic was here."), says("Mine.")],
        builder=[learns("The builder was here."), says("Ours.")],
        planner_decides=[says("Chosen: builder\nbuilder has it.")],
    ) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        said = await say(agent, session, "/group race Find out")
        assert "Memory: 1 block." in said
        assert "+The critic was here." in str(requests_of(agent.model, "planner decides")[0].messages)
        assert (await text_of(agent, session), there(agent)) == ("The builder was here.", [])
        await assert_no_fork_is_left(agent)


async def test_a_rewrite_by_a_worker_keeps_what_others_wrote_meanwhile():
    held = gate()
    work = [
        (held, *calls("memory_write", label="human", operation="rewrite", text="Likes tea.\nUses Linux.\n")),
        says("Ok."),
    ]
    model = model_of(delegates("worker", "maker"), says("Done."), maker=work)
    async with running_agent(model, settings=settings("auto", delegate=WHOLE)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/remember Likes tea.")
        async with prompting(agent.editor, session) as prompt:
            with anyio.fail_after(30):
                await held.reached.wait()
            other = await agent.editor.open_session(str(agent.folder))
            await agent.editor.prompt(other, "/remember Has a dog.")
            held.opened.set()
            assert await prompt.stop_reason() == "end_turn"
        lines = (await text_of(agent, session, "human")).splitlines()
        assert sorted(line for line in lines if line) == ["Has a dog.", "Likes tea.", "Uses Linux."]
        await assert_no_fork_is_left(agent)


async def test_what_is_forgotten_goes_from_the_fork_of_a_worker_of_a_fork_too():
    model = ScriptedProvider(
        [
            remember("The door code is 4711.", "project"),
            says("Ok."),
            delegates("worker", "maker", background=True),
            *[says("Fine.")] * 3,
        ],
        subagents={"maker": [learns("Use ruff."), says("Found it.")]},
    )
    async with running_agent(model, settings=unwoken("edit"), permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await answer(agent, session, "Remember.")
        fork = await opened(agent, fork_named(await answer(agent, session, "/fork --memory forked")))
        await answer(agent, fork, "Delegate.")
        await until_finished(agent, fork)
        await answer(agent, session, '/memory forget project "The door code is 4711."')

        def texts(tx: Transaction) -> list[str]:
            names = {fork_in(str(row[0])) for row in tx.all("SELECT owner FROM blocks")} - {""}
            return [one.block.text for name in names for one in stored_blocks(tx, name)]

        stored = await agent.database.read(texts)
        assert any("Use ruff." in text for text in stored)
        assert not any("4711" in text for text in stored)
