"""Lines that start our own program, which acts with the user's authority.

Owns: how it can be started from a line, and which of its commands only read. Must not know: modes, grants. As with
every table of policy, a script of the project can do the same unseen; the program itself then refuses what would decide
in the user's place, by the mark that commands of the agent carry in their environment (`config.keys`).
"""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from pattern_acp.config.keys import INSIDE_VARIABLE
from pattern_acp.domain.errors import PatternError
from pattern_acp.policy.commands import CommandLine, SimpleCommand, expand_braces
from pattern_acp.policy.nested_lines import effective_commands, hidden_features
from pattern_acp.policy.paths import Resolver
from pattern_acp.policy.programs import INTERPRETERS, PLAIN, SHELLS, STARTERS, program_name
from pattern_acp.policy.reading import reads_words

PROGRAM, PACKAGE = "pattern-acp", "pattern_acp"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


READING = {
    "memory": _names("list show history diff blame search archive traps verify"),
    "sessions": _names("list show search watch"),
    "tasks": _names("list show graph"),
    "journal": _names("verify tail"),
    "trust": _names("list"),
    "bundle": _names("list show"),
    "definitions": _names("list show diff verify"),
    "jobs": _names("list show receipt verify"),
    "auth": _names("status"),
    "mcp": _names("status"),
    "export": _names(""),
    "import": _names(""),
    "sync": _names("status"),
    "fork": _names(""),
    "merge": _names(""),
    "move-project": _names(""),
}
"""Commands with the actions that change nothing. Every other action, including unknown ones, decides or erases."""

_READS = _names("usage board models explain policy")
_READS_WITH = {
    "doctor": _names("--json --verify --all"),
    "gc": _names("--json --dry-run"),
    "backup": _names("--json --list"),
}
"""Commands that only read when no other words follow than these; two of them only with the last one."""
_ONLY_WITH = {"gc": "--dry-run", "backup": "--list"}
_DECIDING = (
    "acp|serve|connect|chat|sessions|memory|tasks|journal|trust|bundle|definitions|auth|mcp|backup|restore|export|"
    "import|sync|fork|merge|move-project|gc|doctor|setup"
)

_SETTINGS = _names("--constellation --persona --model --mode --log-level")
_SHOWING = _names("--help -h --version -V")
_BEFORE_ACTION = _names("--json --all --archived")

_MENTION = re.compile(r"pattern[-_]acp", re.IGNORECASE)
_QUOTING = re.compile(r"[\"'\\]")
_MODULE_OPTION = re.compile(r"-[A-Za-z]*m")
_MODULE = re.compile(r"(?:-[A-Za-z]*m)?pattern_acp((?:\.\w+)*)")
_REQUIREMENT = re.compile(r"[@=<>~!\[]")
_OWN_LINE = re.compile(rf"(?:^|[\s/;&|('\"!=`])pattern-acp(?:\.exe)?\s+(?:-\S+\s+)*(?:{_DECIDING})\b", re.IGNORECASE)
_SED_RUNS = re.compile(r"(?:^|[\d$/;{}\n])\s*e\s+.*pattern[-_]acp", re.IGNORECASE)
_FOUND = re.compile(r"[(`]\s*(?:which|command|type|whereis|realpath|readlink)\b[^)`]*pattern[-_]acp", re.IGNORECASE)
_INSTALLED = re.compile(r"(?:bin|scripts)[/\\]pattern-acp", re.IGNORECASE)
_OPTIONS_WITH_VALUE = _names("-W -X --check-hash-based-pycs")

_PYTHONS = _names("python pypy ipython py")
_AWKS = _names("awk gawk mawk nawk")
_RUN_CODE = (INTERPRETERS | _PYTHONS) - SHELLS - _AWKS - _names("sed")
_MAKES = _names("make gmake")
_FEEDERS = _names("xargs parallel")
_RUN_LINES = _names("source . at batch crontab")
_TAKE_NAMES = PLAIN | _names("sed cd mkdir touch less more man git")
_COPIERS = _names("cp ln link mv install rsync")
_TALKERS = _COPIERS | _names("printf")
"""Programs that read our program's name as a text or a path. Git's lines that start programs are checked separately."""
_GIT_RUNS = re.compile(r"!|^--exec|^-x|^run$|^foreach$|^--(?:upload|receive)-pack")

_REASON = "It starts `pattern-acp`, which decides and erases with your authority."
_HIDDEN = "It is unclear what this runs, and it names `pattern-acp`, which decides and erases with your authority."


def own_program_reason(
    line: CommandLine, cwd: str, resolve: Resolver | None = None, *, windows: bool = False
) -> str | None:
    """Return why a line may act in the user's place, as one sentence; None when it does not, or only reads."""
    is_named = _MENTION.search(_QUOTING.sub("", line.text)) is not None
    if is_named and hidden_features(line, windows=windows):
        return _HIDDEN
    commands = effective_commands(line, windows=windows)
    has_feeder = any(program_name(command.words[0]) in _FEEDERS for command in commands if command.words)
    for command in commands:
        if _names_mark(_acting_words(command)):
            return f"It names {INSIDE_VARIABLE}, by which `pattern-acp` knows the commands of an agent."
        if any(_OWN_LINE.search(assignment) for assignment in command.assignments):
            return _REASON
        if not command.words:
            continue
        for behind in _starts(command, cwd, resolve):
            if behind is None or command.changing or has_feeder or not only_reads(behind):
                return _REASON
        is_fed_text = command.piped or "<<" in line.text or "<(" in line.text
        if is_named and (_runs_code(command) or _stands_in(command) or (is_fed_text and _runs_input(command))):
            return _REASON
    return None


def only_reads(words: Sequence[str]) -> bool:
    """Return whether our program, with these words behind its name, decides nothing and erases nothing."""
    words = _without_settings(words)
    if not words:
        return False
    if "--" not in words and any(word in _SHOWING for word in words[:3]):
        return True
    command, rest = words[0], words[1:]
    if command in _READS_WITH:
        needed = _ONLY_WITH.get(command)
        return all(word in _READS_WITH[command] for word in rest) and (needed is None or needed in rest)
    if command == "policy" and "revoke" in rest:
        return False
    actions = [word for word in rest if word not in _BEFORE_ACTION][:1]
    return command in _READS or (bool(actions) and actions[0] in READING.get(command, ()))


def _without_settings(words: Sequence[str]) -> list[str]:
    """The words without the settings that every command accepts, whose values could pose as a command."""
    left: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in _SETTINGS:
            next(rest, None)
        elif word.partition("=")[0] not in _SETTINGS:
            left.append(word)
    return left


def _starts(command: SimpleCommand, cwd: str, resolve: Resolver | None) -> Iterator[Sequence[str] | None]:
    """Yield the words after our program wherever the command starts it; None if its commands cannot be separated."""
    words, name = command.words, program_name(command.words[0])
    if _is_own(words[0], cwd, resolve):
        yield words[1:]
    if (_takes_names(name) or name in _TALKERS) and not (name == "git" and _git_runs(words)):
        return
    for at, word in enumerate(words[1:], start=1):
        module = _MODULE.fullmatch(word)
        if module and (_MODULE_OPTION.fullmatch(words[at - 1]) or word.startswith("-")):
            yield words[at + 1 :] if module[1] in {"", ".__main__"} else None
        elif name in _RUN_CODE and _is_script(words, at):
            yield words[at + 1 :]
        elif _is_own(word, cwd, None) or (name in _PYTHONS and module):
            # An unknown program counts as one that runs others when a command of ours follows.
            if any(re.fullmatch(_DECIDING, next_word) for next_word in _plain(words[at + 1 :])[:1]):
                yield words[at + 1 :]
        elif _OWN_LINE.search(word):
            yield None


def _takes_names(name: str) -> bool:
    """Return whether a program takes the name of another as a text or a path."""
    return name in _TAKE_NAMES or reads_words(name)


def _plain(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _acting_words(command: SimpleCommand) -> tuple[str, ...]:
    """Words by which a command may change its own environment or that of others; none for a text search."""
    reads = command.words and _takes_names(program_name(command.words[0]))
    return command.assignments if reads else (*command.words, *command.assignments)


def _names_mark(words: Sequence[str]) -> bool:
    # `unset A_{B,C}` comes as the words `A_` and `{B,C}`.
    return any(INSIDE_VARIABLE in one for word in (*words, "".join(words)) for one in expand_braces(word) or (word,))


def _git_runs(words: Sequence[str]) -> bool:
    """Return whether git may start a program that its words name; a commit message names none."""
    return words[1:2] != ("commit",) and any(_GIT_RUNS.search(word) for word in words[1:])


def _is_own(word: str, cwd: str, resolve: Resolver | None) -> bool:
    """Return whether a word names our program, with a folder, a version, a pattern or a link before it."""
    names = {program_name(one) for one in expand_braces(word) or (word,)}
    if "/" in word and resolve is not None:
        try:
            names.add(program_name(resolve(word, cwd)))
        except PatternError:
            return False
    return any(
        _REQUIREMENT.split(name)[0] == PROGRAM or (re.search(r"[*?\[]", name) and fnmatchcase(PROGRAM, name))
        for name in names
        if name
    )


def _is_script(words: Sequence[str], at: int) -> bool:
    """Return whether a word of an interpreter is our program's script, or the folder of our package as the script."""
    parts = re.split(r"[/\\]", words[at].casefold())
    if parts[-1] == "__main__.py":
        return PACKAGE in parts[-2:-1]
    if parts[-1] in {PROGRAM, f"{PROGRAM}-script.py", f"{PROGRAM}.exe", f"{PROGRAM}.pyz"}:
        return True
    before = words[1:at]
    is_first = all(
        word.startswith("-") or before[index - 1] in _OPTIONS_WITH_VALUE for index, word in enumerate(before) if word
    )
    is_code = any(re.fullmatch(r"-[A-Za-z]*[mce]", word) for word in before)
    return parts[-1] == PACKAGE and is_first and not is_code


def _runs_code(command: SimpleCommand) -> bool:
    """Return whether a text of the command that mentions our program is code of an interpreter."""
    name, arguments = program_name(command.words[0]), command.words[1:]
    texts = [word for word in arguments if _MENTION.search(word) and re.search(r"[\s(;!'\"]", word)]
    if name in _AWKS:
        return any(re.search(r"system|\||getline", text) for text in texts)
    if name == "sed":
        return any(_SED_RUNS.search(text) for text in texts)
    if name in _PYTHONS:
        return bool(texts) and any(re.match(r"-[A-Za-z]*c", word) for word in arguments)
    return name in _RUN_CODE and bool(texts)


def _stands_in(command: SimpleCommand) -> bool:
    """Return whether the command renames our program, or runs, links or copies it at a path that a search found."""
    name = program_name(command.words[0])
    if name == "alias":
        return any(_MENTION.search(word) for word in command.words)
    if name in _COPIERS and any(_INSTALLED.search(word) for word in command.words):
        return True
    return not _takes_names(name) and any(_FOUND.search(word) for word in command.words)


def _runs_input(command: SimpleCommand) -> bool:
    """Return whether the command runs its input."""
    name, arguments = program_name(command.words[0]), command.words[1:]
    plain = _plain(arguments)
    if name in _FEEDERS:
        runs = any(program_name(word) in SHELLS | STARTERS for word in plain)
        # `xargs -I{} {} trust`, and a lone `parallel`, start the programs that they read.
        started = plain[1:] if "-I" in arguments else plain
        is_read = bool(started) and re.match(r"[A-Za-z./]", started[0]) is None
        return runs or is_read or (name == "parallel" and not plain)
    if name in _RUN_LINES or name in SHELLS:
        return True
    if name in _MAKES:
        return any(word in {"-", "-f-", "/dev/stdin"} or word.endswith("=-") for word in arguments)
    return name in _RUN_CODE and not plain
