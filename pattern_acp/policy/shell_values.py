"""The texts that words with expansions may have when a line runs, as far as the line itself says.

Owns: variables that a line sets, braces, substitutions whose output is known, and those whose output is surely names
inside the folder. Must not know: which programs are dangerous, paths, modes. A word of which nothing is known stays
unknown: the callers ask about it.
"""

import fnmatch
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice, product
from posixpath import basename, dirname

from msgspec import Struct, field

from pattern_acp.policy.commands import Binding, CommandLine, Feature, SimpleCommand, read_command_line, unquote_ansi

_MOST_VALUES = 32
"""Most texts of one word, and most forms of one command, that are looked at; a word with more counts as unknown."""

_MOST_NESTED = 6
"""Depth to which variables in variables and substitutions in substitutions are followed."""

NAMES = "\x00"
"""Stands, in a text, for output of which only this is known: names inside the folder, words without a path, numbers."""

_OWN = frozenset(
    {"RANDOM", "LINENO", "SECONDS", "EPOCHSECONDS", "UID", "EUID", "PPID", "BASHPID", "?", "#", "!", "$", "-", "0"}
)
_POSITIONAL = frozenset({"@", "*", *"123456789"})
_EXPANSION = re.compile(r"\$(\{|\(\(|\(|\[|[A-Za-z_]\w*|[0-9@*#?$!-])|`")
_LEADS_UP = re.compile(rf"{NAMES}(?:.*/)?\.\.(?:/|$)", re.DOTALL)
_PARAMETER = re.compile(r"([#!]?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])(\[[^\]]*\])?(.*)", re.DOTALL)
_FORMAT = re.compile(r"%[-+ 0#]*\d*(?:\.\d+)?[sbqd]|%%")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LISTS_NAMES = _names("ls find fd fdfind rg grep egrep fgrep dir")
"""Programs whose output is names below the paths in their words, or lines of text with `grep` without `-l`."""
_PASSES_ON = _names("sort uniq head tail grep egrep fgrep tac shuf wc rev cut")
_TELLS_NUMBERS = _names(
    "nproc wc seq date expr arch uname whoami id getconf md5sum sha1sum sha256sum cksum stat uuidgen mktemp"
)
_GIT_TELLS_NAMES = _names("ls-files diff status show diff-tree diff-index ls-tree grep")
_GIT_TELLS_WORDS = _names(
    "rev-parse rev-list merge-base describe branch symbolic-ref hash-object write-tree log tag name-rev stash"
)
_UNSAFE_FILTER = re.compile(r"[\"'\x00]|sub\(|printf|system|getline|\\|/")
_PLAIN_SED = re.compile(r"-n|-E|-r|(?:\d+|\$)(?:,(?:\d+|\$))?[pqd]|s/(?:[^/\\]|\\[^/])*/[\w .-]*/[gI\d]*")


class Texts(Struct, frozen=True):
    """The texts of a word; `known` is False when it may also have others."""

    values: tuple[str, ...]
    known: bool = True


_UNKNOWN = Texts((), known=False)


class _Values(Struct):
    """The variables of a line while its words are worked out."""

    bindings: tuple[Binding, ...]
    depth: int = 0
    memory: dict[str, Texts] = field(default_factory=dict[str, Texts])


_EXPANDED = frozenset({Feature.EXPANSION, Feature.SUBSTITUTION, Feature.BRACES, Feature.PROCESS_SUBSTITUTION})


def unknown_words(line: CommandLine) -> frozenset[str]:
    """Return the words and targets of a line of which it is not known what they are when it runs."""
    return _worked_out(line)[1]


def known_forms(line: CommandLine) -> tuple[SimpleCommand, ...]:
    """Return the commands of a line with expansions instead of which their texts are known."""
    return _worked_out(line)[0]


def known_targets(line: CommandLine) -> tuple[tuple[str, bool, str], ...]:
    """Return operator, whether it is known, and text for each redirection whose target holds expansions."""
    values = _Values(_bindings(line))
    found: list[tuple[str, bool, str]] = []
    for redirection in line.redirections:
        if _EXPANSION.search(redirection.target):
            texts = _texts(redirection.target, values)
            found += [(redirection.operator, texts.known, text) for text in texts.values or (redirection.target,)]
    return tuple(found)


@lru_cache(maxsize=1_024)
def _worked_out(line: CommandLine) -> tuple[tuple[SimpleCommand, ...], frozenset[str]]:
    if line.features.isdisjoint(_EXPANDED):
        return (), frozenset()
    values = _Values(_bindings(line))
    forms: list[SimpleCommand] = []
    unknown: set[str] = set()
    has_braces = Feature.BRACES in line.features
    for command in line.commands:
        if not command.changing and not has_braces:
            continue
        choices: list[tuple[tuple[str, ...], ...]] = []
        for index, word in enumerate(command.words):
            pieces = expanded_braces(word) if has_braces else (word,)
            texts = [_texts(piece, values) for piece in pieces] if index in command.changing else []
            if any(not each.known for each in texts):
                unknown.add(word)
            forms_of_word = [form for each in texts for text in each.values for form in _as_words(text)]
            choices.append(
                tuple(dict.fromkeys(forms_of_word if len(pieces) == 1 else [*forms_of_word, pieces])) or (pieces,)
            )
        forms += _forms(command, choices)
    for redirection in line.redirections:
        if _EXPANSION.search(redirection.target) and not _texts(redirection.target, values).known:
            unknown.add(redirection.target)
    return tuple(dict.fromkeys(forms)), frozenset(unknown)


def _as_words(text: str) -> Iterator[tuple[str, ...]]:
    """Yield a text as one word, and as the words that the shell makes of it where it is not quoted."""
    yield (text,)
    if text.split() != [text]:
        yield tuple(text.split())


def _forms(command: SimpleCommand, choices: Sequence[Sequence[tuple[str, ...]]]) -> Iterator[SimpleCommand]:
    for chosen in islice(product(*choices), _MOST_VALUES):
        words = tuple(word for part in chosen for word in part)
        if words and words != command.words:
            yield SimpleCommand(words, command.assignments, frozenset(), command.piped)


def expanded_braces(word: str) -> tuple[str, ...]:
    """The words that a shell makes of one with braces; ranges are their first and last."""
    match = re.search(r"(?<!\$)\{([^{}]*(?:,|\.\.)[^{}]*)\}", word)
    if match is None:
        return (word,)
    inside = match[1]
    parts = inside.split(",") if "," in inside else inside.split("..")[:2]
    pieces = [end for part in parts for end in expanded_braces(word[: match.start()] + part + word[match.end() :])]
    return tuple(pieces[:_MOST_VALUES])


def _bindings(line: CommandLine) -> tuple[Binding, ...]:
    """The variables of a line, with those that builtins set."""
    found = list(line.bindings)
    for command in line.commands:
        name = command.words[0] if command.words else ""
        rest = [word for word in command.words[1:] if not word.startswith("-")]
        if name == "set":
            words = command.words[command.words.index("--") + 1 :] if "--" in command.words else tuple(rest)
            found.append(Binding("@", words))
        elif name in {"read", "mapfile", "readarray", "getopts"}:
            fed = tuple(part for text in line.fed for part in (text, *text.split()))
            told = () if fed else _names_before(line)
            found += [Binding(word, fed or told) for word in (rest if name == "read" else rest[-1:])]
            found.append(Binding({"read": "REPLY"}.get(name, "MAPFILE"), fed or told))
        elif name == "printf" and "-v" in command.words[:2] and len(command.words) > 3:
            found.append(Binding(command.words[2], _printed(tuple(word for word in command.words[3:] if word != "--"))))
    return tuple(found)


def _names_before(line: CommandLine) -> tuple[str, ...]:
    """Return what `read` reads: names, when all that the line begins with tells names."""
    before: list[SimpleCommand] = []
    for command in line.commands:
        if command.words and command.words[0] in {"read", "mapfile", "readarray"}:
            break
        before.append(command)
    is_fed_otherwise = any(not redirection.writes for redirection in line.redirections)
    return (NAMES,) if before and not is_fed_otherwise and _tell_names(before) else ()


def _printed(words: Sequence[str]) -> tuple[str, ...]:
    if not words or "$" in "".join(words):
        return ()
    form, rest = unquote_ansi(words[0]), list(words[1:])
    return (_FORMAT.sub(lambda match: "%" if match[0] == "%%" else (unquote_ansi(rest.pop(0)) if rest else ""), form),)


def _texts(word: str, values: _Values) -> Texts:
    """The texts of a word: each of its expansions instead of what it may come to."""
    parts: list[tuple[str, ...]] = []
    known, at = True, 0
    if values.depth > _MOST_NESTED:
        return _UNKNOWN
    while match := _EXPANSION.search(word, at):
        parts.append((word[at : match.start()],))
        texts, at = _expansion(word, match, values)
        known = known and texts.known
        parts.append(texts.values)
    parts.append((word[at:],))
    combined = tuple(dict.fromkeys("".join(each) for each in islice(product(*parts), _MOST_VALUES + 1)))
    if len(combined) > _MOST_VALUES:
        return _UNKNOWN
    # A name inside may be a folder, or the top of the repository, so `..` behind it leads anywhere.
    return Texts(combined, known and not any(_LEADS_UP.search(text) for text in combined))


def _expansion(word: str, match: re.Match[str], values: _Values) -> tuple[Texts, int]:
    opening = match[1]
    if opening is None:  # a back-tick
        end = re.compile(r"(?:[^`\\]|\\.)*`", re.DOTALL).match(word, match.end())
        text = word[match.end() : end.end() - 1] if end else ""
        return (_output(re.sub(r"\\([`$\\])", r"\1", text), values), end.end()) if end else (_UNKNOWN, len(word))
    if opening in {"{", "(", "((", "["}:
        end = _closing(
            word, match.end(), {"{": "}", "[": "]"}.get(opening, ")"), len(opening) if opening[0] == "(" else 1
        )
        inside = word[match.end() : end - (2 if opening == "((" else 1)]
        if opening == "{":
            return _parameter(inside, values), end
        return (_output(inside, values) if opening == "(" else Texts((NAMES,))), end
    return _variable(opening, values), match.end()


def _closing(word: str, at: int, closing: str, depth: int) -> int:
    """The place behind the bracket that ends an expansion; quotes are not read, so a stray one ends it early."""
    opening = {"}": "{", "]": "[", ")": "("}[closing]
    while at < len(word):
        if word[at] == "\\":
            at += 1
        elif word[at] == opening:
            depth += 1
        elif word[at] == closing:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return len(word) + 1


def _variable(name: str, values: _Values) -> Texts:
    if name in {"PWD", "!"}:
        return Texts(("." if name == "PWD" else "$!",))
    if name in values.memory:
        return values.memory[name]
    values.memory[name] = _UNKNOWN  # of one that is set on its own nothing is known
    of_name = "@" if name in _POSITIONAL else name
    found: list[str] = []
    known, is_set = True, False
    values.depth += 1
    for binding in values.bindings:
        if binding.name != of_name:
            continue
        is_set = True
        texts = [_texts(word, values) for word in binding.words]
        known = known and bool(texts) and all(each.known for each in texts)
        new = [value for each in texts for value in each.values]
        if of_name == "@" and name in "@*":
            new.append(" ".join(new))
        if binding.is_more:
            new += [before + value for before in found for value in new]
        found += new
    values.depth -= 1
    if not is_set:
        known = name in _OWN or name in _POSITIONAL
        found = [NAMES] if known else []
    result = Texts(tuple(dict.fromkeys(found)), known) if len(found) <= _MOST_VALUES else _UNKNOWN
    values.memory[name] = result
    return result


def _parameter(inside: str, values: _Values) -> Texts:
    """The texts of `${…}`."""
    match = _PARAMETER.fullmatch(inside)
    if match is None:
        return _UNKNOWN
    sign, name, index, operator = match.groups()
    if sign == "#":
        return Texts((NAMES,))
    texts = _variable(name, values)
    if sign == "!":
        if not texts.known or operator:
            return _UNKNOWN
        followed = [_variable(value, values) for value in texts.values if re.fullmatch(r"\w+", value)]
        return Texts(tuple(value for each in followed for value in each.values), all(each.known for each in followed))
    if not operator or (index and operator == ""):
        return texts
    return _operated(name, operator, texts, values)


def _operated(name: str, operator: str, texts: Texts, values: _Values) -> Texts:
    fallback = re.match(r":?([-=+?])(.*)", operator, re.DOTALL)
    if fallback:
        other = _texts(fallback[2].strip("\"'"), values)
        is_set = any(binding.name == name for binding in values.bindings)
        if fallback[1] == "?":
            return texts
        if fallback[1] == "+":
            return other
        if is_set:
            return Texts((*texts.values, *other.values), texts.known and other.known)
        # The variable may come from outside the line.
        return Texts((*texts.values, *other.values), texts.known)
    if name == "PWD" or not texts.known:
        return _UNKNOWN
    results = [_operated_text(value, operator) for value in texts.values]
    if any(result is None for result in results):
        return _UNKNOWN
    return Texts(tuple(dict.fromkeys(result for result in results if result is not None)))


def _operated_text(value: str, operator: str) -> str | None:
    """The text of a value behind an operator of `${x…}`; None when that is not known."""
    if re.fullmatch(r"[,^]{1,2}[\w?*\[\]-]*|@[QULuEAKak]", operator):
        if operator == "@E":
            return unquote_ansi(value)
        return value.upper() if "^" in operator or operator == "@U" else value.lower() if "," in operator else value
    if NAMES in value:
        return NAMES if _keeps_names(operator) else None
    trimmed = re.fullmatch(r"(##?|%%?)(.*)", operator, re.DOTALL)
    if trimmed:
        return _trimmed(value, trimmed[1], trimmed[2].replace("\\", "")) if "$" not in trimmed[2] else None
    part = re.fullmatch(r":\s*(-?\d+)(?::\s*(-?\d+))?", operator)
    if part:
        begin, length = int(part[1]), int(part[2]) if part[2] is not None else None
        rest = value[begin:]
        return rest if length is None else rest[:length]
    changed = re.fullmatch(r"/([/#%]?)((?:[^/\\]|\\.)*)(?:/(.*))?", operator, re.DOTALL)
    if changed and "$" not in operator and "`" not in operator:
        pattern = _regular(changed[2].replace("\\", ""))
        return re.sub(pattern, (changed[3] or "").replace("\\", "\\\\"), value, count=0 if changed[1] == "/" else 1)
    return None


def _keeps_names(operator: str) -> bool:
    """Return whether a name inside the folder is still one behind the operator."""
    if operator in {"##*/", "%/*", "%/"}:
        return True
    # The end of a name removed, its beginning up to a slash, or an ending instead of another.
    return re.fullmatch(r"%%?[\w.-][^/$`]*|#[\w./-]*/|/[#%]?\.?[\w.-]+/[\w.-]+", operator) is not None


def _trimmed(value: str, side: str, pattern: str) -> str:
    matches = re.compile(_regular(pattern)).fullmatch
    places = range(len(value) + 1)
    if side[0] == "#":
        found = [at for at in places if matches(value[:at])]
        return value[(max if side == "##" else min)(found) :] if found else value
    found = [at for at in places if matches(value[at:])]
    return value[: (min if side == "%%" else max)(found)] if found else value


def _regular(pattern: str) -> str:
    return fnmatch.translate(pattern).removesuffix(r"\Z").removesuffix(r"\z")


def _output(text: str, values: _Values) -> Texts:
    """The output of a substitution, as far as it is known."""
    if values.depth > _MOST_NESTED:
        return _UNKNOWN
    line = read_command_line(text.strip())
    if not line.parse_ok or not line.commands or any(redirection.writes for redirection in line.redirections):
        return _UNKNOWN
    values.depth += 1
    try:
        if len(line.commands) == 1 and line.commands[0].words:
            told = _told(line.commands[0], values)
            if told is not None:
                return told
    finally:
        values.depth -= 1
    return Texts((NAMES,)) if not line.redirections and not line.fed and _tell_names(line.commands) else _UNKNOWN


def _told(command: SimpleCommand, values: _Values) -> Texts | None:
    """The output of a command that only says its words; None for others."""
    name, words = command.words[0], command.words[1:]
    if name in {"pwd", "jobs"}:
        return Texts(("." if name == "pwd" else "%1",))
    if name not in {"echo", "printf", "basename", "dirname", "realpath", "readlink"}:
        return None
    arguments = [_texts(word, values) for word in words]
    if any(not each.known for each in arguments) or any("*" in word or "?" in word for word in words):
        return _UNKNOWN
    said: list[str] = []
    for chosen in islice(product(*(each.values for each in arguments)), _MOST_VALUES):
        plain = [word for word in chosen if not word.startswith("-")]
        if name == "echo":
            text = " ".join(word for index, word in enumerate(chosen) if index or not re.fullmatch("-[neE]+", word))
            said += [text, unquote_ansi(text)]
        elif name == "printf":
            said += _printed(chosen) or (text for text in ())
        elif not plain:
            return _UNKNOWN
        elif name == "basename":
            said.append(basename(plain[0]).removesuffix(plain[1] if len(plain) > 1 else "") or "/")
        else:
            shape = dirname if name == "dirname" else _same
            if any(word in {".", "..", "/", ""} for word in plain) and name == "dirname":
                return _UNKNOWN
            said += [shape(word) or "." for word in plain]
    return Texts(tuple(dict.fromkeys(said))) if len(said) <= _MOST_VALUES else _UNKNOWN


def _same(text: str) -> str:
    return text


def _tell_names(commands: Sequence[SimpleCommand]) -> bool:
    """Return whether the output of a pipeline is surely names inside the folder, numbers or words without a path."""
    if not commands:
        return False
    first, *rest = commands
    return _tells(first) and all(_passes_on(command) or _tells(command) for command in rest)


def _tells(command: SimpleCommand) -> bool:
    if not command.words or command.changing or command.assignments:
        return False
    name, words = command.words[0], command.words[1:]
    if any(re.search(r"^[/~]|(?:^|[/=])\.\.|[=+:,]/|\\", word) for word in words) and name not in {"rg", "grep"}:
        return False
    if name == "git":
        verb = next((word for word in words if not word.startswith("-")), "")
        if verb in _GIT_TELLS_NAMES:
            return verb != "show" or any(word.startswith("--name") for word in words)
        return verb in _GIT_TELLS_WORDS and not any("--format" in word and "%" not in word for word in words)
    if name in {"grep", "egrep", "fgrep", "rg"}:
        lists = any(re.match(r"-[a-zA-Z]*[lLc]|--files", word) for word in words)
        return lists and not any(re.match(r"[/~]|\.\.", word) for word in words[1:])
    if name in {"find", "fd", "fdfind"}:
        return not any(re.match(r"-(?:printf|exec|ok|fprint|x|X)|--exec", word) for word in words)
    if name in {"lsof", "pgrep", "pidof"}:
        return True
    return name in _LISTS_NAMES or name in _TELLS_NUMBERS or name in {"echo", "printf"}


def _passes_on(command: SimpleCommand) -> bool:
    if not command.words or command.changing:
        return False
    name, words = command.words[0], command.words[1:]
    if not command.piped:
        return False
    if name in {"awk", "gawk"}:
        return len(words) == 1 and _UNSAFE_FILTER.search(words[0]) is None
    if name == "sed":
        return bool(words) and all(_PLAIN_SED.fullmatch(word) for word in words)
    if name == "tr":
        return not any("/" in word or "~" in word or "." in word for word in words)
    return name in _PASSES_ON and not any(re.match(r"[/~]|\.\.", word) for word in words)


def feeds_names(line: CommandLine, before: SimpleCommand) -> bool:
    """Return whether what a command of a pipeline reads is surely names inside the folder."""
    commands: list[SimpleCommand] = []
    for command in line.commands:
        if command == before:
            break
        commands = [*commands, command] if command.piped else [command]
    return bool(commands) and before.piped and not line.fed and _tell_names(commands)
