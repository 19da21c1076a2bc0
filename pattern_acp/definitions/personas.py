"""Personas: who answers, from Markdown files with a head, or from the sources that are stored of them.

Owns: what a head may say, and the identity of a persona. Must not know: where personas lie, or the texts of those that
come with the program (`context/instructions.py`).
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec import Struct

from pattern_acp.definitions.files import (
    DefinitionFiles,
    Document,
    bodies_of,
    included_sources,
    is_whole,
    read_document,
)
from pattern_acp.definitions.identity import DefinitionSource, KeptSource, identities, leaves_of
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.errors import ConfigError

PERSONA_FILE = "persona.md"
"""Name of a persona's text inside its definition."""

MODES = ("plan", "ask", "edit", "auto")
"""The modes from the one that may do least to the one that may do most."""

_MODEL = re.compile(r"[A-Za-z0-9._-]+/\S+")


class PersonaRef(Struct, frozen=True):
    """The persona of a session: its name, which owns the memory, and the content identity of its prompt (rule R5)."""

    name: str
    identity: str
    tools: tuple[str, ...] = ()
    """Names and patterns of the only tools that it has; empty for all."""
    sources: tuple[DefinitionSource, ...] = ()
    """Its source with those of what it includes; empty for one of which only the prompt is known."""

    @property
    def recorded_symbol(self) -> str:
        """Its canonical name where its source is stored, else empty."""
        return f"persona/{self.name}" if self.sources else ""


class Persona(Struct, frozen=True):
    """Who answers. `identity` is that of its name, its text and all that it includes (rule R5)."""

    name: str
    prompt: str
    closure: tuple[DefinitionSource, ...] = ()
    """Its source, and those of what it includes; empty for one that is its prompt alone."""
    description: str = ""
    tools: tuple[str, ...] = ()
    """Names and patterns of the only tools that it has, as `memory_*`; empty for all."""
    model: str = ""
    """The model with which its sessions begin, as `PROVIDER/MODEL`; empty for that of the settings."""
    mode: str = ""
    """The mode with which its sessions begin, unless the settings' may do less; empty for that of the settings."""

    @property
    def symbol(self) -> str:
        """Its canonical name."""
        return f"persona/{self.name}"

    @property
    def preferences(self) -> str:
        """The part of its head that counts, as text."""
        said = {"tools": ", ".join(self.tools), "model": self.model, "mode": self.mode}
        return "\n".join(f"{key}: {value}" for key, value in said.items() if value)

    @property
    def sources(self) -> tuple[DefinitionSource, ...]:
        """The definition of which its identity is, and those that it includes."""
        own = {PERSONA_FILE: self.prompt.encode("utf-8", "surrogatepass")}
        return self.closure or (DefinitionSource(self.symbol, own),)

    @property
    def identity(self) -> str:
        """Its identity (definitions/identity.py)."""
        return identities([leaves_of(each) for each in self.sources])[self.symbol]

    def is_recorded_as(self, identity: str) -> bool:
        """True when a session was recorded with this persona; earlier releases took the SHA-256 of the prompt."""
        return identity in {self.identity, sha256_hex(self.prompt.encode("utf-8", "surrogatepass"))}

    @property
    def ref(self) -> PersonaRef:
        """The reference that a session stores."""
        return PersonaRef(self.name, self.identity, self.tools, self.sources)


def read_persona_file(name: str, path: Path, boundary: Path | None = None) -> Persona:
    """Read the persona `name` from its file; what it includes lies in `boundary`, anywhere if that is None.

    Raises:
        OSError: the file cannot be read.
        ConfigError: its head has a mistake, and where; or something that it includes cannot be read.
    """
    text, reading = path.read_text(encoding="utf-8", errors="replace"), DefinitionFiles()
    document = _checked(read_document(text))
    if document.problem:
        raise ConfigError(
            f"{document.place_in(path)}: {document.problem}; fix the persona {name!r}, or choose another."
        )
    own = {PERSONA_FILE: text.encode("utf-8", "surrogatepass")}
    entry = DefinitionSource(f"persona/{name}", own, document.items("include"))
    # As with skills, what is included is named by its path from the folder that holds `personas`.
    closure = included_sources(entry, path.parent.parent, boundary or Path(path.anchor), reading)
    if reading.problems:
        raise ConfigError(f"The persona {name!r} includes something that cannot be used: {reading.problems[0]}")
    return persona_of(name, closure)


def persona_of(name: str, closure: Sequence[DefinitionSource]) -> Persona:
    """The persona whose source this is, with those of what it includes; the same from a file and from the store."""
    symbol = f"persona/{name}"
    own = next((each.files.get(PERSONA_FILE, b"") for each in closure if each.symbol == symbol), b"")
    text = own.decode("utf-8", "surrogatepass")
    document = _checked(read_document(text))
    if not document.entries:
        # Without a head the text is the prompt, to the byte.
        return Persona(name, text, tuple(closure))
    return Persona(
        name,
        "\n\n".join((document.body, *bodies_of(closure, symbol))),
        tuple(closure),
        document.text("description"),
        document.items("tools"),
        document.text("model"),
        document.text("mode"),
    )


def kept_persona(name: str, kept: KeptSource) -> Persona | None:
    """The persona of a stored source; None when that is another's, or lost its text to forgetting."""
    own = f"persona/{name}"
    is_usable = kept.symbol == own and PERSONA_FILE in kept.files and is_whole(kept.definitions, own)
    return persona_of(name, kept.definitions) if is_usable else None


INLINE = "inline"
"""Begins the names of personas that were typed: no file has them, so they end with the process of their session."""


def typed_persona(text: str) -> Persona:
    """The persona of a text that was typed, named by its content."""
    return Persona(f"{INLINE}-{sha256_hex(text.encode('utf-8', 'surrogatepass'))[:8]}", text)


def is_typed(name: str, known: Collection[str]) -> bool:
    """Tell whether a name is that of a persona that was typed, and that none of the known ones is called so."""
    return name.startswith(f"{INLINE}-") and name not in known


def lower_mode(first: str, second: str) -> str:
    """The one of two modes that may do less; an empty one is none."""
    return min((mode for mode in (first, second) if mode), key=MODES.index, default="")


def _checked(document: Document) -> Document:
    """The head of a persona's file, with the first thing in it that cannot be used."""
    if document.problem:
        return document
    if document.entries and not document.body and not document.items("include"):
        return document.with_problem("name", "there is no prompt below the head")
    if document.text("mode") and document.text("mode") not in MODES:
        return document.with_problem(
            "mode", f"there is no mode {document.text('mode')[:40]!r}; modes are {', '.join(MODES)}"
        )
    if document.text("model") and not _MODEL.fullmatch(document.text("model")):
        return document.with_problem("model", "a model is written as PROVIDER/MODEL")
    return document
