"""What other files can use of a file.

Owns: each language's rule for it, told from the text in front of a definition's body and the syntax around it. Must not
know: what is done with it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

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
    """What the rules ask of the enclosing symbol."""

    @property
    def kind(self) -> str: ...
    @property
    def exported(self) -> bool: ...


def is_exported(  # noqa: PLR0911  # one return a language
    language: str, name: str, signature: str, node: Node, parent: _Parent | None, listed: set[str]
) -> bool:
    """Whether other files can use a definition. `listed` are the names that the file lists as exported."""
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
