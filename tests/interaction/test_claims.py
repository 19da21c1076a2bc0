"""Claims: what one session edits is told to another one before its first edit there."""

from msgspec.structs import replace

from pattern_acp.config.settings import ClaimSettings, Settings
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.scripts import Turn, calls, says
from tests.support.turns import last_result

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
        board = await said(agent, second, "/board")
        assert "Write the parser: " in board
        assert board.count("/a.py (1") == 2
        assert "Gave back 2 claims." in await said(agent, second, "/board release")
        assert (await said(agent, second, "/board")).count("claims ") == 1


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
        for request in model.requests[4:]:
            assert "The settings deny edits there" in last_result(request).text
        assert (agent.folder / "a.py").read_text(encoding="utf-8") == "new\n"


async def test_a_claim_runs_out_and_that_of_a_dead_process_is_seen_as_stale_and_stops_nobody():
    from pattern_acp.tasks.claims import TTL_MS, overlapping, read_board, take_claims

    model = ScriptedProvider([says("Hello.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello")
        database = agent.database
        await database.write(lambda tx: take_claims(tx, session, ["/w/src/"], now_ms=1_000))

        async def met(now_ms: int, *, alive: bool) -> int:
            found = await database.read(
                lambda tx: overlapping(tx, "s", ["/w/src/a.py"], now_ms=now_ms, is_alive=lambda _pid, _mark: alive)
            )
            return len(found)

        assert await met(2_000, alive=True) == 1
        assert await met(1_000 + TTL_MS, alive=True) == 0
        assert await met(2_000, alive=False) == 0
        board = await database.read(lambda tx: read_board(tx, now_ms=2_000, is_alive=lambda _pid, _mark: False))
        assert [(row.alive, [claim.state for claim in row.claims]) for row in board] == [(False, ["stale"])]
