"""Reads a shell line into the simple commands it runs, and says what in it is more than simple commands.

Owns: when a line counts as read. Must not know: which commands are dangerous, which are allowed, or any path.
No allowance for a prefix covers a line with a feature (issue 2 section 9), so two readers have to agree on the words
of every line that is covered: tree-sitter-bash and the standard library's shlex.
"""

import re
import shlex
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from pattern_acp.policy.command_line import CommandLine, Feature
from pattern_acp.policy.shell_text import has_control_characters, has_invisible_characters
from pattern_acp.policy.syntax import read_syntax

MAX_LINE = 20_000
"""Longest line that is read, in characters; a longer one is asked about. Bounds the time of one decision."""

MAX_COMMANDS = 200
MAX_WORDS = 1_000
"""Most commands and words of a line that is read; as for `MAX_LINE`."""

_BROKEN_WORD = re.compile(r"\S\\\r?\n\S")
_OTHER_SHELL = re.compile(r"[\^`']|%[^%\s]+%|![^!\s]+!")
"""What cmd and PowerShell read in another way than a POSIX shell: escapes, quotes and their own expansions."""
_PUNCTUATION = frozenset("();<>|&")


SyntaxReader: TypeAlias = Callable[[str], CommandLine]
"""Reads a line by its grammar; raises ImportError where that is not installed."""


@lru_cache(maxsize=256)
def read_command_line(line: str, *, windows: bool = False, read: SyntaxReader = read_syntax) -> CommandLine:
    """Read a shell line; never fails.

    With `windows`, backslashes separate folders, and what only a POSIX shell quotes counts as not understood. Without
    the grammar (invariant 10) or with a line that does not parse, `parse_ok` is False and only an allowance for this
    exact line covers it.
    """
    found = _text_features(line, windows=windows)
    if len(line) > MAX_LINE:
        return CommandLine(line, (), features=found | {Feature.TOO_LONG}, parse_ok=False)
    try:
        syntax = read(line.replace("\\", "/") if windows else line)
    except ImportError:
        return CommandLine(line, (), features=found | {Feature.NO_GRAMMAR}, parse_ok=False)
    found |= syntax.features
    if len(syntax.commands) > MAX_COMMANDS or sum(len(command.words) for command in syntax.commands) > MAX_WORDS:
        found |= {Feature.TOO_LONG}
    if syntax.commands and not found and not _readers_agree(syntax):
        found |= {Feature.AMBIGUOUS}
    return CommandLine(line, syntax.commands, syntax.redirections, found, syntax.parse_ok)


def _text_features(line: str, *, windows: bool) -> frozenset[Feature]:
    tests = {
        Feature.CONTROL_CHARACTER: has_control_characters(line),
        Feature.INVISIBLE_CHARACTER: has_invisible_characters(line),
        Feature.SEVERAL_LINES: "\n" in line.strip(),
        Feature.BROKEN_WORD: _BROKEN_WORD.search(line) is not None,
        Feature.OTHER_SHELL: windows and _OTHER_SHELL.search(line) is not None,
    }
    return frozenset(feature for feature, is_there in tests.items() if is_there)


def _readers_agree(read: CommandLine) -> bool:
    # Tabs and spaces are all the white space that is left once control and invisible characters are features.
    reader = shlex.shlex(read.text, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        tokens = list(reader)
    except ValueError:
        return False
    return _without_harmless_redirections(tokens) == [word for command in read.commands for word in command.words]


def _without_harmless_redirections(tokens: list[str]) -> list[str]:
    words: list[str] = []
    rest = iter(tokens)
    for token in rest:
        if not _PUNCTUATION.issuperset(token) or not token:
            words.append(token)
            continue
        if ">" in token or "<" in token:
            if token not in {"&>", "&>>"} and words and words[-1] in {"0", "1", "2"}:
                words.pop()
            next(rest, None)
    return words
