"""Which files a shell line changes, as far as it plainly names them.

Owns: the list of programs that change what their words name. Must not know: what is done about it, files. It errs on
the side of seeing no change: what is only read, and what a program of the project does, is not in it.
"""

import re
from collections.abc import Iterator

from pattern_acp.policy.command_line import CommandLine, SimpleCommand
from pattern_acp.policy.command_paths import command_targets
from pattern_acp.policy.paths import is_windows_path
from pattern_acp.policy.programs import effective_commands, program_name

_ALWAYS = frozenset(
    ("tee", "sponge", "truncate", "rm", "shred", "unlink", "mv", "patch", "dos2unix", "unix2dos", "del", "move")
)
"""Programs that change every file they name."""

_UNLESS = {name: re.compile(r"--check(?:-only)?|--diff|-[cl]") for name in ("black", "isort", "rustfmt", "yapf")}
"""Programs that change every file they name, unless one of their words is this."""

_WITH = {
    "sed": re.compile(r"-[nErsz]*i.*|--in-place.*", re.DOTALL),
    "perl": re.compile(r"-[plnw0]*i.*", re.DOTALL),
    "yq": re.compile(r"-\w*i\w*|--inplace"),
    "prettier": re.compile(r"-w|--write"),
    "gofmt": re.compile(r"-w"),
    "goimports": re.compile(r"-w"),
    "shfmt": re.compile(r"-\w*w|--write"),
    "clang-format": re.compile(r"-i"),
    "autopep8": re.compile(r"-i|--in-place"),
    "eslint": re.compile(r"--fix"),
    "ruff": re.compile(r"--fix(?:-only)?"),
}
"""Programs that change the files they name when one of their words is this."""

_COMMANDS = {"git": frozenset(("mv", "rm", "checkout", "restore")), "ruff": frozenset(("format",))}
"""Programs that change the files they name behind one of these, which is their first word but for options."""

_LAST = frozenset(("cp", "install", "ln", "copy"))
"""Programs that change the file that they name last."""


def changed_files(line: CommandLine, cwd: str) -> tuple[str, ...]:
    """The absolute paths of what a line changes, each once; `cwd` is absolute. Links are not followed."""
    windows = is_windows_path(cwd)
    named = {redirection.target for redirection in line.redirections if redirection.writes}
    for command in effective_commands(line, windows=windows):
        named.update(_changed_words(command))
    if not named:
        return ()
    # Which folder a word is meant in, and which word is a pattern, is known there.
    targets = command_targets(line, cwd)
    return tuple(dict.fromkeys(one.resolved for one in targets if one.resolved is not None and one.word in named))


def _changed_words(command: SimpleCommand) -> Iterator[str]:
    if not command.words:
        return
    name, rest = program_name(command.words[0]), command.words[1:]
    files = [word for word in rest if not word.startswith("-")]
    if name in _LAST:
        yield from files[-1:]
    elif name == "dd":
        yield from (word.removeprefix("of=") for word in files if word.startswith("of="))
    elif name in _COMMANDS and _command_at(rest) in _COMMANDS[name]:
        yield from files[files.index(_command_at(rest)) + 1 :]
    elif name in _ALWAYS or _has(rest, _WITH.get(name)) or (name in _UNLESS and not _has(rest, _UNLESS[name])):
        yield from files


def _command_at(words: tuple[str, ...]) -> str:
    """The command of a program that has several; `-C` and `-c` of git have a value."""
    pairs = zip(("", *words), words, strict=False)
    return next((word for before, word in pairs if not word.startswith("-") and before not in {"-C", "-c"}), "")


def _has(words: tuple[str, ...], option: re.Pattern[str] | None) -> bool:
    return option is not None and any(option.fullmatch(word) for word in words)
