"""`pattern-acp journal`: sessions are checked, anchored, exported and followed."""

import json
import os
import subprocess
import sys
import zipfile
from contextlib import chdir
from functools import partial
from pathlib import Path

import anyio
import apsw
import pytest
from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import Journal
from pattern_acp.cli.command_table import LEVELS
from pattern_acp.cli.journal import run_journal
from pattern_acp.db.connection import Transaction, change_file, read_file
from pattern_acp.db.raw import connect
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.journal.bundle import REDACTIONS
from pattern_acp.journal.codec import AnchorError, RedactionError
from pattern_acp.journal.events import ModelRequested, SubagentRecorded
from pattern_acp.journal.reader import read_stream
from pattern_acp.journal.writer import append
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.recovery.backups import make_backup
from pattern_acp.session.redaction import RedactionWanted, take_out
from tests.support.agent import record_session, running_agent
from tests.support.process import agent_environment
from tests.support.scripts import calls, says

SECRET = "ghp_" + "a1B2" * 9


async def record(database: Path, folder: Path) -> str:
    model = ScriptedProvider(
        [says("Let me look.") + calls("read_file", path="a.txt"), says(f"It is <b>there</b>, {SECRET}.")]
    )
    return await record_session(database, folder, model, "Where is it?</script>")


@pytest.fixture
def database(home: Process) -> Path:
    return home.loaded.paths.constellation_path("default")


@pytest.fixture
def session(database: Path, tmp_path: Path) -> str:
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    return anyio.run(record, database, tmp_path)


def forge(database: Path, *statements: str) -> None:
    forger = connect(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    for statement in (
        "DROP TRIGGER IF EXISTS events_are_not_updated",
        "DROP TRIGGER IF EXISTS events_are_not_deleted",
        *statements,
    ):
        forger.execute(statement).fetchall()
    forger.close()


def refusal(arguments: Journal, home: Process) -> str:
    with pytest.raises(PatternError) as refused:
        run_journal(arguments, home)
    return refused.value.sentence


def test_the_levels_are_those_of_the_bundle():
    assert LEVELS == REDACTIONS


def test_without_a_constellation_there_is_nothing(home: Process, capsys: pytest.CaptureFixture[str]):
    assert run_journal(Journal(), home) == 0
    assert run_journal(Journal(action="tail"), home) == 0
    assert capsys.readouterr().out.count("Nothing was recorded yet.") == 2
    assert "There is no session ses_1" in refusal(Journal(action="export", target="ses_1"), home)


def test_sound_sessions_are_said_to_be_sound(home: Process, session: str, capsys: pytest.CaptureFixture[str]):
    assert run_journal(Journal(), home) == 0
    out = capsys.readouterr().out
    assert f"{session}  sound, " in out
    assert "constellation  sound, " in out
    assert run_journal(Journal(target=session, json=True), home) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["stream"], report["ok"], report["first_bad_index"]) == (session, True, None)
    assert run_journal(Journal(target=session[:12]), home) == 0
    assert f"{session}  sound, " in capsys.readouterr().out


def test_a_change_is_told_with_its_place(
    home: Process, session: str, database: Path, capsys: pytest.CaptureFixture[str]
):
    forge(database, "UPDATE events SET actor = 'tool' WHERE stream <> 'constellation' AND session_seq = 3")
    assert run_journal(Journal(), home) == 1
    assert f"{session}  NOT SOUND at event 3: its kind" in capsys.readouterr().out
    assert "is not sound, so it gets no anchor" in refusal(Journal(action="anchor", target=session), home)
    assert "is not sound, so it was not exported" in refusal(Journal(action="export", target=session), home)


def anchor_of(home: Process, session: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_journal(Journal(action="anchor", target=session), home) == 0
    return capsys.readouterr().out.strip()


def test_an_anchor_tells_an_end_that_was_cut_off(
    home: Process, session: str, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    anchor = anchor_of(home, session, capsys)
    kept = tmp_path / "anchors.txt"
    kept.write_text(f"noted today: {anchor}\n", encoding="utf-8")
    assert run_journal(Journal(target=session, anchor=anchor), home) == 0
    assert run_journal(Journal(anchor=str(kept)), home) == 0
    assert capsys.readouterr().out.count("the anchor fits") == 2
    forge(
        database,
        "PRAGMA foreign_keys = OFF",
        "UPDATE sessions SET last_seq = last_seq - 1",
        "DELETE FROM events WHERE kind IN ('turn_ended', 'checkpoint_taken')",
    )
    assert run_journal(Journal(target=session), home) == 0
    assert run_journal(Journal(target=session, anchor=anchor), home) == 1
    assert "does not fit the anchor: the end was cut off" in capsys.readouterr().out


def test_an_anchor_of_another_chain_does_not_fit(home: Process, session: str, capsys: pytest.CaptureFixture[str]):
    anchor = anchor_of(home, session, capsys)
    forged = anchor[:-64] + "0" * 64
    assert run_journal(Journal(target=session, anchor=forged), home) == 1
    assert "recomputed" in capsys.readouterr().out
    assert "None of these anchors" in refusal(Journal(target="constellation", anchor=anchor), home)


@pytest.mark.parametrize("identity", [True, False])
@pytest.mark.needs("git")
def test_an_anchor_is_kept_as_a_git_note_also_where_git_knows_nobody(
    home: Process, session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, identity: bool
):
    repository = tmp_path / "repository"
    repository.mkdir()
    names = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "init", "-q", "."], cwd=repository, check=True)
    subprocess.run(["git", *names, "commit", "-q", "--allow-empty", "-m", "x"], cwd=repository, check=True)
    # An empty name is refused like none at all, whatever this machine has outside of the repository.
    for name, value in (("user.name", "a" if identity else ""), ("user.email", "a@example.com")):
        subprocess.run(["git", "config", name, value], cwd=repository, check=True)
    with chdir(repository):
        assert run_journal(Journal(action="anchor", target=session, git_note=True, json=True), home) == 0
        assert run_journal(Journal(anchor="git"), home) == 0
    anchored, *lines = capsys.readouterr().out.splitlines()
    assert json.loads(anchored)["session"] == session
    assert any(line.endswith("the anchor fits") for line in lines)


@pytest.mark.needs("git")
def test_a_repository_without_a_commit_gets_no_note_and_the_anchor_is_told_all_the_same(
    home: Process, session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    repository = tmp_path / "empty"
    repository.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=repository, check=True)
    anchor = anchor_of(home, session, capsys)
    with chdir(repository), pytest.raises(AnchorError) as refused:
        run_journal(Journal(action="anchor", target=session, git_note=True), home)
    assert ".." not in refused.value.sentence
    assert refused.value.sentence.endswith(f"A note needs a commit to be on; keep the anchor elsewhere: {anchor}")


@pytest.mark.parametrize("level", LEVELS)
def test_an_export_is_sound_and_leaves_out_what_it_says(
    home: Process, session: str, tmp_path: Path, level: str, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "b.zip"
    anchor = anchor_of(home, session, capsys)
    assert run_journal(Journal(action="export", target=session, output=str(file), leave_out=level), home) == 0
    assert run_journal(Journal(target=str(file), anchor=anchor), home) == 0
    assert "The anchor fits." in capsys.readouterr().out
    with zipfile.ZipFile(file) as bundle:
        texts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    assert any(SECRET in text for text in texts.values()) == (level == "none")
    assert any("Where is it?" in text for text in texts.values()) == (level != "content")
    assert "<b>there" not in texts["conversation.html"]
    assert "is it?</script>" not in texts["conversation.html"]
    assert texts["conversation.html"].count("<section") >= 2


def test_an_export_replaces_no_file(home: Process, session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "b.zip"
    export = Journal(action="export", target=session, output=str(file), json=True)
    assert run_journal(export, home) == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == "secrets"
    assert file.stat().st_mode & 0o077 == 0
    assert "exists" in refusal(export, home)
    nowhere = Journal(action="export", target=session, output=str(tmp_path / "none" / "b.zip"))
    assert "cannot be written" in refusal(nowhere, home)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_an_export_that_finds_no_room_leaves_no_half_of_a_file(home: Process, tmp_path: Path):
    text = os.urandom(200_000).hex()
    model = ScriptedProvider([says(text)])

    async def talk() -> str:
        async with running_agent(model, database=home.loaded.paths.constellation_path("default")) as agent:
            session = await agent.editor.open_session(str(tmp_path))
            await agent.editor.prompt(session, "Tell me.")
            return session

    file = tmp_path / "out" / "b.zip"
    file.parent.mkdir()
    program = (
        "import resource, signal, sys; from pattern_acp.__main__ import main;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)); sys.exit(main())"
    )
    # -B: below the limit, Python would leave half of a compiled module behind for everybody.
    command = [sys.executable, "-B", "-c", program, "journal", "export", anyio.run(talk), "-o", str(file)]
    ended = subprocess.run(
        command, env=agent_environment(tmp_path / "home"), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "cannot be written" in ended.stderr
    assert list(file.parent.iterdir()) == []


def test_a_bundle_that_was_changed_is_told(
    home: Process, session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "b.zip"
    assert run_journal(Journal(action="export", target=session, output=str(file)), home) == 0
    file.write_bytes(file.read_bytes()[:-30])
    capsys.readouterr()
    assert run_journal(Journal(target=str(file), json=True), home) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
    assert "cannot be read" in refusal(Journal(target=str(tmp_path / "none.zip")), home)


def test_tail_shows_the_newest_events_without_what_they_say(
    home: Process, session: str, capsys: pytest.CaptureFixture[str]
):
    assert run_journal(Journal(action="tail", target=session, lines=2, follow=False), home) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "turn_ended" in lines[0]
    assert "checkpoint_taken" in lines[1]
    assert run_journal(Journal(action="tail", lines=1, follow=False, json=True), home) == 0
    assert json.loads(capsys.readouterr().out)["stream"] == session
    assert run_journal(Journal(action="tail", lines=0, follow=False), home) == 0
    assert capsys.readouterr().out == ""


def test_words_are_redacted_everywhere_and_the_chain_still_fits(
    home: Process, session: str, database: Path, capsys: pytest.CaptureFixture[str]
):
    anchor = anchor_of(home, session, capsys)
    redact = Journal(action="redact", target=session, match=SECRET, reason=f"I pasted {SECRET}", assume_yes=True)
    assert run_journal(redact, home) == 0
    assert "Redacted: " in capsys.readouterr().out
    left = b"".join(path.read_bytes() for path in database.parent.glob(f"{database.name}*"))
    assert SECRET.encode() not in left
    assert b"[forgotten]" in left
    assert run_journal(Journal(target=session, anchor=anchor), home) == 0
    assert " redacted, the anchor fits" in capsys.readouterr().out


def test_a_redaction_says_that_the_text_is_gone_from_all_that_is_stored(
    home: Process, session: str, capsys: pytest.CaptureFixture[str]
):
    assert run_journal(Journal(action="redact", target=session, match=SECRET, assume_yes=True), home) == 0
    assert "Everything was read back: the text is gone from all " in capsys.readouterr().out
    again = Journal(action="redact", target=session, match=SECRET, assume_yes=True, json=True)
    assert run_journal(again, home) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["events"], report["gone"], report["left"], report["other_spellings"]) == (0, True, [], [])
    assert report["places"] > 50


def test_a_redaction_says_in_which_other_spellings_the_text_is_there(
    home: Process, session: str, capsys: pytest.CaptureFixture[str]
):
    redact = Journal(action="redact", target=session, match="Whère is it?", assume_yes=True)
    assert run_journal(redact, home) == 1
    said = capsys.readouterr().out
    assert "Nothing of the session holds that text" in said
    assert "(1 place): Where is it?" in said
    assert "the text, spelled just like that, is gone from all" in said
    assert run_journal(replace(redact, json=True), home) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["gone"], report["left"]) == (False, [])
    assert {one["spelling"] for one in report["other_spellings"]} == {"Where is it?"}


def test_a_redaction_names_the_memory_and_the_backups_that_still_hold_the_text(
    home: Process, session: str, database: Path, capsys: pytest.CaptureFixture[str]
):
    change_file(database, lambda tx: tx.execute("UPDATE blocks SET description = ? WHERE label = 'human'", (SECRET,)))
    copy = make_backup(database, None, now_ms=1).path
    redact = Journal(action="redact", target=session, match=SECRET, assume_yes=True)
    assert run_journal(redact, home) == 1
    said = capsys.readouterr().out
    assert "The text is left in:" in said
    assert "- memory block human (1 place): pattern-acp memory forget human PASSAGE" in said
    assert f"- {copy} (" in said
    assert "is gone from" not in said


def test_a_redaction_names_other_sessions_that_recorded_the_words(
    home: Process, session: str, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    other = anyio.run(record, database, tmp_path)
    assert run_journal(Journal(action="redact", target=session, match=SECRET, assume_yes=True), home) == 1
    said = capsys.readouterr().out
    assert f"- session {other} (" in said
    assert said.count(f"pattern-acp journal redact {other} --match TEXT") == 1
    assert "is gone from" not in said
    again = Journal(action="redact", target=other, match=SECRET, assume_yes=True, json=True)
    assert run_journal(again, home) == 0
    assert json.loads(capsys.readouterr().out)["sessions"] == []


def test_a_session_that_holds_the_words_only_in_the_name_of_its_folder_is_not_told_to_be_redacted(
    home: Process, session: str, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / SECRET
    folder.mkdir()
    other = anyio.run(partial(record_session, database, folder, ScriptedProvider([says("Fine.")]), "How are you?"))
    redact = Journal(action="redact", target=other, match=SECRET, assume_yes=True, json=True)
    assert run_journal(redact, home) == 1
    assert json.loads(capsys.readouterr().out)["sessions"] == [session]
    assert run_journal(Journal(action="redact", target=session, match=SECRET, assume_yes=True, json=True), home) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["sessions"] == []
    assert "`cwd` of the table sessions of session " in str(report["left"])
    # What is left names the folder: nothing takes it out, and the segments repeat it.
    assert {one["remedy"] for one in report["left"]} == {"", "they repeat what the constellation holds"}


def test_a_redacted_session_is_exported_and_its_bundle_is_checked(
    home: Process, session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    redact = Journal(action="redact", target=session, match="Where is it?", assume_yes=True, json=True)
    assert run_journal(redact, home) == 0
    assert json.loads(capsys.readouterr().out)["events"] >= 2
    file = tmp_path / "b.zip"
    assert run_journal(Journal(action="export", target=session, output=str(file), leave_out="none"), home) == 0
    assert run_journal(Journal(target=str(file)), home) == 0
    assert "redacted." in capsys.readouterr().out.replace("redacted;", "redacted.")
    with zipfile.ZipFile(file) as bundle:
        assert not any(b"Where is it?" in bundle.read(name) for name in bundle.namelist())


def test_one_event_loses_all_of_its_words(
    home: Process, session: str, database: Path, capsys: pytest.CaptureFixture[str]
):
    assert run_journal(Journal(action="tail", target=session, lines=99, follow=False, json=True), home) == 0
    heads = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    prompt = next(head["session_seq"] for head in heads if head["kind"] == "turn_started")
    assert "say --yes" in refusal(Journal(action="redact", target=session, event=prompt), home)
    assert run_journal(Journal(action="redact", target=session, event=prompt, assume_yes=True), home) == 0
    left = b"".join(path.read_bytes() for path in database.parent.glob(f"{database.name}*"))
    assert b"Where is it?" not in left
    assert run_journal(Journal(target=session), home) == 0


def test_no_digest_is_left_that_redacted_words_could_be_tried_out_with(home: Process, session: str, database: Path):
    assert run_journal(Journal(action="redact", target=session, match="Where is it?", assume_yes=True), home) == 0
    reader = connect(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    rows = reader.execute("SELECT payload FROM events WHERE kind = 'model_requested'").fetchall()
    reader.close()
    requests = [json.loads(str(payload)) for (payload,) in rows]
    assert [(request["digest"], request["parts"]) for request in requests] == [("", None)] * 2
    assert run_journal(Journal(target=session), home) == 0


@pytest.mark.parametrize("prompt", ["short", "long " * 4000])
def test_no_digest_of_a_subagents_request_is_left_either(home: Process, session: str, database: Path, prompt: str):
    asked = ModelRequested(TurnId("turn_1"), 1, "p", "m", "d" * 64, 1, 1)
    thread = SubagentRecorded(TurnId("turn_1"), ToolCallId("call_1"), "thread_1", prompt, asked)

    def add(tx: Transaction) -> None:
        append(tx, session, thread, actor=Actor.PERSONA, origin=Origin.MODEL, at_ms=1)

    change_file(database, add)
    assert run_journal(Journal(action="redact", target=session, match="Where is it?", assume_yes=True), home) == 0
    recorded = read_file(database, lambda tx: read_stream(tx, session))
    [left] = [entry.event for entry in recorded if isinstance(entry.event, SubagentRecorded)]
    assert left == replace(thread, event=replace(asked, digest="", parts=None))
    assert run_journal(Journal(target=session), home) == 0


def test_a_redaction_that_was_killed_before_the_file_was_written_anew_is_finished_by_another(
    home: Process, session: str, database: Path, capsys: pytest.CaptureFixture[str]
):
    # A page that was deleted while nothing was overwritten yet, as an earlier version of pattern-acp left them.
    raw = connect(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    raw.execute(f"CREATE TABLE old AS SELECT '{SECRET}' || hex(zeroblob(9000)) AS words; DROP TABLE old").fetchall()
    raw.close()
    change_file(database, lambda tx: take_out(tx, RedactionWanted(session, match=SECRET), at_ms=1))
    assert SECRET.encode() in database.read_bytes()
    events = len(read_file(database, lambda tx: read_stream(tx, session)))
    again = Journal(action="redact", target=session, match=SECRET, assume_yes=True)
    assert run_journal(again, home) == 0
    said = capsys.readouterr().out
    assert "Nothing of the session holds that text (any more), so nothing was taken out." in said
    assert "The file was rewritten" in said
    assert SECRET.encode() not in database.read_bytes()
    assert len(read_file(database, lambda tx: read_stream(tx, session))) == events


@pytest.mark.parametrize(
    ("event", "match", "sentence"),
    [(999, "", "has no event 999"), (0, "abc", "at least 4"), (0, "nowhere at all", "nothing left")],
)
def test_what_cannot_be_redacted_is_refused(home: Process, session: str, event: int, match: str, sentence: str):
    with pytest.raises(RedactionError, match=sentence):
        run_journal(Journal(action="redact", target=session, event=event, match=match, assume_yes=True), home)


def test_a_session_replays_the_same(home: Process, session: str, capsys: pytest.CaptureFixture[str]):
    assert run_journal(Journal(action="replay", target=session), home) == 0
    printed = capsys.readouterr().out
    assert "replayed the same: " in printed
    assert "run again the same: 1 turn, 2 model requests, 1 tool call" in printed
    assert run_journal(Journal(action="replay", target=session, json=True), home) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["requests"], report["difference"]) == (2, None)
    assert report["turns"] == {"turns": 1, "requests": 2, "calls": 1, "difference": None, "not_compared": []}
    assert run_journal(Journal(action="replay", target=session, turn=1), home) == 0
    assert "has no turn 2" in refusal(Journal(action="replay", target=session, turn=2), home)


def test_a_replay_shows_where_a_turn_differs(
    home: Process, session: str, database: Path, capsys: pytest.CaptureFixture[str]
):
    said = "UPDATE events SET payload = replace(payload, 'Where is it?', 'Who is it?') WHERE kind = 'turn_started'"
    forge(database, said)
    assert run_journal(Journal(action="replay", target=session), home) == 1
    printed = capsys.readouterr().out
    assert "DIFFERS in turn 1, request 1: message 2" in printed
    assert "+Who is it?</script>" in printed


def test_a_replay_names_the_first_difference(
    home: Process, session: str, database: Path, capsys: pytest.CaptureFixture[str]
):
    forge(database, "UPDATE sessions SET mode = 'auto'")
    assert run_journal(Journal(action="replay", target=session), home) == 1
    assert "the mode of the session was auto, replayed it is ask" in capsys.readouterr().out
    forge(
        database,
        "UPDATE events SET payload = replace(payload, '\"message_count\":', '\"message_count\":1')"
        " WHERE kind = 'model_requested'",
    )
    assert run_journal(Journal(action="replay", target=session), home) == 1
    assert "the number of messages in the request was" in capsys.readouterr().out
