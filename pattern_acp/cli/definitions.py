"""`pattern-acp definitions`: the stored sources of personas, skills and commands.

Owns: each verb and what it answers. Must not know: which session is defined by what (`/definitions` does).
"""

import difflib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.command_runner import open_for_command
from pattern_acp.commands.document import Column, Fence, Heading, Paragraph, Part, Result, Table, columns
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.context.instructions import BUILT_IN, NOWHERE, load_persona
from pattern_acp.db.connection import Database, Transaction, open_for_reading
from pattern_acp.definitions.identity import (
    KeptSource,
    ListedSource,
    SourceDamagedError,
    damaged_sources,
    encoded,
    keep_source,
    list_sources,
    note_source,
    read_sources,
)
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.journal.events import DefinitionNoted
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append

SHOWN_IDENTITY = 12
"""Characters of an identity that a user reads."""

MOST_NOTE = 500
"""Characters of a note."""


class DefinitionDesk(Struct, frozen=True):
    """Dependencies of every verb."""

    database: Database


@asynccontextmanager
async def open_definitions(call: TypedCommand, process: Process) -> AsyncGenerator[DefinitionDesk, None]:
    """Open the services of the verbs."""
    # Before the first session there is no constellation to read.
    if call.command == "note" or not process.constellation_path.exists():
        async with open_for_command(process) as database:
            yield DefinitionDesk(database)
        return
    async with open_for_reading(process.constellation_path, clock=SystemClock()) as database:
        yield DefinitionDesk(database)


class DefinitionList(Result, frozen=True):
    """The stored sources."""

    definitions: tuple[ListedSource, ...] = ()

    @property
    def document(self) -> Sequence[Part]:
        """A table."""
        if not self.definitions:
            return (
                Paragraph(
                    "No source is stored yet; the next session stores those of its persona, skills and commands."
                ),
            )
        rows = tuple(
            (each.symbol, each.identity[:SHOWN_IDENTITY], f"{each.size:,}", each.note) for each in self.definitions
        )
        return (Table(columns(Column("Definition", "cyan"), "Identity", "Bytes", "Note"), rows),)


class DefinitionShown(Result, frozen=True):
    """One definition with its files; of data only the size is said."""

    symbol: str
    identity: str
    files: tuple[tuple[str, str], ...]

    @property
    def document(self) -> Sequence[Part]:
        """Every file below its name."""
        heading = Heading(f"{self.symbol} ({self.identity})")
        return (heading, *(part for name, text in self.files for part in (Paragraph(name), Fence(text))))


class DefinitionDiff(Result, frozen=True):
    """The difference of two definitions."""

    diff: str

    @property
    def document(self) -> Sequence[Part]:
        """The lines that differ."""
        return (Fence(self.diff, "diff"),) if self.diff else (Paragraph("Nothing but the names differs."),)


class DefinitionSentence(Result, frozen=True):
    """A sentence on what was done or found."""

    sentence: str
    sound: bool = True

    @property
    def document(self) -> Sequence[Part]:
        """The sentence."""
        return (Paragraph(self.sentence),)

    @property
    def is_failure(self) -> bool:
        """True when a source is not what was stored."""
        return not self.sound


async def list_definitions(desk: DefinitionDesk) -> DefinitionList:
    """List the stored sources."""
    return DefinitionList(await desk.database.read(list_sources))


async def show(desk: DefinitionDesk, definition: str) -> DefinitionShown:
    """Show a definition. Raises PatternError where there is none, or its source is damaged."""
    kept = await _meant(desk, definition)
    return DefinitionShown(kept.symbol, kept.identity, tuple(_texts(kept).items()))


async def diff(desk: DefinitionDesk, definition: str, other: str) -> DefinitionDiff:
    """Compare two definitions. Raises PatternError where there is none, or a source is damaged."""
    old, new = _texts(await _meant(desk, definition)), _texts(await _meant(desk, other))
    lines = [
        line
        for name in sorted({*old, *new})
        for line in difflib.unified_diff(
            old.get(name, "").splitlines(), new.get(name, "").splitlines(), name, name, lineterm=""
        )
    ]
    return DefinitionDiff("\n".join(lines))


async def export(desk: DefinitionDesk, definition: str, folder: str) -> DefinitionSentence:
    """Write the files of a definition, and of what it includes, into a new folder.

    Raises:
        PatternError: there is none, its source is damaged, or the folder cannot be written.
    """
    kept = await _meant(desk, definition)
    place = Path(folder)
    try:
        count = await anyio.to_thread.run_sync(_write, kept, place)
    except OSError as error:
        sentence = f"{place} cannot be written ({error.strerror}); name a folder that does not exist yet."
        raise PatternError(sentence, failure_code="cli.file-unusable") from error
    return DefinitionSentence(f"{count} files of {kept.symbol} are in {place} now.")


async def note(desk: DefinitionDesk, definition: str, text: str = "") -> DefinitionSentence:
    """Write a note on the identity of a definition, instead of an earlier one; an empty one takes it away.

    Raises:
        PatternError: there is no such definition.
    """
    kept = await _meant(desk, definition)
    words = " ".join(text.split())[:MOST_NOTE]
    at_ms = SystemClock().now_ms()

    def write(tx: Transaction) -> None:
        event = DefinitionNoted(kept.identity, kept.symbol, words)
        noted = append(tx, CONSTELLATION_STREAM, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=at_ms)
        keep_source(tx, kept.identity, kept.symbol, encoded(kept.definitions), seq=noted.seq)
        note_source(tx, kept.identity, words, seq=noted.seq)

    await desk.database.write(write)
    named = f"{kept.symbol} ({kept.identity[:SHOWN_IDENTITY]})"
    return DefinitionSentence(f"Noted on {named}: {words}" if words else f"{named} has no note any more.")


async def verify(desk: DefinitionDesk) -> DefinitionSentence:
    """Check that every stored source is what was stored."""
    known, damaged = await desk.database.read(lambda tx: (list_sources(tx), damaged_sources(tx)))
    if damaged:
        names = ", ".join(f"{symbol} ({identity[:SHOWN_IDENTITY]})" for symbol, identity in damaged)
        remedy = "`pattern-acp sessions adopt SESSION` lets a session continue with the definitions of today"
        return DefinitionSentence(f"Not what was stored: {names}; {remedy}.", sound=False)
    return DefinitionSentence(f"All {len(known)} sources are what was stored.")


async def _meant(desk: DefinitionDesk, beginning: str) -> KeptSource:
    def read(tx: Transaction) -> KeptSource:
        known = list_sources(tx)
        found = [each for each in known if each.symbol == beginning]
        found = found or [each for each in known if beginning and each.identity.startswith(beginning.lower())]
        built_in = beginning.removeprefix("persona/")
        if not found and built_in != beginning and built_in in BUILT_IN:
            # Before a session has had it, so that it can be copied and changed.
            persona = load_persona(built_in, NOWHERE)
            return KeptSource(persona.identity, persona.symbol, persona.sources)
        if len(found) != 1:
            what = "may be one of several" if found else "is none"
            sentence = f"{beginning[:80]!r} {what}: name an identity as `pattern-acp definitions list` shows it."
            raise PatternError(sentence, failure_code="cli.usage")
        return read_sources(tx, (found[0].identity,))[found[0].identity]

    try:
        return await desk.database.read(read)
    except SourceDamagedError as error:
        raise PatternError(error.sentence, failure_code=error.failure_code) from error


def _texts(kept: KeptSource) -> dict[str, str]:
    return {
        name if each.symbol == kept.symbol else f"{each.symbol}: {name}": _text(content)
        for each in kept.definitions
        for name, content in each.files.items()
    }


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return f"[{len(content):,} bytes of data]"


def _write(kept: KeptSource, place: Path) -> int:
    place.mkdir(parents=True)
    count = 0
    for each in kept.definitions:
        root = place if each.symbol == kept.symbol else place / "included" / each.symbol
        for name, content in each.files.items():
            # As it is called among the user's own personas.
            kind, _, own = each.symbol.partition("/")
            target = root / (f"{own}.md" if kind == "persona" else name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            count += 1
    return count
