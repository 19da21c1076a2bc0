"""Walks the syntax tree of a shell line.

Owns: the one use of tree-sitter-bash, imported when the first line is read since the import costs 25 ms. Must not
know: which commands are dangerous or allowed. Understanding is by a list of the nodes that are harmless: any other
node makes the line hold a feature.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from pattern_acp.policy.command_line import CommandLine, Feature, Redirection, SimpleCommand
from pattern_acp.policy.shell_text import unquote_ansi, unquote_double, unquote_word

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
_NOT_WORDS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect", "variable_assignment", "subshell"})
_HARMLESS_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


@dataclass(slots=True)
class _Reading:
    """What the walk has found so far."""

    commands: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    redirections: list[Redirection] = field(default_factory=list[Redirection])
    features: set[Feature] = field(default_factory=set[Feature])


def read_syntax(line: str) -> CommandLine:
    """The commands, redirections and features of `line`.

    Raises:
        ImportError: the grammar is not installed.
    """
    root = _parser().parse(line.encode("utf-8", "replace")).root_node
    reading = _Reading()
    pending = [(root, False)]  # a stack, since nesting is as deep as the author of the line wants it
    while pending:
        node, piped = pending.pop()
        _note_features(node, reading)
        if node.type in _COMMANDS:
            reading.commands.append(_command(node, reading, piped=piped))
        elif node.type == "variable_assignment" and (node.parent is None or node.parent.type not in _COMMANDS):
            reading.commands.append(SimpleCommand((), (_text(node),)))
        elif node.type == "file_redirect":
            _note_redirection(node, reading)
        is_fed = piped or _feeds(node)
        children = enumerate(node.children)
        pending += reversed([(child, is_fed or (node.type == "pipeline" and index > 0)) for index, child in children])
    parse_ok = not root.has_error
    if not parse_ok:
        reading.features.add(Feature.UNREADABLE)
    return CommandLine(
        line, tuple(reading.commands), tuple(reading.redirections), frozenset(reading.features), parse_ok
    )


@lru_cache(maxsize=1)
def _parser() -> Parser:
    from tree_sitter import Language, Parser
    from tree_sitter_bash import language

    return Parser(Language(language()))


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _note_features(node: Node, reading: _Reading) -> None:
    feature = _FEATURES.get(node.type)
    if feature is not None:
        reading.features.add(feature)
    elif node.type == "$" and node.next_sibling is not None and node.next_sibling.type == "string":
        reading.features.add(Feature.ENCODED_TEXT)  # a translated string, `$"…"`
    elif node.is_named and node.type not in _UNDERSTOOD:
        reading.features.add(Feature.OTHER_SYNTAX)


def _feeds(node: Node) -> bool:
    """Whether the commands below read a here-document, or come after one."""
    return node.type == "heredoc_redirect" or any(child.type == "heredoc_redirect" for child in node.children)


def _command(node: Node, reading: _Reading, *, piped: bool) -> SimpleCommand:
    parts = [child for child in node.children if _is_word(child, node)] + _words_after_redirections(node)
    is_fed = any(child.type == "herestring_redirect" for child in node.children)
    assignments = tuple(_text(child) for child in node.children if child.type == "variable_assignment")
    for index, part in enumerate(parts):
        _note_word(part, index, reading)
    return SimpleCommand(
        words=tuple(_meaning(part) for part in parts),
        assignments=assignments,
        changing=frozenset(index for index, part in enumerate(parts) if _is_changing(part)),
        piped=piped or is_fed,
    )


def _is_word(child: Node, command: Node) -> bool:
    if command.type == "command":
        return child.is_named and child.type not in _NOT_WORDS
    return True


def _words_after_redirections(node: Node) -> list[Node]:
    """Words that the grammar takes for further targets: `echo >/dev/null rm` runs `echo rm`.

    They belong to the last command of what is redirected.
    """
    words: list[Node] = []
    child, parent = node, node.parent
    while parent is not None and parent.type in {"pipeline", "list", "redirected_statement", "negated_command"}:
        if parent.type == "redirected_statement":
            for redirect in parent.children_by_field_name("redirect"):
                if redirect.type == "file_redirect":
                    words += _targets(redirect)[1]
                elif redirect.type == "heredoc_redirect":
                    words += redirect.children_by_field_name("argument")
        elif parent.named_children[-1] != child:
            break
        child, parent = parent, parent.parent
    return words


def _targets(redirect: Node) -> tuple[Node | None, list[Node]]:
    """The file or descriptor of a redirection, and the words that only look like more of them."""
    operator = next((_text(child) for child in redirect.children if not child.is_named), "")
    destinations = redirect.children_by_field_name("destination")
    if operator.endswith("&-"):
        return None, destinations
    return (destinations[0], destinations[1:]) if destinations else (None, [])


def _note_redirection(redirect: Node, reading: _Reading) -> None:
    operator = next((_text(child) for child in redirect.children if not child.is_named), "")
    target = _targets(redirect)[0]
    if target is None:
        return
    meaning = _meaning(target)
    is_descriptor = operator in {">&", "<&"} and (meaning.isdecimal() or meaning == "-")
    if is_descriptor or meaning in _HARMLESS_FILES:
        return
    reading.features.add(Feature.FILE_REDIRECTION)
    reading.redirections.append(Redirection(operator, meaning))


def _note_word(part: Node, index: int, reading: _Reading) -> None:
    source = _text(part)
    plain = "".join(_text(node) for node in _leaves(part) if node.type in {"word", "extglob_pattern"})
    has_braces = part.type == "brace_expression" or ("{" in plain and ("," in source or ".." in source))
    if has_braces:
        reading.features.add(Feature.BRACES)
    has_glob = any(char in plain for char in "*?[")
    if has_glob:
        reading.features.add(Feature.GLOB)
    if index == 0:
        if has_glob or has_braces or _is_changing(part):
            reading.features.add(Feature.CHANGING_COMMAND)
        if not _meaning(part).isascii():
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


def _meaning(node: Node) -> str:
    """What a word stands for once its quotes are taken off."""
    text = _text(node)
    if node.type in {"command_name", "concatenation"}:
        return "".join(_meaning(child) for child in node.children)
    if node.type == "word":
        return unquote_word(text)
    if node.type == "string":
        return unquote_double(text[1:-1])
    if node.type == "raw_string":
        return text[1:-1]
    if node.type == "ansi_c_string":
        return unquote_ansi(text[2:-1])
    return text
