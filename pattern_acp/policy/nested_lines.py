"""Everything that a shell line may run: lines in its words, text that it evaluates later, code of interpreters.

Owns: how lines nest, and lines whose commands cannot be known before they run. Must not know: which commands are
dangerous, grants, modes, paths. The answer has more commands than run, never fewer.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct, field

from pattern_acp.policy.commands import (
    HIDING,
    CommandLine,
    Feature,
    Redirection,
    SimpleCommand,
    back_ticked,
    read_command_line,
)
from pattern_acp.policy.programs import (
    EVALUATORS,
    EXECUTING,
    INTERPRETERS,
    JUST_START,
    SHELLS,
    STARTERS,
    WRAPPERS,
    program_name,
)
from pattern_acp.policy.shell_values import NAMES, feeds_names, known_forms, known_targets, unknown_words

_NESTING = 3
"""Depth to which shell lines inside shell lines are read; people do not write deeper ones."""

_SUFFIXES = 32
"""Number of a wrapper's words that are tried as the start of the command that it runs."""

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def _table(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LATER = _table(
    "[[ [ test printf let declare typeset local export readonly read unset wait getopts mapfile readarray exec trap "
    "compgen complete bind fc history alias set shopt"
)
"""Builtins that evaluate a text of their words once more, as a subscript or a number, with the substitutions in it."""

_EMBEDS = (INTERPRETERS - SHELLS) | _table(
    "tar bsdtar split man zip less more vim vi view ex ed nvim gvim make gmake gdb lldb sqlite3 mysql psql pandoc "
    "find fzf sk sort rsync git rg ag watchexec emacs emacsclient tmux screen cpio gcc g++ clang expect dc strace php"
)
"""Programs whose words may hold a command for a shell: as an option's value, behind `!`, as a text of their code."""

_TAKES_COMMAND = re.compile(
    r"--(?:filter|pager|to-command|use-compress-program|compress-program|checkpoint-action|info-script|new-volume-script|"
    r"rsh-command|rsh|unzip-command|preview|exec|command|shell|eval|editor|cmd|pre)|-TT|-P|-I|-F|-c|-ex|-eval|-e|-wrapper"
)
"""Options whose value may be a command, for the programs above."""
_BEHIND = re.compile(
    r"(?:^|[\s:+;(\\])!\s*(.+)|exec=(.+)|(?:^|[\s;.:\d$/])(?:shell|system|spawn|exec|sh|e)\s+(.+)|syscmd\(([^)]*)|\$\((?:shell)\s+(.+?)\)",
    re.DOTALL,
)
_STARTS_SHELL = re.compile(
    r"system|popen|exec|spawn|subprocess|check_(?:output|call)|\brun\b|\bcall\b|shell|getline|\||qx|%x|`|\bsh\b|Process|\$\(",
    re.IGNORECASE,
)
_LITERAL = re.compile(
    r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\\n]|\\.)*)`|(?:qx|%x)[({\[]([^)}\]]*)[)}\]]"
)
_BETWEEN = re.compile(r"[\"']\s*,\s*\[?\s*[\"']")
_SED_RUNS = re.compile(r"s(.)(?:(?!\1).)*\1((?:(?!\1).)*)\1[gipmI\d]*e", re.DOTALL)


class WholeLine(Struct, frozen=True):
    """Everything in a line at any depth.

    `unknown` are words of which it is not known what they are when the line runs; `hidden` what hides its commands;
    `fed` texts that a command of it reads, of here-documents and of `echo`.
    """

    commands: tuple[SimpleCommand, ...]
    redirections: tuple[Redirection, ...]
    unknown: frozenset[str]
    hidden: frozenset[Feature]
    fed: tuple[str, ...]
    blind: str
    """A program that takes the names of files from its input, of which is not known what it holds; else empty."""


class _Found(Struct):
    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    redirections: list[Redirection] = field(default_factory=list[Redirection])
    unknown: set[str] = field(default_factory=set[str])
    hidden: set[Feature] = field(default_factory=set[Feature])
    fed: list[str] = field(default_factory=list[str])
    blind: str = ""


@lru_cache(maxsize=1_024)
def whole_line(line: CommandLine, *, windows: bool = False) -> WholeLine:
    """Return all that a line may run or touch, including what is in wrappers, quoted lines and code."""
    found = _Found()
    _read_into(found, line, _NESTING, windows=windows)
    hidden = set(found.hidden)
    if not line.parse_ok:
        hidden.add(Feature.UNREADABLE)
    if any(_runs_unknown_text(command) for command in found.commands if command.words):
        hidden.add(Feature.CHANGING_COMMAND)
    return WholeLine(
        (*line.commands, *dict.fromkeys(found.commands[len(line.commands) :])),
        tuple(dict.fromkeys(found.redirections)),
        frozenset(found.unknown),
        frozenset(hidden),
        tuple(dict.fromkeys(found.fed)),
        found.blind,
    )


def effective_commands(line: CommandLine, *, windows: bool = False) -> tuple[SimpleCommand, ...]:
    """Return every command that a line may run, including those inside wrappers and quoted shell lines.

    A wrapper's options differ between systems, so each of its words may be the start of the command it runs: the answer
    has more commands than run, never fewer. For a line longer than the limit only its outer commands are returned.
    """
    return whole_line(line, windows=windows).commands


def hidden_features(line: CommandLine, *, windows: bool = False) -> frozenset[Feature]:
    """The features, of the line and of every shell line inside it, that hide what runs; empty when all is visible."""
    return whole_line(line, windows=windows).hidden


def _read_into(found: _Found, line: CommandLine, depth: int, *, windows: bool) -> None:
    found.hidden |= line.features & HIDING
    found.redirections += line.redirections
    found.commands += line.commands
    if Feature.TOO_LONG in line.features:
        return
    commands = [*line.commands, *map(_without_names, known_forms(line))]
    found.commands += commands[len(line.commands) :]
    found.unknown |= unknown_words(line)
    found.redirections += [Redirection(operator, _plain(text)) for operator, _, text in known_targets(line)]
    found.fed += line.fed
    texts = [*line.evaluated]
    for command in commands:
        found.blind = found.blind or _taker_of_names(command, line)
        texts += _later_texts(command)
        name = program_name(command.words[0]) if command.words else ""
        if name in {"echo", "printf", "print"}:
            found.fed += command.words[1:]
        if depth and (name in WRAPPERS or name in EVALUATORS or name in EXECUTING):
            started = _started(command, name)
            found.commands += started
            texts += inner_lines([command, *started])
    for text in dict.fromkeys(texts if depth else ()):
        _read_into(found, read_command_line(text, windows=windows), depth - 1, windows=windows)
    if depth < _NESTING:
        return
    # Code is no shell line: what cannot be read in it hides nothing.
    for text in dict.fromkeys(text for each in tuple(found.commands) for text in _embedded(each, found.fed)):
        inner = read_command_line(text, windows=windows)
        found.commands += inner.commands
        found.redirections += inner.redirections


_FILES_FROM = re.compile(r"-\w*T|--files-from.*")
_NAME_TAKERS = {
    "xargs": re.compile(r""), "parallel": re.compile(r""), "cpio": re.compile(r""), "tar": _FILES_FROM,
    "bsdtar": _FILES_FROM, "rsync": re.compile(r"--files-from.*"),
}  # fmt: skip
"""Programs that take names of files from a list, with the option by which they do; those without always do."""
_SAYS = _table("echo printf true false test [ wc basename dirname kill")


def _taker_of_names(command: SimpleCommand, line: CommandLine) -> str:
    name = program_name(command.words[0]) if command.words else ""
    option = _NAME_TAKERS.get(name)
    if option is None or (option.pattern and not any(option.fullmatch(word) for word in command.words[1:])):
        return ""
    started = {program_name(each.words[0]) for each in _started(command, name)}
    if name == "parallel" and ":::" in command.words:
        return ""
    if not option.pattern and name != "cpio" and (not started or not started.isdisjoint(_SAYS)):
        return ""
    takes_file = any(re.match(r"-a|--arg-file|::::", word) for word in command.words[1:]) and not option.pattern
    return "" if not takes_file and not option.pattern and feeds_names(line, command) else name


def _without_names(command: SimpleCommand) -> SimpleCommand:
    words = tuple(map(_plain, command.words))
    return SimpleCommand(words, command.assignments, command.changing, command.piped)


def _plain(text: str) -> str:
    return text.replace(NAMES, "names")


def _later_texts(command: SimpleCommand) -> Iterator[str]:
    """Yield lines in substitutions that are quoted now, and that the shell evaluates later."""
    texts = list(command.assignments)
    if command.words and program_name(command.words[0]) in _LATER:
        texts += command.words[1:]
    for text in texts:
        if "`" in text:
            yield from back_ticked(text)
        for match in re.finditer(r"[$<>]\(", text):
            yield _balanced(text, match.end())


def _balanced(text: str, at: int) -> str:
    """The text up to the parenthesis that ends it, or to the end."""
    depth = 1
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return text[at:place]
    return text[at:]


def _embedded(command: SimpleCommand, fed: Sequence[str]) -> Iterator[str]:
    """Yield the commands for a shell in the code of a program."""
    name = program_name(command.words[0]) if command.words else ""
    if name not in _EMBEDS:
        return
    words = command.words
    texts = [*words[1:], *(fed if command.piped and name in INTERPRETERS else ())]
    if name in {"make", "gmake"} and command.piped:
        yield from (part for text in fed for part in re.split(r"[\t;]", text))
    for index, text in enumerate(texts):
        option, equals, value = text.partition("=")
        is_value = 0 < index < len(words) - 1 and _TAKES_COMMAND.fullmatch(words[index]) is not None
        if is_value and name not in INTERPRETERS:
            yield text.replace(",", " ") if words[index] == "-wrapper" else text
        yield from _joined(name, text)
        if equals and _TAKES_COMMAND.fullmatch(option):
            yield value
        for match in _BEHIND.finditer(text):
            yield from (part.strip("\"'") for part in match.groups() if part)
        if name in INTERPRETERS and _STARTS_SHELL.search(text):
            for match in _LITERAL.finditer(_BETWEEN.sub(" ", text)):
                yield next(part for part in match.groups() if part is not None)


def _joined(name: str, text: str) -> Iterator[str]:
    """Yield the command that a word of `sed` or `man` has within it."""
    if name == "sed":
        yield from (match[2] for match in _SED_RUNS.finditer(text))
    if name == "man" and text.startswith(("-H", "-P", "--html=")):
        yield text.removeprefix("--html=").removeprefix("-H").removeprefix("-P")


def takes_line(arguments: tuple[str, ...]) -> bool:
    """Return whether a shell gets a line to run, as with `-lc`, `-Command` or `/c`, and not a script's name."""
    return any(re.match(r"[-+/][A-Za-z]*c", argument, re.IGNORECASE) for argument in arguments)


def inner_lines(commands: list[SimpleCommand]) -> tuple[str, ...]:
    """Words of evaluators that may be shell lines themselves: those with white space or shell syntax in them."""
    texts: list[str] = []
    for command in commands:
        name, words = program_name(command.words[0]), command.words[1:]
        executes = not EXECUTING.get(name, frozenset()).isdisjoint(words)
        takes = name in EVALUATORS or executes or name in {"npx", "start-stop-daemon"}
        if not takes or (name in SHELLS and not takes_line(words)):
            continue
        if name == "eval" and not texts:
            texts.append(" ".join(words))
        for word in words:
            if not re.search(r"[\s;&|<>$`(]", word):
                continue
            if word.startswith("-"):
                texts += [word[2:], re.sub(r"^-\w+", "", word), word.partition("=")[2]]
            else:
                texts.append(
                    word.partition("=")[2] if name == "alias" else word.partition(":")[2] if name == "bind" else word
                )
    return tuple(text for text in dict.fromkeys(texts) if text.strip())


def _started(command: SimpleCommand, name: str) -> list[SimpleCommand]:
    """The commands that a wrapper may start."""
    words = command.words
    verbs = EXECUTING.get(name)
    first = 1
    if verbs is not None and name not in WRAPPERS:
        first = next((index + 1 for index, word in enumerate(words) if index and word in verbs), len(words))
    found = [
        SimpleCommand(
            words=words[start:],
            changing=frozenset(index - start for index in command.changing if index >= start),
            piped=command.piped,
        )
        for start in range(first, min(len(words), _SUFFIXES))
        if words[start] and not words[start].startswith("-") and not _ASSIGNMENT.match(words[start])
    ]
    if name not in JUST_START or not found:
        return found
    return (
        [found[0], *_started(found[0], inner)] if (inner := program_name(found[0].words[0])) in WRAPPERS else found[:1]
    )


_TEXT_RUNNERS = (
    EVALUATORS
    - SHELLS
    - _table(
        "env xargs script hyperfine flock sg runuser alias bind complete compgen mapfile readarray xterm tmux screen "
        "concurrently nodemon watchexec chokidar cross-env-shell"
    )
)
_NOT_A_COMMAND = re.compile(r"-|[A-Za-z_]\w*\+?=|[\d.]+[smhd]?$")


def _runs_unknown_text(command: SimpleCommand) -> bool:
    """Return whether the program that the command runs is known only at run time, as in `eval $X` or `env $X`."""
    name, words = program_name(command.words[0]), command.words
    if (name == "enable" and "-f" in words) or (name == "fc" and "-l" not in words):
        return True
    if not command.changing:
        return False
    if name in _TEXT_RUNNERS or name in {".", "source"}:
        return True
    first = next((i for i, word in enumerate(words) if i and not _NOT_A_COMMAND.match(word)), None)
    if name in SHELLS:
        return takes_line(words[1:]) or first in command.changing
    return name in STARTERS and first in command.changing


_ON_SCREEN = _table(
    "vi vim nvim view gvim vimdiff nano pico emacs emacsclient micro joe jed helix hx kak top htop btop tig gitui "
    "lazygit ranger ncdu k9s"
)
_UNATTENDED = _table(
    "-e -E -es -Es -s -b -batch --batch -script --script --headless --version --help -h -eval --eval -v -N"
)
"""Options with which some of them need no screen. Of those that mean something else to others it does no harm."""


def program_on_screen(line: str, *, windows: bool = False) -> str:
    """The first program of a line that draws on the whole screen and waits for keys; empty when there is none."""
    read = read_command_line(line, windows=windows)
    for command in effective_commands(read, windows=windows):
        name = program_name(command.words[0]) if command.words else ""
        if name in _ON_SCREEN and not command.piped and _UNATTENDED.isdisjoint(command.words[1:]):
            return command.words[0]
    return ""
