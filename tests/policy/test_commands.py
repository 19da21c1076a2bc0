"""Reading shell lines."""

import shlex
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.policy.commands import (
    MAX_LINE,
    CommandLine,
    Feature,
    Redirection,
    SimpleCommand,
    expand_braces,
    read_command_line,
    unquote_ansi,
)
from pattern_acp.policy.nested_lines import effective_commands
from pattern_acp.policy.programs import prefix_words, program_name


def words_of(line: str) -> list[tuple[str, ...]]:
    return [command.words for command in read_command_line(line).commands]


def test_a_line_is_split_into_its_commands_with_quotes_taken_off():
    assert read_command_line("pytest -q \"a b\" && r\\m 'c d'e | wc") == CommandLine(
        text="pytest -q \"a b\" && r\\m 'c d'e | wc",
        commands=(
            SimpleCommand(("pytest", "-q", "a b")),
            SimpleCommand(("rm", "c de")),
            SimpleCommand(("wc",), piped=True),
        ),
    )


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("echo >/dev/null rm x", [("echo", "rm", "x")]),
        ("git >/dev/null status", [("git", "status")]),
        ("a | b > x c", [("a",), ("b", "c")]),
        ("a 3>&- d", [("a", "d")]),
        (">x rm y", [("rm", "y")]),
        ("rm <<<x -rf y", [("rm", "-rf", "y")]),
        ("a $(b `c`)", [("a", "$(b `c`)"), ("b", "`c`"), ("c",)]),
        ("if a; then b; else c; fi", [("a",), ("b",), ("c",)]),
        ("f() { rm x; }; f", [("rm", "x"), ("f",)]),
        ("time (rm x)", [("time",), ("rm", "x")]),
        ("cat <<E | sh\n$(rm x)\nE", [("cat",), ("sh",), ("rm", "x")]),
        ("$'\\x72\\155' x", [("rm", "x")]),
        ("export A=1", [("export", "A=1")]),
        (">x <<E rm y\nE", [("rm", "y")]),
        ('cat ünï "ü" | rm é', [("cat", "ünï", "ü"), ("rm", "é")]),
    ],
    ids=ascii,
)
def test_commands_are_found_wherever_they_hide(line: str, commands: Sequence[tuple[str, ...]]):
    assert words_of(line) == commands


@pytest.mark.parametrize(
    ("line", "feature"),
    [
        ("a $(b)", Feature.SUBSTITUTION), ("a `b`", Feature.SUBSTITUTION), ("a <(b)", Feature.PROCESS_SUBSTITUTION),
        ("a <<E\nE", Feature.HERE_DOCUMENT), ("a <<< b", Feature.HERE_DOCUMENT), ("a > b", Feature.FILE_REDIRECTION),
        ("a &>/dev/null", Feature.FILE_REDIRECTION), ("a &>/dev/null b", Feature.OTHER_SYNTAX),
        ("a &", Feature.BACKGROUND), ("(a)", Feature.SUBSHELL), ("{ a; }", Feature.SUBSHELL),
        ("a() { b; }", Feature.FUNCTION),
        ("! a", Feature.CONTROL_FLOW), ("a $x", Feature.EXPANSION), ("a {b,c}", Feature.BRACES),
        ("a {1..3}", Feature.BRACES),
        ("a *", Feature.GLOB), ("a b[c]", Feature.GLOB), ("A=1 b", Feature.ASSIGNMENT),
        ("a $'b'", Feature.ENCODED_TEXT),
        ('a $"b"', Feature.ENCODED_TEXT), ("a # b", Feature.COMMENT), ("a\nb", Feature.SEVERAL_LINES),
        ("a\\\nb", Feature.BROKEN_WORD), ("$a", Feature.CHANGING_COMMAND), ("a*", Feature.CHANGING_COMMAND),
        ("\u0430", Feature.FOREIGN_COMMAND), ("a\x07", Feature.CONTROL_CHARACTER),
        ("a\u200b", Feature.INVISIBLE_CHARACTER),
        ("a '", Feature.UNREADABLE), ("a" * (MAX_LINE + 1), Feature.TOO_LONG),
    ],
    ids=ascii,
)  # fmt: skip
def test_what_is_more_than_simple_commands_is_a_feature(line: str, feature: Feature):
    assert feature in read_command_line(line).features


@pytest.mark.parametrize("line", ["a >/dev/null", "a 2>&1", "a 2>&-", "a -{}", "a HEAD@{0}", "a 'b*'"])
def test_harmless_spellings_are_no_features(line: str):
    assert not read_command_line(line).features


def test_redirections_to_files_keep_operator_and_target():
    assert read_command_line("a >> 'b c' < d").redirections == (Redirection(">>", "b c"), Redirection("<", "d"))
    assert [item.writes for item in read_command_line("a >> b < d").redirections] == [True, False]


def test_a_line_that_does_not_parse_is_not_read():
    assert not read_command_line("pytest &&").parse_ok
    assert read_command_line("pytest &&").is_hiding


def test_without_the_grammar_every_line_counts_as_unread():
    def no_grammar(line: str) -> CommandLine:
        raise ImportError(line)

    line = read_command_line("pytest", read=no_grammar)
    assert (line.parse_ok, line.is_hiding, line.features) == (False, True, {Feature.NO_GRAMMAR})


def test_the_grammar_is_not_imported_before_the_first_line():
    code = "import pattern_acp.policy.decide, sys; raise SystemExit('tree_sitter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("line", ["{\U000d6911", "{\U0010ef460", "${\U000a8345}", "a={\U00012345", "<<\U00033ac6\nx"])
def test_rare_letters_do_not_end_the_process(line: str):
    # tree-sitter-bash 0.25.1 reads outside of a table of the C library for these.
    assert read_command_line(line).text == line


@given(st.text(max_size=60))
def test_reading_never_fails(text: str):
    assert read_command_line(text).text == text
    assert read_command_line(text, windows=True).text == text


@given(st.text(alphabet="ab ;&|$`\"'\\(){}<>\n*?~#=-/.", max_size=30))
def test_reading_shell_like_text_never_fails_and_nested_lines_are_read(text: str):
    assert len(effective_commands(read_command_line(text))) >= len(read_command_line(text).commands)


@given(st.lists(st.text(alphabet="abc xyz.'\"\\;&|$`*", min_size=1, max_size=8), min_size=1, max_size=5))
def test_quoted_words_are_read_as_what_they_were(words: list[str]):
    assert words_of(shlex.join(["cmd", *words])) == [("cmd", *words)]


def test_nested_commands_are_read_out_of_wrappers_and_quoted_lines():
    line = read_command_line("timeout 9 env A=1 bash -c 'sudo rm -rf x; eval \"git push --force\"'")
    found = [command.words for command in effective_commands(line)]
    assert ("rm", "-rf", "x") in found
    assert ("git", "push", "--force") in found


@pytest.mark.parametrize(
    ("line", "prefix"),
    [
        ("pytest -q", ("pytest",)), ("pytest tests", ("pytest",)), ("git status -s", ("git", "status")),
        ("git push", None),
        ("git -C x status", None), ("npm run test -- -w", ("npm", "run", "test")), ("npm test", ("npm", "test")),
        ("npm install x", None), ("uv run pytest -q", ("uv", "run", "pytest")), ("uv run python x", None),
        ("uv run --with x pytest", None), ("cargo test", ("cargo", "test")), ("cargo publish", None),
        ("python x.py", None),
        ("python3.12 -m pytest", None), ("/usr/bin/env x", None), ("make test", None), ("bash x", None), ("rm x", None),
        ("mytool build x", None), ("mytool ./x", None), ("./check", None), ("gcc-12 x.c", None), ("pip3.11 list", None),
        ("tclsh8.6 x", None), ("uv run mytool", None), ("$X y", None),
        ("npx jest", None), ("ls src", ("ls",)), ("PYTHON x", None), ("node.exe x", None), ("bundle exec rspec",
        ("bundle", "exec", "rspec")), ("ruff check .", ("ruff", "check")), ("find . -name x", None),
    ],
)  # fmt: skip
def test_a_prefix_is_the_words_that_say_what_is_done(line: str, prefix: tuple[str, ...] | None):
    assert prefix_words(read_command_line(line).commands[0]) == prefix


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("/usr/bin/RM", "rm"),
        ("C:\\x\\Node.EXE", "node"),
        ("python3.12", "python"),
        ("md5sum", "md5sum"),
        ("pip3", "pip3"),
    ],
)
def test_a_program_goes_by_one_name(word: str, name: str):
    assert program_name(word) == name


def test_braces_are_expanded_unless_they_stand_for_too_much():
    assert set(expand_braces("a{b,c{d,e}}f") or ()) == {"a{b,c{d,e}}f", "abf", "acdf", "acef"}
    assert expand_braces("{}") == ("{}",)
    assert expand_braces("{a,b}" * 10) is None
    assert expand_braces("{...a}") is None


def test_ansi_quotes_are_decoded():
    assert unquote_ansi("\\x72\\155\\u0041\\n\\q") == "rmA\nq"
