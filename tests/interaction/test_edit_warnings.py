"""Traps, constraints and decisions: told before an edit, once, through a whole agent."""

import pytest

from pattern_acp.config.settings import MemorySettings, Settings
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.canonical import Json
from pattern_acp.journal.events import PermissionAnswered, PermissionAsked, ToolCallFinished
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.session_row_rebuild import replay
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.scripts import Turn, calls, says
from tests.support.turns import events_of, last_result, of_type, results_of

EDIT = Settings(editor_deadline_seconds=30, mode="edit")
TRAP = '/memory trap The pool must be closed first. --paths "src/db/,*.sql" --severity high --reason "It hung in May."'


def write(path: str, content: str = "new\n") -> Turn:
    return calls("write_file", path=path, content=content)


async def said(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    await agent.editor.prompt(session, text)
    return agent.editor.said()


def entry_in(text: str) -> str:
    return text.partition("archival entry ")[2].split()[0].strip(",.;]")


async def test_a_trap_is_told_before_the_edit_which_is_done_when_it_is_sent_again():
    model = ScriptedProvider(
        [write("src/db/pool.py"), write("src/db/pool.py"), write("src/db/other.py"), says("Done.")]
    )
    async with running_agent(model, settings=EDIT) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert "The agent reads it before it edits" in await said(agent, session, TRAP)
        await agent.editor.prompt(session, "Go.")
        held, done, other = (last_result(request) for request in model.requests[1:])
        assert held.is_error
        assert "Memory has 1 thing to heed" in held.text
        assert "[trap, high severity, src/db/, *.sql; the user, " in held.text
        assert "The pool must be closed first." in held.text
        assert "because of src/db/pool.py]" in held.text
        assert "Why it was noted: It hung in May." in held.text
        assert not done.is_error
        assert not other.is_error
        assert (agent.folder / "src/db/other.py").read_text(encoding="utf-8") == "new\n"
        events = await events_of(agent, session)
        assert [one.failure for one in of_type(events, ToolCallFinished)] == ["memory.warned", "", ""]
        shown = [one for one in agent.editor.of_kind("tool_call_update") if "held: memory warns" in str(one)]
        assert "The pool must be closed first." in str(shown[-1]["content"])
        assert "the same call once more is done" in held.text
        assert "the same call once more" not in str(shown), "what the model does next is not for the user"


async def test_a_trap_is_told_once_before_a_command_that_changes_its_file():
    over, reads = "echo new > src/db/pool.py", "cat src/db/pool.py"
    turns: list[Turn] = [
        calls("run_command", command=reads),
        calls("run_command", command=over),
        calls("run_command", command=over),
        write("src/db/pool.py"),
        says("Done."),
    ]
    model = ScriptedProvider(turns)
    async with running_agent(model, settings=Settings(editor_deadline_seconds=30, mode="auto")) as agent:
        (agent.folder / "src/db").mkdir(parents=True)
        (agent.folder / "src/db/pool.py").write_text("old\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await said(agent, session, TRAP)
        await agent.editor.prompt(session, "Go.")
        read, held, done, edited = (last_result(request) for request in model.requests[1:])
        assert "old" in read.text
        assert held.is_error
        assert "because of src/db/pool.py]" in held.text
        assert not done.is_error
        assert "Memory has" not in edited.text


async def test_nobody_is_asked_for_a_call_that_is_held():
    model = ScriptedProvider([write("a.sql"), write("a.sql"), says("Done.")])
    async with running_agent(model, settings=Settings(editor_deadline_seconds=30, mode="ask")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await said(agent, session, TRAP)
        await agent.editor.prompt(session, "Go.")
        assert len(of_type(await events_of(agent, session), PermissionAsked)) == 1


async def test_other_files_and_what_holds_no_longer_stop_nothing():
    model = ScriptedProvider([write("src/ui.py"), write("x.sql"), write("y.txt"), says("Done.")])
    async with running_agent(model, settings=EDIT) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        entry = entry_in(await said(agent, session, TRAP))
        assert "is resolved now" in await said(agent, session, f"/memory resolve {entry} The pool is gone.")
        await said(agent, session, "/memory constraint No tabs. --paths *.txt --until 2020-01-31")
        listed = await said(agent, session, "/memory traps")
        assert "resolved by human: The pool is gone." in listed
        archived = await said(agent, session, "/memory archive")
        assert "| trap, resolved |" in archived
        assert "| constraint, expired |" in archived
        assert "expired after 2020-01-31" in listed
        assert "No trap, constraint or decision that holds" in await said(agent, session, "/memory traps x.sql")
        await agent.editor.prompt(session, "Go.")
        assert not any(result.is_error for request in model.requests for result in results_of(request))
        await said(agent, session, f"/memory reopen {entry}")
        assert "The pool must be closed first." in await said(agent, session, "/memory traps x.sql")


async def test_what_the_model_notes_itself_it_knows_and_it_can_resolve_it():
    note = calls(
        "memory_write",
        operation="append",
        kind="constraint",
        text="Keep it ASCII.",
        paths=["*.txt"],
        reason="Old tools.",
    )
    turns: list[Turn] = [note, write("a.txt"), says("Done.")]
    model = ScriptedProvider(turns)
    async with running_agent(model, settings=EDIT) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        noted, wrote = (last_result(request) for request in model.requests[1:])
        assert "a constraint for *.txt" in noted.text
        assert not wrote.is_error
        entry = entry_in(noted.text)
        turns += [
            calls("memory_write", operation="resolve", old_text=entry),
            calls("memory_write", operation="resolve", old_text=entry, reason="The tools are new."),
            says("Done."),
        ]
        await agent.editor.prompt(session, "Go on.")
        first, second = (last_result(request) for request in model.requests[-2:])
        assert "`reason` is missing" in first.text
        assert f"The constraint {entry} is resolved now" in second.text
        assert "resolved by persona: The tools are new." in await said(agent, session, "/memory traps")


async def test_it_is_told_again_once_the_conversation_has_lost_it_and_when_it_was_changed():
    turns: list[Turn] = [write("a.sql"), says("I see.")]
    model = ScriptedProvider(turns)
    async with running_agent(model, settings=EDIT) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        entry = entry_in(await said(agent, session, TRAP))
        await agent.editor.prompt(session, "Go.")
        await said(agent, session, "/clear")
        replaced = calls("memory_write", label="archive", operation="replace", old_text=entry, text="Close the pool.")
        turns += [write("a.sql"), write("a.sql"), replaced, write("b.sql"), says("Done.")]
        await agent.editor.prompt(session, "Go.")
        told, done, changed, after = (last_result(request) for request in model.requests[-4:])
        assert entry in told.text
        assert not done.is_error
        # The model wrote the correction itself.
        assert "supersedes" in changed.text
        assert not after.is_error


async def test_a_loaded_session_knows_what_it_was_told_and_its_replay_agrees():
    turns: list[Turn] = [write("a.sql"), says("I see.")]
    model = ScriptedProvider(turns)
    async with running_agent(model, settings=EDIT) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await said(agent, session, TRAP)
        await agent.editor.prompt(session, "Go.")
        await agent.editor.request("session/close", {"sessionId": session})
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []})
        turns += [write("a.sql"), says("Done.")]
        await agent.editor.prompt(session, "Go on.")
        assert not last_result(model.requests[-1]).is_error

        def replayed(tx: Transaction) -> object:
            return replay(tx, session).difference

        assert await agent.database.read(replayed) is None


async def test_two_calls_of_one_message_wait_both_and_the_second_does_not_repeat_it():
    both: Turn = (*write("a.sql"), *write("b.sql"))
    model = ScriptedProvider([both, both, says("Done.")])
    async with running_agent(model, settings=EDIT) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await said(agent, session, TRAP)
        await agent.editor.prompt(session, "Go.")
        first, second = results_of(model.requests[1])
        assert "The pool must be closed first." in first.text
        assert "Not done yet either" in second.text
        assert "The pool must be closed first." not in second.text
        assert [result.is_error for result in results_of(model.requests[2])[-2:]] == [False, False]


async def test_patterns_are_relative_to_the_repository_also_from_a_folder_below():
    model = ScriptedProvider([write("pool.py"), says("I see.")])
    async with running_agent(model, settings=EDIT) as agent:
        (agent.folder / ".git").mkdir()
        (agent.folder / ".git" / "HEAD").write_text("ref: refs/heads/main", encoding="utf-8")
        below = agent.folder / "src" / "db"
        below.mkdir(parents=True)
        session = await agent.editor.open_session(str(below))
        await said(agent, session, "/memory trap Careful. --paths src/db/**")
        await agent.editor.prompt(session, "Go.")
        assert "because of src/db/pool.py]" in last_result(model.requests[1]).text


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("/memory trap", "Say what it is"),
        ("/memory trap Careful.", "needs `paths`"),
        ("/memory trap Careful. --paths a --severity worst", "--severity takes one of"),
        ("/memory trap Careful. --paths a --until soon", "`until` is no day"),
        ("/memory trap Careful. --paths a --scope shared", "--scope takes one of persona, project"),
        ("/memory trap Careful. --paths !/", "cannot be used"),
        ("/memory trap Careful. --paths ../x", "mean nothing outside"),
        ("/memory trap Careful. --paths ~/.bashrc", "mean nothing outside"),
        ("/memory trap Careful. --paths .", "give '**'"),
        ("/memory trap Careful. --paths !a", "only take files out"),
        ("/memory trap Careful. --paths a --until 2026-12-311", "`until` is no day"),
        ("/memory resolve", "Say which entry"),
        ("/memory resolve entry_none", "no archival entry"),
        ("/memory traps", "No trap, constraint or decision is noted here"),
    ],
)
async def test_what_cannot_be_noted_is_told_in_a_sentence(typed: str, answer: str):
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert answer in await said(agent, session, typed)


async def test_a_move_is_a_change_of_both_names():
    move = "*** Begin Patch\n*** Update File: a.txt\n*** Move to: a.sql\n*** End Patch"
    model = ScriptedProvider([calls("apply_patch", input=move), calls("apply_patch", input=move), says("Done.")])
    async with running_agent(model, settings=EDIT) as agent:
        (agent.folder / "a.txt").write_bytes(b"a\n")
        session = await agent.editor.open_session(str(agent.folder))
        await said(agent, session, TRAP)
        await agent.editor.prompt(session, "Go.")
        held, done = (last_result(request) for request in model.requests[1:])
        assert "because of a.sql]" in held.text
        assert not done.is_error


@pytest.mark.parametrize(("accepts", "kept"), [(True, True), (False, False)], ids=["accepted", "rejected"])
async def test_what_the_agent_decides_for_the_project_waits_for_the_person_who_reviews_it(accepts: bool, kept: bool):
    async def answer(_params: JsonDict) -> JsonDict:
        return {"outcome": "selected", "optionId": "allow_once" if accepts else "reject_once"}

    settings = Settings(editor_deadline_seconds=30, mode="auto", memory=MemorySettings(review="project"))
    plain = calls("memory_write", label="archive", operation="append", text="The port is 5433.")
    noted: dict[str, Json] = {
        "kind": "decision",
        "reason": "It is smaller.",
        "paths": ["*.ninja"],
        "severity": "high",
        "until": "2099-12-31",
    }
    decides = calls("memory_write", operation="append", text="We use ninja.", **noted)
    model = ScriptedProvider([plain, decides, says("Done.")])
    async with running_agent(model, settings=settings, permission=answer) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        (asked,) = of_type(await events_of(agent, session), PermissionAsked)
        assert "as a decision of the project for *.ninja, high severity, until 2099-12-31: “We" in asked.reason
        assert "“We use ninja.”. Why: It is smaller." in asked.reason
        assert ("We use ninja." in await said(agent, session, "/memory traps")) is kept
        assert "a decision" in await said(agent, session, "/memory decision We use make.")


@pytest.mark.parametrize(
    ("option", "form", "saved", "read"),
    [
        (
            "allow_once_edited",
            {"action": "accept", "content": {"own_words": "We use ninja for C."}},
            "We use ninja for C.",
            "The user changed the text before they allowed it. It is now: We use ninja for C.",
        ),
        ("allow_once_edited", {"action": "decline"}, "", "The user refused this call."),
        (
            "reject_once_with_reason",
            {"action": "accept", "content": {"own_words": "Ask the team first."}},
            "",
            "They wrote: Ask the team first.",
        ),
        ("reject_once_with_reason", {"action": "decline"}, "", "The user refused this call."),
    ],
    ids=["changed", "not changed after all", "refused with a reason", "refused without one"],
)
async def test_a_client_with_forms_lets_the_user_change_a_note_or_refuse_it_with_a_reason(
    option: str, form: JsonDict, saved: str, read: str
):
    settings = Settings(editor_deadline_seconds=30, mode="auto", memory=MemorySettings(review="project"))
    decides = calls("memory_write", operation="append", text="We use ninja.", kind="decision", reason="It is smaller.")
    model = ScriptedProvider([decides, says("Done.")])
    forms: JsonDict = {"elicitation": {"form": {}}}
    async with running_agent(model, settings=settings, permission=choose(option), capabilities=forms) as agent:
        agent.editor.form = form
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        (shown,) = agent.editor.forms
        begins = shown["requestedSchema"]["properties"]["own_words"].get("default", "")
        assert begins == ("We use ninja." if option == "allow_once_edited" else "")
        assert read in last_result(model.requests[1]).text
        listed = await said(agent, session, "/memory traps")
        assert ("| We use ninja" in listed) is bool(saved)
        assert saved in listed
        (answered,) = of_type(await events_of(agent, session), PermissionAnswered)
        words = form.get("content", {}).get("own_words", "")
        assert answered.words == words
        assert words in await said(agent, session, "/why")


async def test_a_client_without_forms_is_not_offered_what_needs_one():
    settings = Settings(editor_deadline_seconds=30, mode="auto", memory=MemorySettings(review="project"))
    decides = calls("memory_write", operation="append", text="We use ninja.", kind="decision", reason="It is smaller.")
    model = ScriptedProvider([decides, says("Done.")])
    async with running_agent(model, settings=settings, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        (asked,) = agent.editor.asked
        assert [one["optionId"] for one in asked["options"]] == ["allow_once", "reject_once"]


async def test_a_pattern_with_braces_and_a_folder_at_any_depth_mean_what_they_say():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        noted = await said(agent, session, "/memory trap Careful. --paths src/*.{ts,tsx},lib/")
        assert "a trap for src/*.{ts,tsx}, lib/." in noted
        for path in ("src/a.ts", "src/b.tsx", "lib/a.c", "app/lib/a.c"):
            assert "Careful." in await said(agent, session, f"/memory traps {path}")
        assert "No trap" in await said(agent, session, "/memory traps app/src/a.ts")
        nested = await said(agent, session, "/memory trap Slow. --paths {api,{db,web}}/*.sql,tools/")
        assert "a trap for {api,{db,web}}/*.sql, tools/." in nested
        assert "Slow." in await said(agent, session, "/memory traps db/a.sql")


async def test_words_in_quotes_are_the_text_even_when_they_look_like_options():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await said(
            agent, session, '/memory trap "Never pass --check fast, say \\"slow\\"." --paths a --reason "C:\\\\x"'
        )
        assert 'Never pass --check fast, say "slow".' in await said(agent, session, "/memory traps a")


async def test_a_day_that_is_over_is_said_to_be_and_the_last_day_of_all_is_a_day():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        over = await said(agent, session, "/memory trap Over. --paths a --until 2020-01-31")
        assert "It has expired already, after 2020-01-31, so nobody reads it." in over
        assert "The agent reads it" not in over
        refused = await said(agent, session, f"/memory reopen {entry_in(over)}")
        assert "expired after 2020-01-31; replace it" in refused
        await said(agent, session, "/memory trap Always. --paths a --until 9999-12-31")
        assert "until 9999-12-31" in await said(agent, session, "/memory traps a")


async def test_a_correction_can_take_the_last_day_away():
    endless = calls(
        "memory_write", label="archive", operation="replace", old_text="Careful.", text="Slow.", until="never"
    )
    async with running_agent(ScriptedProvider([endless, says("Done.")]), settings=Settings(mode="auto")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await said(agent, session, "/memory trap Careful. --paths a --until 2099-01-31")
        await agent.editor.prompt(session, "It holds for ever.")
        listed = await said(agent, session, "/memory traps a")
        assert "Slow." in listed
        assert "2099" not in listed


async def test_a_review_is_not_avoided_by_naming_an_entry_by_its_text():
    settings = Settings(editor_deadline_seconds=30, mode="auto", memory=MemorySettings(review="project"))
    over = calls("memory_write", operation="resolve", old_text="Careful with it.", reason="I know better.")
    plain = calls("memory_write", label="archive", operation="replace", old_text="Careful with it.", text="Do it.")
    model = ScriptedProvider([over, plain, says("Done.")])

    async def reject(_params: JsonDict) -> JsonDict:
        return {"outcome": "selected", "optionId": "reject_once"}

    async with running_agent(model, settings=settings, permission=reject) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await said(agent, session, "/memory trap Careful with it. --paths a")
        await agent.editor.prompt(session, "Go.")
        assert len(of_type(await events_of(agent, session), PermissionAsked)) == 2
        assert "Careful with it." in await said(agent, session, "/memory traps a")


async def test_an_isolated_project_neither_resolves_nor_hears_what_the_persona_noted():
    settings = Settings(editor_deadline_seconds=30, mode="auto", memory=MemorySettings(isolation="core-only"))
    over = calls("memory_write", operation="resolve", old_text="Careful with it.", reason="I know better.")
    model = ScriptedProvider([over, write("a"), says("Done.")])
    async with running_agent(model, settings=settings) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await said(agent, session, "/memory trap Careful with it. --paths a --scope persona")
        await agent.editor.prompt(session, "Go.")
        refused, done = (last_result(request) for request in model.requests[1:])
        assert "no archival entry" in refused.text
        assert not done.is_error
        assert "| active |" in await said(agent, session, "/memory traps")
        assert "No trap, constraint or decision that holds" in await said(agent, session, "/memory traps a")


async def test_what_was_noted_can_be_forgotten_for_good_by_the_name_of_the_archive():
    turns: list[Turn] = [write("a.sql"), says("I see.")]
    model = ScriptedProvider(turns)
    async with running_agent(model, settings=EDIT) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await said(agent, session, TRAP)
        await agent.editor.prompt(session, "Go.")
        told = await said(agent, session, "/memory forget archive The pool must be closed first.")
        assert "and 1 archived fact." in told
        assert "is noted here" in await said(agent, session, "/memory traps")
        turns += [write("a.sql"), says("Done.")]
        await agent.editor.prompt(session, "Go on.")
        assert not last_result(model.requests[-1]).is_error
        assert "The pool" not in str(model.requests[-1])
