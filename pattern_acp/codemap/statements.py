"""What an import statement imports.

Owns: reading the import statements of each language as one value a name. Must not know: which files there are
(`resolving.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

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
    """What the statement at `node` imports; nothing when it cannot be told, as with a computed path."""
    found = _READERS[language](node, source)
    line = node.start_point.row + 1
    return [
        ImportedName(module[:_MOST_CHARACTERS], name[:_MOST_CHARACTERS], local[:_MOST_CHARACTERS], line)
        for module, name, local in found
        if module
    ]


def _text(node: Node | None, source: bytes) -> str:
    return "" if node is None else source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _unquote(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "'\"`" and text[-1] == text[0] else ""


def _first(node: Node, *kinds: str) -> Node | None:
    return next((child for child in node.named_children if child.type in kinds), None)


def _python(node: Node, source: bytes) -> Iterator[_Found]:
    module_node = node.child_by_field_name("module_name")
    module = "".join(_text(module_node, source).split())
    for named in node.children_by_field_name("name"):
        is_renamed = named.type == "aliased_import"
        name = _text(named.child_by_field_name("name") if is_renamed else named, source)
        alias = _text(named.child_by_field_name("alias"), source) if is_renamed else ""
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
    module = _unquote(_text(node.child_by_field_name("source"), source))
    clause = _first(node, "import_clause", "export_clause", "namespace_export", "import_require_clause")
    if clause is None:
        yield module, "*" if node.type == "export_statement" else "", ""
        return
    if clause.type == "import_require_clause":
        yield (
            _unquote(_text(clause.child_by_field_name("source"), source)),
            "",
            _text(_first(clause, "identifier"), source),
        )
        return
    if clause.type == "namespace_export":
        yield module, "*", ""
        return
    for part in clause.named_children:
        if part.type == "identifier":
            yield module, "default", _text(part, source)
        elif part.type == "namespace_import":
            yield module, "", _text(_first(part, "identifier"), source)
        for specifier in [part] if part.type == "export_specifier" else part.named_children:
            if specifier.type in {"import_specifier", "export_specifier"}:
                name = _text(specifier.child_by_field_name("name"), source)
                alias = _text(specifier.child_by_field_name("alias"), source)
                yield module, name, alias or name


def _script_call(node: Node, source: bytes) -> Iterator[_Found]:
    arguments = node.child_by_field_name("arguments")
    module = _unquote(_text(_first(arguments, "string") if arguments else None, source))
    above = node.parent
    if above is not None and above.type == "await_expression":
        above = above.parent
    target = above.child_by_field_name("name") if above is not None and above.type == "variable_declarator" else None
    if target is None or target.type != "object_pattern":
        yield module, "", _text(target, source)
        return
    for part in target.named_children:
        key = part.child_by_field_name("key") if part.type == "pair_pattern" else part
        value = part.child_by_field_name("value") if part.type == "pair_pattern" else part
        yield module, _text(key, source), _text(value, source)


def _go(node: Node, source: bytes) -> Iterator[_Found]:
    module = _unquote(_text(node.child_by_field_name("path"), source))
    alias = _text(node.child_by_field_name("name"), source)
    if alias == ".":
        yield module, "*", ""
    else:
        yield module, "", "" if alias == "_" else alias or module.rpartition("/")[2]


def _rust(node: Node, source: bytes) -> Iterator[_Found]:
    if node.type == "mod_item":
        name = _text(node.child_by_field_name("name"), source)
        yield f"mod::{name}", "", name
    elif node.type == "extern_crate_declaration":
        name = _text(node.child_by_field_name("name"), source)
        yield name, "", name
    else:
        yield from _rust_use(node.child_by_field_name("argument"), "", source)


def _rust_use(node: Node | None, prefix: str, source: bytes) -> Iterator[_Found]:
    if node is None:
        return
    if node.type in {"use_list", "scoped_use_list"}:
        path = _joined(prefix, _text(node.child_by_field_name("path"), source))
        inner = node.child_by_field_name("list") if node.type == "scoped_use_list" else node
        for child in inner.named_children if inner else ():
            yield from _rust_use(child, path, source)
    elif node.type == "use_wildcard":
        yield _joined(prefix, _text(node, source).removesuffix("*").removesuffix("::")), "*", ""
    elif node.type == "use_as_clause":
        full = _joined(prefix, _text(node.child_by_field_name("path"), source))
        module, _, name = full.rpartition("::")
        yield module or full, name if module else "", _text(node.child_by_field_name("alias"), source)
    elif node.type == "self" and prefix:
        yield prefix, "", prefix.rpartition("::")[2]
    else:
        full = _joined(prefix, _text(node, source))
        module, _, name = full.rpartition("::")
        yield module or full, name if module else "", name


def _joined(prefix: str, path: str) -> str:
    return "::".join(part for part in (prefix, "".join(path.split())) if part)


def _java(node: Node, source: bytes) -> Iterator[_Found]:
    path = _text(_first(node, "scoped_identifier", "identifier"), source)
    if _first(node, "asterisk"):
        yield path, "*", ""
        return
    module, _, name = path.rpartition(".")
    yield module or path, name if module else "", name


def _include(node: Node, source: bytes) -> Iterator[_Found]:
    path = _text(node.child_by_field_name("path"), source).strip()
    if path.startswith("<"):
        yield path, "*", ""
    else:
        yield _unquote(path), "*", ""


def _ruby(node: Node, source: bytes) -> Iterator[_Found]:
    arguments = node.child_by_field_name("arguments")
    strings = [child for child in arguments.named_children if child.type == "string"] if arguments else []
    method = _text(node.child_by_field_name("method"), source)
    if strings and not _first(strings[0], "interpolation"):
        path = _unquote(_text(strings[0], source))
        yield (f"./{path}" if method == "require_relative" and not path.startswith(".") else path), "*", ""


def _php(node: Node, source: bytes) -> Iterator[_Found]:
    if node.type != "namespace_use_declaration":
        path = _text(node.named_children[0] if node.named_children else None, source).strip("() ")
        if path.startswith("__DIR__"):
            path = _unquote(path.removeprefix("__DIR__").lstrip(" .\t\n"))
            yield (f".{path}" if path.startswith("/") else ""), "*", ""
        else:
            yield _unquote(path), "*", ""
        return
    prefix = _text(_first(node, "namespace_name"), source)
    body = node.child_by_field_name("body") or node
    for clause in body.named_children:
        if clause.type == "namespace_use_clause":
            target = _first(clause, "qualified_name", "name", "namespace_name")
            path = "\\".join(part for part in (prefix, _text(target, source).strip("\\")) if part)
            module, _, name = path.rpartition("\\")
            alias = _text(clause.child_by_field_name("alias"), source)
            yield module or path, name if module else "", alias or name


def _csharp(node: Node, source: bytes) -> Iterator[_Found]:
    alias = node.child_by_field_name("name")
    target = next((child for child in node.named_children if alias is None or child != alias), None)
    path = _text(target, source)
    if alias is not None:
        module, _, name = path.rpartition(".")
        yield module or path, name if module else "", _text(alias, source)
    else:
        yield path, "*", ""


def _bash(node: Node, source: bytes) -> Iterator[_Found]:
    argument = node.child_by_field_name("argument")
    path = _text(argument, source)
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
