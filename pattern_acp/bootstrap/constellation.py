"""Builds what the sessions of an open constellation share."""

import platform
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread

from pattern_acp.bootstrap.credentials import KeysOfPerson
from pattern_acp.bootstrap.embedding import MODELS, open_embedder
from pattern_acp.bootstrap.opening import OpenedConstellation
from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.project import read_project
from pattern_acp.config.settings import SearchSettings
from pattern_acp.context.instructions import BUILT_IN, NAMES, known_personas, load_persona
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.definitions.personas import Persona
from pattern_acp.domain.clock import RandomIds, SystemClock
from pattern_acp.domain.errors import ConfigError
from pattern_acp.journal.leases import this_process
from pattern_acp.memory.indexer import Indexer
from pattern_acp.providers.registry import Providers
from pattern_acp.session.constellation import Constellation
from pattern_acp.tools.registry import default_tools
from pattern_acp.workspace.shell import machine_of

if TYPE_CHECKING:
    from pattern_acp.web import WebSearcher

TEMPLATES = "templates"
"""Folder beside `config.toml` in which a user may keep templates of memory blocks, one TOML file each."""

PERSONAS = "personas"
"""Folder beside `config.toml` in which a user may keep personas, one Markdown file each."""

PROVIDERS_CLOSE_SECONDS = 0.3


@asynccontextmanager
async def open_constellation(
    process: Process, providers: Providers, opened: OpenedConstellation
) -> AsyncGenerator[Constellation, None]:
    """Everything that the sessions of the constellation in an open file share, until the context ends.

    Raises:
        ConfigError: the persona cannot be read, or the model cannot be obtained and no other may take its place.
    """
    settings, paths = process.loaded.settings, process.loaded.paths
    clock, ids, database = SystemClock(), RandomIds(), opened.database
    keys = KeysOfPerson(process)
    async with open_embedder(settings, clock, paths.cache / MODELS, keys) as chosen:
        choice = await providers.choose()
        if choice.wrong and process.exact_model:
            raise ConfigError(choice.wrong)
        _, model = providers.resolve(choice.qualified)
        agreed = partial(digest_agreed_to, database)
        problems = [str(problem) for problem in process.loaded.problems]
        problems += [problem for problem in (opened.lost, choice.problem, chosen.problem) if problem]

        yield Constellation(
            name=process.constellation,
            database=database,
            models=providers,
            settings=settings,
            clock=clock,
            ids=ids,
            peer=ids.peer(),
            holder=this_process(ids.new("run")),
            tools=default_tools(
                private_addresses=settings.fetch.private_addresses,
                searcher=open_searcher(settings.search, process.environ, keys),
            ),
            persona=await anyio.to_thread.run_sync(read_persona, process, settings.persona, agreed),
            persona_named=partial(read_persona, process, agreed=agreed),
            personas=await anyio.to_thread.run_sync(known_personas, *_persona_folders(paths.config)),
            default_model=model,
            model_reason=choice.reason,
            problems=tuple(problems),
            settings_for=partial(read_project, process),
            indexer=Indexer(database, chosen.embedder, clock),
            own_instructions=paths.config / NAMES[0],
            template_folder=paths.config / TEMPLATES,
            platform=f"{platform.system()} {platform.release()}",
            machine=partial(machine_of, process.environ),
            notices=problems,
        )


def open_searcher(settings: SearchSettings, environ: Mapping[str, str], keys: KeysOfPerson) -> "WebSearcher | None":
    """The web search that the user set up; None without a vendor, or without its key or address."""
    if settings.provider == "off":
        return None
    # Late: most users set up no search.
    from pattern_acp.web import WebSearcher, key_owner, what_is_missing

    owner = key_owner(settings.provider, environ)
    if what_is_missing(settings, has_key=owner is not None and bool(keys.used(owner))):
        return None
    return WebSearcher(settings.provider, partial(keys.search_key, owner), settings.url)


def _persona_folders(config: Path) -> tuple[Path, ...]:
    """The user's own, and those of bundles."""
    return (config / PERSONAS, *sorted((config / "bundles").glob(f"[!.]*/{PERSONAS}")))


def digest_agreed_to(database: Database, root: str) -> str:
    """The digest of a folder or bundle that the user agreed to, empty without one; for worker threads alone."""
    # Late: most users have no bundles.
    from pattern_acp.trust import load_agreement

    def read(tx: Transaction) -> str:
        agreement = load_agreement(tx, root)
        return agreement.digest if agreement is not None else ""

    return anyio.from_thread.run(database.read, read)


def read_persona(process: Process, name: str, agreed: Callable[[str], str] | None = None) -> Persona:
    """A persona by its name; `agreed` tells which digest of a bundle the user agreed to, and is asked if it is there.

    Raises:
        ConfigError: its file cannot be read, or is of a bundle that is not what the user agreed to.
    """
    folder, *bundled = _persona_folders(process.loaded.paths.config)
    try:
        if agreed is not None and bundled and name not in BUILT_IN and not (folder / f"{name}.md").is_file():
            _require_agreement(name, bundled, agreed)
        return load_persona(name, folder, bundled)
    except OSError as error:
        raise ConfigError(f"The persona {name!r} cannot be read ({error.strerror}); fix {folder}.") from error


def _require_agreement(name: str, bundled: Sequence[Path], agreed: Callable[[str], str]) -> None:
    from pattern_acp.definitions.bundles import BundleUnusableError, read_bundle

    place = next((place.parent for place in bundled if (place / f"{name}.md").is_file()), None)
    if place is None:
        return
    try:
        digest = read_bundle(place).digest
    except BundleUnusableError as error:
        raise ConfigError(f"The persona {name!r} cannot be used: {error.sentence}") from error
    if agreed(str(place)) != digest:
        raise ConfigError(
            f"The persona {name!r} is of the bundle {place.name}, which is not what you agreed to: `pattern-acp bundle"
            f" update {place.name}` shows the difference; or choose another persona."
        )


@asynccontextmanager
async def open_providers(process: Process) -> AsyncGenerator[Providers, None]:
    """All providers of the process; their connections are closed, within a bounded time, when the context ends."""
    providers = Providers(process.loaded.settings, process.loaded.paths.cache, keys=KeysOfPerson(process))
    try:
        yield providers
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(PROVIDERS_CLOSE_SECONDS):
            await providers.aclose()
