"""/why, and deciding anew what a session decided."""

import json

import pytest

from pattern_acp.config.policy_rules import parse_rule
from pattern_acp.config.settings import PolicySettings, Settings
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import CallServer, ReadPath, RunCommand, WriteMemory, WritePath, WriteVerdict
from pattern_acp.domain.errors import PolicyError
from pattern_acp.journal.codec import MissingSessionError
from pattern_acp.journal.events import PermissionDecided, RecordedAccess
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.permission_commands import verify_decisions
from pattern_acp.turn.recorded_policy import accesses_of, recorded_accesses
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import choose
from tests.support.scripts import calls, says
from tests.support.turns import events_of, of_type

WORK = [
    calls("read_file", path="a.txt"),
    calls("write_file", path="b.txt", content="x\n"),
    calls("run_command", command="pytest tests/a"),
    calls("run_command", command="pytest tests/b"),
    calls("run_command", command="ls"),
    says("Done."),
]


async def said(agent: RunningAgent, text: str, session: str) -> str:
    before = len(agent.editor.said())
    await agent.editor.prompt(session, text)
    return agent.editor.said()[before:]


async def worked(agent: RunningAgent) -> str:
    (agent.folder / "a.txt").write_text("one\n", encoding="utf-8")
    session = await agent.editor.open_session(str(agent.folder))
    await agent.editor.prompt(session, "Go.")
    return session


async def test_a_decision_is_recorded_with_its_policy_layer_rule_and_what_would_change_it():
    async with running_agent(
        ScriptedProvider(WORK), capabilities={"terminal": True}, permission=choose("allow_always_project")
    ) as agent:
        session = await worked(agent)
        decided = of_type(await events_of(agent, session), PermissionDecided)
        assert [(one.verdict, one.layer, one.source or one.rule) for one in decided] == [
            ("allow", "mode", "inside_read"),
            ("ask", "mode", "ask_mode"),
            ("ask", "mode", "command"),
            ("allow", "project", "always `pytest …`"),
            ("allow", "mode", "reading"),
        ]
        assert all(one.changes.endswith(".") for one in decided)
        # The policy is recorded once, and again when an answer has changed it.
        assert [one.snapshot is not None for one in decided] == [True, False, True, True, False]
        assert len({one.policy for one in decided}) == 3


async def test_why_explains_the_last_decision_or_that_on_a_call():
    async with running_agent(
        ScriptedProvider(WORK), capabilities={"terminal": True}, permission=choose("allow_once")
    ) as agent:
        session = await worked(agent)
        last = await said(agent, "/why", session)
        assert "It only reads inside the folders of this session." in last
        edit = next(one for one in of_type(await events_of(agent, session), PermissionDecided) if one.verdict == "ask")
        about = await said(agent, f"/why {edit.call_id}", session)
        assert "mode `ask` asks before each edit" in about
        assert "allow once" in about
        assert "Mode `edit` or `auto`, a rule that allows it, or a standing permission." in about
        assert "Nothing was decided on such a call" in await said(agent, "/why nothing", session)


async def test_a_session_decides_anew_as_it_was_recorded_until_something_was_changed():
    async with running_agent(
        ScriptedProvider(WORK), capabilities={"terminal": True}, permission=choose("allow_always")
    ) as agent:
        session = await worked(agent)
        verified = await verify_decisions(agent.database, session)
        assert (verified.checked, verified.differs) == (5, "")

        def forge(tx: Transaction) -> None:
            tx.execute("DROP TRIGGER events_are_not_updated")
            rows = tx.all("SELECT seq, payload FROM events WHERE kind = 'permission_decided' ORDER BY seq")
            seq, payload = rows[1]
            changed = json.loads(str(payload)) | {"verdict": "allow", "rule": "inside_write"}
            tx.execute("UPDATE events SET payload = :p WHERE seq = :s", {"p": json.dumps(changed), "s": int(str(seq))})

        await agent.database.write(forge)
        forged = await verify_decisions(agent.database, session)
        assert forged.is_failure
        assert forged.checked == 1
        assert forged.differs == "recorded allow by inside_write, decided again ask by ask_mode"


async def test_a_session_decides_anew_with_the_paths_and_circumstances_of_then():
    rule = parse_rule("deny", "run make * when branch main and hour 0-24")
    work = [calls("run_command", command="cat here/a.txt"), calls("run_command", command="make x"), says("Done.")]
    async with running_agent(
        ScriptedProvider(work),
        capabilities={"terminal": True},
        permission=choose("reject_once"),
        settings=Settings(policy=PolicySettings(rules=(rule,))),
    ) as agent:
        inside, git = agent.folder / "inside", agent.folder / ".git"
        inside.mkdir()
        git.mkdir()
        (git / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        (agent.folder / "here").symlink_to(inside)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        about = await said(agent, "/why", session)
        assert "on main" in about
        assert "deny run make * when branch main and hour 0-24" in about
        (agent.folder / "here").unlink()
        (agent.folder / "here").symlink_to("/")
        (git / "HEAD").write_text("ref: refs/heads/topic\n", encoding="utf-8")
        verified = await verify_decisions(agent.database, session)
        assert (verified.checked, verified.differs) == (2, "")
        decided = of_type(await events_of(agent, session), PermissionDecided)
        assert [(one.verdict, one.rule) for one in decided] == [("allow", "reading"), ("deny", "rule_deny")]
        assert decided[0].basis is not None
        assert decided[0].basis.paths[0].real.endswith("inside/a.txt")


async def test_another_name_of_a_file_of_credentials_asks_as_it_does():
    work = [
        calls("read_file", path="notes.txt"),
        calls("run_command", command="cat notes.txt"),
        calls("run_command", command="cat other.txt"),
        says("Done."),
    ]
    async with running_agent(
        ScriptedProvider(work), capabilities={"terminal": True}, permission=choose("reject_once")
    ) as agent:
        (agent.folder / ".env").write_text("KEY=1\n", encoding="utf-8")
        (agent.folder / "notes.txt").hardlink_to(agent.folder / ".env")
        (agent.folder / "other.txt").write_text("one\n", encoding="utf-8")
        (agent.folder / "again.txt").hardlink_to(agent.folder / "other.txt")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        decided = of_type(await events_of(agent, session), PermissionDecided)
        assert [one.rule for one in decided] == ["protected_read", "protected_path", "reading"]
        assert (await verify_decisions(agent.database, session)).checked == 3


async def test_no_search_and_no_failed_edit_tells_what_another_name_of_a_file_of_credentials_has():
    wrong = [{"old_text": "KEY = 2", "new_text": "KEY = 3"}]
    work = [
        calls("search_text", pattern="KEY"),
        calls("search_text", pattern="NOT IN ANY FILE"),
        calls("code_map", operation="find", query="KEY"),
        calls("edit_file", path="notes.py", edits=wrong),
        calls("search_text", pattern="KEY", path="notes.py"),
        says("Done."),
    ]
    provider = ScriptedProvider(work)
    async with running_agent(provider, permission=choose("reject_once")) as agent:
        (agent.folder / ".env").write_text("KEY = 1\n", encoding="utf-8")
        (agent.folder / "notes.py").hardlink_to(agent.folder / ".env")
        (agent.folder / "main.py").write_text("KEY = 7\n", encoding="utf-8")
        (agent.folder / "main.copy").hardlink_to(agent.folder / "main.py")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        everything = str([request.messages for request in provider.requests])
        assert "KEY = 7" in everything
        assert "main.copy" in everything
        assert "KEY = 1" not in everything
        decided = [one.rule for one in of_type(await events_of(agent, session), PermissionDecided)]
        assert decided == ["inside_read", "inside_read", "inside_read", "protected_read", "protected_read"]


async def test_a_session_that_is_not_there_cannot_be_verified():
    async with running_agent(ScriptedProvider([])) as agent:
        with pytest.raises(MissingSessionError):
            await verify_decisions(agent.database, "ses_nothing")


def test_what_a_call_touches_comes_back_as_it_was_recorded():
    accesses = (
        ReadPath("/p/a", is_folder=True),
        WritePath('/p/"ü"'),
        RunCommand("ls\n-la", "/p", "diff.external"),
        WriteMemory("human", "persona", "default", WriteVerdict.CONSENT, "It asks.", only_once=True),
        CallServer("s", "t", "h", read_only=True),
    )
    assert accesses_of(recorded_accesses(accesses)) == accesses
    with pytest.raises(PolicyError, match="update pattern-acp"):
        accesses_of([RecordedAccess("FlyAway", ())])
    with pytest.raises(PolicyError, match="cannot be read"):
        accesses_of([RecordedAccess("ReadPath", ())])
