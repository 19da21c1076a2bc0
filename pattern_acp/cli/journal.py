"""Carrying out `pattern-acp journal`: verify, anchor, export, redact, rebuild, replay, tail.

Owns: opening the constellation, the questions, anchors in git notes, and the results. Must not know: what a sound
chain is, how words are taken out, how a constellation is rebuilt, or what a replay compares.
"""

import difflib
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread
import msgspec
from msgspec import structs, to_builtins
from msgspec.structs import replace

from pattern_acp import __version__
from pattern_acp.acp.updates import EditorAbilities, agent_chunks, live_updates
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_OK, Journal
from pattern_acp.cli.command_runner import (
    full_id,
    open_for_command,
    refuse_if_lost,
    show_answer,
    unknown_session,
)
from pattern_acp.cli.output import confirmed, write_failure, write_line
from pattern_acp.cli.rendering import plain
from pattern_acp.commands.document import Fence, Paragraph, Part, Result, as_result
from pattern_acp.config.load import known_secrets
from pattern_acp.db.backup import copies_of
from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import SystemClock, local_minute
from pattern_acp.domain.errors import DatabaseError, JournalError, PatternError
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.bundle import BundledStream, Mask, bundled_streams, make_bundle, mask_texts, without_content
from pattern_acp.journal.codec import AnchorError, MissingSessionError, decode, encode
from pattern_acp.journal.events import Event, MessageRecorded, SessionCreated, SessionTitled
from pattern_acp.journal.history import active_events, read_history
from pattern_acp.journal.reader import (
    ChainReport,
    EventHead,
    Recorded,
    event_hash,
    is_stream,
    newest_heads,
    stream_position,
    streams_by_use,
    verify_stream,
)
from pattern_acp.journal.redact import redacted_among
from pattern_acp.journal.verify_bundle import EVENTS, Anchor, BundleReport, describe, parse_anchor, verify_bundle
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


class EventShown(Result, frozen=True):
    """One event, without its content; `of_one` where only its stream is followed."""

    head: EventHead
    of_one: bool

    @property
    def value(self) -> object:
        """The event alone."""
        return self.head

    @property
    def document(self) -> Sequence[Part]:
        """One line."""
        head = self.head
        where = "" if self.of_one else f"{head.stream}  "
        who = f"{head.actor}/{head.origin}  {head.size:,} B"
        about = f"  {head.item}" if head.item else ""
        return (Fence(f"{local_minute(head.at_ms)}  {where}{head.session_seq:>6}  {head.kind:<22} {who}{about}"),)


async def tail(database: Database, arguments: Journal) -> AsyncGenerator[EventShown, None]:
    """Yield the newest events, and continue until interrupted."""
    stream = arguments.target or None
    heads = await database.read(lambda tx: newest_heads(tx, stream, after=0, limit=max(arguments.lines, 1)))
    for head in heads if arguments.lines else ():
        yield EventShown(head, stream is not None)
    newest = heads[-1].seq if heads else 0
    while arguments.follow:
        await anyio.sleep(LOOK_SECONDS)
        heads = await database.read(lambda tx, n=newest: newest_heads(tx, stream, after=n, limit=MOST_AT_ONCE))
        for head in heads:
            yield EventShown(head, stream is not None)
            newest = head.seq


NOTES = "pattern-acp"
"""The ref of our git notes: refs/notes/pattern-acp."""

EVERY = 1_000_000

GIT_SECONDS = 10.0


class BundleChecked(Result, frozen=True):
    """A bundle that was checked."""

    report: BundleReport

    @property
    def value(self) -> object:
        """The report."""
        return asdict(self.report)

    @property
    def document(self) -> Sequence[Part]:
        """Its sentences."""
        return (Paragraph(describe(self.report)),)

    @property
    def is_failure(self) -> bool:
        """True when it is not sound."""
        return not self.report.ok


class StreamChecked(Result, frozen=True):
    """A session that was checked."""

    stream: str
    report: ChainReport
    anchored: bool

    @property
    def value(self) -> object:
        """The report, with the session's id."""
        return {"stream": self.stream, **structs.asdict(self.report), "anchored": self.anchored}

    @property
    def document(self) -> Sequence[Part]:
        """One sentence."""
        report = self.report
        if not report.ok:
            return (
                Paragraph(f"{self.stream}  NOT SOUND at event {report.first_bad_index}: {report.problem}.", "error"),
            )
        redacted = f", {report.redacted} redacted" if report.redacted else ""
        fits = ", the anchor fits" if self.anchored else ""
        return (Paragraph(f"{self.stream}  sound, {report.events} events{redacted}{fits}"),)

    @property
    def is_failure(self) -> bool:
        """True when it is not sound."""
        return not self.report.ok


class Anchored(Result, frozen=True):
    """The place and hash at which a session's chain has come to."""

    session: str
    event: int
    hash: str
    anchor: str

    @property
    def document(self) -> Sequence[Part]:
        """The anchor, which is copied."""
        return (Fence(self.anchor),)


async def verify_file(arguments: Journal) -> BundleChecked:
    """Check a bundle. Raises PatternError where it cannot be read, or there is no such anchor."""
    anchors = await _anchors(arguments.anchor)
    try:
        return BundleChecked(await anyio.to_thread.run_sync(verify_bundle, Path(arguments.target), anchors))
    except OSError as error:
        raise _unusable(f"{arguments.target} cannot be read: {error.strerror or error}.") from error


async def verify_streams(database: Database, arguments: Journal) -> AsyncGenerator[StreamChecked, None]:
    """Check one session, or every session and what belongs to none.

    Raises:
        AnchorError: the anchors are of other sessions.
    """
    anchors = await _anchors(arguments.anchor)
    streams = [arguments.target]
    if not arguments.target:
        streams = [*await database.read(lambda tx: streams_by_use(tx, limit=EVERY)), CONSTELLATION_STREAM]
    used = 0
    for stream in streams:
        meant = [anchor for anchor in anchors if anchor.stream == stream]
        report = await database.read(lambda tx, s=stream, a=meant: _verify(tx, s, a))
        used += len(meant)
        yield StreamChecked(stream, report, bool(meant))
    if anchors and not used:
        raise AnchorError("None of these anchors names a session that was checked.")


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


async def anchor_session(database: Database, arguments: Journal) -> Anchored:
    """Return where the chain of a session has come to, and keep it as a git note when that is wanted.

    Raises:
        JournalError: the session is not sound, or git takes no note.
    """
    await _sound(database, arguments.target, "so it gets no anchor")
    where = await database.read(lambda tx: stream_position(tx, arguments.target))
    anchor = f"{arguments.target}:{where.session_seq}:{where.hash}"
    if arguments.git_note:
        await _keep_note(anchor)
    return Anchored(arguments.target, where.session_seq, where.hash, anchor)


async def _sound(database: Database, session_id: str, so: str) -> None:
    report = await database.read(lambda tx: verify_stream(tx, session_id))
    if not report.ok:
        raise JournalError(f"{session_id} is not sound, {so}: {report.problem}.", failure_code="journal.not-sound")


def _unusable(sentence: str) -> PatternError:
    return PatternError(sentence, failure_code="cli.file-unusable")


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
    """The anchors that `--anchor` means. Raises AnchorError where there are none."""
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
"""Characters from which a masked text is stored, in case it comes again."""


class BundleWritten(Result, frozen=True):
    """A bundle that was written."""

    file: str
    events: int
    left_out: str
    head: str
    size: int

    @property
    def value(self) -> object:
        """The fields but the size, which the file says."""
        return {"file": self.file, "events": self.events, "left_out": self.left_out, "head": self.head}

    @property
    def document(self) -> Sequence[Part]:
        """One sentence."""
        left_out = LEFT_OUT[self.left_out]
        return (Paragraph(f"{self.file}: {self.events} events, {self.size:,} bytes. Left out: {left_out}."),)


async def export_session(database: Database, arguments: Journal, secrets: Iterable[str]) -> BundleWritten:
    """Write the bundle.

    Raises:
        PatternError: the session is not sound, or the file is there already or cannot be written.
    """
    session_id = arguments.target
    path = Path(arguments.output or f"pattern-acp-{session_id}.zip")
    await _sound(database, session_id, "so it was not exported")
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
    except FileExistsError as error:
        raise _unusable(f"{path} exists; name another file with -o.") from error
    except OSError as error:
        raise _unusable(f"{path} cannot be written: {error.strerror or error}.") from error
    return BundleWritten(str(path), sum(len(one.lines) for one in streams), arguments.leave_out, head, len(content))


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
    from pattern_acp.session.transcript import conversation_html, conversation_markdown

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
    """Write a new file that only its owner can read. Raises OSError where it is there already, or cannot be written."""
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


class RebuiltConstellation(Result, frozen=True):
    """A constellation that was rebuilt, and what became of it: a file, or the constellation's place."""

    report: RebuildReport
    outcome: Mapping[str, Json] = {}
    place: str = ""
    shown: bool = False
    """The report was shown before the question."""

    @property
    def value(self) -> object:
        """The counts, the problems, and the outcome."""
        report = self.report
        return {
            "generation": report.generation,
            "sessions": report.sessions,
            "blocks": report.blocks,
            "problems": list(report.problems),
            "longer": list(report.longer),
            **to_builtins(report.rebuilt),
            **self.outcome,
        }

    @property
    def document(self) -> Sequence[Part]:
        """Sentences about both."""
        return tuple(map(Paragraph, (*(() if self.shown else self._found()), *self._outcome())))

    @property
    def is_failure(self) -> bool:
        """True when something is not sound, or nothing was put in its place."""
        return bool(self.report.problems) or self.outcome.get("replaced") is False

    def _found(self) -> Iterator[str]:
        report, found = self.report, self.report.rebuilt
        counts = (plural(found.events, "event"), plural(report.sessions, "session"), plural(report.blocks, "block"))
        yield f"From segments {report.generation}: {', '.join(counts)}, up to {local_minute(found.at_ms)}."
        if found.torn:
            yield f"{plural(found.torn, 'line')} had been cut off while it was written, as a crash leaves it."
        if found.damaged:
            yield f"{plural(len(found.damaged), 'place')} in the segments DAMAGED, which no crash explains:"
            yield from (f"  {place}" for place in found.damaged[:_MOST])
        if found.moved or found.dropped:
            yield f"{plural(found.moved + found.dropped, 'row')} lost the event or the row that it belongs to."
        yield from (f"NOT SOUND: {problem}" for problem in report.problems[:_MOST])
        if not report.problems:
            yield "Every chain, block of memory and stored file of it was checked and is sound."
        for name in report.longer:
            yield f"Segments {name} go further, of a constellation that was replaced; --from {int(name)} takes them."

    def _outcome(self) -> Iterator[str]:
        if into := self.outcome.get("into"):
            yield f"{into} holds it; the constellation was not touched."
        if self.outcome.get("replaced"):
            yield f"{self.place} is now what was rebuilt."
        if before := self.outcome.get("before"):
            yield f"The state before it is in {before}."


def rebuild_constellation(arguments: Journal, path: Path) -> RebuiltConstellation:
    """Rebuild the constellation at `path`.

    Raises:
        SegmentsError: there are no segments, or nothing in them can be used.
        DatabaseError: a file cannot be written, or another process has the constellation open.
    """
    now_ms = SystemClock().now_ms()
    try:
        if arguments.into:
            return RebuiltConstellation(
                _rebuilt(arguments, path, Path(arguments.into), now_ms), {"into": arguments.into}
            )
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


def _rebuild_in_place(arguments: Journal, path: Path, fresh: Path, now_ms: int) -> RebuiltConstellation:
    report = _rebuilt(arguments, path, fresh, now_ms)
    asks = (
        sys.stdin.isatty()
        and (arguments.replace or not arguments.json)
        and not (arguments.replace and arguments.assume_yes)
    )
    shown = asks and not arguments.json
    if shown:
        write_line(plain(RebuiltConstellation(report).document))
    agrees = confirmed(f"Replace it in {path}? The old one stays as a copy.") if asks else arguments.replace
    safety = take_place(path, fresh, now_ms=now_ms) if agrees else None
    if not agrees:
        write_failure(
            "cli.not-confirmed",
            "pattern-acp: nothing was changed; say --replace to put it in place, or --into FILE to keep it.",
        )
    return RebuiltConstellation(
        report, {"replaced": agrees, "before": str(safety) if safety else None}, str(path), shown
    )


class Redacted(Result, frozen=True):
    """The result of a redaction, and the remains found when everything was read back; without a text nothing is sought.

    `refused` is the error of a redaction that found nothing to do. `backups` were made before it, where no text is
    sought in them.
    """

    done: RedactionPlan
    clean: bool
    found: ReadBack | None
    by_text: bool
    refused: NothingLeftError | None = None
    backups: tuple[str, ...] = ()

    @property
    def is_failure(self) -> bool:
        """True when anything is left."""
        return bool(self._left or self.refused or not self.clean)

    @property
    def value(self) -> object:
        """The counts, and the places that have the text still."""
        facts: dict[str, Json] = {
            "events": len(self.done.events),
            "files": len(self.done.files),
            "rows": self.done.rows,
            "clean": self.clean,
            "sessions": [] if self.found is None else list(self.found.sessions),
            "backups": list(self.backups),
        }
        if self.found is not None:
            facts |= {"places": self.found.places, "gone": not self.is_failure}
            facts |= {"left": _facts(self._left), "other_spellings": _facts(self.found.other_spellings)}
        return facts

    @property
    def document(self) -> Sequence[Part]:
        """Sentences about what was taken out, and about what is left."""
        return tuple(map(Paragraph, (*self._taken(), *(() if self.found is None else self._read_back(self.found)))))

    @property
    def _left(self) -> Sequence[LeftOver]:
        return () if self.found is None else self.found.left

    def _taken(self) -> Iterator[str]:
        done = self.done
        if done.events or done.files or done.rows:
            yield f"Redacted: {_counted(done)}. It cannot be taken back, and an event of the session says so."
        else:
            what = "that text" if self.by_text else "words that can be taken out"
            yield f"Nothing of the session holds {what} (any more), so nothing was taken out."
            if self.refused is None:
                yield "The file was rewritten, in case an earlier redaction was cut off."
        if not self.clean:
            yield "Another process is reading, so old bytes may be left in the file until it has ended."
        yield from (f"{copy} was made before and may hold the words." for copy in self.backups)

    def _read_back(self, found: ReadBack) -> Iterator[str]:
        left, others = found.left, found.other_spellings
        listed = {one.where for one in left}
        for session in found.sessions:
            if f"session {session}" not in listed:
                how = f"`pattern-acp journal redact {session} --match TEXT` takes them out there."
                yield f"{session} recorded the words too; {how}"
        read = plural(found.places, "stored text")
        if left:
            yield f"Everything was read back ({read}). The text is left in:"
            for one in left:
                what = one.remedy or "it names something there, so it stays"
                yield f"- {one.where} ({plural(one.places, 'place')}): {what}"
        elif self.clean:
            spelled = ", spelled just like that," if others else ""
            yield f"Everything was read back: the text{spelled} is gone from all {read}."
        if others:
            yield "It is also there in other spellings; redact each by its own --match:"
            yield from (f"- {one.where} ({plural(one.places, 'place')}): {one.spelling}" for one in others)


def _not_confirmed(how: str) -> PatternError:
    return PatternError(f"Nothing was changed; {how}.", failure_code="cli.not-confirmed")


async def redact(database: Database, arguments: Journal) -> Redacted:
    """Take words out of a session, once the user agreed.

    Raises:
        PatternError: nothing was agreed to.
        RedactionError: an event would break, and nothing was changed; or there is nothing of these words anywhere.
    """
    wanted = RedactionWanted(arguments.target, arguments.event, arguments.match, arguments.reason)
    if not arguments.assume_yes:
        if not sys.stdin.isatty():
            raise _not_confirmed("say --yes to redact without a question")
        planned = await database.read(lambda tx: plan(tx, wanted))
        question = f"{_counted(planned)}: {', '.join(planned.kinds)}.\nTake the words out for good?"
        if (planned.events or planned.files) and not confirmed(question):
            raise _not_confirmed("the question was not answered with yes")
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
    return Redacted(done, clean, found, bool(wanted.match), refused)


def with_files(redacted: Redacted, path: Path, logs: Sequence[Path]) -> Redacted:
    """Look at the files too, now that the constellation is closed.

    Raises:
        RedactionError: nothing was taken out, though the words are written in other letters.
    """
    if redacted.found is None:
        return replace(redacted, backups=tuple(str(copy) for copy in copies_of(path)))
    redacted.found.files(path, logs)
    return redacted


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


AROUND = 3
"""Lines around each changed one of a difference."""

MOST_LINES = 200
"""Lines of a difference that are printed; --json has all of it."""

ABILITIES = EditorAbilities(terminal_meta=True, embeds_terminals=True)
"""A client that is shown everything."""


class Replayed(Result, frozen=True):
    """A session whose record was followed, and whose turns ran again."""

    session: str
    report: ReplayReport
    turns: TurnsReport

    @property
    def value(self) -> object:
        """Both reports."""
        return {**to_builtins(self.report), "turns": to_builtins(self.turns)}

    @property
    def is_failure(self) -> bool:
        """True at a difference."""
        return self.report.difference is not None or self.turns.difference is not None

    @property
    def document(self) -> Sequence[Part]:
        """A sentence about each, and the first difference."""
        report, turns = self.report, self.turns
        asked = plural(report.requests, "model request")
        counts = f"{plural(report.events, 'event')}, {plural(report.checkpoints, 'checkpoint')}, {asked}"
        first = Paragraph(f"{self.session}  replayed the same: {counts}")
        if (found := report.difference) is not None:
            where = f"event {found.index}" if found.index else "the list of sessions"
            differs = f"DIFFERS at {where}: {found.what} was {found.recorded}, replayed it is {found.replayed}."
            first = Paragraph(f"{self.session}  {differs}", "error")
        not_compared = [Paragraph(f"  not compared: {sentence}") for sentence in turns.not_compared]
        if turns.difference is not None:
            return (first, *_difference(self.session, turns.difference), *not_compared)
        asked = plural(turns.requests, "model request")
        counts = f"{plural(turns.turns, 'turn')}, {asked}, {plural(turns.calls, 'tool call')}"
        return (first, Paragraph(f"{self.session}  run again the same: {counts}"), *not_compared)


async def replay_session(database: Database, arguments: Journal) -> Replayed:
    """Replay a session. Raises PatternError where it has no such turn."""
    report = await database.read(lambda tx: replay(tx, arguments.target))
    recorded = await database.read(lambda tx: read_history(tx, arguments.target))
    if arguments.turn and not has_turn(recorded, arguments.turn):
        sentence = f"The session has no turn {arguments.turn} of its own that asked a model."
        raise PatternError(sentence, failure_code="session.turn-unknown")
    forgotten = await database.read(lambda tx: redacted_among(tx, [entry.seq for entry in recorded]))
    turns = await replay_turns(arguments.target, recorded, current_means(), turn=arguments.turn, forgotten=forgotten)
    return Replayed(arguments.target, report, turns)


def current_means() -> ReplayServices:
    """Return the services that replay a session: this program as it is."""
    tools = default_tools()
    return ReplayServices(tools, CurrentComposition(tools), shown_as)


def shown_as(event: Event) -> Json:
    """The session updates of a recorded event; the text of a message comes in pieces while it streams, here whole."""
    updates = agent_chunks(event.message) if isinstance(event, MessageRecorded) else live_updates(event, ABILITIES)
    return msgspec.to_builtins(updates)


def _difference(session_id: str, found: TurnDifference) -> Iterator[Part]:
    yield Paragraph(f"{session_id}  DIFFERS in turn {found.turn}, request {found.request}: {found.part}", "error")
    before, now = found.recorded.splitlines(), found.replayed.splitlines()
    lines = list(difflib.unified_diff(before, now, "recorded", "replayed", lineterm="", n=AROUND))
    left = len(lines) - MOST_LINES
    more = f"\n  and {plural(left, 'more line')}; --json has all of it" if left > 0 else ""
    yield Fence("\n".join(f"  {line}" for line in lines[:MOST_LINES]) + more)


def run_journal(arguments: Journal, process: Process) -> int:
    """Do what was asked; 1 when something is not sound, or nothing was changed.

    Raises:
        PatternError: it could not be done, and why.
    """
    try:
        return _answer(arguments, process, process.constellation_path)
    except MissingSessionError as error:
        raise unknown_session(error) from error


def _answer(arguments: Journal, process: Process, path: Path) -> int:
    show = partial(show_answer, process=process, as_json=arguments.json)

    async def answer() -> int:
        async with aclosing(_results(arguments, process, path)) as results:
            return max([show(one) async for one in results], default=EXIT_OK)

    if arguments.action == "verify" and _is_file(arguments.target):
        return show(anyio.run(verify_file, arguments))
    if arguments.action == "rebuild":
        return show(rebuild_constellation(arguments, path))
    refuse_if_lost(path)
    if path.exists():
        return anyio.run(answer)
    if arguments.target:
        raise MissingSessionError(arguments.target)
    return show(as_result("Nothing was recorded yet."))


async def _results(arguments: Journal, process: Process, path: Path) -> AsyncGenerator[Result, None]:
    """The answers, one after another as they are known."""
    redacted: Redacted | None = None
    writes = arguments.action == "redact"
    opened = open_for_command(process) if writes else open_database(path, clock=SystemClock(), read_only=True)
    async with opened as database:
        arguments = replace(arguments, target=await full_id(database, arguments.target))
        if arguments.target and not await database.read(lambda tx: is_stream(tx, arguments.target)):
            raise MissingSessionError(arguments.target)
        match arguments.action:
            case "verify":
                async for checked in verify_streams(database, arguments):
                    yield checked
            case "anchor":
                yield await anchor_session(database, arguments)
            case "export":
                yield await export_session(database, arguments, known_secrets(process.loaded.settings))
            case "tail":
                async for event in tail(database, arguments):
                    yield event
            case "replay":
                yield await replay_session(database, arguments)
            case _:
                redacted = await redact(database, arguments)
    if redacted is not None:
        # SQLite's locks of a process go when it closes any descriptor of the file, so it is read once nothing is open.
        log = process.loaded.paths.log_file
        yield with_files(redacted, path, sorted(log.parent.glob(f"{log.name}*")))


def _is_file(target: str) -> bool:
    """Tell whether it names a bundle; ids of sessions contain neither separators nor dots."""
    return bool(target) and (Path(target).is_file() or target.endswith(".zip") or target == EVENTS)
