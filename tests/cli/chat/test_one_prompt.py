"""One prompt of `pattern-acp chat` and its exit code, with the agent in the same process."""

import json
import sys
from pathlib import Path

import pytest
from acp import schema as sdk
from jsonschema import Draft202012Validator, validate
from PIL import Image
from pydantic import TypeAdapter

from tests.support.chats import Done, chat_beside, sessions_beside
from tests.support.process import agent_environment, write_script

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    (path / "a.txt").write_text("hello world\n", encoding="utf-8")
    return path


def chat(home: Path, project: Path, *words: str, stdin: str = "", script: dict[str, str] | None = None) -> Done:
    return chat_beside(agent_environment(home, **(script or {})), project, *words, stdin=stdin)


def sessions(home: Path, project: Path, *words: str) -> str:
    return sessions_beside(agent_environment(home), project, *words)


def test_a_prompt_may_come_from_stdin_and_must_not_be_empty(home: Path, project: Path):
    assert "hello world" in chat(home, project, stdin="read a.txt\n").stdout
    empty = chat(home, project, stdin=" \n")
    assert empty.returncode == 2
    assert "the prompt is empty" in empty.stderr


def test_what_is_piped_in_goes_with_the_prompt_as_data(home: Path, project: Path, tmp_path: Path):
    script = write_script(tmp_path, [[{"text": "Reviewed."}]])
    done = chat(home, project, "review this diff", stdin="+an added line\n", script=script)
    assert (done.returncode, done.stdout.strip()) == (0, "Reviewed.")
    replayed = sessions(home, project, "show", session_of(sessions(home, project, "list", "--json")))
    assert "@piped input" in replayed
    assert "review this diff" in replayed


def test_a_prompt_without_anything_piped_in_is_as_it_was(home: Path, project: Path):
    assert "hello world" in chat(home, project, "read a.txt", stdin="").stdout
    assert "hello world" in chat(home, project, "read a.txt", stdin="something\n").stdout


def test_what_is_piped_in_beside_a_slash_command_is_named_as_unused(home: Path, project: Path):
    done = chat(home, project, "/status", stdin="hi\n")
    assert done.returncode == 0
    assert done.stderr.startswith(
        "pattern-acp chat does not use what was piped in: a slash command takes none of it.\n"
    )


def test_without_anybody_to_ask_nothing_is_changed_and_the_flag_is_named(home: Path, project: Path):
    done = chat(home, project, 'replace "hello" with "bye" in a.txt')
    assert done.returncode == 3
    assert "--yes" in done.stderr
    assert (project / "a.txt").read_text(encoding="utf-8") == "hello world\n"


def test_deny_refuses_an_edit(home: Path, project: Path):
    done = chat(home, project, "--deny", 'replace "hello" with "bye" in a.txt')
    assert (done.returncode, done.stderr.count("--yes")) == (3, 0)
    assert (project / "a.txt").read_text(encoding="utf-8") == "hello world\n"


def test_yes_allows_an_edit_and_a_command(home: Path, project: Path):
    done = chat(home, project, "--yes", 'replace "hello" with "bye" in a.txt')
    assert done.returncode == 0
    assert (project / "a.txt").read_text(encoding="utf-8") == "bye world\n"
    ran = chat(home, project, "--yes", f'run "{sys.executable}" -c "print(6 * 7)"')
    assert "42" in ran.stdout


def test_json_prints_the_updates_of_the_wire_and_the_stop_reason_alone(home: Path, project: Path):
    done = chat(home, project, "--json", "--yes", "read a.txt")
    assert done.returncode == 0
    assert done.stderr == ""
    *updates, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert last == {"stopReason": "end_turn", "sessionId": session_of(sessions(home, project, "list", "--json"))}
    notification = TypeAdapter(sdk.SessionNotification)
    for update in updates:
        notification.validate_python({"sessionId": "s", "update": update})
    kinds = [update["sessionUpdate"] for update in updates]
    assert {"session_info_update", "tool_call", "tool_call_update", "agent_message_chunk"} <= set(kinds)


def session_of(updates: str) -> str:
    """What the listing calls the only session."""
    (session,) = json.loads(updates)
    return session["id"]


def test_continue_goes_on_with_the_newest_session_without_repeating_it(home: Path, project: Path):
    chat(home, project, "read a.txt")
    again = chat(home, project, "--continue", "--json", "list .")
    assert again.returncode == 0
    assert "user_message_chunk" not in again.stdout
    assert "tool_call" in again.stdout


def test_a_session_is_resumed_by_its_id_in_the_folder_it_was_recorded_in(home: Path, project: Path, tmp_path: Path):
    chat(home, project, "list .")
    listed = session_of(sessions(home, project, "list", "--json"))
    named = chat(home, tmp_path, "--session", listed, "read a.txt")
    assert "hello world" in named.stdout
    shortened = chat(home, tmp_path, "--session", listed[:12], "read a.txt")
    assert "hello world" in shortened.stdout


def test_there_is_nothing_to_continue_in_a_new_folder(home: Path, project: Path):
    nothing = chat(home, project, "--continue", "read a.txt")
    assert nothing.returncode == 1
    assert "There is no session in" in nothing.stderr


def test_a_turn_that_fails_says_so_and_exits_1(home: Path, project: Path):
    failed = chat(home, project, "/recall")
    assert failed.returncode == 1
    assert "/recall" in failed.stdout
    assert failed.stderr.endswith("\npattern-acp chat: the turn failed. [session.command-misused]\n")


def test_a_prompt_for_a_model_that_cannot_be_had_is_refused_and_no_other_model_answers(home: Path, project: Path):
    refused = chat(home, project, "--model", "nosuch/x", "hi")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "'nosuch/x' names no provider that there is" in refused.stderr
    assert "instead" not in refused.stderr
    by_variable = chat(home, project, stdin="hi", script={"PATTERN_ACP_MODEL": "nosuch"})
    assert (by_variable.returncode, by_variable.stdout) == (1, "")


def test_a_command_runs_although_the_model_cannot_be_had(home: Path, project: Path):
    shown = chat(home, project, "--model", "nosuch/x", "/model")
    assert shown.returncode == 0
    assert "offline/offline" in shown.stdout


def test_errors_are_one_sentence_and_exit_1(home: Path, project: Path):
    unknown = chat(home, project, "--session", "ses_unknown", "hi")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert len(unknown.stderr.splitlines()) == 1
    assert unknown.stderr.endswith(" [session.unknown]\n")
    missing = chat(home, project, "--cwd", str(project / "nope"), "hi")
    assert missing.returncode == 1
    assert "--cwd" in missing.stderr


@pytest.mark.parametrize(
    ("step", "code"), [({"stop": "refusal"}, 3), ({"stop": "max_tokens"}, 1), ({"error": "auth"}, 1)]
)
def test_the_exit_code_tells_a_refusal_from_other_ends(home: Path, project: Path, step: dict[str, object], code: int):
    # A text that the limit of tokens cut is continued three times.
    script = write_script(home, [[{"text": "So far."}, step]] * 4)
    done = chat(home, project, "hi", script=script)
    assert done.returncode == code
    assert done.stderr


def test_json_names_the_code_of_a_turn_that_failed(home: Path, project: Path):
    script = write_script(home, [[{"text": "So far."}, {"error": "request"}]])
    done = chat(home, project, "--json", "hi", script=script)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["stopReason"], last["failure"]) == ("end_turn", "provider.request-refused")
    script = write_script(home, [[{"error": "auth"}]])
    done = chat(home, project, "--json", "hi", script=script)
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["failure"] == "provider.key-refused"
    assert last["error"] == "The script says: auth."
    assert "[provider.key-refused]" in done.stderr


def test_an_image_goes_with_the_prompt(home: Path, project: Path):
    Image.new("RGB", (8, 6)).save(project / "red.png")
    script = write_script(home, [[{"text": "Seen."}]])
    done = chat(home, project, "What is it?", "--image", "red.png", "--json", script=script)
    assert done.returncode == 0
    assert "image red.png, 8x6" in done.stdout


@pytest.mark.parametrize(
    ("name", "said"), [("no.png", "There is no file"), ("a.txt", "is not a PNG, JPEG, GIF or WebP image")]
)
def test_an_image_that_cannot_be_given_is_said_before_anything_starts(home: Path, project: Path, name: str, said: str):
    done = chat(home, project, "What is it?", "--image", name)
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_refused_key_is_told_once(home: Path, project: Path, tmp_path: Path, options: tuple[str, ...]):
    script = write_script(tmp_path, [[{"error": "auth", "detail": "The key in X was refused; set another one."}]])
    done = chat(home, project, *options, "Hi", script=script)
    assert done.returncode == 1
    assert done.stdout.count("The key in X was refused") == (2 if options else 1)
    assert "The key in X was refused" not in done.stderr
    assert "provider.key-refused" in (done.stdout if options else done.stderr)


@pytest.mark.parametrize(("flags", "is_answered"), [(["--yes"], True), (["--deny"], False), ([], False)])
def test_a_question_of_the_agent_costs_no_exit_code(
    home: Path, project: Path, tmp_path: Path, flags: list[str], *, is_answered: bool
):
    call = {"tool": "ask_user", "arguments": {"question": "Which?", "options": ["SQLite", "Files"]}}
    done = chat(
        home, project, *flags, "--json", "set it up", script=write_script(tmp_path, [[call], [{"text": "Ok."}]])
    )
    assert done.returncode == 0, done.stderr
    assert ("**SQLite**" in done.stdout) is is_answered


@pytest.mark.parametrize(("flags", "code"), [(["--yes"], 0), (["--deny"], 3), ([], 3)])
def test_a_job_that_nobody_can_agree_to_exits_3(home: Path, project: Path, tmp_path: Path, flags: list[str], code: int):
    script = write_script(tmp_path, [[{"text": "Done."}]] * 9)
    done = chat(home, project, *flags, '/job "Tidy up" --max 90k tokens', script=script)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.count("Refused, since nobody can be asked here: Job 1: Tidy up") == (0 if flags else 1)


def test_every_line_of_json_is_as_documented(home: Path, project: Path, tmp_path: Path):
    schema = json.loads((ROOT / "docs" / "reference" / "chat-lines.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    edit = 'replace "hello" with "bye" in a.txt'
    broken = write_script(tmp_path, [[{"text": "So far."}, {"error": "request"}]])
    runs = [
        chat(home, project, "--json", "--yes", edit),
        chat(home, project, "--json", "--deny", 'replace "bye" with "hi" in a.txt'),
        chat(home, project, "--json", "hi", script=broken),
        chat(home, project, "--json", "--cwd", "nowhere", "hi"),
    ]
    ends = [[json.loads(line) for line in done.stdout.splitlines()] for done in runs]
    for line in (line for lines in ends for line in lines):
        validate(line, schema, Draft202012Validator)
    assert [lines[-1].get("refused", False) for lines in ends] == [False, True, False, False]
    assert [done.returncode for done in runs] == [0, 3, 1, 1]


def test_a_prompt_is_cancelled_when_its_time_is_up(home: Path, project: Path, tmp_path: Path):
    script = write_script(tmp_path, [[{"text": "This takes long."}, {"wait_for": "cancel"}]])
    done = chat(home, project, "--timeout", "0.3", "--json", "go", script=script)
    assert done.returncode == 124
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["stopReason"], last["failure"]) == ("cancelled", "chat.timed-out")
    assert "time of --timeout was up. [chat.timed-out]" in done.stderr


def test_a_prompt_that_ends_in_time_is_not_cancelled(home: Path, project: Path):
    assert chat(home, project, "--timeout", "1h", "read a.txt").returncode == 0


def test_a_prompt_that_costs_too_much_ends_and_yes_does_not_extend_it(home: Path, project: Path, tmp_path: Path):
    step = [{"tool": "list_directory", "arguments": {"path": "."}}, {"usage": {"input_tokens": 90_000}}]
    script = write_script(tmp_path, [step, [{"text": "Too far."}]])
    done = chat(home, project, "--max-cost", "80k tokens", "--yes", "--json", "go", script=script)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, last["failure"]) == (1, "turn.budget-reached")
    assert "Too far." not in done.stdout


def test_one_slash_command_leaves_no_session_behind(home: Path, project: Path):
    for line in ("/status", "/memory", "/remember Prices are in cents."):
        assert chat(home, project, line).returncode == 0
    assert json.loads(sessions(home, project, "list", "--json")) == []
    assert chat(home, project, "--continue", "hello").returncode == 1
