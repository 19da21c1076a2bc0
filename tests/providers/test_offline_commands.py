import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.providers.offline import (
    Command,
    FindText,
    ListStep,
    ReadFile,
    Recall,
    Remember,
    ReplaceText,
    RunStep,
    parse_command,
    parse_commands,
)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("read src/a.py", ReadFile("src/a.py")),
        ("  READ  src/a.py ", ReadFile("src/a.py")),
        ('read "my file.txt"', ReadFile("my file.txt")),
        ("read 'my file.txt'", ReadFile("my file.txt")),
        (r"read my\ file.txt", ReadFile("my file.txt")),
        (r"read C:\new\file.txt", ReadFile(r"C:\new\file.txt")),
        (r'read "\\server\new share\f"', ReadFile(r"\\server\new share\f")),
        ("list", ListStep(".")),
        ("list src", ListStep("src")),
        ("find TODO: later", FindText("TODO: later")),
        ('find "quoted"', FindText("quoted")),
        ('find "a" or "b"', FindText('"a" or "b"')),
        ('run echo "a b" | wc', RunStep('echo "a b" | wc')),
        ('replace "a\\nb" with "c\\"d" in x.py', ReplaceText("a\nb", 'c"d', "x.py")),
        ("replace 'a\\n' with '' in \"x y\"", ReplaceText("a\\n", "", "x y")),
        ('Replace all "a" with "b" in x', ReplaceText("a", "b", "x", is_everywhere=True)),
        ("remember I like tabs", Remember("I like tabs")),
        ("remember project: run uv sync", Remember("run uv sync", "project")),
        ("recall tabs or spaces", Recall("tabs or spaces")),
    ],
)
def test_a_command_line_is_read(line: str, command: Command):
    assert parse_command(line) == command


@pytest.mark.parametrize(
    "line",
    [
        "",
        "read",
        "read the manual and tell me",
        "please read a.py",
        "reading a.py",
        "list all the bugs",
        "find",
        "run",
        'replace "" with "b" in x',
        'replace "a" by "b" in x',
        'replace "a" with "b"',
        "remember",
    ],
)
def test_other_lines_are_no_command(line: str):
    assert parse_command(line) is None


def test_commands_keep_their_order_and_prose_between_them_is_passed_over():
    assert parse_commands("read a\n\nand then\nrun b") == (ReadFile("a"), RunStep("b"))


def quoted(text: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]) | st.sampled_from("\n\t\r"), min_size=1),
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]) | st.sampled_from("\n\t\r")),
)
def test_any_text_survives_quoting(old: str, new: str):
    assert parse_commands(f"replace {quoted(old)} with {quoted(new)} in x") == (ReplaceText(old, new, "x"),)


@given(st.text(max_size=200))
def test_any_prompt_can_be_parsed(text: str):
    parse_commands(text)
