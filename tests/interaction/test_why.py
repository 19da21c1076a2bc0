"""/why, and deciding anew what a session decided."""

import json

import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import CallServer, ReadPath, RunCommand, WriteMemory, WritePath, WriteVerdict
from pattern_acp.domain.errors import PolicyError
from pattern_acp.journal.errors import MissingSessionError
from pattern_acp.journal.events import PermissionDecided, RecordedAccess
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.decision_commands import verify_decisions
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
        assert "Mode `edit` or `auto`, a rule that allows it, or an answer for longer." in about
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
        assert forged.differs == "recorded allow by inside_write, decided anew ask by ask_mode"


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
