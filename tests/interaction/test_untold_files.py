"""What files hold that the agent may not read unasked stays with them, whichever tool is called and in every mode."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.journal.events import Event, ToolCallStarted
from pattern_acp.policy.decision import Mode
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.tools.registry import default_tools
from tests.support.agent import running_agent
from tests.support.editor import choose
from tests.support.language_servers import fake_server
from tests.support.scripts import Turn, calls, says
from tests.support.tools import as_json_object
from tests.support.turns import events_of, results_of

SECRET = "planted-7f3a"
TEXT = f"TOPSECRET={SECRET}\nOTHER={SECRET}\nLAST={SECRET}\n"


def edit(old: str, new: str = "x", **more: Json) -> JsonObject:
    return {"old_text": old, "new_text": new, **more}


def patch(*lines: str) -> JsonObject:
    return {"input": "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])}


def edits(path: str) -> list[JsonObject]:
    tried = [
        edit("TOPSECRET=wrong"), edit("="), edit("TOPSECRET", "TOPSECRET"), edit("zzz", "TOPSECRET"), edit("TOPSECRET"),
        edit("", "x"), edit("=", "=", replace_all=True),
    ]  # fmt: skip
    lists = [[one] for one in tried] + [[edit("LAST"), edit("=")]]
    return [as_json_object({"path": path, "edits": one}) for one in lists]


def patches(path: str) -> list[JsonObject]:
    return [
        patch(f"*** Update File: {path}", "-TOPSECRET=wrong", "+x"),
        patch(f"*** Update File: {path}", "@@ OTHER=wrong", "-x", "+y"),
        patch(f"*** Update File: {path}", "*** Move to: plain.txt", "-TOPSECRET=wrong", "+x"),
        patch("*** Update File: plain.txt", "-plain", "+x", f"*** Update File: {path}", "-OTHER=wrong", "+x"),
        patch(f"*** Update File: {path}", "-LAST=wrong", "+x", "*** Update File: plain.txt", "-wrong", "+x"),
        patch(f"*** Add File: {path}", "+x"),
        patch(f"*** Delete File: {path}"),
    ]


def code_questions(path: str) -> list[JsonObject]:
    indexed: list[JsonObject] = [
        {"operation": operation, "query": query}
        for operation in ("find", "outline", "brief", "callers", "importers", "impact")
        for query in (path, "TOPSECRET")
    ]
    served: list[JsonObject] = [
        {"operation": operation, "query": query, "new_name": "other"}
        for operation in ("definition", "references", "rename")
        for query in (f"{path}:1:wrong", f"{path}:2:OTHER", f"{path}:wrong")
    ]
    return indexed + served


ATTEMPTS: dict[str, Callable[[str], list[JsonObject]]] = {
    "read_file": lambda path: [{"path": path}, {"path": path, "start_line": 99}, {"path": path, "pages": "2"}],
    "write_file": lambda path: [{"path": path, "content": "x\n"}, {"path": path, "content": ""}],
    "edit_file": edits,
    "apply_patch": patches,
    "list_directory": lambda path: [{"path": path}, {"depth": 3}],
    "find_files": lambda path: [{"pattern": "*", "path": path}, {"pattern": "**/*"}],
    "search_text": lambda path: [
        {"pattern": "TOPSECRET", "path": path},
        {"pattern": "=", "context_lines": 3},
        {"pattern": "(?<=TOPSECRET)="},
        {"pattern": "=", "form": "count"},
        {"pattern": r"=.*\n", "form": "files"},
    ],
    "code_map": code_questions,
    "run_command": lambda path: [{"command": f"cat {path}"}, {"command": "pwd", "cwd": path}],
    "job": lambda path: [{"action": "list"}, {"action": "output", "job": path}],
    "update_plan": lambda _path: [{"steps": []}],
    "task": lambda path: [{"operation": "get", "task": path}],
    "memory_read": lambda path: [{"label": path}],
    "memory_write": lambda path: [{"label": path, "operation": "append", "text": "x"}],
    "memory_search": lambda _path: [{"query": "TOPSECRET"}],
    "session_search": lambda _path: [{"query": "TOPSECRET"}],
    "read_attachment": lambda path: [{"id": path}],
    "fetch_url": lambda path: [{"url": f"file://{path}"}],
    "delegate": lambda path: [{"path": path}],
    "ask_user": lambda path: [{"question": path}],
}
"""How each tool could be made to tell of a file. A new tool gets a line here, with every way in which it names one."""


def attempts(path: str) -> Turn:
    return tuple(
        step for name, tried in ATTEMPTS.items() for arguments in tried(path) for step in calls(name, **arguments)
    )


NAMES = (".env", "id_rsa", "credentials.txt", "link.txt", "away.txt")


def plant(folder: Path, outside: Path) -> None:
    """Files that reading asks for: by their name, behind a link, and outside of the session's folder."""
    for name in NAMES[:3]:
        (folder / name).write_text(TEXT, encoding="utf-8")
    (outside / "notes.txt").write_text(TEXT, encoding="utf-8")
    (folder / "plain.txt").write_text("plain\n", encoding="utf-8")
    (folder / "link.txt").symlink_to(folder / ".env")
    (folder / "away.txt").symlink_to(outside / "notes.txt")


def in_mode(mode: Mode) -> Settings:
    return Settings(editor_deadline_seconds=30, mode=mode.value, edit_tool="both", lsp=fake_server("usual"))


def told(model: ScriptedProvider) -> str:
    return "".join(repr(request.messages) for request in model.requests)


def test_there_is_an_attempt_for_every_tool():
    assert set(ATTEMPTS) == {tool.spec.name for tool in default_tools()}


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(Mode))
async def test_no_tool_tells_a_byte_of_a_file_that_reading_would_ask_for(tmp_path: Path, mode: Mode):
    turns = [turn for path in (*NAMES, str(tmp_path / "notes.txt")) for turn in (attempts(path), says("I see."))]
    model = ScriptedProvider(turns)
    async with running_agent(model, settings=in_mode(mode), permission=choose("reject_once")) as agent:
        plant(agent.folder, tmp_path)
        session = await agent.editor.open_session(str(agent.folder))
        for _ in turns[::2]:
            await agent.editor.prompt(session, "Go.")
        results = results_of(model.requests[-1])
        assert len({result.call_id for result in results}) == sum(len(turn) for turn in turns[::2])
        assert SECRET not in told(model)
        asked = {params["toolCall"]["toolCallId"] for params in agent.editor.asked}
        updates = [wrapper["update"] for wrapper in agent.editor.updates]
        assert SECRET not in repr([one for one in updates if one.get("toolCallId") not in asked])
        events = await events_of(agent, session)
        assert SECRET not in repr([event for event in events if call_of(event) not in asked])


def call_of(event: Event) -> str:
    return event.call.call_id if isinstance(event, ToolCallStarted) else getattr(event, "call_id", "")
