"""What makes an archival entry a trap, a constraint or a decision, as it is asked for.

Owns: reading what a writer gives, and taking over from a corrected entry what is not given anew. Must not know: how
entries are stored, or who is warned.
"""

from msgspec import Struct

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.globs import compile_glob
from pattern_acp.memory.errors import UnusableEditError
from pattern_acp.memory.path_notes import BoundKind, Severity, Terms, end_of_day

_LABEL = "archive"


class GivenTerms(Struct, frozen=True):
    """What a writer gives; empty is not given.

    `until` is a day like 2026-12-31, the last on which it holds, or `NEVER` for one that has no last day.
    """

    kind: str = ""
    paths: tuple[str, ...] = ()
    severity: str = ""
    until: str = ""


NO_TERMS = GivenTerms()

NEVER = "never"
"""Takes the last day away that a corrected entry has."""


def terms_of(given: GivenTerms, old: Terms | None = None) -> Terms | None:
    """The terms of a new entry, which corrects one of the terms `old`; None for a plain fact.

    Raises:
        UnusableEditError: the kind is missing, a pattern cannot be used, or the day is none.
    """
    if not given.kind and old is None:
        if given != NO_TERMS:
            problem = f"`kind` is missing; paths, severity and until are for {', '.join(BoundKind)}."
            raise UnusableEditError(_LABEL, problem)
        return None
    kind = BoundKind(given.kind) if given.kind else (old.kind if old is not None else BoundKind.TRAP)
    severity = old.severity if old is not None else Severity.MEDIUM
    return Terms(
        kind,
        _usable(given.paths) or (old.paths if old is not None else ()),
        Severity(given.severity) if given.severity else severity,
        _until(given.until) if given.until else (old.until_ms if old is not None else None),
    )


def _usable(paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        try:
            compile_glob(path, "/")
        except WorkspaceError as error:
            raise UnusableEditError(_LABEL, f"the pattern {path!r} cannot be used. {error.sentence}") from error
        reason = _meaningless(path.strip().removeprefix("!"))
        if reason:
            raise UnusableEditError(_LABEL, f"the pattern {path!r} cannot be used. {reason}")
    stripped = tuple(dict.fromkeys(path.strip() for path in paths))
    if stripped and all(path.startswith("!") for path in stripped):
        raise UnusableEditError(
            _LABEL, f"{', '.join(stripped)} only take files out; give a pattern before that has them."
        )
    return stripped


def _meaningless(pattern: str) -> str:
    """Why no file of the project is ever meant, in a sentence; empty where one may be."""
    parts = pattern.replace("\\", "/").split("/")
    if parts[0] == "~" or ".." in parts:
        return "Patterns are relative to the project and mean nothing outside of it."
    return "For all files of the project, give '**'." if pattern == "." else ""


def is_never(until: str) -> bool:
    """Whether what is given means that there is no last day."""
    return until.strip().lower() == NEVER


def _until(text: str) -> int | None:
    if is_never(text):
        return None
    try:
        return end_of_day(text)
    except ValueError:
        raise UnusableEditError(
            _LABEL, f"`until` is no day: {text[:40]!r}; write it like 2026-12-31, or {NEVER}."
        ) from None
