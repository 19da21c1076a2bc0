"""Reading of one source file: its definitions, imports, exports and uses.

Owns: running a language's query over a file and putting the matches in order: nesting, qualified names, signatures, the
symbol around each use, and the meaning of each language's import and export statements. Must not know: other files or
the index.

The names of captures in `queries/*.scm`: `@def.KIND` with `@name`, and `@body` where a signature ends; `@owner` is the
type that a method outside of it belongs to; `@scope` lends its name without being a symbol; `@import` is a statement;
`@call`, `@inherit` and `@type` are uses, `@receiver` is the expression before them; `@exported` is a name that is
listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from msgspec import Struct, field

from pattern_acp.codemap.model import ReferenceKind, SymbolKind, load_grammar

if TYPE_CHECKING:
    from tree_sitter import Node


_MOST_CHARACTERS = 300


class ImportedName(Struct, frozen=True):
    """One imported name; see `model.Import`."""

    module: str
    name: str
    local: str
    line: int


_Found: TypeAlias = tuple[str, str, str]
"""Module, name and local name."""


def read_import(language: str, node: Node, source: bytes) -> list[ImportedName]:
    """Names that the statement at `node` imports; empty if they are unknown, as with a computed path."""
    found = _READERS[language](node, source)
    line = node.start_point.row + 1
    return [
        ImportedName(module[:_MOST_CHARACTERS], name[:_MOST_CHARACTERS], local[:_MOST_CHARACTERS], line)
        for module, name, local in found
        if module
    ]


def _text_of(node: Node | None, source: bytes) -> str:
    return "" if node is None else source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "'\"`" and text[-1] == text[0] else ""


def _first(node: Node, *kinds: str) -> Node | None:
    return next((child for child in node.named_children if child.type in kinds), None)


def _python(node: Node, source: bytes) -> Iterator[_Found]:
    module_node = node.child_by_field_name("module_name")
    module = "".join(_text_of(module_node, source).split())
    for named in node.children_by_field_name("name"):
        is_renamed = named.type == "aliased_import"
        name = _text_of(named.child_by_field_name("name") if is_renamed else named, source)
        alias = _text_of(named.child_by_field_name("alias"), source) if is_renamed else ""
        if module_node is None:
            yield name, "", alias or name
        else:
            yield module, name, alias or name
    if _first(node, "wildcard_import"):
        yield module, "*", ""


def _script(node: Node, source: bytes) -> Iterator[_Found]:
    if node.type == "call_expression":
        yield from _script_call(node, source)
        return
    module = _unquote(_text_of(node.child_by_field_name("source"), source))
    clause = _first(node, "import_clause", "export_clause", "namespace_export", "import_require_clause")
    if clause is None:
        yield module, "*" if node.type == "export_statement" else "", ""
        return
    if clause.type == "import_require_clause":
        yield (
            _unquote(_text_of(clause.child_by_field_name("source"), source)),
            "",
            _text_of(_first(clause, "identifier"), source),
        )
        return
    if clause.type == "namespace_export":
        yield module, "*", ""
        return
    for part in clause.named_children:
        if part.type == "identifier":
            yield module, "default", _text_of(part, source)
        elif part.type == "namespace_import":
            yield module, "", _text_of(_first(part, "identifier"), source)
        for specifier in [part] if part.type == "export_specifier" else part.named_children:
            if specifier.type in {"import_specifier", "export_specifier"}:
                name = _text_of(specifier.child_by_field_name("name"), source)
                alias = _text_of(specifier.child_by_field_name("alias"), source)
                yield module, name, alias or name


def _script_call(node: Node, source: bytes) -> Iterator[_Found]:
    arguments = node.child_by_field_name("arguments")
    module = _unquote(_text_of(_first(arguments, "string") if arguments else None, source))
    above = node.parent
    if above is not None and above.type == "await_expression":
        above = above.parent
    target = above.child_by_field_name("name") if above is not None and above.type == "variable_declarator" else None
    if target is None or target.type != "object_pattern":
        yield module, "", _text_of(target, source)
        return
    for part in target.named_children:
        key = part.child_by_field_name("key") if part.type == "pair_pattern" else part
        value = part.child_by_field_name("value") if part.type == "pair_pattern" else part
        yield module, _text_of(key, source), _text_of(value, source)


def _go(node: Node, source: bytes) -> Iterator[_Found]:
    module = _unquote(_text_of(node.child_by_field_name("path"), source))
    alias = _text_of(node.child_by_field_name("name"), source)
    if alias == ".":
        yield module, "*", ""
    else:
        yield module, "", "" if alias == "_" else alias or module.rpartition("/")[2]


def _rust(node: Node, source: bytes) -> Iterator[_Found]:
    if node.type == "mod_item":
        name = _text_of(node.child_by_field_name("name"), source)
        yield f"mod::{name}", "", name
    elif node.type == "extern_crate_declaration":
        name = _text_of(node.child_by_field_name("name"), source)
        yield name, "", name
    else:
        yield from _rust_use(node.child_by_field_name("argument"), "", source)


def _rust_use(node: Node | None, prefix: str, source: bytes) -> Iterator[_Found]:
    if node is None:
        return
    if node.type in {"use_list", "scoped_use_list"}:
        path = _joined(prefix, _text_of(node.child_by_field_name("path"), source))
        inner = node.child_by_field_name("list") if node.type == "scoped_use_list" else node
        for child in inner.named_children if inner else ():
            yield from _rust_use(child, path, source)
    elif node.type == "use_wildcard":
        yield _joined(prefix, _text_of(node, source).removesuffix("*").removesuffix("::")), "*", ""
    elif node.type == "use_as_clause":
        full = _joined(prefix, _text_of(node.child_by_field_name("path"), source))
        module, _, name = full.rpartition("::")
        yield module or full, name if module else "", _text_of(node.child_by_field_name("alias"), source)
    elif node.type == "self" and prefix:
        yield prefix, "", prefix.rpartition("::")[2]
    else:
        full = _joined(prefix, _text_of(node, source))
        module, _, name = full.rpartition("::")
        yield module or full, name if module else "", name


def _joined(prefix: str, path: str) -> str:
    return "::".join(part for part in (prefix, "".join(path.split())) if part)


def _java(node: Node, source: bytes) -> Iterator[_Found]:
    path = _text_of(_first(node, "scoped_identifier", "identifier"), source)
    if _first(node, "asterisk"):
        yield path, "*", ""
        return
    module, _, name = path.rpartition(".")
    yield module or path, name if module else "", name


def _include(node: Node, source: bytes) -> Iterator[_Found]:
    path = _text_of(node.child_by_field_name("path"), source).strip()
    if path.startswith("<"):
        yield path, "*", ""
    else:
        yield _unquote(path), "*", ""


def _ruby(node: Node, source: bytes) -> Iterator[_Found]:
    arguments = node.child_by_field_name("arguments")
    strings = [child for child in arguments.named_children if child.type == "string"] if arguments else []
    method = _text_of(node.child_by_field_name("method"), source)
    if strings and not _first(strings[0], "interpolation"):
        path = _unquote(_text_of(strings[0], source))
        yield (f"./{path}" if method == "require_relative" and not path.startswith(".") else path), "*", ""


def _php(node: Node, source: bytes) -> Iterator[_Found]:
    if node.type != "namespace_use_declaration":
        path = _text_of(node.named_children[0] if node.named_children else None, source).strip("() ")
        if path.startswith("__DIR__"):
            path = _unquote(path.removeprefix("__DIR__").lstrip(" .\t\n"))
            yield (f".{path}" if path.startswith("/") else ""), "*", ""
        else:
            yield _unquote(path), "*", ""
        return
    prefix = _text_of(_first(node, "namespace_name"), source)
    body = node.child_by_field_name("body") or node
    for clause in body.named_children:
        if clause.type == "namespace_use_clause":
            target = _first(clause, "qualified_name", "name", "namespace_name")
            path = "\\".join(part for part in (prefix, _text_of(target, source).strip("\\")) if part)
            module, _, name = path.rpartition("\\")
            alias = _text_of(clause.child_by_field_name("alias"), source)
            yield module or path, name if module else "", alias or name


def _csharp(node: Node, source: bytes) -> Iterator[_Found]:
    alias = node.child_by_field_name("name")
    target = next((child for child in node.named_children if alias is None or child != alias), None)
    path = _text_of(target, source)
    if alias is not None:
        module, _, name = path.rpartition(".")
        yield module or path, name if module else "", _text_of(alias, source)
    else:
        yield path, "*", ""


def _bash(node: Node, source: bytes) -> Iterator[_Found]:
    argument = node.child_by_field_name("argument")
    path = _text_of(argument, source)
    if "$" not in path and "`" not in path:
        yield _unquote(path) or path, "*", ""


_READERS: dict[str, Callable[[Node, bytes], Iterator[_Found]]] = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "c": _include,
    "cpp": _include,
    "ruby": _ruby,
    "php": _php,
    "csharp": _csharp,
    "bash": _bash,
}


if TYPE_CHECKING:
    from tree_sitter import Node


_SCRIPTS = frozenset({"javascript", "typescript", "tsx"})
_NOT_SHARED = {
    "java": re.compile(r"\bprivate\b"),
    "php": re.compile(r"\b(?:private|protected)\b"),
    "c": re.compile(r"\bstatic\b"),
    "cpp": re.compile(r"^static\b"),
    "typescript": re.compile(r"\bprivate\b|^#"),
    "tsx": re.compile(r"\bprivate\b|^#"),
    "javascript": re.compile(r"^#"),
}
_SHARED_CSHARP = re.compile(r"\b(?:public|internal|protected)\b")
_TYPE_CSHARP = re.compile(r"\b(?:class|struct|interface|enum|record|delegate)\b")
_RUST_ITEM = re.compile(r"pub\b(?!\(self\))")


class _Parent(Protocol):
    """The facts on an enclosing symbol that the rules need."""

    @property
    def kind(self) -> str: ...
    @property
    def exported(self) -> bool: ...


def is_exported(  # noqa: PLR0911  # one return a language
    language: str, name: str, signature: str, node: Node, parent: _Parent | None, listed: set[str]
) -> bool:
    """Return whether other files can use a definition. `listed` are the names that the file lists as exported."""
    if parent is not None and not parent.exported:
        return False
    if language == "python":
        return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))
    if language == "go":
        return name[:1].isupper()
    if language == "rust":
        return _RUST_ITEM.match(signature) is not None or (parent is not None and parent.kind in {"interface", "enum"})
    if language == "csharp":
        if parent is not None and parent.kind in {"interface", "enum"}:
            return True
        return (parent is None and "private" not in signature and _TYPE_CSHARP.search(signature) is not None) or (
            _SHARED_CSHARP.search(signature) is not None
        )
    hidden = _NOT_SHARED.get(language)
    if hidden is not None and hidden.search(signature):
        return False
    if language in _SCRIPTS and parent is None:
        return name in listed or _is_below_export(node)
    return language != "ruby" or not name.startswith("_")


def _is_below_export(node: Node) -> bool:
    above: Node | None = node
    for _ in range(4):  # export → lexical declaration → declarator
        if above is None:
            return False
        if above.type in {"export_statement", "ambient_declaration"}:
            return True
        if above.type == "assignment_expression":
            left = above.child_by_field_name("left")
            return left is not None and (left.text or b"").startswith((b"exports.", b"module.exports"))
        above = above.parent
    return False


if TYPE_CHECKING:
    from tree_sitter import Node

SIGNATURE_CHARACTERS = 200
_RECEIVER_CHARACTERS = 80
_NAME_CHARACTERS = 200
_MOST_SYMBOLS = 20_000
"""Limit on symbols of one file: beyond it, it is a table of data, whatever its ending."""

_ASCII = bytes(byte if byte < 0x80 and (byte >= 0x20 or byte in b"\t\n\r\f") else ord("x") for byte in range(256))
"""Maps each byte that is not plain text to a letter, so that all offsets stay the same. Some grammars ask the C library
for the class of characters that it has none for, and tree-sitter-bash 0.25 ends the process at that (ADR 0004)."""

_SHARED = frozenset({"function", "class", "interface", "enum", "type", "variable", "constant", "global"})
_TYPES = frozenset({"class", "interface", "enum", "type"})
_FUNCTIONS = frozenset({"function", "method"})
_EXPORTS = frozenset({"exports", "module.exports"})
_UPPER = re.compile(r"_?[A-Z][A-Z0-9_]*")


class FoundSymbol(Struct):
    """A definition; see `model.Symbol`. `parent` is the index of an earlier one in the list."""

    name: str
    qualified_name: str
    kind: SymbolKind
    line: int
    end_line: int
    column: int
    signature: str
    exported: bool
    parent: int | None


class FoundReference(Struct):
    """A use; see `model.Reference`. `symbol` is the index of the enclosing one in the list of symbols."""

    name: str
    receiver: str
    kind: ReferenceKind
    line: int
    column: int
    symbol: int | None
    count: int = 1


class SourceFacts(Struct):
    """All recorded facts on a file."""

    symbols: list[FoundSymbol] = field(default_factory=list[FoundSymbol])
    imports: list[ImportedName] = field(default_factory=list[ImportedName])
    references: list[FoundReference] = field(default_factory=list[FoundReference])


class _Definition(Struct):
    """A match of a definition or a scope, before the nesting is known."""

    kind: str
    node: Node
    name_node: Node
    body_start: int
    owner: str


class _Use(Struct):
    kind: ReferenceKind
    node: Node
    receiver: Node | None


class _Enclosing(Struct):
    """A definition or scope around the current position. `index` is None for a scope without a symbol."""

    start: int
    end: int
    names: tuple[str, ...]
    index: int | None
    kind: str


class _Matches(Struct):
    """The matches of the query, in no order."""

    definitions: dict[int, _Definition] = field(default_factory=dict[int, _Definition])
    """By the start of the name: a more specific kind replaces `variable` and the like."""
    uses: dict[int, _Use] = field(default_factory=dict[int, _Use])
    imports: list[Node] = field(default_factory=list["Node"])
    listed: set[str] = field(default_factory=set[str])


def read_source(language: str, source: bytes) -> SourceFacts:
    """Read a file of a language of `LANGUAGES`. Syntax errors do not matter: the rest is read.

    Raises:
        GrammarMissingError: its grammar cannot be used.
    """
    grammar = load_grammar(language)
    from tree_sitter import QueryCursor

    root = grammar.parser.parse(source.translate(_ASCII)).root_node
    matches = _Matches()
    for _, captures in QueryCursor(grammar.query).matches(root):
        _sort_match(captures, matches, source)
    facts = SourceFacts()
    for node in matches.imports:
        facts.imports += read_import(language, node, source)
    if grammar.uses is not None:
        _add_plain_uses(QueryCursor(grammar.uses).captures(root), matches, facts, source)
    _nest(language, source, matches, facts)
    return facts


def _add_plain_uses(captures: dict[str, list[Node]], matches: _Matches, facts: SourceFacts, source: bytes) -> None:
    """Add uses of names that are neither called nor types, if this file imports or defines them."""
    imported = {name.local.encode() for name in facts.imports if name.local}
    wanted = imported | {
        source[found.name_node.start_byte : found.name_node.end_byte]
        for found in matches.definitions.values()
        if found.kind in _SHARED and found.node.start_point.column == 0
    }
    spans = [_span(node) for node in matches.imports]
    found: list[tuple[Node, Node | None]] = [
        (node, None) for node in captures.get("use", ()) if source[node.start_byte : node.end_byte] in wanted
    ]
    found += [
        (member, node)
        for node in captures.get("object", ())
        if source[node.start_byte : node.end_byte] in imported and (member := node.next_named_sibling) is not None
    ]
    for node, receiver in found:
        start = node.start_byte
        is_known = start in matches.uses or start in matches.definitions
        if not is_known and not any(first <= start < last for first, last in spans):
            matches.uses[start] = _Use("use", node, receiver)


def _span(statement: Node) -> tuple[int, int]:
    """The lines of an import: `const { a } = require("b")` names its imports before the call."""
    above = statement.parent
    whole = above if above is not None and above.type == "variable_declarator" else statement
    return whole.start_byte, whole.end_byte


def _sort_match(captures: dict[str, list[Node]], matches: _Matches, source: bytes) -> None:
    for capture, nodes in captures.items():
        if capture in {"call", "inherit", "type"}:
            receivers = captures.get("receiver")
            for node in nodes:
                known = matches.uses.get(node.start_byte)
                if known is None or (known.kind == "type" and capture != "type"):
                    use = _Use(cast("ReferenceKind", capture), node, receivers[0] if receivers else None)
                    matches.uses[node.start_byte] = use
        elif capture == "import":
            matches.imports.append(nodes[0])
        elif capture == "exported":
            matches.listed.update(_text(node, source) for node in nodes)
        elif capture == "scope" or capture.startswith("def."):
            body = captures.get("body")
            owner = captures.get("owner")
            for name_node in captures["name"]:
                found = _Definition(
                    capture.removeprefix("def."),
                    nodes[0],
                    name_node,
                    body[0].start_byte if body else nodes[0].end_byte,
                    _text(owner[0], source) if owner else "",
                )
                known = matches.definitions.get(name_node.start_byte)
                if known is None or _telling(found) > _telling(known):
                    matches.definitions[name_node.start_byte] = found


def _telling(definition: _Definition) -> int:
    """Rank of the kinds that one name matched: an assigned function is no variable."""
    if definition.kind in {"variable", "field", "global", "prototype"}:
        return 0
    return 1 if definition.kind in {"type", "alias"} else 2


def _nest(language: str, source: bytes, matches: _Matches, facts: SourceFacts) -> None:
    """Walk definitions and uses in the order of the file, with the enclosing definitions on a stack."""
    events: list[tuple[int, int, _Definition | _Use]] = [
        (found.node.start_byte, -found.node.end_byte, found) for found in matches.definitions.values()
    ]
    names = set(matches.definitions)
    events += [(start, 0, use) for start, use in matches.uses.items() if start not in names]
    events.sort(key=lambda event: event[:2])
    stack: list[_Enclosing] = []
    around: _Use | None = None
    known: dict[tuple[str, str, str, int | None], FoundReference] = {}
    for start, _, event in events:
        while stack and (stack[-1].end <= start or _is_twin(stack[-1], event)):
            stack.pop()
        if isinstance(event, _Use):
            if language == "cpp" and _is_covered_by(around, event, source):
                continue  # the `vector` in `std::vector<int>`
            around = event
            _add_use(event, _innermost(stack), source, known)
        elif len(facts.symbols) < _MOST_SYMBOLS:
            _add_definition(language, event, stack, source, matches.listed, facts)
    facts.references = list(known.values())


def _is_covered_by(around: _Use | None, use: _Use, source: bytes) -> bool:
    """Return whether the use is the last part of a qualified name that was already recorded."""
    return (
        around is not None
        and use.node.start_byte < around.node.end_byte
        and _split_name(_text(around.node, source))[1] == _text(use.node, source)
    )


def _is_twin(entry: _Enclosing, event: _Definition | _Use) -> bool:
    """Return whether the entry is another name of one statement, as `attr_reader :a, :b` has, and encloses nothing."""
    return isinstance(event, _Definition) and (entry.start, entry.end) == (event.node.start_byte, event.node.end_byte)


def _innermost(stack: list[_Enclosing]) -> int | None:
    return next((entry.index for entry in reversed(stack) if entry.index is not None), None)


def _add_use(
    use: _Use, symbol: int | None, source: bytes, known: dict[tuple[str, str, str, int | None], FoundReference]
) -> None:
    receiver = "" if use.receiver is None else _one_line(_text(use.receiver, source))
    path, name = _split_name(_text(use.node, source))
    receiver = (receiver or ".".join(path))[:_RECEIVER_CHARACTERS]
    key = (name, receiver, use.kind, symbol)
    if key in known:
        known[key].count += 1
    elif name:
        line, column = _position(use.node, source)
        known[key] = FoundReference(name[:_NAME_CHARACTERS], receiver, use.kind, line, column, symbol)


def _add_definition(
    language: str,
    found: _Definition,
    stack: list[_Enclosing],
    source: bytes,
    listed: set[str],
    facts: SourceFacts,
) -> None:
    above = stack[-1] if stack else _Enclosing(-1, len(source), (), None, "")
    path, name = _split_name(_text(found.name_node, source))
    if not name:
        return
    if found.owner:
        owner = found.owner.removeprefix("this").removesuffix(".prototype")
        path = () if owner in _EXPORTS else tuple(part for part in re.split(r"\W+", owner) if part)
    if found.kind == "scope":
        index = _symbol_called(name, facts) if language not in {"cpp", "csharp"} else None
        kind = "module" if language in {"cpp", "csharp"} else "class"
        stack.append(_Enclosing(found.node.start_byte, found.node.end_byte, (*above.names, *path, name), index, kind))
        return
    if above.kind in _FUNCTIONS and found.kind in {"prototype", "global", "field", "variable"}:
        return
    kind = _kind_of(found.kind, name, above, path)
    names = (*above.names, *path, name)
    parent = _innermost(stack)
    if parent is None and path:
        parent = _symbol_called(path[-1], facts)
    head = source[found.node.start_byte : max(found.body_start, found.name_node.end_byte)]
    signature = _signature(head.decode("utf-8", "replace"), kind)
    line, column = _position(found.name_node, source)
    facts.symbols.append(
        FoundSymbol(
            name=name[:_NAME_CHARACTERS],
            qualified_name=".".join(names)[: 2 * _NAME_CHARACTERS],
            kind=kind,
            line=line,
            end_line=max(line, found.node.end_point.row + (found.node.end_point.column > 0)),
            column=column,
            signature=signature,
            exported=is_exported(
                language, name, signature, found.node, None if parent is None else facts.symbols[parent], listed
            )
            and above.kind not in _FUNCTIONS,
            parent=parent,
        )
    )
    if found.kind != "alias":
        entry = _Enclosing(found.node.start_byte, found.node.end_byte, names, len(facts.symbols) - 1, kind)
        stack.append(entry)


def _kind_of(kind: str, name: str, above: _Enclosing, path: tuple[str, ...]) -> SymbolKind:
    if kind in {"function", "prototype"}:
        return "method" if above.kind in _TYPES or (path and above.kind != "module") else "function"
    if kind == "field" and above.kind not in _TYPES:
        kind = "variable"
    if kind == "alias":
        return "type"
    if kind in {"variable", "global"}:
        return "constant" if _UPPER.fullmatch(name) else "variable"
    return cast("SymbolKind", kind)


def _symbol_called(name: str, facts: SourceFacts) -> int | None:
    """The only type of the file that is called `name`."""
    found = [index for index, symbol in enumerate(facts.symbols) if symbol.name == name and symbol.kind in _TYPES]
    return found[0] if len(found) == 1 else None


def _split_name(text: str) -> tuple[tuple[str, ...], str]:
    r"""Split `n::A::m` or `N\f` into the leading parts and the last one; without quotes and type arguments."""
    if "::" not in text and "\\" not in text:
        return (), text.strip("'\"`:").split("<", 1)[0] if not text.startswith("operator") else text
    *path, name = re.split(r"::|\\", re.sub(r"<.*>", "", text, flags=re.DOTALL))
    return tuple(part for part in path if part), name.strip()


def _text(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _position(node: Node, source: bytes) -> tuple[int, int]:
    """Line and column from 1; columns count characters."""
    row, column = node.start_point
    before = source[node.start_byte - column : node.start_byte]
    return row + 1, (column if before.isascii() else len(before.decode("utf-8", "replace"))) + 1


def _one_line(text: str) -> str:
    return " ".join(text.split()) if "\n" in text or "\t" in text else text


def _signature(head: str, kind: str) -> str:
    if kind in {"variable", "constant", "field", "macro", "type"}:
        head = head.split("\n", 1)[0]
    text = " ".join(head.split()).rstrip("{:=;, ").removesuffix(" =>").removesuffix(" end").rstrip("; ")
    return text if len(text) <= SIGNATURE_CHARACTERS else text[: SIGNATURE_CHARACTERS - 1] + "…"
