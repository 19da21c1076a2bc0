"""`pattern-acp memory search`: what /recall finds, in a terminal.

Owns: which memory is searched, with which embedder. Must not know: how results look, or how things are found.
"""

from pattern_acp.bootstrap.embedding import open_embedder
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.memory_arguments import Memory
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.memory.indexer import Indexer
from pattern_acp.session.recall_command import RECALL_LIMIT, RECALLED_FROM
from pattern_acp.tools.base import MemoryHit
from pattern_acp.tools.memory_scope import MemoryOwner
from pattern_acp.tools.memory_search import SessionSearch, without_repeats
from pattern_acp.tools.narrowing import narrowing_of


async def search_memory(
    arguments: Memory, process: Process, database: Database, owner: MemoryOwner
) -> tuple[MemoryHit, ...]:
    """What the person's words find among all that the persona and the project remember, best first.

    As many as /recall shows, and like there one for all that say the same. Isolation hides nothing from the person.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    clock = SystemClock()
    narrowing = narrowing_of(arguments.kinds, arguments.scope, arguments.since, arguments.until)
    async with open_embedder(process.loaded.settings, clock) as chosen:
        indexer = Indexer(database, chosen.embedder, clock)
        searching = SessionSearch(database, owner.owners, owner.session_id, clock=clock, indexer=indexer)
        found = await searching.search(arguments.passage, RECALLED_FROM, narrowing)
    return tuple(without_repeats(found)[:RECALL_LIMIT])
