"""Loading tree-sitter's grammars.

Owns: the one place of the code map that imports tree-sitter and the grammars, each at its first use, and saying why one
cannot be used. Must not know: what is read with them. Runs in the building process, since a grammar can end the
process that it is loaded into.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.codemap.languages import LANGUAGES

if TYPE_CHECKING:
    from tree_sitter import Parser, Query

_SCRIPT_USES = """
[(identifier) (shorthand_property_identifier)] @use
(member_expression object: (identifier) @object property: (property_identifier))
"""
_USES = {
    "python": "(identifier) @use (attribute object: (identifier) @object attribute: (identifier))",
    "javascript": _SCRIPT_USES,
    "typescript": _SCRIPT_USES,
    "tsx": _SCRIPT_USES,
    "go": "(identifier) @use (selector_expression operand: (identifier) @object field: (field_identifier))",
    "rust": "(identifier) @use (scoped_identifier path: (identifier) @object name: (identifier))",
    "java": "(identifier) @use (field_access object: (identifier) @object field: (identifier))",
}


class Grammar(Struct, frozen=True):
    """What reads the files of one language."""

    parser: Parser
    query: Query
    uses: Query | None
    """Every plain name, and every one that a member is taken of; None for languages whose imports name no names."""


class GrammarMissingError(Exception):
    """A grammar is not installed, or does not fit the installed tree-sitter; the message says which and why."""


@cache
def load_grammar(name: str) -> Grammar:
    """The grammar of a language of `LANGUAGES`.

    Raises:
        GrammarMissingError: it cannot be used.
    """
    language = LANGUAGES[name]
    try:
        from tree_sitter import Language, Parser, Query

        capsule: object = getattr(importlib.import_module(language.package), language.function)()
        loaded = Language(capsule)
        queries = Path(__file__).with_name("queries")
        # TSX is TypeScript with elements; one text for both keeps them from growing apart.
        files = ("typescript", "tsx") if name == "tsx" else (name,)
        statements = "\n".join(queries.joinpath(f"{file}.scm").read_text(encoding="utf-8") for file in files)
        uses = _USES.get(name)
        return Grammar(Parser(loaded), Query(loaded, statements), None if uses is None else Query(loaded, uses))
    except ImportError as error:
        raise GrammarMissingError(f"{language.package.replace('_', '-')} is not installed ({error.name})") from error
    except (ValueError, AttributeError, SyntaxError) as error:
        # tree-sitter's QueryError, for a node that the grammar no longer has, is a ValueError.
        raise GrammarMissingError(f"{language.package.replace('_', '-')} does not fit ({error})") from error


def absent_grammars() -> dict[str, str]:
    """Languages whose grammar is not installed, with the package that would bring it. Imports nothing."""
    return {
        name: language.package.replace("_", "-")
        for name, language in LANGUAGES.items()
        if find_spec(language.package) is None or find_spec("tree_sitter") is None
    }
