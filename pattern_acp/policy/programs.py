"""Reads simple commands with what is known about programs: which others they run, and what names what they do.

Owns: wrappers, prefixes and escape options of one command. Must not know: grants, modes, paths.
"""

import re

from pattern_acp.policy.command_line import CommandLine, Feature, SimpleCommand
from pattern_acp.policy.commands import read_command_line
from pattern_acp.policy.program_escapes import is_escape
from pattern_acp.policy.program_tables import (
    EVALUATORS,
    NO_PREFIX,
    PLAIN,
    RUNNERS,
    SCRIPT_RUNNERS,
    SHELLS,
    SUBCOMMANDS,
    WRAPPERS,
)

_SUBCOMMAND = re.compile(r"[a-z][a-z0-9_:-]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_VERSIONED = re.compile(r"(python|pypy|ruby|perl|php|lua|node|bash)(?:[\d.][\w.-]*|w)")
_NESTING = 3
"""How deep a shell line inside a shell line is read; deeper ones are not written by people."""
_SUFFIXES = 32
"""How many words of a wrapper are tried as the start of the command that it runs."""


def program_name(word: str) -> str:
    """The name a program goes by: no folder, no `.exe`, no version, lower case since file systems may ignore case."""
    name = re.split(r"[/\\]", word)[-1].casefold()
    name = re.sub(r"\.(?:exe|cmd|bat|com|ps1)$", "", name)
    versioned = _VERSIONED.fullmatch(name)
    return versioned[1] if versioned else name


def effective_commands(line: CommandLine, *, windows: bool = False, depth: int = _NESTING) -> tuple[SimpleCommand, ...]:
    """Every command that a line may run, those inside wrappers and quoted shell lines included.

    A wrapper's options differ between systems, so each of its words may be the start of the command it runs: the
    answer holds more commands than run, never fewer. A line with more text than is read keeps to its outer commands.
    """
    found = list(line.commands)
    if Feature.TOO_LONG in line.features:
        return line.commands
    for command in line.commands:
        if depth and command.words and program_name(command.words[0]) in WRAPPERS:
            started = _suffixes(command)
            found += started
            for text in inner_lines([command, *started]):
                found += effective_commands(read_command_line(text, windows=windows), windows=windows, depth=depth - 1)
    return tuple(found)


def takes_line(arguments: tuple[str, ...]) -> bool:
    """Whether a shell is given a line to run, as with `-lc`, `-Command` or `/c`, and not a script's name."""
    return any(re.match(r"[-+/][A-Za-z]*c", argument, re.IGNORECASE) for argument in arguments)


def inner_lines(commands: list[SimpleCommand]) -> tuple[str, ...]:
    """Words of evaluators that may be shell lines themselves: those with white space or shell syntax in them."""
    texts: list[str] = []
    for command in commands:
        name, words = program_name(command.words[0]), command.words[1:]
        if name not in EVALUATORS or (name in SHELLS and not takes_line(words)):
            continue
        if name == "eval" and not texts:
            texts.append(" ".join(words))
        for word in words:
            if re.search(r"[\s;&|<>$`(]", word):
                texts += (
                    [word]
                    if not word.startswith("-")
                    else [word[2:], re.sub(r"^-\w+", "", word), word.partition("=")[2]]
                )
    return tuple(dict.fromkeys(texts))


def _suffixes(command: SimpleCommand) -> list[SimpleCommand]:
    words = command.words
    return [
        SimpleCommand(
            words=words[start:],
            changing=frozenset(index - start for index in command.changing if index >= start),
            piped=command.piped,
        )
        for start in range(1, min(len(words), _SUFFIXES))
        if words[start] and not words[start].startswith("-") and not _ASSIGNMENT.match(words[start])
    ]


def prefix_words(command: SimpleCommand) -> tuple[str, ...] | None:
    """The first words that say what a command does; None when a prefix would allow more than it says."""
    words = command.words
    if not words or not words[0] or words[0].startswith(("-", "~")) or 0 in command.changing:
        return None
    name = program_name(words[0])
    if name in NO_PREFIX:
        return None
    second = words[1] if len(words) > 1 else ""
    if second in RUNNERS.get(name, ()):
        return _runner_prefix(words)
    if name in SUBCOMMANDS or name in RUNNERS:
        return words[:2] if second in SUBCOMMANDS.get(name, ()) else None
    if name in PLAIN or not _SUBCOMMAND.fullmatch(second):
        return words[:1]
    return words[:2]


def _runner_prefix(words: tuple[str, ...]) -> tuple[str, ...] | None:
    if len(words) < 3 or words[2].startswith("-") or "/" in words[2] or "." in words[2]:
        return None
    if program_name(words[0]) in SCRIPT_RUNNERS:
        return words[:3]
    name = program_name(words[2])
    return None if name in NO_PREFIX or name in RUNNERS or name in SUBCOMMANDS else words[:3]


def has_escape_option(words: tuple[str, ...]) -> bool:
    """Whether an option lets the command run or write what its prefix does not say."""
    programs = tuple(dict.fromkeys(program_name(word) for word in words[:3]))
    # Many programs read more arguments from a file named after an `@`.
    return any(word.startswith("@") or any(is_escape(program, word) for program in programs) for word in words[1:])
