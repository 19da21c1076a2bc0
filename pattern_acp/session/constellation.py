"""What all sessions of one process share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pattern_acp.config.settings import Settings
from pattern_acp.context.instructions import Persona
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.ids import IdFactory
from pattern_acp.journal.leases import Holder
from pattern_acp.providers.base import ModelInfo
from pattern_acp.providers.registry import Providers
from pattern_acp.tools.base import Tool


@dataclass(slots=True)
class Constellation:
    """One open constellation and the means to act on it."""

    name: str
    database: Database
    providers: Providers
    settings: Settings
    clock: Clock
    ids: IdFactory
    peer: int
    """Loro's peer id of this process start (reference: memory, section 0.3)."""
    holder: Holder
    tools: tuple[Tool, ...]
    persona: Persona
    default_model: ModelInfo
    model_reason: str = ""
    """Why that model was chosen, in a sentence."""
    problems: tuple[str, ...] = ()
    """Sentences about settings that could not be used."""
    diagnose: Callable[[], Awaitable[str]] | None = None
    """Writes the report of /doctor as Markdown."""
    platform: str = ""
    notices: list[str] = field(default_factory=list[str])
    """Sentences to show once, at the next prompt of any session."""
