"""`pattern-acp journal redact`: asks, does it, reads everything back, and says what is left.

Owns: the question and what is printed. Must not know: how words are taken out (session/redacting.py), or where they are
looked for afterwards (session/left_words.py).
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Journal
from pattern_acp.cli.output import printable, write_failure, write_json, write_line, write_sentence
from pattern_acp.db.backup import copies_of
from pattern_acp.db.connection import Database
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.text_limits import plural
from pattern_acp.session.redaction import (
    LeftOver,
    NothingLeftError,
    ReadBack,
    RedactionPlan,
    RedactionWanted,
    plan,
    read_back,
    redact_session,
)


class Redacted(Struct, frozen=True):
    """The result of a redaction, and the remains found when everything was read back; without a text nothing is sought.

    `refused` is the error of a redaction that found nothing to do.
    """

    done: RedactionPlan
    clean: bool
    found: ReadBack | None
    refused: NothingLeftError | None = None


async def redact(database: Database, arguments: Journal) -> Redacted | None:
    """Take words out of a session, once the user agreed; None when nothing was agreed to.

    Raises:
        RedactionError: an event would break, and nothing was changed; or there is nothing of these words anywhere.
        DatabaseError: the constellation cannot be read or written.
    """
    wanted = RedactionWanted(arguments.target, arguments.event, arguments.match, arguments.reason)
    if not arguments.assume_yes:
        if not sys.stdin.isatty():
            write_failure(
                "cli.not-confirmed", "pattern-acp: nothing was changed; say --yes to redact without a question."
            )
            return None
        planned = await database.read(lambda tx: plan(tx, wanted))
        if (planned.events or planned.files) and not _confirmed(planned):
            return None
    done, clean, refused = RedactionPlan((), ()), True, None
    try:
        done, clean = await redact_session(database, wanted, at_ms=SystemClock().now_ms())
    except NothingLeftError as error:
        if not wanted.match:
            raise
        refused = error
    found = await read_back(database, wanted.session_id, wanted.match) if wanted.match else None
    if refused and found is not None and not found.left and not found.other_spellings:
        raise refused
    return Redacted(done, clean, found, refused)


def report_redaction(redacted: Redacted, arguments: Journal, path: Path, logs: Sequence[Path]) -> int:
    """Look at the files too, now that the constellation is closed, and say what is left; 1 when anything is.

    Raises:
        RedactionError: nothing was taken out, though the words are written in other letters.
    """
    done, found = redacted.done, redacted.found
    if found is not None:
        found.files(path, logs)
    left = () if found is None else found.left
    others = () if found is None else found.other_spellings
    backups = [str(copy) for copy in copies_of(path)] if found is None else []
    code = EXIT_ERROR if left or redacted.refused or not redacted.clean else EXIT_OK
    if arguments.json:
        facts: dict[str, Json] = {
            "events": len(done.events),
            "files": len(done.files),
            "rows": done.rows,
            "clean": redacted.clean,
            "sessions": [] if found is None else list(found.sessions),
            "backups": backups,
        }
        if found is not None:
            facts |= {"places": found.places, "gone": code == EXIT_OK}
            facts |= {"left": _facts(left), "other_spellings": _facts(others)}
        write_json(facts)
        return code
    if done.events or done.files or done.rows:
        write_line(f"Redacted: {_counted(done)}. It cannot be taken back, and an event of the session says so.")
    else:
        what = "that text" if arguments.match else "words that can be taken out"
        write_line(f"Nothing of the session holds {what} (any more), so nothing was taken out.")
        if redacted.refused is None:
            write_line("The file was rewritten, in case an earlier redaction was cut off.")
    if not redacted.clean:
        write_line("Another process is reading, so old bytes may be left in the file until it has ended.")
    for copy in backups:
        write_line(f"{copy} was made before and may hold the words.")
    if found is not None:
        _write_left(found, left, others, is_clean=redacted.clean)
    return code


def _write_left(found: ReadBack, left: Sequence[LeftOver], others: Sequence[LeftOver], *, is_clean: bool) -> None:
    listed = {one.where for one in left}
    for session in found.sessions:
        if f"session {session}" not in listed:
            how = f"`pattern-acp journal redact {session} --match TEXT` takes them out there."
            write_line(f"{session} recorded the words too; {how}")
    read = plural(found.places, "stored text")
    if left:
        write_line(f"Everything was read back ({read}). The text is left in:")
        for one in left:
            what = one.remedy or "it names something there, so it stays"
            write_line(f"- {printable(one.where)} ({plural(one.places, 'place')}): {printable(what)}")
    elif is_clean:
        spelled = ", spelled just like that," if others else ""
        write_sentence(f"Everything was read back: the text{spelled} is gone from all {read}.")
    if others:
        write_line("It is also there in other spellings; redact each by its own --match:")
        for one in others:
            write_line(f"- {printable(one.where)} ({plural(one.places, 'place')}): {printable(one.spelling)}")


def _facts(found: Sequence[LeftOver]) -> list[Json]:
    return [
        {"where": one.where, "places": one.places, "remedy": one.remedy}
        | ({"spelling": one.spelling} if one.spelling else {})
        for one in found
    ]


def _counted(done: RedactionPlan) -> str:
    counted = [plural(len(done.events), "event")]
    counted += [plural(len(done.files), "stored file")] if done.files else []
    counted += [plural(done.rows, "row")] if done.rows else []
    return ", ".join(counted[:-1]) + " and " + counted[-1] if len(counted) > 1 else counted[0]


def _confirmed(found: RedactionPlan) -> bool:
    sys.stdout.write(f"{_counted(found)}: {', '.join(found.kinds)}.\nTake the words out for good? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
