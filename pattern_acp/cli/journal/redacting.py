"""`pattern-acp journal redact`: asks, does it, and says what is left.

Owns: the question and what is printed. Must not know: how words are taken out (session/redacting.py).
"""

import sys

from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK
from pattern_acp.cli.journal_arguments import Journal
from pattern_acp.cli.output import write_failure, write_json, write_line
from pattern_acp.db.backup import copies_of
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.session.redacting import RedactionPlan, RedactionWanted, held_elsewhere, plan, redact_session
from pattern_acp.tools.text_limits import plural


async def redact(database: Database, arguments: Journal) -> int:
    """Take words out of a session, once the person agreed.

    Raises:
        RedactionError: there is nothing to redact, or an event would break; nothing was changed.
        DatabaseError: the constellation cannot be read or written.
    """
    wanted = RedactionWanted(arguments.target, arguments.event, arguments.match, arguments.reason)
    if not arguments.assume_yes:
        if not sys.stdin.isatty():
            write_failure(
                "cli.not-confirmed", "pattern-acp: nothing was changed; say --yes to redact without a question."
            )
            return EXIT_ERROR
        found = await database.read(lambda tx: plan(tx, wanted))
        if (found.events or found.files) and not _confirmed(found):
            return EXIT_ERROR
    done, clean = await redact_session(database, wanted, at_ms=SystemClock().now_ms())
    elsewhere = await database.read(lambda tx: held_elsewhere(tx, wanted))
    backups = [str(path) for path in copies_of(database.path)]
    if arguments.json:
        facts = {
            "events": len(done.events),
            "files": len(done.files),
            "clean": clean,
            "sessions": list(elsewhere),
            "backups": backups,
        }
        write_json(facts)
        return EXIT_OK
    if done.events or done.files:
        write_line(f"Redacted: {_counted(done)}. It cannot be taken back, and an event of the session says so.")
    else:
        what = "that text" if arguments.match else "words that can be taken out"
        write_line(f"Nothing of the session holds {what} (any more), so nothing was taken out.")
        write_line("The file was written anew, in case an earlier redaction was cut off.")
    if not clean:
        write_line("Another process is reading, so old bytes may be left in the file until it has ended.")
    for session in elsewhere:
        write_line(f"{session} recorded the words too; `pattern-acp journal redact {session}` takes them out there.")
    for path in backups:
        write_line(f"{path} was made before and may hold the words.")
    return EXIT_OK


def _counted(done: RedactionPlan) -> str:
    files = f" and {plural(len(done.files), 'kept file')}" if done.files else ""
    return plural(len(done.events), "event") + files


def _confirmed(found: RedactionPlan) -> bool:
    sys.stdout.write(f"{_counted(found)}: {', '.join(found.kinds)}.\nTake the words out for good? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
