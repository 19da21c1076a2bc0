"""`pattern-acp sessions` where it changes something: rename, archive, delete, undelete, fork.

Owns: what each prints. Must not know: how it is done (session/stored.py, session/forking.py).
"""

from collections.abc import Mapping

from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK
from pattern_acp.cli.output import write_failure, write_json, write_line
from pattern_acp.cli.session_arguments import Sessions
from pattern_acp.db.connection import Database
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import RandomIds
from pattern_acp.journal.errors import UnknownSessionError
from pattern_acp.journal.leases import this_process
from pattern_acp.session.forking import fork_session
from pattern_acp.session.stored import archive_session, delete_session, rename_session, restore_session
from pattern_acp.tools.text_limits import plural


async def change_session(database: Database, arguments: Sessions, *, days: int) -> int:
    """Do it and say so; 1 with a sentence when it cannot be done.

    `days` is how long a deleted session can be brought back.

    Raises:
        UnknownSessionError: there is no such session.
    """
    try:
        done, facts = await _change(database, arguments, days)
    except UnknownSessionError:
        raise
    except PatternError as error:
        write_failure(error.failure_code, f"pattern-acp: {error.sentence}")
        return EXIT_ERROR
    if arguments.json:
        write_json(dict(facts))
    else:
        write_line(done)
    return EXIT_OK


async def _change(database: Database, arguments: Sessions, days: int) -> tuple[str, Mapping[str, Json]]:
    session_id, clock = arguments.session, SystemClock()
    now = clock.now_ms()
    facts: dict[str, Json] = {"id": session_id, "done": arguments.action}
    match arguments.action:
        case "rename":
            title = await rename_session(database, session_id, arguments.text, now=now)
            return f"{session_id} is now called “{title}”.", {**facts, "title": title}
        case "archive" | "unarchive":
            away = arguments.action == "archive"
            await archive_session(database, session_id, archived=away, now=now)
            return f"{session_id} is {'put away' if away else 'back in the list'}.", facts
        case "undelete":
            await restore_session(database, session_id, now=now, days=days)
            return f"{session_id} is back in the list.", facts
        case "fork":
            fork = await fork_session(database, session_id, arguments.text, clock=clock, ids=RandomIds())
            made: dict[str, Json] = {**facts, "fork": fork.session_id, "title": fork.title, "turns": fork.turns}
            return f"{fork.session_id} “{fork.title}” begins with {plural(fork.turns, 'turn')} of {session_id}.", made
        case _:
            if not await delete_session(database, session_id, this_process(RandomIds().new("cli")), now=now):
                raise UnknownSessionError(session_id)
            return f"Deleted {session_id}; `pattern-acp sessions undelete {session_id}` brings it back.", facts
