"""Paths of a shell line: the words that are or may be paths, and the files that it plainly changes.

Owns: the reading of words as paths. Must not know: grants, modes, files (the caller passes a `Resolver`). It errs on
the side of seeing a path where there is none, since the price is one question.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct, field

from pattern_acp.domain.errors import PatternError
from pattern_acp.policy.commands import CommandLine, Feature, SimpleCommand, expand_braces
from pattern_acp.policy.nested_lines import WholeLine, effective_commands, whole_line
from pattern_acp.policy.paths import (
    Protection,
    Resolver,
    folder_of,
    is_inside_any,
    is_windows_path,
    protection,
    protection_of_names,
    resolve_by_text,
)
from pattern_acp.policy.programs import INTERPRETERS, SHELLS, program_name

_HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/zero", "/dev/urandom", "NUL"})
_HOME = re.compile(r"~[\w.+-]*(?:/|\\|$)")
_URL = re.compile(r"(?:--?[\w-]+=)?(?!file:)[A-Za-z][A-Za-z0-9+.-]*://")
_CODE_PATH = re.compile(r"""(?:^|[\s"'`(\[{=,<>+])(~?/[\w.~-][^\s"'`)\]},;]*|\.\.[/\\][^\s"'`)\]},;]*)""")
_SED_FILE = re.compile(r"(?:^|[;{}\s\d$/])[rRwW]\s*((?:/|~|\.)[^\s;}]*)")
_STRING = re.compile(r"\"([^\"\n\s]+)\"|'([^'\n\s]+)'")
_ROOTED = re.compile(
    r"~|\.\.(?:/|$)|/(?:bin|boot|dev|etc|home|lib|lib64|media|mnt|opt|private|proc|root|run|sbin|srv|sys|tmp|usr|var|"
    r"Applications|Library|System|Users|Volumes)(?:/|$)|[A-Za-z]:\\"
)
"""Beginnings of paths in code, where a text such as `/api/v1` is rather an address than a file."""
_SEARCHED = frozenset({"PATH", "MANPATH", "PS1"})
"""Variables with lists of folders in which only programs are searched; those are judged on their own."""
_ECHOES = frozenset({"echo", "printf"})
_NO_FILES = _ECHOES | frozenset(
    {"test", "[", "[[", "sleep", "exit", "return", "seq", "expr", "true", "false", ":", "kill", "wait", "shift", "read"}
)
"""Commands whose words are no files, so that one that is not known leads nowhere."""
_RUN_CODE = INTERPRETERS - SHELLS
_TAKE_INPUT = (
    _RUN_CODE | SHELLS | frozenset({"xargs", "parallel", "read", "mapfile", "readarray", "source", ".", "cpio"})
)
_FOLDER_OPTIONS = frozenset(
    {"-C", "--directory", "--cwd", "--prefix", "--git-dir", "--work-tree", "--project", "--chdir"}
)
_CHANGES_FOLDER = frozenset({"cd", "pushd", "chdir", "set-location", "sl"})
_MOST_FOLDERS = 32
_MOST_QUESTIONS = 2_000
"""Limit on disk look-ups for one line; a line that needs more asks the user."""
_TOO_MANY = "(more paths than are checked)"


class CommandTarget(Struct, frozen=True):
    """A word that may be a path: as written, and the path it leads to; `resolved` is None when that is unknown."""

    word: str
    resolved: str | None


class _Search(Struct):
    """State of the walk through the words of a line."""

    line: CommandLine
    resolve: Resolver
    windows: bool
    folders: list[str]
    questions: int = 0
    seen: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])


def outside_paths(targets: Iterable[CommandTarget], roots: Sequence[str]) -> tuple[str, ...]:
    """The words that lead, or may lead, out of `roots`, as written and each once."""
    outside = (item.word for item in targets if item.resolved is None or not is_inside_any(item.resolved, roots))
    return tuple(dict.fromkeys(outside))


def protected_words(targets: Iterable[CommandTarget], roots: Sequence[str]) -> tuple[tuple[str, Protection], ...]:
    """The words that lead to protected paths, with the reason; whether the line would read or write is not known."""
    found: dict[str, Protection] = {}
    for item in targets:
        reason = protection(item.resolved, roots) if item.resolved is not None else None
        reason = reason or protection_of_names([part for part in re.split(r"[\\/]", item.word) if part])
        if reason is not None:
            found.setdefault(item.word, reason)
    return tuple(found.items())


def command_targets(line: CommandLine, cwd: str, resolve: Resolver | None = None) -> tuple[CommandTarget, ...]:
    """Return every word of a line that may be a path, including those of nested commands. `cwd` is absolute.

    A change of folder may or may not happen, so each later word is looked up from every folder the line may be in.
    """
    windows = is_windows_path(cwd)
    search = _Search(line, resolve or resolve_by_text, windows, [cwd])
    words = _words(line, windows=windows)
    repeats = not line.features.isdisjoint({Feature.CONTROL_FLOW, Feature.FUNCTION})
    unknown = [word for word in words if word.moves and (word.changing or (repeats and ".." in word.text))]
    found = [CommandTarget(word.text, None) for word in unknown]
    # Collect the possible folders first: a loop, a redirection or a function may use a folder before it is named.
    for word in (*(word for word in words if word.moves), *words):
        found += _look_up(word, search)
        if search.questions > _MOST_QUESTIONS or len(search.folders) > _MOST_FOLDERS:
            return (*found, CommandTarget(_TOO_MANY, None))
    return tuple(dict.fromkeys(found))


class _Word(Struct, frozen=True):
    """One word to look at. `changing`: its text is only known at run time; `moves`: it may become the folder."""

    text: str
    changing: bool = False
    moves: bool = False


@lru_cache(maxsize=256)
def _words(line: CommandLine, *, windows: bool) -> tuple[_Word, ...]:
    return tuple(_each_word(line, windows=windows))


def _each_word(line: CommandLine, *, windows: bool) -> Iterator[_Word]:
    whole = whole_line(line, windows=windows)
    takes_input = any(
        command.piped and program_name(command.words[0]) in _TAKE_INPUT for command in whole.commands if command.words
    )
    for command in whole.commands:
        for variable, _, value in (assignment.partition("=") for assignment in command.assignments):
            if variable not in _SEARCHED:
                yield from _assigned_words(value)
        if command.words and (takes_input or program_name(command.words[0]) not in _ECHOES):
            yield from _command_words(command, whole)
    for redirection in whole.redirections:
        yield _Word(redirection.target, changing=redirection.target in whole.unknown)
    if any(
        command.piped and program_name(command.words[0]) in _RUN_CODE for command in whole.commands if command.words
    ):
        yield from (_Word(path) for text in whole.fed for path in _paths_in_code(text))


def _assigned_words(value: str) -> Iterator[_Word]:
    texts = value.strip("()").split() if value.startswith("(") else (value,)
    yield from (_Word(text.strip("\"'")) for text in texts)


def _command_words(command: SimpleCommand, whole: WholeLine) -> Iterator[_Word]:
    name, words = program_name(command.words[0]), command.words
    if "/" in words[0]:
        yield _Word(words[0], changing=words[0] in whole.unknown)
    goes_back = name == "popd" and any(other.words[:1] == ("pushd",) for other in whole.commands)
    if name in _CHANGES_FOLDER | {"popd"} and not goes_back and (len(words) == 1 or words[1] == "-"):
        yield _Word("~", moves=True)
    texts = _text_indexes(name, words)
    for index, word in enumerate(words[1:], start=1):
        changing = index in command.changing and word in whole.unknown and name not in _NO_FILES
        moves = name in _CHANGES_FOLDER or words[index - 1] in _FOLDER_OPTIONS
        if index not in texts and word.partition("=")[0] not in _SEARCHED:
            yield _Word(word, changing=changing, moves=moves)
        if name in INTERPRETERS and re.search(r"[\s\"'(;/]", word):
            yield from (_Word(match[1]) for match in _CODE_PATH.finditer(word) if _ROOTED.match(match[1]))
            yield from (_Word(match[1]) for match in _SED_FILE.finditer(word) if name == "sed")
            yield from map(_Word, _paths_in_code(word))


def _paths_in_code(text: str) -> Iterator[str]:
    """Yield the strings of a program that are paths: those that begin at a root, and those of protected files."""
    for match in _STRING.finditer(text):
        literal = match[1] or match[2]
        if _ROOTED.match(literal) or protection_of_names([part for part in re.split(r"[\\/]", literal) if part]):
            yield literal


_EXPRESSIONS = {
    "grep": ("ABCmdDe", "e", "f"), "egrep": ("ABCmdDe", "e", "f"), "fgrep": ("ABCmdDe", "e", "f"),
    "rg": ("ABCmegtTEMrjd", "e", "f"), "ag": ("ABCmG", "", ""), "ack": ("ABCm", "", ""), "sed": ("e", "e", "f"),
    "awk": ("F", "", "f"), "gawk": ("F", "e", "f"), "mawk": ("F", "", "f"), "nawk": ("F", "", "f"),
    "cut": ("dfbc", "", ""),
}  # fmt: skip
"""Programs with a pattern or a script: their options with a value that is no file, of those the ones that hold it, and
those that name a file with it."""
_MESSAGES = frozenset({"-m", "-am", "--message", "--body", "--title", "--grep", "--author", "--format", "--date"})
_LONG = re.compile(r"--(?:regexp|expression|include|exclude|exclude-dir|glob|iglob|type|type-not|color)\b")


def _text_indexes(name: str, words: tuple[str, ...]) -> frozenset[int]:
    """The indexes of words that are patterns, scripts and messages, and so no paths."""
    if name == "tr":
        return frozenset(range(1, len(words)))
    if name in {"git", "gh", "glab"}:
        return frozenset(index for index in range(1, len(words)) if words[index - 1] in _MESSAGES)
    if name not in _EXPRESSIONS:
        return frozenset()
    texts: set[int] = set()
    has_pattern, at = name == "cut", 1
    while at < len(words):
        if (word := words[at]) == "--":
            rest = () if has_pattern else (at + 1,)
            return frozenset({*texts, *rest})
        value, holds_pattern = _option_value(word, *_EXPRESSIONS[name])
        has_pattern = has_pattern or holds_pattern
        if value is not None:
            is_file, is_apart = value
            texts |= set() if is_file else {at + is_apart}
            at += is_apart
        elif not has_pattern and not word.startswith("-"):
            texts.add(at)
            has_pattern = True
        at += 1
    return frozenset(texts)


def _option_value(word: str, with_value: str, of_pattern: str, of_file: str) -> tuple[tuple[bool, bool] | None, bool]:
    """Tell of an option whether it has a value (a file, in a word of its own), and whether that is the pattern."""
    if word.startswith("--"):
        is_pattern = word.startswith(("--regexp", "--expression", "--file"))
        return ((False, "=" not in word) if _LONG.match(word) else None), is_pattern
    letters = re.fullmatch(r"-([A-Za-z]+)(.*)", word, re.DOTALL)
    taking = re.search(f"[{with_value}{of_file}]", letters[1]) if letters else None
    if letters is None or taking is None:
        return None, False
    is_apart = taking.end() == len(letters[1]) and not letters[2]
    return (taking[0] in of_file, is_apart), taking[0] in of_pattern + of_file


def _look_up(word: _Word, search: _Search) -> Iterator[CommandTarget]:
    if word.changing:
        yield CommandTarget(word.text, None)
    is_known, pieces = _pieces_of_word(word.text, windows=search.windows)
    if not is_known:
        yield CommandTarget(word.text, None)
    for piece in pieces:
        question = (piece, len(search.folders))
        if piece in _HARMLESS or (question in search.seen and not word.moves):
            continue
        search.seen.add(question)
        if _HOME.match(piece):
            yield CommandTarget(piece, None)
            continue
        search.questions += len(search.folders)
        if search.questions > _MOST_QUESTIONS:
            return
        places = [_resolved(piece, folder, search) for folder in search.folders]
        yield from (CommandTarget(piece, place) for place in places)
        if word.moves:
            search.folders += [place for place in dict.fromkeys(places) if place and place not in search.folders]


def _resolved(piece: str, folder: str, search: _Search) -> str | None:
    """Resolve a path; None if the resolver refuses it.

    POSIX follows a link before it takes `..` away, so `link/../x` is looked up step by step; Windows takes it by text.
    """
    try:
        if search.windows or "/.." not in piece:
            return search.resolve(piece, folder)
        place, pending = ("/" if piece.startswith("/") else folder), ""
        for part in piece.split("/"):
            if part == "..":
                place = folder_of(search.resolve(pending or ".", place))
                pending = ""
            elif part:
                pending = f"{pending}/{part}" if pending else part
        return search.resolve(pending or ".", place)
    except PatternError:
        return None


@lru_cache(maxsize=4_096)
def _pieces_of_word(word: str, *, windows: bool) -> tuple[bool, tuple[str, ...]]:
    """Tell whether the texts that a word stands for are known, and the parts of each that may be paths."""
    texts = expand_braces(word)
    parts = (piece for text in texts or (word,) for piece in _pieces(text, windows=windows))
    return texts is not None, tuple(dict.fromkeys(parts))


def _pieces(text: str, *, windows: bool) -> Iterator[str]:
    """The parts of a word that may be paths of their own: behind options, `=`, `:`, `,` and `@`."""
    if not text.strip() or (_URL.match(text) and ".." not in text):
        return
    if not text.startswith("-"):
        yield text
    elif len(text) > 2 and text[1] != "-":
        yield text[2:]
    colon = r"(?<!^[A-Za-z]):" if windows else ":"
    for part in re.split(r"[=,@;|]", text):
        for piece in re.split(colon, part):
            if piece.strip() and piece != text and not piece.startswith("-"):
                yield piece


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
"""Programs that change the files they name if one of their words matches."""

_COMMANDS = {"git": frozenset(("mv", "rm", "checkout", "restore")), "ruff": frozenset(("format",))}
"""Programs that change the files named after one of these subcommands."""

_LAST = frozenset(("cp", "install", "ln", "copy"))
"""Programs that change the file that they name last."""


def changed_files(line: CommandLine, cwd: str) -> tuple[str, ...]:
    """Return the absolute paths of the files a line changes, each once; `cwd` is absolute. Links are not followed."""
    windows = is_windows_path(cwd)
    redirections = whole_line(line, windows=windows).redirections
    named = {redirection.target for redirection in redirections if redirection.writes}
    for command in effective_commands(line, windows=windows):
        named.update(_changed_words(command))
    if not named:
        return ()
    # The search knows the folder of each word, and which word is a pattern.
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
