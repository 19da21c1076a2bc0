"""A client on another machine: its files and commands through ACP, and nothing of the server's disk."""

from collections.abc import Mapping

import pytest

from pattern_acp.bootstrap.remote_server import ClientLimits
from pattern_acp.db.connection import open_for_reading
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.events import InstructionsCompiled
from pattern_acp.providers.scripted import ScriptStep
from tests.support.editor import JsonDict
from tests.support.process import read_events
from tests.support.remote import CuttableDial, connected_remotely, served_remotely
from tests.support.serving import Home, temporary_home

ALL: JsonDict = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
AWAY = "/away/project"


async def compiled_prompts(home: Home) -> list[str]:
    """The system prompts of all sessions."""
    async with open_for_reading(home.constellation, clock=SystemClock()) as database:
        listed = await database.read(lambda tx: tx.all("SELECT id FROM sessions", {}))
        events = [await read_events(home.constellation, str(row[0])) for row in listed]
    return [event.system for each in events for event in each if isinstance(event, InstructionsCompiled)]


async def turn_of(
    home: Home, *steps: ScriptStep, cwd: str, files: Mapping[str, str], capabilities: JsonDict | None = None
) -> tuple[str, list[tuple[str, JsonDict]], dict[str, str], str]:
    """Run a turn whose model makes these calls, one after the other.

    What the answer and the calls show, what the client was asked for, its files, and the first sentences.
    """
    home.script(*([step] for step in steps), [ScriptStep(text="Done.")])
    async with served_remotely(home, is_local=False, limits=ClientLimits()) as served:
        dial_server = CuttableDial(served.url)
        chosen = ALL if capabilities is None else capabilities
        async with connected_remotely(dial_server, files=files, capabilities=chosen) as editor:
            session = await editor.open_session(cwd)
            answer = await editor.prompt(session, "do it")
            assert answer["stopReason"] == "end_turn"
            shown = str(editor.of_kind("tool_call_update"))
            return shown, editor.requests, editor.files, editor.said()


async def test_files_are_read_and_written_at_the_client_where_the_server_has_no_such_folder() -> None:
    path = f"{AWAY}/notes.txt"
    async with temporary_home() as home:
        shown, asked, files, said = await turn_of(
            home,
            ScriptStep(tool="read_file", arguments={"path": "notes.txt"}),
            ScriptStep(
                tool="edit_file",
                arguments={"path": path, "edits": [{"old_text": "old words", "new_text": "new words"}]},
            ),
            cwd=AWAY,
            files={path: "old words\n"},
        )
        assert files[path] == "new words\n", shown
        assert {"fs/read_text_file", "fs/write_text_file"} <= {method for method, _ in asked}
        assert "Files and commands are those of your machine" in said


async def test_nothing_of_the_servers_disk_is_read_or_changed_at_the_same_path() -> None:
    async with temporary_home() as home:
        (home.project / "AGENTS.md").write_text("instructions of the server", encoding="utf-8")
        (home.project / "part").mkdir()
        (home.project / "part" / "AGENTS.md").write_text("more of the server", encoding="utf-8")
        here = home.project / "part" / "notes.txt"
        here.write_text("of the server\n", encoding="utf-8")
        shown, asked, files, _ = await turn_of(
            home,
            ScriptStep(tool="read_file", arguments={"path": "part/notes.txt"}),
            ScriptStep(tool="search_text", arguments={"pattern": "server"}),
            ScriptStep(tool="list_directory", arguments={"path": "."}),
            cwd=str(home.project),
            files={str(here): "of the client\n"},
        )
        assert [method for method, _ in asked] == ["fs/read_text_file"]
        assert "of the server" not in shown
        assert "AGENTS.md" not in shown
        assert files[str(here)] == "of the client\n"
        assert b"more of the server" not in b"".join(
            each.read_bytes() for each in home.constellation.parent.glob("*.db*")
        )
        [system] = await compiled_prompts(home)
        assert "look for files with commands" in system
        assert "instructions of the server" not in system


async def test_a_command_runs_in_the_clients_terminal_and_asks_even_where_it_only_reads() -> None:
    async with temporary_home() as home:
        _, asked, _, _ = await turn_of(
            home, ScriptStep(tool="run_command", arguments={"command": "cat a | wc -l"}), cwd=AWAY, files={}
        )
        methods = [method for method, _ in asked]
        assert methods.index("session/request_permission") < methods.index("terminal/create")
        created = next(params for method, params in asked if method == "terminal/create")
        assert (created["command"], created["args"]) == ("/bin/sh", ["-c", "cat a | wc -l"])


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (ScriptStep(tool="read_file", arguments={"path": "notes.txt"}), "reads no files"),
        (ScriptStep(tool="write_file", arguments={"path": "notes.txt", "content": "x"}), "this client"),
        (ScriptStep(tool="run_command", arguments={"command": "touch made.txt"}), "offers no terminal"),
    ],
)
async def test_what_a_client_does_not_offer_is_refused_with_a_sentence_and_done_nowhere(
    step: ScriptStep, sentence: str
) -> None:
    async with temporary_home() as home:
        before = sorted(home.project.iterdir())
        shown, asked, _, _ = await turn_of(home, step, cwd=str(home.project), files={}, capabilities={})
        assert sentence in shown
        assert {method for method, _ in asked} <= {"session/request_permission"}
        assert sorted(home.project.iterdir()) == before
