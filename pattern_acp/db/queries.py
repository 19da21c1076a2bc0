"""Named SQL statements, from `queries.sql` beside the store that runs them.

Owns: the form of that file. Must not know: any statement. The form, one statement after another:

    -- name: append_event
    -- What it does, on one line or more.
    INSERT INTO …;

What several statements have in common is a part, which stands before them; they name it in braces, as `{visible}`:

    -- part: visible
    -- What it says.
    e.owner = :owner AND …;
"""

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import LiteralString, cast

from pattern_acp.domain.late_pattern import late_pattern

_HEAD = late_pattern(r"^-- (name|part): ([a-z][a-z0-9_]*)$", re.MULTILINE)
_PART = late_pattern(r"\{([a-z][a-z0-9_]*)\}")


class Queries:
    """The statements of one file, by name. They come from a file that ships with us, so they count as literals."""

    def __init__(self, source: str, statements: dict[str, str]) -> None:
        self._source = source
        self._statements = statements

    def __getitem__(self, name: str) -> LiteralString:
        """The statement called `name`. Raises KeyError where the file has no such name."""
        try:
            return cast("LiteralString", self._statements[name])
        except KeyError:
            raise KeyError(f"{self._source} has no statement named {name!r}.") from None

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, in the order of the file."""
        return tuple(self._statements)


@cache
def load_queries(package: str) -> Queries:
    """Read `queries.sql` of a package, such as `pattern_acp.journal`.

    Raises:
        ValueError: the file is missing, or breaks the form.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"{package} is not a package, so it has no queries.sql.")
    source = f"{package}/queries.sql"
    path = Path(spec.submodule_search_locations[0]) / "queries.sql"
    if not path.is_file():
        raise ValueError(f"{source} is missing.")
    return Queries(source, parse_queries(path.read_text(encoding="utf-8"), source))


def parse_queries(text: str, source: str) -> dict[str, str]:
    """Split the text of a `queries.sql` into its statements, each without name and description, and with its parts.

    Raises:
        ValueError: a name is there twice, or lacks its description or its statement, or no part of a name stands before
            a statement that has it; `source` names the file.
    """
    pieces = _HEAD.split(text)
    statements: dict[str, str] = {}
    parts: dict[str, str] = {}

    def part(found: re.Match[str]) -> str:
        if found[1] not in parts:
            raise ValueError(f"{source} has no part {found[1]!r} before the statement that names it.")
        return parts[found[1]]

    for kind, name, body in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        lines = body.strip().splitlines()
        described = 0
        while described < len(lines) and lines[described].startswith("--"):
            described += 1
        statement = "\n".join(lines[described:]).strip().removesuffix(";")
        if name in statements or name in parts:
            raise ValueError(f"{source} names {name!r} twice.")
        if not described or not statement:
            raise ValueError(f"{source} gives {name!r} no description or no statement.")
        (parts if kind == "part" else statements)[name] = _PART.sub(part, statement)
    return statements
