"""Carrying out `pattern-acp journal`: verify, anchor, export, redact, rebuild, replay, tail.

Owns: opening the constellation, the questions, anchors in git notes, and what is printed. Must not know: what a sound
chain is, how words are taken out, how a constellation is rebuilt, or what a replay compares.
"""

import difflib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct, structs, to_builtins
from msgspec.structs import replace

from pattern_acp import __version__
from pattern_acp.acp.updates import EditorAbilities, agent_chunks, live_updates
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_CANCELLED, EXIT_ERROR, EXIT_OK, Journal
from pattern_acp.cli.command_runner import constellation_path, full_id, open_for_command, refuse_if_lost
from pattern_acp.cli.output import OutputClosed, printable, write_failure, write_json, write_line, write_sentence
from pattern_acp.config.load import known_secrets
from pattern_acp.db.backup import copies_of
from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import SystemClock, local_minute
from pattern_acp.domain.errors import DatabaseError, JournalError
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.bundle import BundledStream, Mask, bundled_streams, make_bundle, mask_texts, without_content
from pattern_acp.journal.codec import decode, encode
from pattern_acp.journal.errors import AnchorError
from pattern_acp.journal.events import Event, MessageRecorded, SessionCreated, SessionTitled
from pattern_acp.journal.history import active_events, read_history
from pattern_acp.journal.reader import ChainReport, Recorded, verify_stream
from pattern_acp.journal.redact import redacted_among
from pattern_acp.journal.streams import EventHead, event_hash, is_stream, newest_heads, stream_position, streams_by_use
from pattern_acp.journal.verify_bundle import EVENTS, Anchor, describe, parse_anchor, verify_bundle
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.recovery.rebuild import RebuildReport, rebuild_into, take_place
from pattern_acp.replay.comparison import ReplayServices, TurnDifference, TurnsReport, has_turn, replay_turns
from pattern_acp.replay.turn_replay import CurrentComposition
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
from pattern_acp.session.session_row_rebuild import ReplayReport, replay
from pattern_acp.tools.registry import default_tools

LOOK_SECONDS = 0.25

MOST_AT_ONCE = 1_000
"""Most new events of one look; more come with the next ones."""


async def tail(database: Database, arguments: Journal) -> int:
    """Print the newest events, and go on until interrupted."""
    stream = arguments.target or None
    heads = await database.read(lambda tx: newest_heads(tx, stream, after=0, limit=max(arguments.lines, 1)))
    for head in heads if arguments.lines else ():
        _print_head(head, arguments)
    newest = heads[-1].seq if heads else 0
    while arguments.follow:
        await anyio.sleep(LOOK_SECONDS)
        heads = await database.read(lambda tx, n=newest: newest_heads(tx, stream, after=n, limit=MOST_AT_ONCE))
        for head in heads:
            _print_head(head, arguments)
            newest = head.seq
    return EXIT_OK


def _print_head(head: EventHead, arguments: Journal) -> None:
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


NOTES = "pattern-acp"
"""The ref of our git notes: refs/notes/pattern-acp."""

EVERY = 1_000_000

GIT_SECONDS = 10.0


async def verify_file(arguments: Journal) -> int:
    """Check a bundle."""
    anchors = await _anchors(arguments.anchor)
    try:
        report = await anyio.to_thread.run_sync(verify_bundle, Path(arguments.target), anchors)
    except OSError as error:
        write_failure(
            "cli.file-unusable", f"pattern-acp: {arguments.target} cannot be read: {error.strerror or error}."
        )
        return EXIT_ERROR
    if arguments.json:
        write_json(asdict(report))
    else:
        write_line(printable(describe(report)))
    return EXIT_OK if report.ok else EXIT_ERROR


async def verify_streams(database: Database, arguments: Journal) -> int:
    """Check one session, or every session and what belongs to none."""
    anchors = await _anchors(arguments.anchor)
    streams = [arguments.target]
    if not arguments.target:
        streams = [*await database.read(lambda tx: streams_by_use(tx, limit=EVERY)), CONSTELLATION_STREAM]
    unsound, used = 0, 0
    for stream in streams:
        meant = [anchor for anchor in anchors if anchor.stream == stream]
        report = await database.read(lambda tx, s=stream, a=meant: _verify(tx, s, a))
        unsound, used = unsound + (not report.ok), used + len(meant)
        _print(stream, report, arguments, anchored=bool(meant))
    if anchors and not used:
        write_failure("journal.anchor-unusable", "pattern-acp: none of these anchors names a session that was checked.")
        return EXIT_ERROR
    return EXIT_ERROR if unsound else EXIT_OK


def _verify(tx: Transaction, stream: str, anchors: Sequence[Anchor]) -> ChainReport:
    report = verify_stream(tx, stream)
    for anchor in anchors if report.ok else ():
        found = event_hash(tx, stream, anchor.index)
        if found != anchor.hash:
            problem = "the end was cut off" if found is None else "the chain was recomputed"
            return ChainReport(
                report.events, ok=False, first_bad_index=anchor.index, problem=f"it does not fit the anchor: {problem}"
            )
    return report


def _print(stream: str, report: ChainReport, arguments: Journal, *, anchored: bool) -> None:
    if arguments.json:
        write_json({"stream": stream, **structs.asdict(report), "anchored": anchored})
    elif not report.ok:
        write_line(f"{stream}  NOT SOUND at event {report.first_bad_index}: {report.problem}.")
    else:
        redacted = f", {report.redacted} redacted" if report.redacted else ""
        fits = ", the anchor fits" if anchored else ""
        write_line(f"{stream}  sound, {report.events} events{redacted}{fits}")


async def anchor_session(database: Database, arguments: Journal) -> int:
    """Print where the chain of a session has come to, and keep it as a git note when that is wanted."""
    report = await database.read(lambda tx: verify_stream(tx, arguments.target))
    if not report.ok:
        write_failure(
            "journal.not-sound",
            f"pattern-acp: {arguments.target} is not sound, so it gets no anchor: {report.problem}.",
        )
        return EXIT_ERROR
    where = await database.read(lambda tx: stream_position(tx, arguments.target))
    anchor = f"{arguments.target}:{where.session_seq}:{where.hash}"
    if arguments.git_note:
        await _keep_note(anchor)
    if arguments.json:
        write_json({"session": arguments.target, "event": where.session_seq, "hash": where.hash, "anchor": anchor})
    else:
        write_line(anchor)
    return EXIT_OK


async def _keep_note(anchor: str) -> None:
    """Put the anchor into a note on `HEAD`.

    Raises:
        AnchorError: git does not, as in a repository without a commit.
    """
    try:
        await _git(
            *await _identity(), "notes", f"--ref={NOTES}", "append", "-m", f"pattern-acp journal {anchor}", "HEAD"
        )
    except AnchorError as error:
        sentence = f"{error.sentence} A note needs a commit to be on; keep the anchor elsewhere: {anchor}"
        raise AnchorError(sentence) from error


async def _identity() -> tuple[str, ...]:
    """An identity for one call of git where the user set none, without which it refuses a note."""
    try:
        await _git("var", "GIT_COMMITTER_IDENT")
        await _git("var", "GIT_AUTHOR_IDENT")
    except AnchorError:
        return "-c", "user.name=pattern-acp", "-c", "user.email=pattern-acp@localhost"
    return ()


async def _anchors(named: str) -> list[Anchor]:
    """The anchors that `--anchor` means.

    Raises:
        AnchorError: there are none.
    """
    if not named:
        return []
    texts = [named]
    if named == "git":
        listed = await _git("notes", f"--ref={NOTES}", "list")
        noted = [await _git("cat-file", "blob", line.split()[0]) for line in listed.splitlines() if line.strip()]
        texts = [line for note in noted for line in note.splitlines() if line.strip()]
    elif await anyio.Path(named).is_file():
        content = await anyio.Path(named).read_text(encoding="utf-8", errors="replace")
        texts = [line for line in content.splitlines() if line.strip()]
    try:
        found = [parse_anchor(text) for text in texts]
    except ValueError as error:
        raise AnchorError(str(error)) from error
    if not found:
        raise AnchorError("There is no anchor; `pattern-acp journal anchor SESSION` makes one.")
    return found


async def _git(*arguments: str) -> str:
    try:
        with anyio.fail_after(GIT_SECONDS):
            done = await anyio.run_process(["git", *arguments], stdin=subprocess.DEVNULL, check=False)
    except (OSError, TimeoutError) as error:
        raise AnchorError("git did not run here; print the anchor and keep it in another place.") from error
    if done.returncode != 0:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())
        raise AnchorError(f"git refused: {said.rstrip('.') or 'without a reason'}.")
    return done.stdout.decode("utf-8", "replace")


LEFT_OUT = {
    "none": "nothing",
    "secrets": "what looks like a secret",
    "content": "everything that was said, read and written",
}

_LONG_TEXT = 10_000
"""Characters from which a masked text is kept, in case it comes again."""


async def export_session(database: Database, arguments: Journal, secrets: Iterable[str]) -> int:
    """Write the bundle; 1 when the session is not sound or the file is there already."""
    session_id = arguments.target
    path = Path(arguments.output or f"pattern-acp-{session_id}.zip")
    report = await database.read(lambda tx: verify_stream(tx, session_id))
    if not report.ok:
        write_failure(
            "journal.not-sound", f"pattern-acp: {session_id} is not sound and was not exported: {report.problem}."
        )
        return EXIT_ERROR
    mask = mask_of(arguments.leave_out, secrets)

    def read(tx: Transaction) -> tuple[tuple[BundledStream, ...], list[Recorded], str]:
        streams = bundled_streams(tx, session_id, mask)
        return streams, active_events(read_history(tx, session_id)), stream_position(tx, session_id).hash

    streams, recorded, head = await database.read(read)
    pages = await anyio.to_thread.run_sync(
        _pages, session_id, [masked(one, mask) for one in recorded], head, arguments.leave_out
    )
    content = make_bundle(session_id, streams, pages, redaction=arguments.leave_out, program=__version__)
    try:
        await anyio.to_thread.run_sync(_write, path, content)
    except FileExistsError:
        write_failure("cli.file-unusable", f"pattern-acp: {path} exists; name another file with -o.")
        return EXIT_ERROR
    except OSError as error:
        write_failure("cli.file-unusable", f"pattern-acp: {path} cannot be written: {error.strerror or error}.")
        return EXIT_ERROR
    events = sum(len(one.lines) for one in streams)
    if arguments.json:
        write_json({"file": str(path), "events": events, "left_out": arguments.leave_out, "head": head})
    else:
        write_line(f"{path}: {events} events, {len(content):,} bytes. Left out: {LEFT_OUT[arguments.leave_out]}.")
    return EXIT_OK


def mask_of(level: str, secrets: Iterable[str]) -> Mask | None:
    """Return the mask of payloads at a level of `--leave-out`; None when they stay as they are."""
    if level == "none":
        return None
    if level == "content":
        return without_content
    secret = SecretMask(secrets)
    done: dict[str, str] = {}

    def once(text: str) -> str:
        # Events and pages show the same texts, and the long ones take the time.
        if len(text) < _LONG_TEXT:
            return secret.mask(text)
        if text not in done:
            done[text] = secret.mask(text)
        return done[text]

    return lambda kind, payload: mask_texts(kind, payload, once)


def masked(entry: Recorded, mask: Mask | None) -> Recorded:
    """The event as the bundle shows it; one that cannot be read masked keeps nothing but its kind."""
    if mask is None:
        return entry
    encoded = encode(entry.event)
    payload: JsonObject = mask(encoded.kind, encoded.payload)
    try:
        return replace(entry, event=decode(encoded.kind, encoded.version, payload))
    except JournalError:
        return replace(entry, event=SessionTitled(""))


def _pages(session_id: str, recorded: Sequence[Recorded], head: str, level: str) -> dict[str, bytes]:
    # Heavy only here.
    from pattern_acp.session.transcript import conversation_markdown
    from pattern_acp.session.transcript_html import conversation_html

    events = [entry.event for entry in recorded]
    title = next((event.title for event in reversed(events) if isinstance(event, SessionTitled) and event.title), "")
    created = next((event for event in events if isinstance(event, SessionCreated)), None)
    about = [("Session", session_id)]
    if created is not None:
        about += [("Folder", created.cwd), ("Model", created.model)]
    about += [("Left out", LEFT_OUT[level]), ("Chain", head), ("Exported by", f"pattern-acp {__version__}")]
    return {
        "conversation.md": conversation_markdown(
            recorded, title=title, about=[(name, f"`{value}`") for name, value in about]
        ).encode("utf-8", "replace"),
        "conversation.html": conversation_html(recorded, title=title, about=about).encode("utf-8", "replace"),
    }


def _write(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read.

    Raises:
        OSError: it is there already, or cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
    except OSError:
        path.unlink(missing_ok=True)
        raise


_ERASE = "\r\x1b[K"
"""Back to the beginning of the line, which is emptied (ECMA-48)."""

_MOST = 5
"""Problems that are shown; JSON has them all."""


def rebuild_constellation(arguments: Journal, path: Path) -> int:
    """Rebuild the constellation at `path`; 1 when something is not sound, or nothing was put in its place.

    Raises:
        SegmentsError: there are no segments, or nothing in them can be used.
        DatabaseError: a file cannot be written, or another process has the constellation open.
    """
    now_ms = SystemClock().now_ms()
    try:
        if arguments.into:
            report = _rebuilt(arguments, path, Path(arguments.into), now_ms)
            _show(report, arguments, {"into": arguments.into})
            if not arguments.json:
                write_line(printable(f"{arguments.into} holds it; the constellation was not touched."))
            return EXIT_ERROR if report.problems else EXIT_OK
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Beside the constellation: the folder for temporary files may be too small, or lie in memory.
        with TemporaryDirectory(prefix=".rebuilt-", dir=path.parent, ignore_cleanup_errors=True) as scratch:
            return _rebuild_in_place(arguments, path, Path(scratch) / path.name, now_ms)
    except OSError as error:
        raise DatabaseError(f"{error.filename or path} cannot be used ({error.strerror}).") from error


def _rebuilt(arguments: Journal, path: Path, target: Path, now_ms: int) -> RebuildReport:
    if arguments.json or not sys.stderr.isatty():
        return rebuild_into(path, target, number=arguments.generation, now_ms=now_ms)
    shown = ""

    def show(what: str, done: int, of: int) -> None:
        nonlocal shown
        text = f"{what}: {100 * done // max(of, 1)} %" if of > 1 else f"{what} …"
        if text != shown:
            sys.stderr.write(f"{_ERASE}{text}")
            sys.stderr.flush()
            shown = text

    try:
        return rebuild_into(path, target, number=arguments.generation, now_ms=now_ms, progress=show)
    finally:
        sys.stderr.write(_ERASE)
        sys.stderr.flush()


def _rebuild_in_place(arguments: Journal, path: Path, fresh: Path, now_ms: int) -> int:
    report = _rebuilt(arguments, path, fresh, now_ms)
    if not arguments.json:
        _show(report, arguments, {})
    agreed = arguments.replace and (arguments.assume_yes or not sys.stdin.isatty() or _confirmed(path))
    if not arguments.replace:
        agreed = sys.stdin.isatty() and not arguments.json and _confirmed(path)
    safety = take_place(path, fresh, now_ms=now_ms) if agreed else None
    if arguments.json:
        _show(report, arguments, {"replaced": agreed, "before": str(safety) if safety else None})
    elif agreed:
        write_line(printable(f"{path} is now what was rebuilt."))
        if safety:
            write_line(printable(f"The state before it is in {safety}."))
    else:
        write_failure(
            "cli.not-confirmed",
            "pattern-acp: nothing was changed; say --replace to put it in place, or --into FILE to keep it.",
        )
    return EXIT_OK if agreed and not report.problems else EXIT_ERROR


def _show(report: RebuildReport, arguments: Journal, outcome: JsonObject) -> None:
    found = report.rebuilt
    if arguments.json:
        facts: dict[str, Json] = {
            "generation": report.generation,
            "sessions": report.sessions,
            "blocks": report.blocks,
            "problems": list(report.problems),
            "longer": list(report.longer),
            **to_builtins(found),
        }
        write_json({**facts, **outcome})
        return
    counts = (plural(found.events, "event"), plural(report.sessions, "session"), plural(report.blocks, "block"))
    write_line(f"From segments {report.generation}: {', '.join(counts)}, up to {local_minute(found.at_ms)}.")
    if found.torn:
        write_line(f"{plural(found.torn, 'line')} had been cut off while it was written, as a crash leaves it.")
    if found.damaged:
        write_line(f"{plural(len(found.damaged), 'place')} in the segments DAMAGED, which no crash explains:")
        for place in found.damaged[:_MOST]:
            write_line(f"  {printable(place)}")
    if found.moved or found.dropped:
        write_line(f"{plural(found.moved + found.dropped, 'row')} lost the event or the row that it belongs to.")
    for problem in report.problems[:_MOST]:
        write_line(printable(f"NOT SOUND: {problem}"))
    if not report.problems:
        write_line("Every chain, block of memory and stored file of it was checked and is sound.")
    for name in report.longer:
        write_line(f"Segments {name} go further, of a constellation that was replaced; --from {int(name)} takes them.")


def _confirmed(path: Path) -> bool:
    sys.stdout.write(printable(f"Replace it in {path}? The old one stays as a copy. [y/N] "))
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


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
        if (planned.events or planned.files) and not _agreed_to(planned):
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


def _agreed_to(found: RedactionPlan) -> bool:
    sys.stdout.write(f"{_counted(found)}: {', '.join(found.kinds)}.\nTake the words out for good? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


AROUND = 3
"""Lines around each changed one of a difference."""

MOST_LINES = 200
"""Lines of a difference that are printed; --json has all of it."""

ABILITIES = EditorAbilities(terminal_meta=True, embeds_terminals=True)
"""A client that is shown everything."""


async def replay_session(database: Database, arguments: Journal) -> int:
    """Replay a session; 1 at a difference."""
    report = await database.read(lambda tx: replay(tx, arguments.target))
    recorded = await database.read(lambda tx: read_history(tx, arguments.target))
    if arguments.turn and not has_turn(recorded, arguments.turn):
        sentence = f"pattern-acp: the session has no turn {arguments.turn} of its own that asked a model."
        write_failure("session.turn-unknown", sentence)
        return EXIT_ERROR
    forgotten = await database.read(lambda tx: redacted_among(tx, [entry.seq for entry in recorded]))
    turns = await replay_turns(arguments.target, recorded, current_means(), turn=arguments.turn, forgotten=forgotten)
    if arguments.json:
        write_json({**to_builtins(report), "turns": to_builtins(turns)})
    else:
        for line in lines_of(arguments.target, report, turns):
            write_line(printable(line))
    return EXIT_OK if report.difference is None and turns.difference is None else EXIT_ERROR


def current_means() -> ReplayServices:
    """Return the services that replay a session: this program as it is."""
    tools = default_tools()
    return ReplayServices(tools, CurrentComposition(tools), shown_as)


def shown_as(event: Event) -> Json:
    """The session updates of a recorded event; the text of a message comes in pieces while it streams, here whole."""
    updates = agent_chunks(event.message) if isinstance(event, MessageRecorded) else live_updates(event, ABILITIES)
    return msgspec.to_builtins(updates)


def lines_of(session_id: str, report: ReplayReport, turns: TurnsReport) -> Iterator[str]:
    """Yield the lines printed for a replay."""
    found = report.difference
    if found is not None:
        where = f"event {found.index}" if found.index else "the list of sessions"
        yield (f"{session_id}  DIFFERS at {where}: {found.what} was {found.recorded}, replayed it is {found.replayed}.")
    else:
        counts = ", ".join(
            (
                plural(report.events, "event"),
                plural(report.checkpoints, "checkpoint"),
                plural(report.requests, "model request"),
            )
        )
        yield f"{session_id}  replayed the same: {counts}"
    if turns.difference is not None:
        yield from _difference(session_id, turns.difference)
    else:
        counts = ", ".join(
            (plural(turns.turns, "turn"), plural(turns.requests, "model request"), plural(turns.calls, "tool call"))
        )
        yield f"{session_id}  run again the same: {counts}"
    for sentence in turns.not_compared:
        yield f"  not compared: {sentence}"


def _difference(session_id: str, found: TurnDifference) -> Iterator[str]:
    yield f"{session_id}  DIFFERS in turn {found.turn}, request {found.request}: {found.part}"
    before, now = found.recorded.splitlines(), found.replayed.splitlines()
    lines = list(difflib.unified_diff(before, now, "recorded", "replayed", lineterm="", n=AROUND))
    yield from (f"  {line}" for line in lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        yield f"  and {len(lines) - MOST_LINES:,} more lines; --json has all of it"


def run_journal(arguments: Journal, process: Process) -> int:
    """Do what was asked; 1 when something is not sound, or there is no such session.

    Raises:
        PatternError: it could not be done, and why.
    """
    path = constellation_path(process)
    try:
        if arguments.action == "verify" and _is_file(arguments.target):
            return anyio.run(verify_file, arguments)
        if arguments.action == "rebuild":
            return rebuild_constellation(arguments, path)
        refuse_if_lost(path)
        if path.exists():
            return anyio.run(_run, arguments, process, path)
        if arguments.target:
            return _no_such(arguments.target)
        write_line("Nothing was recorded yet.")
    except OutputClosed:
        return EXIT_OK
    except KeyboardInterrupt:
        return EXIT_CANCELLED
    return EXIT_OK


async def _run(arguments: Journal, process: Process, path: Path) -> int:
    writes = arguments.action == "redact"
    opened = open_for_command(process) if writes else open_database(path, clock=SystemClock(), read_only=True)
    async with opened as database:
        arguments = replace(arguments, target=await full_id(database, arguments.target))
        if arguments.target and not await database.read(lambda tx: is_stream(tx, arguments.target)):
            return _no_such(arguments.target)
        if arguments.action != "redact":
            return await _act(database, arguments, process)
        redacted = await redact(database, arguments)
    # SQLite's locks of a process go when it closes any descriptor of the file, so it is read once nothing is open.
    log = process.loaded.paths.log_file
    logs = sorted(log.parent.glob(f"{log.name}*"))
    return EXIT_ERROR if redacted is None else report_redaction(redacted, arguments, path, logs)


async def _act(database: Database, arguments: Journal, process: Process) -> int:
    match arguments.action:
        case "verify":
            return await verify_streams(database, arguments)
        case "anchor":
            return await anchor_session(database, arguments)
        case "export":
            return await export_session(database, arguments, known_secrets(process.loaded.settings))
        case "tail":
            return await tail(database, arguments)
        case "replay":
            return await replay_session(database, arguments)
        case "redact" | "rebuild":
            raise ValueError(f"{arguments.action} is done elsewhere.")


def _is_file(target: str) -> bool:
    """Tell whether it names a bundle; ids of sessions contain neither separators nor dots."""
    return bool(target) and (Path(target).is_file() or target.endswith(".zip") or target == EVENTS)


def _no_such(target: str) -> int:
    write_failure(
        "session.unknown", f"pattern-acp: there is no session {target}; `pattern-acp sessions list --all` lists them."
    )
    return EXIT_ERROR
