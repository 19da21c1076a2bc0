"""State that all sessions of one process share."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from pattern_acp.commands.document import Result
from pattern_acp.config.project_offer import NOTHING, ProjectOffer
from pattern_acp.config.settings import LspSettings, Settings
from pattern_acp.db.connection import Database
from pattern_acp.definitions.collection import NO_DEFINITIONS, Definitions
from pattern_acp.definitions.personas import Persona
from pattern_acp.domain.clock import Clock, IdFactory
from pattern_acp.hooks import HookRunner
from pattern_acp.journal.leases import Holder
from pattern_acp.journal.sessions import PageWanted, SessionPage
from pattern_acp.mcp_servers.host import ServerHost
from pattern_acp.memory.indexer import Indexer
from pattern_acp.providers.base import ModelInfo, Provider, ProviderRequest, Route
from pattern_acp.providers.retry import RetryPolicy
from pattern_acp.tools.base import CodeAccess, Tool
from pattern_acp.workspace.folder_changes import FolderChanges
from pattern_acp.workspace.git import GitStatus
from pattern_acp.workspace.shell import Machine

if TYPE_CHECKING:
    from pattern_acp.definitions.bundles import Bundle
    from pattern_acp.lsp.servers import LanguageServers
    from pattern_acp.memory.service.forget import Tell
    from pattern_acp.policy.sandbox import Sandboxing

AskGit: TypeAlias = Callable[[str, float], Awaitable[GitStatus | None]]
"""The state of the repository around a folder, within so many seconds."""

RECALL_SECONDS = 0.15
"""Longest a turn waits for what is recalled (issue 3, section 5): a user does not notice it."""

HANDOFF_SECONDS = 1.0
"""Longest that closing takes to record where sessions stood; the process may have to end soon."""


WATCH_SECONDS = 5.0
"""Between two looks for what a watch of a group watches."""


async def _pause_of_watches() -> None:
    await anyio.sleep(WATCH_SECONDS)


class Models(Protocol):
    """The models that can be chosen: `providers.registry.Providers`, or a fake."""

    def available(self) -> Sequence[ModelInfo]:
        """Models that are known already, without asking anyone."""
        ...

    def resolve(self, qualified: str) -> tuple[Provider, ModelInfo]:
        """The provider and model named `PROVIDER/MODEL`.

        Raises:
            ProviderError: there is no such provider.
        """
        ...

    def with_fallback(
        self,
        provider: Provider,
        info: ModelInfo,
        tokens_of: Callable[[ProviderRequest], int],
        refusal: Callable[[ModelInfo, int, int], Awaitable[str]] | None = None,
    ) -> Provider:
        """`provider`, behind which other models replace one turn when it is out, as the user set up.

        `tokens_of` says about how many tokens a request has for the model that it names; `refusal` why a model may not
        replace a request of so many tokens and so long an answer, empty when it may.
        """
        ...

    def missing_key(self, qualified: str) -> str:
        """A sentence that names what is missing when the model's provider has no key and needs one; else empty."""
        ...

    def key_in_use(self, qualified: str) -> str:
        """Source of the key of the model's provider, with its last four characters; empty without a key."""
        ...

    def default(self) -> ModelInfo:
        """The model that new sessions begin with, by what is known now."""
        ...

    def routes(self) -> Sequence[Route]:
        """The ways to the providers that a client may configure."""
        ...

    async def set_route(self, name: str, url: str, headers: Mapping[str, str]) -> None:
        """Reach a provider at another address, with these headers and none of the user's keys.

        Raises:
            ProviderError: there is no such provider.
        """
        ...

    def disable(self, name: str) -> None:
        """Use a provider no more. Raises like `set_route`."""
        ...

    async def learn(self, qualified: str) -> None:
        """Wait a moment for what the model's provider says of it, where its window is not known. Never raises."""
        ...

    def key_warning(self, qualified: str) -> str:
        """A sentence when the key of the model's provider goes to it unencrypted; else empty."""
        ...


class ProjectSettings(Struct, frozen=True):
    """The settings of one project, and sentences about what its file may not set."""

    settings: Settings
    problems: tuple[str, ...] = ()
    offer: ProjectOffer = NOTHING
    """Parts of the project that would run once the user trusts the folder."""
    definitions: Definitions = NO_DEFINITIONS
    """The commands and skills of the user and of the project."""
    bundles: "tuple[Bundle, ...]" = ()
    """Installed bundles, whether or not the user agreed to them as they are now."""
    repository: str | None = None
    """Root of the git repository around the folder, empty without one; None where nobody has looked."""


class Constellation(Struct):
    """One open constellation and the means to act on it."""

    name: str
    database: Database
    models: Models
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
    diagnose: Callable[[], Awaitable[Result]] | None = None
    """Checks what this agent needs, for /doctor."""
    settings_for: Callable[[str], ProjectSettings] | None = None
    """The settings with a project's `.pattern/config.toml` taken in; reads files, so it runs in a worker thread."""
    tell_forgetting: "Callable[[], Awaitable[Tell]] | None" = None
    """Prepares the noting of what is forgotten for the user's other devices; None: there are none."""
    before_turn: Callable[[], Awaitable[None]] | None = None
    """Takes in what other processes have told the user's memory since; None where that is in this file."""
    pages_elsewhere: Callable[[PageWanted], Awaitable[Sequence[SessionPage]]] | None = None
    """Reads the same page of the list of sessions from other constellations; None: there are none."""
    indexer: Indexer | None = None
    """Lets searches go by meaning; None: by words alone."""
    persona_named: Callable[[str], Persona] | None = None
    """Reads a persona by its name, in a worker thread; None: there is only `persona`."""
    personas: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of the personas that a session may change to, each with what it is for; empty: it cannot."""
    own_instructions: Path | None = None
    """The user's own AGENTS.md, which holds in every project."""
    template_folder: Path | None = None
    """The user's own templates of memory blocks."""
    servers: ServerHost | None = None
    """Runs MCP servers of sessions; None: there are none."""
    git_status: AskGit | None = None
    """The state of the repository around a folder, within so many seconds; None: nobody can say."""
    folder_changes: FolderChanges | None = None
    """Finds out what commands changed in files; None: only what file tools change is stored."""
    recall_seconds: float = RECALL_SECONDS
    """Longest a turn waits for what is recalled."""
    handoff_seconds: float = HANDOFF_SECONDS
    """Longest that closing takes to record where sessions stood."""
    pause_of_watches: Callable[[], Awaitable[None]] = _pause_of_watches
    """Passes the time between two looks for what a watch of a group watches."""
    turn_began: anyio.Event = field(default_factory=anyio.Event)
    """Set when a turn begins; the one who waits for the next one puts a new event in its place."""
    asked: anyio.Event = field(default_factory=anyio.Event)
    """Set when the first request of all goes to a model."""
    background: TaskGroup | None = None
    """Runs what outlives a turn: background commands; None: there are none."""
    sandboxing: "Sandboxing | None" = None
    """Confines the commands of sessions; None: nothing does."""
    hooks: HookRunner | None = None
    """Runs the commands of hooks; None: none run."""
    code: CodeAccess | None = None
    """The code maps of workspaces; None: there are none."""
    languages: "Callable[[LspSettings, tuple[str, ...], Callable[[], bool]], LanguageServers] | None" = None
    """Makes the language servers of a session, of its settings, its folders, and whether they are trusted; None: there
    are none."""
    pauses: RetryPolicy = field(default_factory=RetryPolicy)
    """Pauses before the model is asked to continue with an answer that broke off."""
    platform: str = ""
    machine: Callable[[], Machine] = Machine
    """Looks for the shell and programs of commands; blocks, so it runs in a worker thread."""
    elsewhere: str | None = None
    """Name of the machine that the client's files are on, empty where it does not say; None: they are on this one.

    Nothing of a session then looks at the disk of this machine, and its tools are those of `tools.registry.elsewhere`.
    """
    notices: list[str] = field(default_factory=list[str])
    """Sentences to show once, at the next prompt of any session."""
    warned: set[str] = field(default_factory=set[str])
    """Warnings of models that were shown, and are not shown again while this process runs."""
