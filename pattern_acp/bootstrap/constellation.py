"""Builds what the sessions of an open constellation share."""

import platform
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from pattern_acp.bootstrap.credentials import KeysOfPerson
from pattern_acp.bootstrap.embedding import open_embedder
from pattern_acp.bootstrap.opening import OpenedConstellation
from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.project import read_project
from pattern_acp.config.settings import SearchSettings
from pattern_acp.context.instructions import NAMES, known_personas, load_persona
from pattern_acp.definitions.personas import Persona
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import ConfigError
from pattern_acp.domain.ids import RandomIds
from pattern_acp.journal.leases import this_process
from pattern_acp.memory.indexer import Indexer
from pattern_acp.providers.registry import Providers
from pattern_acp.session.constellation import Constellation
from pattern_acp.tools.registry import default_tools
from pattern_acp.workspace.shell import machine_of

if TYPE_CHECKING:
    from pattern_acp.web.searching import WebSearcher

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
        ConfigError: the persona cannot be read, or the model cannot be had and no other may stand in.
    """
    settings, paths = process.loaded.settings, process.loaded.paths
    clock, ids, database = SystemClock(), RandomIds(), opened.database
    keys = KeysOfPerson(process)
    async with open_embedder(settings, clock, keys) as chosen:
        choice = await providers.choose()
        if choice.wrong and process.exact_model:
            raise ConfigError(choice.wrong)
        _, model = providers.resolve(choice.qualified)
        problems = [str(problem) for problem in process.loaded.problems]
        problems += [problem for problem in (opened.lost, choice.problem, chosen.problem) if problem]

        yield Constellation(
            name=settings.constellation,
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
            persona=await anyio.to_thread.run_sync(read_persona, process, settings.persona),
            persona_named=partial(read_persona, process),
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
    from pattern_acp.web.searching import WebSearcher, key_owner, what_is_missing

    owner = key_owner(settings.provider, environ)
    if what_is_missing(settings, has_key=owner is not None and bool(keys.used(owner))):
        return None
    return WebSearcher(settings.provider, partial(keys.search_key, owner), settings.url)


def _persona_folders(config: Path) -> tuple[Path, ...]:
    """The user's own, and those of bundles."""
    return (config / PERSONAS, *sorted((config / "bundles").glob(f"[!.]*/{PERSONAS}")))


def read_persona(process: Process, name: str) -> Persona:
    """A persona by its name.

    Raises:
        ConfigError: its file cannot be read.
    """
    folder, *bundled = _persona_folders(process.loaded.paths.config)
    try:
        return load_persona(name, folder, bundled)
    except OSError as error:
        raise ConfigError(f"The persona {name!r} cannot be read ({error.strerror}); mend {folder}.") from error


@asynccontextmanager
async def open_providers(process: Process) -> AsyncGenerator[Providers, None]:
    """All providers of the process; their connections are closed, within a bounded time, when the context ends."""
    providers = Providers(process.loaded.settings, process.loaded.paths.cache, keys=KeysOfPerson(process))
    try:
        yield providers
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(PROVIDERS_CLOSE_SECONDS):
            await providers.aclose()
