"""`pattern-acp tour`: the agent at work in this folder, in a minute, without a model and without traces.

Owns: the steps, and taking away what they made. Must not know: how a turn is shown. Memory and sessions go into a
folder that is deleted at the end, and the one file that is edited is the tour's own.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.cli.arguments import EXIT_CANCELLED, EXIT_OK, Chat, Policy, Tour
from pattern_acp.cli.chat.run import run
from pattern_acp.cli.output import write_line, write_sentence
from pattern_acp.cli.policy import run_policy
from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    from pattern_acp.cli.chat.interactive import Turns

_SETTINGS = ("PATTERN_ACP_CONSTELLATION", "PATTERN_ACP_MODE", "PATTERN_ACP_SCRIPT")
"""Variables of the user that would change what the tour shows."""

_TESTS = {
    "pyproject.toml": "pytest",
    "package.json": "npm test",
    "Cargo.toml": "cargo test",
    "go.mod": "go test ./...",
    "Makefile": "make test",
}
"""The command that runs the tests of most projects with such a file."""

_RISKY = "git push --force"


class TourStep(Struct, frozen=True):
    """A sentence about what comes, and the prompts that show it."""

    sentence: str
    prompts: tuple[str, ...]


def steps(folder: Path, scratch: str) -> tuple[TourStep, ...]:
    """The steps of a tour of `folder`; `scratch` is the name of a file there that they may change."""
    tests = next((command for name, command in _TESTS.items() if (folder / name).exists()), "make check")
    return (
        TourStep("It looks at your project with tools, each of which you see.", ("list .",)),
        TourStep(
            "It remembers across sessions, and you can see who wrote each line, when, and why.",
            (f"remember project: The tests run with {tests}.", "/memory blame project"),
        ),
        TourStep("It shows each change.", (f'replace "before" with "after" in {scratch}',)),
        TourStep("You can go back to before any prompt: files, conversation and memory.", ("/rewind 3",)),
    )


def run_tour(arguments: Tour, process: Process) -> int:
    """Give the tour in the current folder; the exit code."""
    folder = Path.cwd()
    with TemporaryDirectory(prefix="pattern-acp-tour-") as home:
        scratch = _scratch_file(folder)
        try:
            code = _in_home(arguments.flags, home, process.environ, folder, scratch)
        finally:
            scratch.unlink(missing_ok=True)
    if code == EXIT_OK:
        write_line()
        write_sentence("That is the tour. Everything that it made is deleted. To choose a model: pattern-acp setup.")
        write_sentence("In this terminal: pattern-acp chat. In your editor: choose Pattern in its list of agents.")
    return code


def _in_home(flags: Flags, home: str, environ: Mapping[str, str], folder: Path, scratch: Path) -> int:
    kept = {name: value for name, value in environ.items() if name not in _SETTINGS}
    own = {**kept, "PATTERN_ACP_HOME": home, "PATTERN_ACP_MODEL": "offline/offline"}
    process = start_process(Flags(log_level=flags.log_level), own)

    def lead(turns: "Turns") -> int:
        for number, step in enumerate(steps(folder, scratch.name), 1):
            _announce(f"{number}. {step.sentence}")
            for prompt in step.prompts:
                write_line(f"\n> {prompt}\n")
                end = turns.run(prompt)
                if end.error or end.stop_reason == "cancelled":
                    return EXIT_CANCELLED
        _announce("5. What it may do is decided by rules that explain themselves, before anything runs.")
        write_line(f"\n$ pattern-acp policy explain {_RISKY!r}\n")
        return run_policy(Policy(action="explain", text=_RISKY), process)

    write_sentence("A tour of pattern-acp in this folder, without a model. Ctrl-C ends it.")
    # Its own file, and its own memory: there is nothing to ask the user about.
    return run(Chat(answer="allow", cwd=str(folder)), process, lead=lead)


def _announce(sentence: str) -> None:
    write_line()
    write_sentence(sentence)
    if sys.stdin.isatty() and sys.stdout.isatty():
        input("   Enter: show it ")


def _scratch_file(folder: Path) -> Path:
    number = 0
    while True:
        path = folder / f"pattern-tour{number or ''}.txt"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write("This was here before.\n")
        except FileExistsError:
            number += 1
        else:
            return path
