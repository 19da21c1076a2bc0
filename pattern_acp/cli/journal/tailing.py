"""`pattern-acp journal tail`: what is being recorded, as it is recorded.

Owns: the lines, and how often is looked. Must not know: what events say, which it does not show: a terminal is often
seen by others, and `journal export` shows everything.
"""

import anyio

from pattern_acp.cli.arguments import EXIT_OK, Journal
from pattern_acp.cli.output import printable, write_json, write_line
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import local_minute
from pattern_acp.journal.streams import EventHead, newest_heads

LOOK_SECONDS = 0.25

MOST_AT_ONCE = 1_000
"""Most new events of one look; more come with the next ones."""


async def tail(database: Database, arguments: Journal) -> int:
    """Print the newest events, and go on until interrupted."""
    stream = arguments.target or None
    heads = await database.read(lambda tx: newest_heads(tx, stream, after=0, limit=max(arguments.lines, 1)))
    for head in heads if arguments.lines else ():
        _print(head, arguments)
    newest = heads[-1].seq if heads else 0
    while arguments.follow:
        await anyio.sleep(LOOK_SECONDS)
        heads = await database.read(lambda tx, n=newest: newest_heads(tx, stream, after=n, limit=MOST_AT_ONCE))
        for head in heads:
            _print(head, arguments)
            newest = head.seq
    return EXIT_OK


def _print(head: EventHead, arguments: Journal) -> None:
    if arguments.json:
        names = ("seq", "stream", "session_seq", "at_ms", "kind", "actor", "origin", "item", "size")
        write_json({name: getattr(head, name) for name in names})
        return
    where = "" if arguments.target else f"{head.stream}  "
    about = f"  {printable(head.item)}" if head.item else ""
    write_line(
        f"{local_minute(head.at_ms)}  {where}{head.session_seq:>6}  {head.kind:<22} {head.actor}/{head.origin}"
        f"  {head.size:,} B{about}"
    )
