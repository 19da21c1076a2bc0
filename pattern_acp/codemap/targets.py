"""What a question is about: the symbols and files that a text names.

Owns: the ways to name one. Must not know: what is asked about it.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from pattern_acp.codemap import lookups, store
from pattern_acp.codemap.find import FindQuery, Match, find
from pattern_acp.codemap.lookups import is_path_like
from pattern_acp.codemap.model import FileRecord, Symbol
from pattern_acp.db.transaction import Transaction

CANDIDATES = 200
"""Things found that are looked through for those that have exactly the name."""

MOST_SYMBOLS = 12
"""Symbols of one name that are looked at together; a name that more have says nothing."""

_AT_LINE = re.compile(r"(.+):(\d+)(?::\d+)?")


class Targets(Struct, frozen=True):
    """What a text names: symbols, or a file. Nothing of either when it names nothing; `near` is then what is alike."""

    symbols: tuple[Symbol, ...] = ()
    files: tuple[FileRecord, ...] = ()
    near: tuple[str, ...] = ()
    left_out: int = 0
    """Symbols of the same name that are not among these."""


def targets_named(tx: Transaction, text: str, *, may_show: Callable[[str], bool]) -> Targets:
    """The symbols or the file that a text names; what may not be shown does not count as being there.

    It is a path, its end (when only one file has it), a name, `Class.method`, `path:name` or `path:line`.
    """
    wanted = text.strip().removeprefix("./")
    at_line = _AT_LINE.fullmatch(wanted)
    if at_line is not None and (files := _files(tx, at_line[1], may_show)):
        symbol = lookups.symbol_at(tx, files[0].path, int(at_line[2]))
        return Targets((symbol,)) if symbol is not None else Targets(files=files)
    if files := _files(tx, wanted, may_show):
        return Targets(files=files)
    if is_path_like(wanted) and ":" not in wanted:
        return Targets(near=_near(tx, wanted, may_show))
    return _symbols(tx, wanted, may_show)


def _files(tx: Transaction, wanted: str, may_show: Callable[[str], bool]) -> tuple[FileRecord, ...]:
    if not wanted or wanted.endswith("/"):
        return ()
    exact = [file for file in store.files_at(tx, wanted) if may_show(file.path)]
    if exact or not is_path_like(wanted):
        return tuple(exact)
    same_name = store.files_called(tx, wanted.rpartition("/")[2])
    ends = [
        file for file in same_name if f"/{file.path}".lower().endswith(f"/{wanted.lower()}") and may_show(file.path)
    ]
    return tuple(ends) if len(ends) == 1 else ()


def _symbols(tx: Transaction, wanted: str, may_show: Callable[[str], bool]) -> Targets:
    answer = find(tx, FindQuery(wanted, limit=CANDIDATES), may_show=may_show)
    exact = [hit.symbol for hit in answer.hits if hit.symbol is not None and hit.match is Match.EXACT]
    if not exact:
        exact = [hit.symbol for hit in answer.hits if hit.symbol is not None and hit.match is Match.EXACT_BUT_CASE]
    if not exact:
        names = dict.fromkeys(hit.symbol.qualified_name if hit.symbol else hit.path for hit in answer.hits)
        return Targets(near=tuple(names)[:3])
    return Targets(tuple(exact[:MOST_SYMBOLS]), left_out=max(len(exact) - MOST_SYMBOLS, 0))


def _near(tx: Transaction, wanted: str, may_show: Callable[[str], bool]) -> tuple[str, ...]:
    base = wanted.rpartition("/")[2]
    answer = find(tx, FindQuery(base, kinds=frozenset({"file"}), limit=3), may_show=may_show)
    return tuple(hit.path for hit in answer.hits)
