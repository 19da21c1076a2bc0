"""/permissions: what is allowed and refused, and taking it back."""

import re

from pattern_acp.config.settings import PolicyRule, PolicySettings, Settings
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import GrantRevoked
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.permission_commands import GrantDesk, list_lasting, revoke
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import choose
from tests.support.scripts import calls, says
from tests.support.turns import events_of, of_type

PYTEST = [calls("run_command", command="pytest tests/a"), says("Done.")]
CLIENT: dict[str, object] = {"terminal": True}


async def prompt(agent: RunningAgent, text: str, session: str = "") -> str:
    """The agent's words in answer to a prompt."""
    before = len(agent.editor.said())
    await agent.editor.prompt(session or await agent.editor.open_session(str(agent.folder)), text)
    return agent.editor.said()[before:]


async def test_the_mode_the_rules_and_what_was_allowed_are_listed_by_number():
    rules = (PolicyRule("deny", "run", "git push *", "releases go through CI"),)
    settings = Settings(editor_deadline_seconds=30, policy=PolicySettings(rules=rules))
    async with running_agent(
        ScriptedProvider(PYTEST), capabilities=CLIENT, settings=settings, permission=choose("allow_always_project")
    ) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert "Nothing is allowed or refused for longer than one call." in await prompt(agent, "/permissions", session)
        await prompt(agent, "Go.", session)
        shown = await prompt(agent, "/permissions", session)
        assert "Mode `ask`, 1 rule in config.toml." in shown
        assert "deny run git push *" in shown
        assert re.search(r"\| 1 \| Always allow \| `pytest …` \| project \| .* \| default \| 2", shown)


async def test_what_is_revoked_is_asked_again_at_once_and_recorded():
    async with running_agent(
        ScriptedProvider(PYTEST * 2), capabilities=CLIENT, permission=choose("allow_always_project")
    ) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await prompt(agent, "Go.", session)
        assert await prompt(agent, "/permissions revoke 1", session) == ("Revoked 1: `pytest …` is no longer allowed.")
        assert len(of_type(await events_of(agent, session), GrantRevoked)) == 1
        await prompt(agent, "Again.", session)
        assert len(agent.editor.asked) == 2
        assert "No permission in force has the number 7" in await prompt(agent, "/permissions revoke 7", session)
        assert "Say /permissions" in await prompt(agent, "/permissions forget", session)


async def test_a_grant_of_another_session_is_not_revoked_by_its_number():
    async with running_agent(ScriptedProvider(PYTEST), capabilities=CLIENT, permission=choose("allow_always")) as agent:
        await prompt(agent, "Go.")
        assert "No permission in force has the number 1" in await prompt(agent, "/permissions revoke 1")


async def test_what_another_window_allows_or_a_terminal_takes_back_counts_from_the_next_turn():
    async with running_agent(
        ScriptedProvider(PYTEST * 3), capabilities=CLIENT, permission=choose("allow_always_project")
    ) as agent:
        first, second = [await agent.editor.open_session(str(agent.folder)) for _ in range(2)]
        await prompt(agent, "Go.", first)
        await prompt(agent, "Go.", second)
        assert len(agent.editor.asked) == 1
        desk = GrantDesk(agent.database, SystemClock())
        (grant,) = (await list_lasting(desk)).grants
        assert (await revoke(desk, grant.number)).what == "`pytest …`"
        await prompt(agent, "Go.", second)
        assert len(agent.editor.asked) == 2
