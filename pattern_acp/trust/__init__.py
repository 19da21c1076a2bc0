"""Folders that the user trusts, and what is new in them since.

Owns: the remembered decisions as rows, and the words of a question. Must not know: sessions, the editor, how parts are
found, how the user is asked, or the event that records a decision (the caller appends `FolderTrustDecided` first, in
the same transaction, and hands over its `seq`: rule R1).
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import Transaction, storable
from pattern_acp.domain.project_parts import PartKind, ProjectPart
from pattern_acp.domain.text_limits import plural, with_visible_characters

QUERIES = load_queries("pattern_acp.trust")


class Agreement(Struct, frozen=True):
    """A folder and what of it was agreed to; `decided_ms` is milliseconds since 1970 UTC."""

    root: str
    digest: str
    parts: tuple[ProjectPart, ...]
    decided_ms: int


def load_agreement(tx: Transaction, root: str) -> Agreement | None:
    """Load the agreement about the folder `root`, an absolute path without symbolic links."""
    row = tx.one(QUERIES["load_trust"], {"root": storable(root)})
    return Agreement(root, text(row[0]), _parts(text(row[1])), integer(row[2])) if row else None


def list_agreements(tx: Transaction) -> tuple[Agreement, ...]:
    """Every agreement, by folder."""
    rows = tx.all(QUERIES["list_trust"])
    return tuple(Agreement(text(r[0]), text(r[1]), _parts(text(r[2])), integer(r[3])) for r in rows)


def store_agreement(
    tx: Transaction, root: str, digest: str, parts: Sequence[ProjectPart], *, seq: int, at_ms: int
) -> None:
    """Keep what was agreed to, instead of an earlier agreement."""
    written = storable(msgspec.json.encode([_plain(part) for part in parts]).decode())
    values = {"root": storable(root), "digest": digest, "parts": written, "decided_ms": at_ms, "last_seq": seq}
    tx.execute(QUERIES["store_trust"], values)


def remove_agreement(tx: Transaction, root: str) -> None:
    """Take an agreement back; nothing happens when there is none."""
    tx.execute(QUERIES["remove_trust"], {"root": storable(root)})


def _plain(part: ProjectPart) -> dict[str, str]:
    # JSON cannot hold a lone surrogate, which names of files may have.
    return {
        "kind": part.kind.value,
        "name": storable(part.name),
        "text": storable(part.text),
        "digest": part.digest,
    }


def _parts(stored: str) -> tuple[ProjectPart, ...]:
    return msgspec.json.decode(stored, type=tuple[ProjectPart, ...])


SHOWN_LINES = 40
"""Lines of one part that a question shows."""


def count_parts(parts: Iterable[ProjectPart]) -> str:
    """`2 hooks and 1 MCP server`."""
    kinds = [part.kind for part in parts]
    counted = [(kinds.count(kind), kind) for kind in PartKind if kind in kinds]
    words = [f"{count} {kind}{'' if count == 1 else 's'}" for count, kind in counted]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "nothing"


def describe_parts(parts: Iterable[ProjectPart]) -> str:
    """Every part with its text, as Markdown."""
    return "\n".join(f"{_heading(part)}\n{_fenced(part.text.splitlines())}" for part in parts)


def describe_changes(before: Sequence[ProjectPart], now: Sequence[ProjectPart]) -> str:
    """Describe the additions, changes and removals since, with the differing lines, as Markdown; empty without any."""
    old = {(part.kind, part.name): part for part in before}
    new = {(part.kind, part.name): part for part in now}
    lines: list[str] = []
    for key, part in new.items():
        if key not in old:
            lines.append(f"{_heading(part)} is new\n{_fenced(part.text.splitlines())}")
        elif old[key] != part:
            lines.append(f"{_heading(part)} has changed\n{_difference(old[key], part)}")
    lines += [f"{_heading(part)} is gone" for key, part in old.items() if key not in new]
    return "\n".join(lines)


def _heading(part: ProjectPart) -> str:
    return f"**{part.kind} {_one_line(part.name)}**"


def _difference(old: ProjectPart, new: ProjectPart) -> str:
    import difflib

    if old.text == new.text:
        return "What it shows is the same; a file or a value behind it is not."
    compared = difflib.unified_diff(old.text.splitlines(), new.text.splitlines(), lineterm="", n=1)
    return _fenced([line for line in compared if not line.startswith(("---", "+++", "@@"))], "diff")


def _fenced(lines: Sequence[str], language: str = "") -> str:
    shown = [_one_line(line) for line in lines[:SHOWN_LINES]]
    if len(lines) > SHOWN_LINES:
        shown.append(f"… and {plural(len(lines) - SHOWN_LINES, 'more line')}")
    fence = "```"
    while any(fence in line for line in shown):
        fence += "`"
    return "\n".join((fence + language, *shown, fence))


def _one_line(text: str) -> str:
    # Nothing that a project wrote may steer a terminal or pretend to be something else.
    return with_visible_characters(text)[:500]
