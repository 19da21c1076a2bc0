"""`pattern-acp journal replay`: says whether a session's events still make what was recorded of them.

Owns: what is printed. Must not know: what is compared (session/replaying.py).
"""

from dataclasses import asdict

from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK
from pattern_acp.cli.journal_arguments import Journal
from pattern_acp.cli.output import printable, write_json, write_line
from pattern_acp.db.connection import Database
from pattern_acp.session.replaying import replay


async def replay_session(database: Database, arguments: Journal) -> int:
    """Replay a session; 1 at a difference."""
    report = await database.read(lambda tx: replay(tx, arguments.target))
    found = report.difference
    if arguments.json:
        write_json(asdict(report))
    elif found is None:
        counts = f"{report.events} events, {report.checkpoints} checkpoints, {report.requests} model requests"
        write_line(f"{arguments.target}  replayed the same: {counts}")
    else:
        where = f"event {found.index}" if found.index else "the list of sessions"
        write_line(
            printable(
                f"{arguments.target}  DIFFERS at {where}: {found.what} was {found.recorded}, "
                f"replayed it is {found.replayed}."
            )
        )
    return EXIT_OK if found is None else EXIT_ERROR
