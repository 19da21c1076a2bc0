"""Claims: what one session edits is told to another one before its first edit there."""

from typing import Literal

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import ClaimSettings, Settings
from pattern_acp.journal.events import PermissionDecided
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.permission_commands import verify_decisions
from tests.replay.test_replay_turns import replayed
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.scripts import Turn, calls, says
from tests.support.turns import events_of, last_result, of_type

AUTO = Settings(editor_deadline_seconds=30, mode="auto")


def write(path: str, content: str = "new\n") -> Turn:
    return calls("write_file", path=path, content=content)


async def said(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    await agent.editor.prompt(session, text)
    return agent.editor.said()


async def test_another_open_session_is_told_once_who_works_on_the_file():
    model = ScriptedProvider(
        [
            *(write("a.py"), says("One.")),
            *(write("b.py"), calls("read_file", path="a.py"), write("a.py", "2\n"), write("a.py", "both\n")),
            *(write("a.py", "on\n"), says("Two.")),
        ]
    )
    async with running_agent(model, settings=AUTO) as agent:
        first = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(first, "Write the parser")
        second = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(second, "Change both.")
        other, _, held, done, further = (last_result(request) for request in model.requests[3:])
        assert not other.is_error
        assert held.is_error
        assert "Another open session works on what this call would change:" in held.text
        assert "a.py: “Write the parser” (" in held.text
        assert not done.is_error
        assert not further.is_error
        assert (agent.folder / "a.py").read_text(encoding="utf-8") == "on\n"
        decided = of_type(await events_of(agent, second), PermissionDecided)
        seen = [(one.verdict, [claim.told for claim in one.basis.claims]) for one in decided if one.basis is not None]
        assert seen == [("allow", []), ("allow", []), ("deny", [False]), ("allow", [True]), ("allow", [True])]
        assert (await verify_decisions(agent.database, second)).differs == ""
        assert (await replayed(agent, second)).difference is None
        board = await said(agent, second, "/board")
        assert "| Write the parser | " in board
        assert board.count("/a.py (1") == 2
        assert "Gave back 2 claims." in await said(agent, second, "/board release")
        assert (await said(agent, second, "/board")).count("min left") == 1


async def test_a_claim_ends_with_its_time_and_with_its_session():
    model = ScriptedProvider(
        [write("a.py"), says("One."), calls("read_file", path="a.py"), write("a.py", "2\n"), says("Two.")]
    )
    async with running_agent(model, settings=AUTO) as agent:
        first = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(first, "Write.")
        await agent.editor.request("session/close", {"sessionId": first})
        second = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(second, "Change.")
        assert not last_result(model.requests[-1]).is_error


async def test_the_settings_deny_edits_of_what_another_session_works_on():
    denies = replace(AUTO, claims=ClaimSettings("deny"))
    model = ScriptedProvider(
        [
            *(write("a.py"), says("One.")),
            *(calls("read_file", path="a.py"), write("a.py", "a\n"), write("a.py", "a\n"), says("Two.")),
        ]
    )
    async with running_agent(model, settings=denies) as agent:
        first = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(first, "Write.")
        second = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(second, "Change.")
        decided = of_type(await events_of(agent, second), PermissionDecided)
        assert [(one.verdict, one.rule) for one in decided] == [("allow", "inside_read"), *[("deny", "claimed")] * 2]
        assert (await verify_decisions(agent.database, second)).differs == ""
        for request in model.requests[4:]:
            assert "The settings deny edits there" in last_result(request).text
        assert (agent.folder / "a.py").read_text(encoding="utf-8") == "new\n"


@pytest.mark.parametrize(
    ("answer", "told", "text"),
    [
        ("allow_once", "", "2\n"),
        ("allow_always", "The user asked that session to give way", "new\n"),
        ("reject_once", "The user wants to wait.", "new\n"),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "ask"])
async def test_the_user_is_asked_once_whether_to_go_on_take_over_or_wait(
    mode: Literal["auto", "ask"], answer: str, told: str, text: str
):
    asks = replace(AUTO, claims=ClaimSettings("ask"), mode=mode)
    model = ScriptedProvider(
        [write("a.py"), says("One."), calls("read_file", path="a.py"), write("a.py", "2\n"), says("Two.")]
    )
    async with running_agent(model, settings=asks, permission=choose("allow_once")) as agent:
        first = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(first, "Write the parser")
        second = await agent.editor.open_session(str(agent.folder))
        agent.editor.permission = choose(answer)
        await agent.editor.prompt(second, "Change it.")
        question = agent.editor.asked[-1]
        assert len(agent.editor.asked) == (1 if mode == "auto" else 2)
        assert "Another open session works on what the agent wants to change:" in str(question)
        assert ("asks before each edit" in str(question)) is (mode == "ask")
        assert [one["name"].partition(":")[0] for one in question["options"]] == ["Continue", "Take over", "Wait"]
        result = last_result(model.requests[-1])
        assert result.is_error is bool(told)
        assert told in result.text
        assert (agent.folder / "a.py").read_text(encoding="utf-8") == text
        board = await said(agent, first, "/board")
        assert ("“Change it.” asks for it" in board) is (answer == "allow_always")
        decided = of_type(await events_of(agent, second), PermissionDecided)[-1]
        assert (decided.verdict, decided.layer, decided.source) == ("ask", "user", '[claims] overlap = "ask"')
        assert decided.basis is not None
        assert [(one.session, one.told) for one in decided.basis.claims] == [(first, False)]
        why = await said(agent, second, "/why")
        assert f"a.py` by {first}" in why
        verified = await verify_decisions(agent.database, second)
        assert (verified.checked, verified.differs) == (2, "")
        assert (await replayed(agent, second)).difference is None


async def test_a_question_about_an_overlap_that_nobody_answers_ends_with_the_turn():
    asks = replace(AUTO, claims=ClaimSettings("ask"))
    model = ScriptedProvider([write("a.py"), says("One."), calls("read_file", path="a.py"), write("a.py", "2\n")])
    async with running_agent(model, settings=asks) as agent:
        first = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(first, "Write the parser")
        second = await agent.editor.open_session(str(agent.folder))

        async def never(_params: JsonDict) -> JsonDict:
            await agent.editor.cancel(second)
            await anyio.sleep_forever()
            return {}

        agent.editor.permission = never
        assert (await agent.editor.prompt(second, "Change it."))["stopReason"] == "cancelled"
        assert (agent.folder / "a.py").read_text(encoding="utf-8") == "new\n"


async def test_a_claim_runs_out_and_that_of_a_dead_process_is_seen_as_stale_and_stops_nobody():
    from pattern_acp.tasks.claims import TTL_MS, ClaimKind, ClaimTarget, overlapping, read_board, take_claims

    model = ScriptedProvider([says("Hello.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello")
        database = agent.database
        folder = ClaimTarget("/w/src", ClaimKind.FOLDER)
        await database.write(lambda tx: take_claims(tx, session, [folder], now_ms=1_000))

        async def met(now_ms: int, *, alive: bool) -> int:
            found = await database.read(
                lambda tx: overlapping(
                    tx, "s", [ClaimTarget("/w/src/a.py")], now_ms=now_ms, is_alive=lambda _pid, _mark: alive
                )
            )
            return len(found)

        assert await met(2_000, alive=True) == 1
        assert await met(1_000 + TTL_MS, alive=True) == 0
        assert await met(2_000, alive=False) == 0
        board = await database.read(lambda tx: read_board(tx, now_ms=2_000, is_alive=lambda _pid, _mark: False))
        assert [(row.alive, [claim.state for claim in row.claims]) for row in board] == [(False, ["stale"])]


async def test_a_command_claims_the_folder_or_the_pattern_that_it_changes():
    model = ScriptedProvider(
        [
            *(calls("run_command", command="rm -r src"), says("One.")),
            *(write("src/a.py"), write("b.py"), calls("run_command", command="rm *.md"), says("Two.")),
        ]
    )
    async with running_agent(model, settings=AUTO) as agent:
        (agent.folder / "src").mkdir()
        first = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(first, "Clean up")
        (agent.folder / "src").mkdir(exist_ok=True)
        second = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(second, "Write.")
        held, other, _ = (last_result(request) for request in model.requests[3:])
        assert "src/: “Clean up” (" in held.text
        assert not other.is_error
        assert "*.md (1" in await said(agent, second, "/board")


async def test_a_claim_of_a_living_session_is_taken_over_with_its_users_word():
    model = ScriptedProvider([write("a.py"), says("One."), says("Two."), write("a.py", "2\n"), says("Three.")])
    async with running_agent(model, settings=AUTO) as agent:
        first = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(first, "Write the parser")
        second = await agent.editor.open_session(str(agent.folder))
        assert "Asked “Write the parser” (" in await said(agent, second, "/board take a.py")
        assert await said(agent, first, "Well?")
        shown = str(agent.editor.updates)
        assert "asks for" in shown
        assert "/board release" in shown
        assert "asks for it" in await said(agent, first, "/board")
        assert "Gave back 1 claim." in await said(agent, first, "/board release a.py")
        (agent.folder / "a.py").unlink()
        await agent.editor.prompt(second, "Write it.")
        assert not last_result(model.requests[-1]).is_error


async def test_a_claim_of_a_dead_session_is_taken_over_at_once():
    from pattern_acp.tasks.claims import ClaimTarget, read_claims, take_claims, take_over

    async with running_agent(ScriptedProvider([says("Hello."), says("Hello.")]), settings=AUTO) as agent:
        first, second = [await agent.editor.open_session(str(agent.folder)) for _ in range(2)]
        for session in (first, second):
            await agent.editor.prompt(session, "Hello")
        target = ClaimTarget("/w/a.py")
        await agent.database.write(lambda tx: take_claims(tx, first, [target], now_ms=1_000))
        ended, asked = await agent.database.write(
            lambda tx: take_over(tx, second, target, now_ms=2_000, is_alive=lambda _pid, _mark: False)
        )
        assert ([one.state for one in ended], asked) == (["stale"], ())
        left = await agent.database.read(lambda tx: read_claims(tx, now_ms=2_000))
        assert [one.session_id for one in left] == [second]


async def test_the_user_claims_a_folder_and_gives_back_a_part():
    model = ScriptedProvider([says("Hello."), write("src/a.py"), says("Held.")])
    async with running_agent(model, settings=AUTO) as agent:
        first = await agent.editor.open_session(str(agent.folder))
        assert "Claimed the folder `" in await said(agent, first, "/board claim src/")
        assert "Claimed the glob `" in await said(agent, first, "/board claim *.sql")
        await agent.editor.prompt(first, "Hello")
        second = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(second, "Write.")
        assert "src/: “Hello” (" in last_result(model.requests[-1]).text
        assert "Gave back 1 claim." in await said(agent, first, "/board release src")
        assert "`/board claim PATH` claims" in await said(agent, first, "/board what")


async def test_a_turn_renews_the_claims_of_its_session():
    from pattern_acp.tasks.claims import read_claims

    model = ScriptedProvider([write("a.py"), says("One."), says("Two.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Write.")
        state = agent.sessions.get(session).state
        state.claims = dict.fromkeys(state.claims, 1)
        await agent.database.write(lambda tx: tx.execute("UPDATE claims SET renewed_ms = made_ms - 600000"))
        await agent.editor.prompt(session, "Well?")
        [claim] = await agent.database.read(lambda tx: read_claims(tx, now_ms=1))
        assert claim.renewed_ms >= claim.made_ms


async def test_a_subagent_is_told_that_another_one_beside_it_edits_the_file():
    from pattern_acp.domain.access import WritePath
    from pattern_acp.session.edit_warnings import EditWarnings
    from pattern_acp.session.state import InjectionQueue

    async with running_agent(ScriptedProvider([says("Hello.")]), settings=AUTO) as agent:
        session = agent.sessions.get(await agent.editor.open_session(str(agent.folder)))
        await agent.editor.prompt(session.session_id, "Hello")
        edit = [WritePath(str(agent.folder / "a.py"))]
        one, other = (EditWarnings(session.dialogue, InjectionQueue(), name) for name in ("finder", "writer"))
        assert await one.claims(edit) == ()
        assert await one.before(edit) is None
        assert await other.claims(edit) == ()
        held = await other.before(edit)
        assert held is not None
        assert "Another subagent of the same session edits" in held.shown
        assert "a.py: finder" in held.shown
        assert await other.before(edit) is None
        assert "subagent finder" in await said(agent, session.session_id, "/board")
        one.end()
        other.end()
        assert await EditWarnings(session.dialogue, InjectionQueue(), "third").before(edit) is None
