"""What a question is about: the symbols and files that a text names.

Owns: the ways to name one. Must not know: what is asked about it.
"""

import re

from pattern_acp.codemap import lookups, store
from pattern_acp.codemap.find import FindQuery, Match, find
from pattern_acp.codemap.model import FileRecord, Symbol
from pattern_acp.codemap.paths import is_path_like, qualified_parts
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.lazy_dataclass import dataclass

MOST_SYMBOLS = 40
"""Symbols of one name that are looked at together; a name that more have says nothing."""

_AT_LINE = re.compile(r"(.+):(\d+)(?::\d+)?")


@dataclass(frozen=True, slots=True)
class Targets:
    """What a text names: symbols, or a file. Nothing of either when it names nothing; `near` is then what is alike."""

    symbols: tuple[Symbol, ...] = ()
    files: tuple[FileRecord, ...] = ()
    near: tuple[str, ...] = ()
    left_out: int = 0
    """Symbols of the same name that are not among these."""


def targets_named(tx: Transaction, text: str) -> Targets:
    """The symbols or the file that a text names.

    It is a path, its end (when only one file has it), a name, `Class.method`, `path:name` or `path:line`.
    """
    wanted = text.strip().removeprefix("./")
    at_line = _AT_LINE.fullmatch(wanted)
    if at_line is not None and (files := _files(tx, at_line[1])):
        symbol = lookups.symbol_at(tx, files[0].path, int(at_line[2]))
        return Targets((symbol,)) if symbol is not None else Targets(files=files)
    if files := _files(tx, wanted):
        return Targets(files=files)
    if is_path_like(wanted) and ":" not in wanted:
        return Targets(near=_near(tx, wanted))
    return _symbols(tx, wanted)


def _files(tx: Transaction, wanted: str) -> tuple[FileRecord, ...]:
    if not wanted or wanted.endswith("/"):
        return ()
    exact = store.files_at(tx, wanted)
    if exact or not is_path_like(wanted):
        return tuple(exact)
    same_name = store.files_called(tx, wanted.rpartition("/")[2])
    ends = [file for file in same_name if f"/{file.path}".lower().endswith(f"/{wanted.lower()}")]
    return tuple(ends) if len(ends) == 1 else ()


def _symbols(tx: Transaction, wanted: str) -> Targets:
    answer = find(tx, FindQuery(wanted, limit=200), may_show=_everything)
    exact = [hit.symbol for hit in answer.hits if hit.symbol is not None and hit.match is Match.EXACT]
    if not exact:
        exact = [hit.symbol for hit in answer.hits if hit.symbol is not None and hit.match is Match.EXACT_BUT_CASE]
    if not exact:
        names = dict.fromkeys(hit.symbol.qualified_name if hit.symbol else hit.path for hit in answer.hits)
        return Targets(near=tuple(names)[:3])
    name = qualified_parts(wanted.rpartition(":")[2])[-1:]
    same = [symbol for symbol in exact if [symbol.name] == name] or exact
    return Targets(tuple(same[:MOST_SYMBOLS]), left_out=max(len(same) - MOST_SYMBOLS, 0))


def _near(tx: Transaction, wanted: str) -> tuple[str, ...]:
    base = wanted.rpartition("/")[2]
    answer = find(tx, FindQuery(base, kinds=frozenset({"file"}), limit=3), may_show=_everything)
    return tuple(hit.path for hit in answer.hits)


def _everything(_path: str) -> bool:
    return True
