"""The text that a user types a prompt into, and what is typed while a turn runs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from pattern_acp.acp import schema
from pattern_acp.cli.chat.events import Question
from pattern_acp.cli.chat.keyboard import TypedAhead
from pattern_acp.cli.chat.line_prompt import HISTORY_BYTES, HISTORY_FILE, LinePrompt, PromptCompleter, edited_text

COMMANDS = {"status": "what is going on", "memory": "what is remembered"}


def completed(typed: str, folder: Path) -> list[str]:
    completer = PromptCompleter(lambda: COMMANDS, lambda: str(folder))
    found = completer.get_completions(Document(typed), CompleteEvent())
    return [typed[: len(typed) + one.start_position] + one.text for one in found]


def test_a_prompt_that_begins_with_a_slash_completes_to_commands(tmp_path: Path):
    everything = ["/memory ", "/mode ", "/new ", "/quit ", "/resume ", "/status "]
    assert completed("/", tmp_path) == everything
    assert completed("/m", tmp_path) == ["/memory ", "/mode "]
    assert completed("/x", tmp_path) == []
    assert completed("/status ", tmp_path) == []
    assert completed("st", tmp_path) == []


def test_a_path_completes_behind_an_at_sign(tmp_path: Path):
    (tmp_path / "src" / "inner").mkdir(parents=True)
    (tmp_path / "src" / "a.py").touch()
    (tmp_path / "Setup.py").touch()
    (tmp_path / ".env").touch()
    assert completed("look at @s", tmp_path) == ["look at @Setup.py ", "look at @src/"]
    assert completed("@src/", tmp_path) == ["@src/a.py ", "@src/inner/"]
    assert completed("two\n@.", tmp_path) == ["two\n@.env "]
    assert completed("@nothing/", tmp_path) == []
    assert completed("a@b.c", tmp_path) == []


def typed(folder: Path, keys: str, times: int, *, begun: str = "") -> list[str | None]:
    """The prompts that come of these keys."""
    with create_pipe_input() as source, create_app_session(source, DummyOutput()):
        prompt = LinePrompt(folder, PromptCompleter(lambda: COMMANDS, lambda: str(folder)), lambda: "mode ask")
        prompt.open(source, DummyOutput())
        source.send_text(keys)
        return [prompt.read(">", begun) for _ in range(times)]


@pytest.mark.parametrize(
    ("keys", "prompt"),
    [
        ("one\r", "one"),
        ("one\x1b\rtwo\r", "one\ntwo"),
        ("one\n", "one"),
        ("one\\\rtwo\r", "one\ntwo"),
        ("\x1b[200~one\\\rtwo\rthree\r\x1b[201~\r", "one\\\ntwo\nthree"),
        ("ab\x1b[D\x7fc\r", "cb"),
        ("日本\x7f語\r", "日語"),
    ],
)
def test_a_prompt_may_have_several_lines(tmp_path: Path, keys: str, prompt: str):
    assert typed(tmp_path, keys, 1) == [prompt]


@pytest.mark.parametrize(("keys", "text"), [(" for C.\r", "We use ninja for C."), ("\x15\r", ""), ("\x15\x04", None)])
def test_a_text_of_a_question_is_changed_where_it_stands(keys: str, text: str | None):
    question = Question(schema.ToolCallUpdate(tool_call_id="c1"), (), takes_words=True, text="We use ninja")
    with create_pipe_input() as source, create_app_session(source, DummyOutput()):
        source.send_text(keys)
        assert edited_text(question, source, DummyOutput()) == text


def test_a_text_is_left_when_its_question_was_answered_elsewhere():
    question = Question(schema.ToolCallUpdate(tool_call_id="c1"), (), takes_words=True, text="We use ninja")
    question.reply(None)
    with create_pipe_input() as source, create_app_session(source, DummyOutput()):
        assert edited_text(question, source, DummyOutput()) is None


def test_a_prompt_goes_on_with_what_was_typed_before(tmp_path: Path):
    assert typed(tmp_path, " two\r", 1, begun="one") == ["one two"]


def test_ctrl_d_empties_a_prompt_and_then_ends_the_input(tmp_path: Path):
    assert typed(tmp_path, "one\x01\x04\r", 1) == ["ne"]
    assert typed(tmp_path, "\x04", 1) == [None]


def test_ctrl_c_gives_the_text_up_and_the_history_brings_it_back(tmp_path: Path):
    with create_pipe_input() as source, create_app_session(source, DummyOutput()):
        prompt = LinePrompt(tmp_path, PromptCompleter(lambda: COMMANDS, lambda: ""), lambda: "")
        prompt.open(source, DummyOutput())
        source.send_text("one\x1b\rtwo\x03")
        with pytest.raises(KeyboardInterrupt):
            prompt.read(">")
        assert prompt.given_up() == "one\ntwo"
        source.send_text("\x1b[A\r")
        assert prompt.read(">") == "one\ntwo"
    assert typed(tmp_path, "\x1b[A\r", 1) == ["one\ntwo"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_the_history_is_for_the_user_alone_and_does_not_grow_without_end(tmp_path: Path):
    typed(tmp_path / "new", "one\r", 1)
    history = tmp_path / "new" / HISTORY_FILE
    assert history.stat().st_mode & 0o777 == 0o600
    history.write_text("".join(f"\n# day\n+prompt {number}\n" for number in range(HISTORY_BYTES // 20)))
    assert typed(tmp_path / "new", "\x1b[A\r", 1) == [f"prompt {HISTORY_BYTES // 20 - 1}"]
    assert history.stat().st_size < HISTORY_BYTES
    assert history.read_text().startswith("# day\n+")


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("/memory forget project the vault code", ["likes tea"]),
        ("/memory forget --yes archive “VAULT CODE”", ["likes tea"]),
        ("/memory forget project --all", ["likes tea", "the Vault\u00a0code is 4711", "/memory forget project --all"]),
        ("forget the vault code", ["likes tea", "the Vault\u00a0code is 4711", "forget the vault code"]),
    ],
)
def test_what_is_forgotten_is_not_brought_back_by_the_arrow_key(tmp_path: Path, command: str, left: list[str]):
    with create_pipe_input() as source, create_app_session(source, DummyOutput()):
        prompt = LinePrompt(tmp_path, PromptCompleter(lambda: COMMANDS, lambda: ""), lambda: "")
        prompt.open(source, DummyOutput())
        for line in ("likes tea", "the Vault\u00a0code is 4711", command):
            source.send_text(f"\x1b[200~{line}\x1b[201~\r")
            assert prompt.read(">") == line
        prompt.forget(command)
        source.send_text("\x1b[A" * len(left) + "\r")
        assert prompt.read(">") == left[0]
    lines = (tmp_path / HISTORY_FILE).read_text("utf-8").splitlines()
    assert [line[1:] for line in lines if line.startswith("+")][: len(left)] == left


def test_without_a_terminal_lines_are_read_as_they_are(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from pattern_acp.cli.chat.line_prompt import *\n"
        "prompt = LinePrompt(Path(sys.argv[1]), PromptCompleter(dict, str), str); lines = []\n"
        "while (line := prompt.read('>')) is not None: lines.append(line)\n"
        "sys.stderr.write(repr(lines))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, input=b"one\\\ntwo\nthree\nfour\\\n", capture_output=True, check=True, timeout=50)
    assert ast.literal_eval(done.stderr.decode()) == ["one\ntwo", "three", "four"]


def ahead(*keys: bytes) -> TypedAhead:
    typed_ahead = TypedAhead(sys.stdin)
    for each in keys:
        typed_ahead.take(each)
    return typed_ahead


@pytest.mark.parametrize(
    ("keys", "lines", "text"),
    [
        ([b"o", b"n", b"e", b"\r"], ["one"], ""),
        ([b"one\r"], ["one"], ""),
        ([b"one\rtwo\r"], ["one\ntwo"], ""),
        ([b"one\r", b"two\r", b"thr"], ["one", "two"], "thr"),
        ([b"\r", b"  \r"], [], ""),
        ([b"on\x7f", b"k\r"], ["ok"], ""),
        ([b"one\x15", b"two"], [], "two"),
        ([b"a\x1b[A\x1b[1;5Cb\x1bOP"], [], "ab"),
        (["é".encode()[:1], "é".encode()[1:]], [], "é"),
    ],
)
def test_what_is_typed_while_a_turn_runs_waits_prompt_by_prompt(keys: list[bytes], lines: list[str], text: str):
    found = ahead(*keys)
    assert (found.lines, found.text) == (lines, text)


@given(st.text(st.characters(categories=["L", "N"]), min_size=1), st.integers(1, 7))
def test_text_arrives_however_its_bytes_are_cut(text: str, size: int):
    data = text.encode()
    found = ahead(*(data[at : at + size] for at in range(0, len(data), size)), b"\r")
    assert found.lines == [text]


def test_prompts_that_wait_for_a_turn_that_failed_become_one_text_again():
    found = ahead(b"one\r", b"two\r", b"thr")
    found.hold()
    assert (found.take_line(), found.take_text()) == (None, "one\ntwo\nthr")
    assert found.take_text() == ""
