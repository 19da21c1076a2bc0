"""`pattern-acp journal export`: a session as one file, with pages to read.

Owns: what goes into the file, and where it goes. Must not know: the form of the bundle (journal/bundle.py) or of the
pages (session/transcript_markdown.py, session/transcript_html.py).
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import anyio.to_thread
from msgspec.structs import replace

from pattern_acp import __version__
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Journal
from pattern_acp.cli.output import write_failure, write_json, write_line
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.errors import JournalError
from pattern_acp.journal.bundle import BundledStream, Mask, bundled_streams, make_bundle, mask_texts, without_content
from pattern_acp.journal.codec import decode, encode
from pattern_acp.journal.events import SessionCreated, SessionTitled
from pattern_acp.journal.history import active_events, read_history
from pattern_acp.journal.reader import Recorded, verify_stream
from pattern_acp.journal.streams import stream_position
from pattern_acp.memory.secrets import SecretMask

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
