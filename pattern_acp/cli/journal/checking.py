"""`pattern-acp journal verify` and `journal anchor`: whether what was recorded is what was recorded.

Owns: what they print, and anchors in git notes. Must not know: what a sound chain is (journal/reader.py,
journal/verify_bundle.py).
"""

import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import structs

from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Journal
from pattern_acp.cli.output import printable, write_failure, write_json, write_line
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.journal.errors import AnchorError
from pattern_acp.journal.reader import ChainReport, verify_stream
from pattern_acp.journal.streams import event_hash, stream_position, streams_by_use
from pattern_acp.journal.verify_bundle import Anchor, describe, parse_anchor, verify_bundle
from pattern_acp.journal.writer import CONSTELLATION_STREAM

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
