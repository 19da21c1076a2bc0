"""Sessions are listed, shown and deleted."""

import json
from contextlib import chdir
from pathlib import Path

import anyio
import pytest
from acp import schema as sdk
from msgspec.structs import replace
from pydantic import TypeAdapter

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.main import run_with
from pattern_acp.cli.output import printable
from pattern_acp.cli.rendering import lines_of
from pattern_acp.commands.document import Result
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.sessions import ListedSession, SessionRow, SessionStatus
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.session_commands import PassagePage, SessionList
from pattern_acp.tools.base import SessionHit
from tests.support.agent import record_session
from tests.support.editor import JsonDict
from tests.support.process import typed
from tests.support.scripts import calls, says


async def record(database: Path, folder: Path) -> str:
    """A session with one answer and one call."""
    model = ScriptedProvider([says("Let me look.") + calls("read_file", path="a.txt"), says("It is *there*.")])
    return await record_session(database, folder, model, "Where is it?\x1b[2J")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    (path / "a.txt").write_text("x\n", encoding="utf-8")
    return path


@pytest.fixture
def session(home: Process, folder: Path) -> str:
    return anyio.run(record, home.loaded.paths.constellation_path("default"), folder)


def test_without_a_constellation_there_is_nothing_and_that_is_fine(home: Process, capsys: pytest.CaptureFixture[str]):
    assert run_with(typed("sessions", "list"), home) == 0
    assert "No sessions here yet." in capsys.readouterr().out
    assert run_with(typed("sessions", "list", "--json"), home) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run_with(typed("sessions", "show", "s1"), home) == 1
    assert "no session s1" in capsys.readouterr().err


def test_the_list_is_that_of_the_folder_unless_all_are_wanted(
    home: Process, folder: Path, session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with chdir(folder):
        assert run_with(typed("sessions", "list", "--json"), home) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["id"], listed["cwd"]) == (session, str(folder))
    with chdir(tmp_path):
        assert run_with(typed("sessions", "list"), home) == 0
        assert "No sessions here yet." in capsys.readouterr().out
        assert run_with(typed("sessions", "list", "--all"), home) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["SESSION", "UPDATED", "STATUS", "TITLE", "FOLDER"]
    assert line.startswith(session)
    assert "\x1b" not in line


def test_a_session_is_shown_as_the_chat_shows_it(home: Process, session: str, capsys: pytest.CaptureFixture[str]):
    assert run_with(typed("sessions", "show", session), home) == 0
    shown = capsys.readouterr().out
    positions = [shown.index(part) for part in ("Where is it?", "Let me look.", "Read a.txt", "It is *there*.")]
    assert positions == sorted(positions)
    assert "\x1b" not in shown


def test_the_first_characters_of_an_id_are_enough(home: Process, session: str, capsys: pytest.CaptureFixture[str]):
    assert run_with(typed("sessions", "show", session[:12]), home) == 0
    assert "Where is it?" in capsys.readouterr().out
    assert run_with(typed("sessions", "rename", session[:12], "Finding it"), home) == 0
    assert capsys.readouterr().out == f"{session} is now called “Finding it”.\n"
    assert run_with(typed("sessions", "rewind", session[4:12]), home) == 0
    assert "Where is it?" in capsys.readouterr().out


def test_json_shows_the_updates_of_a_replay(home: Process, session: str, capsys: pytest.CaptureFixture[str]):
    assert run_with(typed("sessions", "show", session, "--json"), home) == 0
    updates = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    judge = TypeAdapter(sdk.SessionNotification)
    for update in updates:
        judge.validate_python({"sessionId": session, "update": update})
    kinds = [update["sessionUpdate"] for update in updates]
    assert kinds[:4] == ["user_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update"]


def test_a_deleted_session_is_gone(home: Process, session: str, capsys: pytest.CaptureFixture[str]):
    assert run_with(typed("sessions", "delete", session), home) == 0
    assert capsys.readouterr().out == f"Deleted {session}; pattern-acp sessions undelete {session} brings it back.\n"
    assert run_with(typed("sessions", "delete", session), home) == 1
    assert run_with(typed("sessions", "show", session), home) == 1
    assert "no session" in capsys.readouterr().err


def row(number: int, cwd: str, title: str) -> ListedSession:
    empty = SessionRow(SessionId(""), "", (), "", "", "", "", "", "", 0, 0, 1, None, None, 0)
    named = replace(empty, session_id=SessionId(f"ses_{number:032x}"), cwd=cwd, title=title)
    return ListedSession(named, SessionStatus.RUNNING if number == 2 else SessionStatus.IDLE, "")


def shown(result: Result, width: int) -> list[str]:
    """The lines of a terminal, as it gets them."""
    return ["".join(printable(text) for text, _ in line) for line in lines_of(result.document, width)]


@pytest.mark.parametrize("width", [60, 80])
def test_a_hit_is_where_it_is_and_below_that_what_was_said(width: int):
    hit = SessionHit(SessionId(f"ses_{1:032x}"), "A title", "/one", 3, "user", "said \x1b[2J" + "so " * 99, 0)
    head, said = shown(PassagePage((hit,), ""), width)
    assert head.startswith(f"{hit.session_id}  turn 3  1970-01")
    assert said.startswith("    said \\u001b[2Jso so")
    assert max(len(head), len(said)) <= width


@pytest.mark.parametrize("width", [60, 80, 120])
def test_ids_are_whole_and_lines_fit_the_screen(width: int):
    rows = [row(1, "/one", "word " * 40), row(2, "/one", ""), row(3, "/two", "\x1b[2Jevil\n")]
    lines = shown(SessionList(tuple(rows)), width)
    assert [line.split()[0] for line in lines if line] == [
        "/one",
        rows[0].row.session_id,
        rows[1].row.session_id,
        "/two",
        rows[2].row.session_id,
    ]
    assert max(len(line) for line in lines) <= width
    assert "\x1b" not in "".join(lines)


def test_a_session_whose_persona_was_typed_goes_on_as_the_users_own_once_it_is_adopted(
    home: Process, folder: Path, capsys: pytest.CaptureFixture[str]
):
    model = ScriptedProvider([])
    database = home.loaded.paths.constellation_path("default")
    session = anyio.run(record_session, database, folder, model, "/persona inline You rhyme.")

    def persona() -> str:
        assert run_with(typed("sessions", "list", "--json", "--all"), home) == 0
        return json.loads(capsys.readouterr().out)[0]["persona"]

    assert run_with(typed("sessions", "rename", session, "Rhymes"), home) == 0
    capsys.readouterr()
    assert persona().startswith("inline-")
    assert run_with(typed("sessions", "adopt", session), home) == 0
    capsys.readouterr()
    assert persona() == "default"


def test_a_session_is_renamed_put_away_forked_deleted_and_brought_back(
    home: Process, session: str, capsys: pytest.CaptureFixture[str]
):
    def done(action: str, text: str = "") -> JsonDict:
        assert run_with(typed("sessions", action, session, *([text] if text else []), "--json"), home) == 0
        return json.loads(capsys.readouterr().out)

    def listed(*, archived: bool = False) -> list[JsonDict]:
        assert run_with(typed("sessions", "list", "--json", "--all", *["--archived"] * archived), home) == 0
        return json.loads(capsys.readouterr().out)

    assert done("adopt") == {"id": session, "done": "adopt"}
    assert done("rename", "Where things\nare")["title"] == "Where things are"
    fork = done("fork", "1")
    assert (fork["title"], fork["turns"]) == ("Where things are (fork)", 1)
    done("archive")
    assert [one["id"] for one in listed()] == [fork["fork"]]
    assert [one["id"] for one in listed(archived=True)] == [session]
    done("unarchive")
    done("delete")
    (left,) = listed()
    assert (left["id"], left["parent"], left["messages"], left["status"]) == (fork["fork"], session, 3, "idle")
    assert left["preview"] == "It is *there*."
    assert run_with(typed("sessions", "undelete"), home) == 0
    assert session in capsys.readouterr().out
    done("undelete")
    assert {one["id"] for one in listed()} == {session, fork["fork"]}
    assert run_with(typed("sessions", "undelete"), home) == 0
    assert "No session was deleted" in capsys.readouterr().out
    assert run_with(typed("sessions", "show", fork["fork"]), home) == 0
    assert "It is *there*." in capsys.readouterr().out


def test_what_was_said_is_found_with_its_turn(
    home: Process, folder: Path, session: str, capsys: pytest.CaptureFixture[str]
):
    assert run_with(typed("sessions", "search", "where", "--json", "--all"), home) == 0
    found = json.loads(capsys.readouterr().out)
    assert {(one["id"], one["turn"]) for one in found} == {(session, 1)}
    with chdir(folder):
        assert run_with(typed("sessions", "search", "where"), home) == 0
        assert session in capsys.readouterr().out
        assert run_with(typed("sessions", "search", "zebra"), home) == 0
        assert "No session here has anything" in capsys.readouterr().out


def test_what_cannot_be_done_is_said_and_changes_nothing(
    home: Process, session: str, capsys: pytest.CaptureFixture[str]
):
    for asked, sentence in (
        (typed("sessions", "undelete", session), "no deleted session"),
        (typed("sessions", "rename", "s1", "x"), "no session s1"),
        (typed("sessions", "delete", "s1"), "no session s1"),
    ):
        assert run_with(asked, home) == 1
        assert sentence in capsys.readouterr().err
