"""What each command line asks for."""

import pytest

from pattern_acp import __version__
from pattern_acp.cli.arguments import Arguments, BadUsage, Chat, Doctor, Journal, Serve, ShowText
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.commands.parameters import TypedCommand, Value
from pattern_acp.config.settings import Flags

LISTED: dict[str, Value] = {"json": False, "everywhere": False}
FLAGS: dict[str, Value] = dict.fromkeys(("conversation", "memory", "preview", "overwrite", "assume_yes"), False)
REWOUND: dict[str, Value] = {**FLAGS, "session": "s1", "to": "last", "files": True}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Serve()),
        ("acp", Serve()),
        ("--acp", Serve()),
        ("--acp acp", Serve()),
        ("--model a/b --acp", Serve(Flags(model="a/b"))),
        ("acp --model a/b", Serve(Flags(model="a/b"))),
        ("--model a/b acp", Serve(Flags(model="a/b"))),
        (
            "--constellation w --persona p --model=a/b --mode plan --thinking high --log-level debug",
            Serve(Flags("a/b", "w", "p", "plan", "high", "debug")),
        ),
        ("chat", Chat()),
        ("chat hello", Chat(prompt="hello")),
        ("--constellation w chat hello --yes", Chat(Flags(constellation="w"), prompt="hello", answer="allow")),
        ("chat --deny --json --session s1", Chat(answer="deny", json=True, session="s1")),
        ("chat --continue --cwd d", Chat(latest=True, cwd="d")),
        ("chat -- --yes", Chat(prompt="--yes")),
        ("chat hi --image a.png --image b.png", Chat(prompt="hi", images=("a.png", "b.png"))),
        ("sessions", TypedCommand("sessions", "list", {"archived": False}, LISTED)),
        (
            "sessions list --json --all",
            TypedCommand("sessions", "list", {"archived": False}, {"json": True, "everywhere": True}),
        ),
        ("sessions show s1", TypedCommand("sessions", "show", {"session": "s1", "html": ""}, LISTED)),
        (
            "sessions delete s1 --constellation w",
            TypedCommand("sessions", "delete", {"session": "s1"}, LISTED, Flags(constellation="w")),
        ),
        ("journal tail --lines 0 --no-follow", Journal(action="tail", lines=0, follow=False)),
        ("sessions rewind s1 --to last --files", TypedCommand("sessions", "rewind", REWOUND, LISTED)),
        ("trust --yes here", TypedCommand("trust", "add", {"path": "here", "assume_yes": True})),
        ("doctor", Doctor()),
        ("doctor --json", Doctor(json=True)),
        ("doctor --all", Doctor(all=True)),
        ("--version", ShowText(f"pattern-acp {__version__}")),
        ("-V", ShowText(f"pattern-acp {__version__}")),
        ("acp --version", ShowText(f"pattern-acp {__version__}")),
        ("--acp --version", ShowText(f"pattern-acp {__version__}")),
    ],
)
def test_a_command_line_asks_for(line: str, expected: Arguments):
    assert parse_arguments(line.split()) == expected


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("--frobnicate", "--frobnicate"),
        ("frobnicate", "frobnicate"),
        ("acp extra", "acp takes no arguments"),
        ("chat one two", "two"),
        ("chat --yes --deny", "--deny"),
        ("chat --session a --continue", "--continue"),
        ("--log-level loud", "loud"),
        ("--mode fast", "fast"),
        ("--model", "--model"),
        ("--model", "requires an argument"),
        ("--constellation ../x", "--constellation must be"),
        ("chat --persona a/b", "--persona must be"),
        ("--constel x", "--constel"),
        ("--acp chat", "--acp"),
        ("sessions show", "id"),
        ("sessions list s1", "sessions show"),
        ("sessions frobnicate", "frobnicate"),
        ("chat one two", "see pattern-acp chat --help"),
        ("session", "perhaps you mean 'sessions'"),
        ("journal", "verify, export, anchor"),
        ("journal redact ses_1 secret", "--match TEXT"),
        ("--json", "--json needs a command"),
        ("--json auth frobnicate", "login, status or logout"),
        ("--json trust revoke", "trust revoke has no --json"),
        ("--json acp", "acp has no --json"),
    ],
)
def test_a_wrong_command_line_is_one_line_that_names_the_fault(line: str, word: str):
    result = parse_arguments(line.split())
    assert isinstance(result, BadUsage)
    assert word in result.sentence
    assert result.sentence.startswith("pattern-acp: ")
    assert "\n" not in result.sentence


@pytest.mark.parametrize(
    "command",
    [
        "journal redact {} --match words --yes",
        "journal verify {}",
        "journal export {}",
        "sessions delete {}",
        "sessions undelete {}",
        "sessions rename {} title",
    ],
)
def test_an_empty_id_of_a_session_is_no_session(command: str):
    result = parse_arguments(["" if word == "{}" else word for word in command.split()])
    assert isinstance(result, BadUsage)
    assert "needs the id of a session" in result.sentence


@pytest.mark.parametrize("command", ["", "acp ", "chat ", "sessions ", "doctor "])
def test_help_names_every_setting_without_colour(command: str):
    result = parse_arguments([*command.split(), "--help"])
    assert isinstance(result, ShowText)
    for flag in ("--constellation", "--persona", "--model", "--mode", "--log-level"):
        assert flag in result.text
    assert "\x1b" not in result.text


def test_help_of_the_program_names_every_command():
    result = parse_arguments(["-h"])
    assert isinstance(result, ShowText)
    for command in ("acp", "chat", "sessions", "doctor", "--version", "--acp"):
        assert command in result.text


def test_a_switch_may_stand_between_the_action_and_the_session():
    assert parse_arguments(["sessions", "show", "--json", "ses_1"]) == parse_arguments(
        ["sessions", "show", "ses_1", "--json"]
    )


@pytest.mark.parametrize(
    "line",
    [
        "sessions",
        "sessions search word",
        "memory show project",
        "journal verify",
        "trust list",
        "auth status",
        "usage",
        "board",
        "models",
        "backup",
        "restore --latest",
        "gc",
        "explain",
        "doctor",
        "chat hello",
    ],
)
def test_json_may_be_asked_for_before_the_command(line: str):
    words = line.split()
    assert parse_arguments(["--json", *words]) == parse_arguments([*words, "--json"])
