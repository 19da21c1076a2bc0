"""Parses a shell line into simple commands, and lists its other features.

Owns: the decision when a line counts as read. Must not know: which commands are dangerous, which are allowed, or any
path. No allowance for a prefix covers a line with a feature (issue 2 section 9), so two readers have to agree on the
words of every line that is covered: tree-sitter-bash and the standard library's shlex.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace


class Feature(StrEnum):
    """Parts of a line besides plain simple commands. The value is its name in a reason."""

    SUBSTITUTION = "a command substitution"
    PROCESS_SUBSTITUTION = "a process substitution"
    HERE_DOCUMENT = "a here-document"
    FILE_REDIRECTION = "a redirection to or from a file"
    BACKGROUND = "a background command"
    SUBSHELL = "a subshell or group"
    FUNCTION = "a function or alias definition"
    CONTROL_FLOW = "a loop, condition or test"
    EXPANSION = "a variable or arithmetic expansion"
    BRACES = "a brace expansion"
    GLOB = "a file pattern, which may turn into an option or a link"
    ASSIGNMENT = "an environment assignment"
    ENCODED_TEXT = "encoded text"
    COMMENT = "a comment"
    SEVERAL_LINES = "more than one line"
    BROKEN_WORD = "a word that continues in the next line"
    CHANGING_COMMAND = "a command name that is only known when it runs"
    FOREIGN_COMMAND = "a command name with letters that are not ASCII"
    CONTROL_CHARACTER = "a control character"
    INVISIBLE_CHARACTER = "an invisible or misleading character"
    OTHER_SHELL = "text that the Windows shell reads in another way"
    AMBIGUOUS = "text that two readers split differently"
    OTHER_SYNTAX = "syntax that is not understood"
    TOO_LONG = "more text than is read"
    UNREADABLE = "text that is not a complete shell line"
    NO_GRAMMAR = "no grammar to read it with"


HIDING = frozenset(
    {
        Feature.FUNCTION, Feature.BROKEN_WORD, Feature.CHANGING_COMMAND, Feature.FOREIGN_COMMAND,
        Feature.CONTROL_CHARACTER, Feature.INVISIBLE_CHARACTER, Feature.OTHER_SHELL, Feature.OTHER_SYNTAX,
        Feature.TOO_LONG, Feature.UNREADABLE, Feature.NO_GRAMMAR,
    }
)  # fmt: skip
"""Features that hide which commands a line runs: such a line asks even in `auto`."""


class Redirection(Struct, frozen=True):
    """One redirection: operator and target as the shell would see it. Harmless ones are left out of a line."""

    operator: str
    target: str

    @property
    def writes(self) -> bool:
        """Return whether it can change the target."""
        return ">" in self.operator


class SimpleCommand(Struct, frozen=True):
    """One simple command. Words have their quotes removed; expansions stay as written.

    `changing` are the indexes of words that contain an expansion or substitution. `piped`: it reads the output of
    another command of the line, or a here-document.
    """

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    changing: frozenset[int] = frozenset()
    piped: bool = False


class Binding(Struct, frozen=True):
    """A variable that a line sets, with the words it may get; none stands for a value of which nothing is known."""

    name: str
    words: tuple[str, ...] = ()
    is_more: bool = False
    """True when the words go behind what the variable has (`+=`)."""


class CommandLine(Struct, frozen=True):
    """A parsed line: every simple command at any depth, in source order, and its other features."""

    text: str
    commands: tuple[SimpleCommand, ...]
    redirections: tuple[Redirection, ...] = ()
    features: frozenset[Feature] = frozenset()
    parse_ok: bool = True
    bindings: tuple[Binding, ...] = ()
    fed: tuple[str, ...] = ()
    """Texts of here-documents and here-strings."""
    evaluated: tuple[str, ...] = ()
    """Lines in back-ticks of here-documents, which the shell runs as it reads the text."""

    @property
    def is_hiding(self) -> bool:
        """Return whether the commands that run cannot be determined."""
        return not self.parse_ok or not self.features.isdisjoint(HIDING)


_SIMPLE_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_BRACES = re.compile(r"\{([^{}]*)\}")
_SEQUENCE = re.compile(r"(?:-?\d+\.\.-?\d+|[A-Za-z]\.\.[A-Za-z])(?:\.\.-?\d+)?")
_OPEN, _CLOSE = "\x00", "\x01"  # stand for braces that expand to nothing while the others are expanded
_BRACE_LIMIT = 64
"""Limit on the words one brace expression expands to; a line that makes more counts as unread and asks."""


def unquote_word(text: str) -> str:
    """Unquote an unquoted word: a backslash keeps the next character and vanishes before a line end."""
    return re.sub(r"\\(.)", lambda match: "" if match[1] == "\n" else match[1], text, flags=re.DOTALL)


def unquote_double(text: str) -> str:
    """Unquote the inside of double quotes; expansions stay as written."""
    return re.sub(r'\\([$`"\\\n])', lambda match: "" if match[1] == "\n" else match[1], text)


def unquote_ansi(text: str) -> str:
    r"""Unquote the inside of `$'…'`, such as `rm` for `\x72\155`."""
    return _ANSI_ESCAPE.sub(_ansi_character, text)


def _ansi_character(match: re.Match[str]) -> str:
    two, four, eight, octal, control, simple = match.groups()
    if two or four or eight:
        number = int(two or four or eight, 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if octal:
        return chr(int(octal, 8) & 0xFF)
    if control:
        return chr(ord(control) & 0x1F)
    return _SIMPLE_ESCAPES.get(simple, simple)


def back_ticked(text: str) -> list[str]:
    """The lines between unescaped back-ticks of a text; one that does not end goes to the end."""
    found = re.findall(r"(?<!\\)(?:\\\\)*`((?:[^`\\]|\\.)*)(?:`|$)", text, flags=re.DOTALL)
    return [re.sub(r"\\([`$\\])", r"\1", line) for line in found]


def has_control_characters(text: str) -> bool:
    """Return whether a character other than tab and newline could hide or change what is read."""
    return any(unicodedata.category(char) in {"Cc", "Cs", "Co", "Cn"} and char not in "\t\n" for char in text)


def has_invisible_characters(text: str) -> bool:
    """Return whether the line contains format characters (zero width, text direction) or look-alike spaces."""
    return any(unicodedata.category(char) in {"Cf", "Zl", "Zp"} or (char != " " and _is_space(char)) for char in text)


def _is_space(char: str) -> bool:
    # U+115F, U+1160, U+2800, U+3164 and U+FFA0 are letters or symbols that are drawn as nothing.
    return unicodedata.category(char) == "Zs" or char in "\u115f\u1160\u2800\u3164\uffa0"


@lru_cache(maxsize=4_096)
def expand_braces(word: str) -> tuple[str, ...] | None:
    """Expand the braces of `word` as a shell would, itself included; None when the result is unknown.

    Ranges of numbers or letters contain no path separator, so one stand-in is enough for them.
    """
    pending, done = [word], [word]
    while pending:
        current = pending.pop()
        match = _BRACES.search(current)
        if match is None:
            done.append(current.replace(_OPEN, "{").replace(_CLOSE, "}"))
            continue
        choices = _brace_choices(match[1])
        if choices is None or len(done) + len(pending) + len(choices) > _BRACE_LIMIT:
            return None
        pending += [current[: match.start()] + choice + current[match.end() :] for choice in choices]
    return tuple(dict.fromkeys(done))


def _brace_choices(inside: str) -> list[str] | None:
    if "," in inside:
        return inside.split(",")
    if _SEQUENCE.fullmatch(inside):
        return [re.split(r"\.\.", inside)[0]]
    if ".." in inside:
        return None
    return [f"{_OPEN}{inside}{_CLOSE}"]


if TYPE_CHECKING:
    from tree_sitter import Node, Parser


_FEATURES = {
    "command_substitution": Feature.SUBSTITUTION,
    "process_substitution": Feature.PROCESS_SUBSTITUTION,
    "heredoc_redirect": Feature.HERE_DOCUMENT,
    "herestring_redirect": Feature.HERE_DOCUMENT,
    "subshell": Feature.SUBSHELL,
    "compound_statement": Feature.SUBSHELL,
    "function_definition": Feature.FUNCTION,
    "for_statement": Feature.CONTROL_FLOW,
    "c_style_for_statement": Feature.CONTROL_FLOW,
    "while_statement": Feature.CONTROL_FLOW,
    "if_statement": Feature.CONTROL_FLOW,
    "case_statement": Feature.CONTROL_FLOW,
    "test_command": Feature.CONTROL_FLOW,
    "negated_command": Feature.CONTROL_FLOW,
    "simple_expansion": Feature.EXPANSION,
    "expansion": Feature.EXPANSION,
    "arithmetic_expansion": Feature.EXPANSION,
    "brace_expression": Feature.BRACES,
    "variable_assignment": Feature.ASSIGNMENT,
    "variable_assignments": Feature.ASSIGNMENT,
    "declaration_command": Feature.ASSIGNMENT,
    "unset_command": Feature.ASSIGNMENT,
    "ansi_c_string": Feature.ENCODED_TEXT,
    "translated_string": Feature.ENCODED_TEXT,
    "comment": Feature.COMMENT,
    "ERROR": Feature.UNREADABLE,
    "&": Feature.BACKGROUND,
}
_UNDERSTOOD = frozenset(
    {
        "program", "list", "pipeline", "command", "command_name", "word", "number", "string", "string_content",
        "raw_string", "concatenation", "redirected_statement", "file_redirect", "file_descriptor",
        "heredoc_start", "heredoc_body", "heredoc_content", "heredoc_end", "variable_name",
        "special_variable_name", "elif_clause", "else_clause", "do_group", "case_item", "subscript", "array",
        "binary_expression", "unary_expression", "postfix_expression", "ternary_expression",
        "parenthesized_expression", "test_operator", "regex", "extglob_pattern",
    }
)  # fmt: skip
"""Nodes that are harmless, or that only occur below a node which is a feature."""
_CHANGING = frozenset(
    {"command_substitution", "process_substitution", "simple_expansion", "expansion", "arithmetic_expansion"}
)
_COMMANDS = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_NOT_WORDS = _REDIRECTS | {"variable_assignment", "subshell"}
_MOST_COMMANDS = 500
"""Commands after which the walk stops; more than `commands.MAX_COMMANDS`, so such a line never counts as read."""
_HARMLESS_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


class _Visit(Struct, frozen=True):
    """A node to visit. `owed` are words of its command that the grammar put elsewhere."""

    node: Node
    piped: bool = False
    in_command: bool = False
    owed: tuple[Node, ...] = ()


class _Reading(Struct):
    """The line, and the results of the walk so far."""

    line: str
    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    redirections: list[Redirection] = field(default_factory=list[Redirection])
    features: set[Feature] = field(default_factory=set[Feature])
    bindings: list[Binding] = field(default_factory=list[Binding])
    fed: list[str] = field(default_factory=list[str])
    evaluated: list[str] = field(default_factory=list[str])


def read_syntax(line: str) -> CommandLine:
    """The commands, redirections and features of `line`. Raises ImportError where the grammar is not installed."""
    root = _parser().parse(_plain_letters(line).encode("ascii")).root_node
    reading = _Reading(line)
    pending = [_Visit(root)]  # a stack, since nesting is as deep as the author of the line wants it
    while pending and len(reading.commands) <= _MOST_COMMANDS:
        visit = pending.pop()
        _read_node(visit, reading)
        pending += reversed(_visits_below(visit, reading))
    parse_ok = not root.has_error
    if not parse_ok:
        reading.features.add(Feature.UNREADABLE)
    return CommandLine(
        line,
        tuple(reading.commands),
        tuple(reading.redirections),
        frozenset(reading.features),
        parse_ok,
        tuple(reading.bindings),
        tuple(reading.fed),
        tuple(reading.evaluated),
    )


@lru_cache(maxsize=1)
def _parser() -> Parser:
    from tree_sitter import Language, Parser
    from tree_sitter_bash import language

    return Parser(Language(language()))


def _plain_letters(line: str) -> str:
    """Replace each character that is not plain text by a letter; the length and all offsets stay the same.

    tree-sitter-bash 0.25 asks the C library for the class of characters that it has none for: `{` before a rare letter
    ends the process. A shell takes such characters for letters too.
    """
    return "".join(char if " " <= char <= "~" or char in "\t\n" else "x" for char in line)


def _text(node: Node, source: str) -> str:
    return source[node.start_byte : node.end_byte]  # one byte a character, see `_plain_letters`


def _note_features(node: Node, reading: _Reading) -> None:
    feature = _FEATURES.get(node.type)
    if feature is not None:
        reading.features.add(feature)
    elif node.type == "$" and node.next_sibling is not None and node.next_sibling.type == "string":
        reading.features.add(Feature.ENCODED_TEXT)  # a translated string, `$"…"`
    elif node.is_named and node.type not in _UNDERSTOOD:
        reading.features.add(Feature.OTHER_SYNTAX)


def _read_node(visit: _Visit, reading: _Reading) -> None:
    node = visit.node
    _note_features(node, reading)
    if node.type in {"variable_assignment", "for_statement"}:
        _note_binding(node, reading)
    elif node.type in {"heredoc_redirect", "herestring_redirect"}:
        _note_fed_text(node, reading)
    if node.type in _COMMANDS:
        reading.commands.append(_command(visit, reading))
    elif node.type == "variable_assignment" and not visit.in_command:
        reading.commands.append(SimpleCommand((), (_text(node, reading.line),)))
    elif node.type == "file_redirect":
        _note_redirection(node, reading)
    elif node.type == "redirected_statement" and not _body(node):
        _, owed = _heir(visit, node.children, reading)
        if owed:
            reading.commands.append(_command(_Visit(node, visit.piped, owed=owed), reading))


def _note_binding(node: Node, reading: _Reading) -> None:
    named = [child for child in node.children if child.is_named and child.type != "do_group"]
    if not named:
        return
    name = re.sub(r"\[.*", "", _text(named[0], reading.line), flags=re.DOTALL)
    values = [leaf for child in named[1:] for leaf in (child.named_children if child.type == "array" else [child])]
    words = tuple(_meaning(value, reading.line) for value in values)
    if not words:
        # `x=` is empty, and `for x;` takes the words of the line's own call.
        words = ("",) if node.type == "variable_assignment" else ("$@",)
    is_more = any(child.type == "+=" for child in node.children) or named[0].type == "subscript"
    reading.bindings.append(Binding(name, words, is_more))


def _note_fed_text(redirect: Node, reading: _Reading) -> None:
    if redirect.type == "herestring_redirect":
        reading.fed += [_meaning(child, reading.line) for child in redirect.named_children]
        return
    starts = [_text(child, reading.line) for child in redirect.children if child.type == "heredoc_start"]
    for body in (child for child in redirect.children if child.type == "heredoc_body"):
        text = _text(body, reading.line)
        reading.fed.append(text)
        # The grammar has no node for these.
        if not any(char in start for start in starts for char in "'\"\\") and (lines := back_ticked(text)):
            reading.evaluated += lines
            reading.features.add(Feature.SUBSTITUTION)


def _body(statement: Node) -> list[Node]:
    return [child for child in statement.named_children if child.type not in _REDIRECTS]


def _visits_below(visit: _Visit, reading: _Reading) -> list[_Visit]:
    """The children of a node, each with the context that it needs from its ancestors."""
    node, children = visit.node, visit.node.children
    is_fed = (
        visit.piped or node.type == "heredoc_redirect" or any(child.type == "heredoc_redirect" for child in children)
    )
    heir, owed = _heir(visit, children, reading)
    return [
        _Visit(
            child,
            piped=is_fed or (node.type == "pipeline" and index > 0),
            in_command=node.type in _COMMANDS,
            owed=owed if index == heir else (),
        )
        for index, child in enumerate(children)
    ]


def _heir(visit: _Visit, children: list[Node], reading: _Reading) -> tuple[int | None, tuple[Node, ...]]:
    """Find the child to which words belong that the grammar takes for targets: `echo >/dev/null rm` is `echo rm`.

    They belong to the last command of the redirected node.
    """
    named = [index for index, child in enumerate(children) if child.is_named]
    if visit.node.type in {"pipeline", "list", "negated_command"}:
        return (named[-1] if named else None), visit.owed
    if visit.node.type != "redirected_statement":
        return None, ()
    own: list[Node] = []
    for redirect in visit.node.children_by_field_name("redirect"):
        if redirect.type == "file_redirect":
            own += _targets(redirect, reading.line)[1]
        elif redirect.type == "heredoc_redirect":
            own += redirect.children_by_field_name("argument")
    return (named[0] if named else None), (*own, *visit.owed)


def _command(visit: _Visit, reading: _Reading) -> SimpleCommand:
    node = visit.node
    parts = [child for child in node.children if _is_word(child, node)] + list(visit.owed)
    is_fed = any(child.type == "herestring_redirect" for child in node.children)
    assignments = tuple(_text(child, reading.line) for child in node.children if child.type == "variable_assignment")
    for index, part in enumerate(parts):
        _note_word(part, index, reading)
    return SimpleCommand(
        words=tuple(_meaning(part, reading.line) for part in parts),
        assignments=assignments,
        changing=frozenset(index for index, part in enumerate(parts) if _is_changing(part)),
        piped=visit.piped or is_fed,
    )


def _is_word(child: Node, command: Node) -> bool:
    if command.type in {"command", "redirected_statement"}:
        return child.is_named and child.type not in _NOT_WORDS
    return True


def _targets(redirect: Node, source: str) -> tuple[Node | None, list[Node]]:
    """The file or descriptor of a redirection, and the words that only look like more of them."""
    operator = next((_text(child, source) for child in redirect.children if not child.is_named), "")
    destinations = redirect.children_by_field_name("destination")
    if operator.endswith("&-"):
        return None, destinations
    return (destinations[0], destinations[1:]) if destinations else (None, [])


def _note_redirection(redirect: Node, reading: _Reading) -> None:
    operator = next((_text(child, reading.line) for child in redirect.children if not child.is_named), "")
    target, owed = _targets(redirect, reading.line)
    if target is None:
        return
    meaning = _meaning(target, reading.line)
    is_descriptor = operator in {">&", "<&"} and (meaning.isdecimal() or meaning == "-")
    # Where there is no bash, `a &> b c` is `a &` and then `> b c`, which runs `c`.
    is_of_bash = operator.startswith("&>")
    if is_of_bash and owed:
        reading.features.add(Feature.OTHER_SYNTAX)
    if is_descriptor or (meaning in _HARMLESS_FILES and not is_of_bash):
        return
    reading.features.add(Feature.FILE_REDIRECTION)
    reading.redirections.append(Redirection(operator, meaning))


def _note_word(part: Node, index: int, reading: _Reading) -> None:
    source = _text(part, reading.line)
    plain = "".join(_text(node, reading.line) for node in _leaves(part) if node.type in {"word", "extglob_pattern"})
    has_braces = part.type == "brace_expression" or ("{" in plain and ("," in source or ".." in source))
    if has_braces:
        reading.features.add(Feature.BRACES)
    has_glob = any(char in plain for char in "*?[")
    if has_glob:
        reading.features.add(Feature.GLOB)
    if index == 0:
        if has_glob or has_braces or _is_changing(part):
            reading.features.add(Feature.CHANGING_COMMAND)
        if not _meaning(part, reading.line).isascii():
            reading.features.add(Feature.FOREIGN_COMMAND)


def _leaves(node: Node) -> list[Node]:
    if node.type in {"command_name", "concatenation"}:
        return [leaf for child in node.children for leaf in _leaves(child)]
    return [node]


def _is_changing(node: Node) -> bool:
    pending = [node]
    while pending:
        current = pending.pop()
        if current.type in _CHANGING:
            return True
        pending += current.children
    return False


def _meaning(node: Node, source: str) -> str:
    """The value of a word once its quotes are removed."""
    text = _text(node, source)
    if node.type in {"command_name", "concatenation"}:
        return "".join(_meaning(child, source) for child in node.children)
    if node.type == "word":
        return unquote_word(text)
    if node.type == "string":
        return unquote_double(text[1:-1])
    if node.type == "raw_string":
        return text[1:-1]
    if node.type == "ansi_c_string":
        return unquote_ansi(text[2:-1])
    return text


MAX_LINE = 20_000
"""Longest line that is read, in characters; a longer one asks the user. Bounds the time of one decision."""

MAX_COMMANDS = 200
MAX_WORDS = 1_000
"""Most commands and words of a line that is read; as for `MAX_LINE`."""

_BROKEN_WORD = re.compile(r"\S\\\r?\n\S")
_OTHER_SHELL = re.compile(r"[\^`']|%[^%\s]+%|![^!\s]+!")
"""Characters that cmd and PowerShell read differently from a POSIX shell: escapes, quotes and their own expansions."""
_PUNCTUATION = frozenset("();<>|&")


SyntaxReader: TypeAlias = Callable[[str], CommandLine]
"""Reads a line by its grammar; raises ImportError where that is not installed."""


@lru_cache(maxsize=1_024)
def read_command_line(line: str, *, windows: bool = False, read: SyntaxReader = read_syntax) -> CommandLine:
    """Parse a shell line; never fails.

    With `windows`, backslashes separate folders, and quoting that only a POSIX shell knows counts as not understood.
    Without the grammar (invariant 10) or with a line that does not parse, `parse_ok` is False and only an allowance for
    this exact line covers it.
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
    if syntax.commands and not found and not readers_agree(syntax):
        found |= {Feature.AMBIGUOUS}
    return replace(syntax, text=line, features=found)


def _text_features(line: str, *, windows: bool) -> frozenset[Feature]:
    tests = {
        Feature.CONTROL_CHARACTER: has_control_characters(line),
        Feature.INVISIBLE_CHARACTER: has_invisible_characters(line),
        Feature.SEVERAL_LINES: "\n" in line.strip(),
        Feature.BROKEN_WORD: _BROKEN_WORD.search(line) is not None,
        Feature.OTHER_SHELL: windows and _OTHER_SHELL.search(line) is not None,
    }
    return frozenset(feature for feature, is_there in tests.items() if is_there)


@lru_cache(maxsize=256)
def readers_agree(read: CommandLine) -> bool:
    """Return whether the standard library's reader splits the line into the same words."""
    # Control and invisible characters are features, so tabs and spaces are the only white space left.
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
