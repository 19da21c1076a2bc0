"""Hooks through a whole agent, with scripts that really run."""

import json
from pathlib import Path

from pattern_acp.config.settings import HookSettings, Settings
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.events import PermissionDecided
from pattern_acp.journal.reader import read_stream
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import choose
from tests.support.scripts import calls, says

REFUSE_RM = """
input=$(cat)
case "$input" in
  *'"tool_name": "Bash"'*"rm -rf"*) echo "no deleting here" >&2; exit 2 ;;
esac
"""


def hooked(*hooks: HookSettings) -> Settings:
    return Settings(editor_deadline_seconds=30, hooks=hooks)


def texts(request: ProviderRequest) -> str:
    return json.dumps([str(message) for message in request.messages])


async def decisions(agent: RunningAgent, session: str) -> list[tuple[str, str, str]]:
    recorded = await agent.database.read(lambda tx: read_stream(tx, SessionId(session)))
    events = [item.event for item in recorded]
    return [(event.verdict, event.rule, event.reason) for event in events if isinstance(event, PermissionDecided)]


async def test_a_hook_refuses_a_command_with_its_reason(tmp_path: Path):
    script = tmp_path / "refuse.sh"
    script.write_text(REFUSE_RM, encoding="utf-8")
    hook = HookSettings("PreToolUse", f"sh {script}", "Bash")
    model = ScriptedProvider([calls("run_command", command="rm -rf x"), says("Understood.")])
    async with running_agent(model, settings=hooked(hook), permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Delete x.")
        assert "no deleting here" in texts(model.requests[1])
        assert agent.editor.asked == []
        assert await decisions(agent, session) == [("deny", "hook", "A hook refused it: no deleting here.")]


PATCH = "*** Begin Patch\n*** Add File: a.txt\n+a\n*** Add File: locked.txt\n+b\n*** End Patch"


async def test_a_hook_that_guards_a_file_is_asked_about_every_file_of_a_patch(tmp_path: Path):
    found = 'grep -q "\\"file_path\\": \\"$CLAUDE_PROJECT_DIR/locked.txt\\""'
    script = f'{found} && {{ echo "it is locked" >&2; exit 2; }}; exit 0'
    hook = HookSettings("PreToolUse", script, "Edit|Write")
    model = ScriptedProvider([calls("apply_patch", input=PATCH), says("Understood.")])
    async with running_agent(model, settings=hooked(hook), permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Go.")
        assert "it is locked" in texts(model.requests[1])
        assert not (tmp_path / "a.txt").exists()


async def test_a_hook_that_allows_one_file_of_a_patch_does_not_allow_the_others(tmp_path: Path):
    script = """grep -q '"file_path": "[^"]*/a.txt"' && echo '{"decision": "approve"}'; exit 0"""
    hook = HookSettings("PreToolUse", script, "Edit")
    model = ScriptedProvider([calls("apply_patch", input=PATCH), says("Done.")])
    async with running_agent(model, settings=hooked(hook), permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Go.")
        assert len(agent.editor.asked) == 1
        assert not (tmp_path / "a.txt").exists()


async def test_a_hook_allows_what_would_be_asked_and_never_what_is_denied(tmp_path: Path):
    hook = HookSettings("PreToolUse", """echo '{"decision": "approve", "reason": "known to be safe"}'""")
    write = calls("write_file", path="a", content="x")
    model = ScriptedProvider([calls("run_command", command="touch made"), says("Done."), write, says("No.")])
    async with running_agent(model, settings=hooked(hook)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Say hi.")
        assert agent.editor.asked == []
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "plan"})
        await agent.editor.prompt(session, "Write.")
        assert [(verdict, rule) for verdict, rule, _ in await decisions(agent, session)] == [
            ("allow", "hook"),
            ("deny", "plan_mode"),
        ]


async def test_a_hook_changes_the_arguments_before_the_person_sees_them(tmp_path: Path):
    answer = json.dumps(
        {"hookSpecificOutput": {"permissionDecision": "ask", "updatedInput": {"command": "echo instead"}}}
    )
    hook = HookSettings("PreToolUse", f"echo '{answer}'", "run_command")
    model = ScriptedProvider([calls("run_command", command="echo first"), says("Done.")])
    async with running_agent(model, settings=hooked(hook), permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Go.")
        assert agent.editor.asked[0]["toolCall"]["rawInput"] == {"command": "echo instead"}
        assert "instead" in texts(model.requests[1])


async def test_a_hook_comments_on_a_result(tmp_path: Path):
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    script = 'grep -q "\\"file_path\\": \\"$CLAUDE_PROJECT_DIR/a.txt\\"" && { echo "lint: a.txt is bad" >&2; exit 2; }'
    hook = HookSettings("PostToolUse", script, "Read|Edit")
    model = ScriptedProvider([calls("read_file", path="a.txt"), says("Done.")])
    async with running_agent(model, settings=hooked(hook)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Read.")
        assert "[A hook says after this call: lint: a.txt is bad]" in texts(model.requests[1])


async def test_context_of_hooks_stands_before_the_prompt_and_is_the_same_after_a_reload(tmp_path: Path):
    start = HookSettings("SessionStart", "echo branch main", "startup")
    hooks = (start, HookSettings("UserPromptSubmit", "echo noted"))
    model = ScriptedProvider([says("One."), says("Two."), says("Three.")])
    database = tmp_path / "c.db"
    async with running_agent(model, settings=hooked(*hooks), database=database) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        await agent.editor.prompt(session, "Again.")
        shown = [call["title"] for call in agent.editor.of_kind("tool_call")]
        assert shown[:2] == ["A SessionStart hook added context", "A UserPromptSubmit hook added context"]
        first = model.requests[0].messages
        assert "Hello." in str(first[-1])
        assert "branch main" in str(first[-2])
        live = model.requests[1].messages
        assert str(live).count("branch main") == 1
    async with running_agent(model, settings=hooked(), database=database) as agent:
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        await agent.editor.prompt(session, "Third.")
        again = model.requests[2].messages
        assert [message.parts for message in again[: len(live)]] == [message.parts for message in live]


async def test_a_refused_prompt_never_reaches_the_model(tmp_path: Path):
    hook = HookSettings("UserPromptSubmit", 'grep -q hush && { echo "that looks like a key" >&2; exit 2; } || true')
    model = ScriptedProvider([says("One."), says("Two.")])
    database = tmp_path / "c.db"
    async with running_agent(model, settings=hooked(hook), database=database) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        assert await agent.editor.prompt(session, "My key is hush.") == {"stopReason": "end_turn"}
        assert "that looks like a key" in agent.editor.said()
        assert model.requests == []
        await agent.editor.prompt(session, "Hello.")
        assert "hush" not in texts(model.requests[0])
    async with running_agent(model, database=database) as agent:
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        await agent.editor.prompt(session, "Again.")
        assert "hush" not in texts(model.requests[1])


async def test_a_stop_hook_lets_the_turn_go_on_until_it_is_content_or_the_limit(tmp_path: Path):
    once = """grep -q '"stop_hook_active": false' && echo '{"decision": "block", "reason": "run the tests"}' || true"""
    model = ScriptedProvider([says("Finished."), says("Tests ran.")])
    async with running_agent(model, settings=hooked(HookSettings("Stop", once))) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Do it.")
        assert len(model.requests) == 2
        assert "run the tests" in str(model.requests[1].messages[-1])
    model = ScriptedProvider([says(f"{number}.") for number in range(8)])
    async with running_agent(model, settings=hooked(HookSettings("Stop", "exit 2"))) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Do it.")
        assert len(model.requests) == 6
        assert "that is the limit" in agent.editor.said()


async def test_a_hook_ends_the_turn(tmp_path: Path):
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    hook = HookSettings("PreToolUse", """echo '{"continue": false, "stopReason": "budget spent"}'""")
    model = ScriptedProvider([calls("read_file", path="a.txt"), says("never")])
    async with running_agent(model, settings=hooked(hook)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        assert await agent.editor.prompt(session, "Read.") == {"stopReason": "end_turn"}
        assert "A hook ended this turn: budget spent" in agent.editor.said()
        assert len(model.requests) == 1


async def test_a_hook_that_fails_is_said_once_and_has_no_say(tmp_path: Path):
    hooks = (
        HookSettings("UserPromptSubmit", "echo broken >&2; exit 3"),
        HookSettings("UserPromptSubmit", """echo '{"systemMessage": "Mind the freeze."}'"""),
    )
    model = ScriptedProvider([says("One."), says("Two.")])
    async with running_agent(model, settings=hooked(*hooks)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        await agent.editor.prompt(session, "Again.")
        assert agent.editor.said().count("ended with exit code 3 (broken); it had no say.") == 1
        assert "> Mind the freeze." in agent.editor.said()
        assert len(model.requests) == 2
