"""The table of user commands: every row can be read, and what carries it out takes what is read."""

import inspect

import pytest

from pattern_acp.cli.arguments import ShowText
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.command_table import GROUPS
from pattern_acp.cli.rendering import plain
from pattern_acp.commands.document import Column, Diff, ItemList, Table, cell, columns, markdown
from pattern_acp.commands.memory import SCOPES, SEARCHED, VERBS
from pattern_acp.commands.memory_results import short_id
from pattern_acp.commands.parameters import Command, CommandMisusedError, first_word, read_slash, take_word
from pattern_acp.commands.slash import COMMANDS
from pattern_acp.memory.archive import Severity
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.search_terms import ALL_KINDS


@pytest.mark.parametrize("command", VERBS.values(), ids=lambda command: command.name)
@pytest.mark.parametrize("place", ["slash", "terminal"])
def test_what_carries_out_a_verb_takes_what_its_row_names(command: Command, place: str):
    if command.only in {"", place}:
        taken = {one.name: "" for one in command.taken(place)}
        inspect.signature(command.run).bind("desk", **taken)


@pytest.mark.parametrize(
    "command",
    [verb for group in GROUPS if group.opens for verb in group.commands],
    ids=lambda command: f"{command.do}",
)
def test_what_carries_out_a_command_of_a_terminal_takes_what_its_row_names(command: Command):
    taken = {one.name: "" for one in command.taken("terminal") if one.name != "json"}
    inspect.signature(command.run).bind("desk", **taken)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_what_carries_out_a_slash_command_takes_what_its_row_names(command: Command):
    inspect.signature(command.run).bind(
        *(command.parts or ["session"]), **{one.name: "" for one in command.taken("slash")}
    )


def test_choices_are_those_of_memory():
    severities = next(one.choices for one in VERBS["trap"].parameters if one.name == "severity")
    assert ({*SEARCHED}, {*SCOPES}, {*severities}) == ({*ALL_KINDS}, {*Scope}, {*Severity})


@pytest.mark.parametrize(
    "words",
    [[group.name, *([verb.name] if verb.name else [])] for group in GROUPS for verb in group.commands],
    ids=" ".join,
)
def test_every_command_has_help_with_what_it_takes(words: list[str]):
    shown = parse_arguments([*words, "--help"])
    assert isinstance(shown, ShowText)
    assert shown.text.startswith(f"Usage: pattern-acp {' '.join(words)} [OPTIONS]")


def test_a_short_id_keeps_the_prefix_that_says_what_it_is():
    assert short_id("sess_0123456789abcdef") == "sess_01234567"
    assert short_id("0123456789abcdef") == "01234567"


@pytest.mark.parametrize(
    ("text", "word", "rest"),
    [
        ("", "", ""),
        ("human", "human", ""),
        ("human\nfirst\nsecond", "human", "first\nsecond"),
        ('"two words" rest', "two words", "rest"),
        ("  project/notes   3", "project/notes", "  3"),
    ],
)
def test_words_are_taken_one_by_one_and_may_be_quoted(text: str, word: str, rest: str):
    assert take_word(text) == (word, rest)


@pytest.mark.parametrize(
    ("text", "word", "rest"),
    [
        ("", "", ""),
        (" stop ", "stop", ""),
        ("1\ndone", "1", "done"),
        ('"Tidy up" now', '"Tidy', 'up" now'),
        ("add\n a\n  b ", "add", "a\n  b"),
    ],
)
def test_what_follows_a_verb_may_begin_on_a_line_of_its_own(text: str, word: str, rest: str):
    assert first_word(text) == (word, rest)


def test_words_behind_a_command_that_takes_none_are_refused():
    with pytest.raises(CommandMisusedError, match=r"^/status takes no arguments\.$"):
        read_slash(COMMANDS["status"], "of it", "/status")
    assert read_slash(COMMANDS["queue"], " edit 1  a\n b ", "/queue") == {"argument": " edit 1  a\n b "}


def test_cells_hold_any_text_and_code_stays_code():
    assert cell("a | b\nc", 50) == "a \\| b c"
    shown = markdown((Table(columns(Column("Command", code=True)), (("a | `b`",), ("",))),))
    assert shown.splitlines()[2:] == ["| `a \\| 'b'` |", "|  |"]


def test_a_difference_by_words_is_marked_in_the_chat_and_in_a_terminal_without_colours():
    parts = (Diff("build with make\nsecond", "build with ninja\nsecond", words=True),)
    assert markdown(parts) == "```\nbuild with [-make-]{+ninja+}\nsecond\n```"
    assert plain(parts) == "build with [-make-]{+ninja+}\nsecond"


def test_a_list_has_marks_or_numbers_in_the_chat_and_in_a_terminal():
    parts = (ItemList(("`make`", "done"), numbered=True), ItemList(("more",)))
    assert markdown(parts) == "1. `make`\n2. done\n\n- more"
    assert plain(parts) == "1. make\n2. done\n- more"
