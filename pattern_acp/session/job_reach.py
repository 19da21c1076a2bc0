"""Files in reach of a job, by the code map of its session.

Owns: which files count as likely. Must not know: what they cost.
"""

import re
from typing import TYPE_CHECKING

from pattern_acp.codemap.lookups import files_named, importer_counts, paths_and_tests, symbol_counts, symbols_with_word
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.canonical import canonical_json
from pattern_acp.domain.globs import compile_glob
from pattern_acp.jobs.quote import LIKELY_FILES, Reach
from pattern_acp.journal.job_events import JobTerms
from pattern_acp.session.code import code_of
from pattern_acp.session.context_usage import stable_part

if TYPE_CHECKING:
    from pattern_acp.codemap.model import IndexProgress
    from pattern_acp.session.session import Session

_WORD = re.compile(r"[^\W\d_]{4,}")
_MOST_WORDS = 24


async def reach_of(session: "Session", terms: JobTerms) -> Reach:
    """The files that the terms leave in reach; nothing where there is no code map.

    Raises:
        WorkspaceError: the index can be neither read nor made again.
    """
    code = code_of(session.constellation, session.state)
    if code is None:
        return Reach()
    found, _ = await code.ask(
        session.state.policy.roots[0], lambda tx: reach_in(tx, terms), on_progress=_unshown, briefly=True
    )
    return found or Reach()


async def _unshown(_progress: "IndexProgress") -> None:
    return


def reach_in(tx: Transaction, terms: JobTerms) -> Reach:
    """The same by an index, in the order of paths, so that it gives the same each time."""
    globs = [compile_glob(pattern, "/") for pattern in terms.paths]
    known = {
        path: is_test
        for path, is_test in paths_and_tests(tx).items()
        if not globs or any(glob.matches(path) for glob in globs)
    }
    words = tuple(dict.fromkeys(word.lower() for word in _WORD.findall(terms.goal)))[:_MOST_WORDS]
    hits: dict[str, int] = {}
    for word in words:
        for path in {symbol.path for symbol in symbols_with_word(tx, word)} | {
            path for path in known if word in path.lower()
        }:
            if path in known:
                hits[path] = hits.get(path, 0) + 1
    ranked = sorted(hits, key=lambda path: (-hits[path], path)) or (sorted(known) if globs else [])
    likely = tuple(ranked[:LIKELY_FILES])
    records, inside = files_named(tx, likely), set(known)
    importers = sum(importer_counts(tx, likely).values()) if len(inside) < len(paths_and_tests(tx)) else 0
    return Reach(
        files=len(known),
        likely=likely,
        bytes=sum(record.size for record in records.values()),
        symbols=sum(symbol_counts(tx, likely).values()),
        importers=importers,
        tests=sum(known.values()),
    )


def session_tokens(session: "Session") -> int:
    """The tokens of the system prompt and the tools, which every request has."""
    stable = stable_part(session)
    tools = canonical_json(
        [{"name": each.name, "description": each.description, "schema": each.input_schema} for each in stable.tools]
    )
    return (len(stable.system.encode("utf-8", "surrogatepass")) + len(tools)) // 4
