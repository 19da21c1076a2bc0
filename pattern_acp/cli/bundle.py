"""`pattern-acp bundle`: install, compare, update and remove bundles.

Owns: each verb, the question before it, and what it answers. Must not know: what a bundle may contain.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.command_runner import open_for_command
from pattern_acp.cli.output import agreed, write_line
from pattern_acp.commands.document import Column, Paragraph, Part, Result, Table, columns
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.db.connection import Database
from pattern_acp.definitions.bundles import (
    BUNDLES,
    Bundle,
    BundleSource,
    install_bundle,
    installed_bundles,
    read_bundle,
    remove_bundle,
    source_of_bundle,
)
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.text_limits import one_line
from pattern_acp.session.trust import decide_trust
from pattern_acp.trust import Agreement, count_parts, describe_changes, describe_parts, load_agreement
from pattern_acp.workspace.git import git_facts

SHOWN_IDENTITY = 12
"""Characters of an identity that a user reads."""


class BundleDesk(Struct, frozen=True):
    """Dependencies of every verb."""

    database: Database
    config: Path
    """The folder of the user's config.toml, symbolic links followed: agreements name it."""


@asynccontextmanager
async def open_bundles(call: TypedCommand, process: Process) -> AsyncGenerator[BundleDesk, None]:
    """Open the services of the verbs. Raises PatternError where the constellation cannot be used."""
    del call
    config = Path(process.loaded.paths.config)
    async with open_for_command(process) as database:
        yield BundleDesk(database, config)


class BundleResult(Result, frozen=True):
    """The end of a verb: `added`, `updated`, `current`, `removed` or `refused`, with the bundle it was about."""

    state: str
    name: str
    identity: str = ""
    brings: str = ""

    @property
    def document(self) -> Sequence[Part]:
        """A sentence."""
        pinned = f"{self.name} ({self.identity[:SHOWN_IDENTITY]})"
        sentences = {
            "added": f"The bundle {pinned} is installed: {self.brings}. Open sessions use it from the next prompt on.",
            "updated": f"The bundle {pinned} is up to date now: {self.brings}.",
            "current": f"The bundle {pinned} is what its source has; nothing changed.",
            "removed": f"The bundle {self.name} is removed, with all that it brought.",
        }
        return (Paragraph(sentences[self.state]),) if self.state in sentences else ()

    @property
    def is_failure(self) -> bool:
        """True when the user refused."""
        return self.state == "refused"


class BundleRow(Struct, frozen=True):
    """One installed bundle."""

    name: str
    version: str
    identity: str
    brings: str
    source: str
    commit: str
    agreed: bool
    """True while it is what the user agreed to, and so is used."""


class BundleList(Result, frozen=True):
    """The bundles that are installed, and sentences about such that cannot be used."""

    bundles: tuple[BundleRow, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def document(self) -> Sequence[Part]:
        """A table, and what is wrong."""
        if not self.bundles and not self.problems:
            return (Paragraph("No bundle is installed. `pattern-acp bundle add FOLDER` installs one."),)
        rows = tuple(
            (
                row.name,
                row.version,
                row.identity[:SHOWN_IDENTITY],
                row.brings,
                row.source + (f" at {row.commit[:SHOWN_IDENTITY]}" if row.commit else ""),
                "in use" if row.agreed else "changed, not used",
            )
            for row in self.bundles
        )
        headings = columns(Column("Bundle", "cyan"), "Version", "Identity", "Brings", "Source", "State")
        table = (Table(headings, rows),) if rows else ()
        return (*table, *(Paragraph(sentence) for sentence in self.problems))


async def add(desk: BundleDesk, folder: str, *, assume_yes: bool = False) -> BundleResult:
    """Install a bundle that is not installed yet, once the user has seen it and agreed.

    Raises:
        PatternError: it is none, has a mistake, or is installed.
    """
    root = _meant(folder)
    bundle = await anyio.to_thread.run_sync(read_bundle, root)
    if await anyio.Path(desk.config, BUNDLES, bundle.name).exists():
        sentence = (
            f"The bundle {bundle.name} is installed; `pattern-acp bundle update {bundle.name} --from {root}` compares."
        )
        raise PatternError(sentence, failure_code="cli.usage")
    write_line(f"{_heading(bundle)}\n")
    if not _agrees(describe_parts(bundle.parts), bundle, "Install", assume_yes=assume_yes):
        return BundleResult("refused", bundle.name)
    return await _install(desk, bundle, root, "added")


async def update(desk: BundleDesk, name: str, source: str = "", *, assume_yes: bool = False) -> BundleResult:
    """Take over what changed in a bundle's source, once the user has seen the difference and agreed.

    Raises:
        PatternError: it is not installed, or its source is no bundle by that name.
    """
    place = _installed(desk, name)
    came_from = await anyio.to_thread.run_sync(source_of_bundle, place)
    if not (source or came_from.folder):
        sentence = (
            f"Nobody knows where the bundle {name} came from; say `pattern-acp bundle update {name} --from FOLDER`."
        )
        raise PatternError(sentence, failure_code="cli.usage")
    root = _meant(source or came_from.folder)
    bundle = await anyio.to_thread.run_sync(read_bundle, root)
    if bundle.name != name:
        raise PatternError(f"{root} has the bundle {bundle.name}, not {name}.", failure_code="cli.usage")
    before = await _agreement(desk, place)
    current = await anyio.to_thread.run_sync(_readable, place)
    if before is not None and before.digest == bundle.digest and current == bundle.digest:
        return BundleResult("current", name, bundle.identity)
    write_line(f"{_heading(bundle)}\n")
    shown = describe_changes(before.parts, bundle.parts) if before is not None else describe_parts(bundle.parts)
    shown = shown or "The source is what you agreed to; the installed copy was changed and is put right."
    if not _agrees(shown, bundle, "Update to", assume_yes=assume_yes):
        return BundleResult("refused", name)
    return await _install(desk, bundle, root, "updated")


async def remove(desk: BundleDesk, name: str, *, assume_yes: bool = False) -> BundleResult:
    """Delete a bundle and the agreement to it. Raises PatternError where it is not installed, or cannot be deleted."""
    place = _installed(desk, name)
    if not assume_yes and not agreed(f"Remove the bundle {name} with all that it brought?", _UNASKED):
        return BundleResult("refused", name)
    before = await _agreement(desk, place)
    await decide_trust(
        desk.database, str(place), before.parts if before else (), "revoked", at_ms=SystemClock().now_ms()
    )
    await anyio.to_thread.run_sync(remove_bundle, desk.config, name)
    return BundleResult("removed", name)


async def show(desk: BundleDesk, name: str) -> int:
    """Show all that an installed bundle brings. Raises PatternError where it is not installed, or cannot be read."""
    bundle = await anyio.to_thread.run_sync(read_bundle, _installed(desk, name))
    write_line(f"{_heading(bundle)}\n\n{_plain(describe_parts(bundle.parts))}")
    return 0


async def list_bundles(desk: BundleDesk) -> BundleList:
    """List what is installed, and whether it is in use."""
    bundles, problems = await anyio.to_thread.run_sync(installed_bundles, desk.config)
    rows: list[BundleRow] = []
    for bundle in bundles:
        source = await anyio.to_thread.run_sync(source_of_bundle, Path(bundle.root))
        agreement = await _agreement(desk, Path(bundle.root))
        agreed = agreement is not None and agreement.digest == bundle.digest
        rows.append(
            BundleRow(
                bundle.name,
                bundle.version,
                bundle.identity,
                count_parts(bundle.parts),
                source.folder,
                source.commit,
                agreed,
            )
        )
    return BundleList(tuple(rows), problems)


async def _install(desk: BundleDesk, bundle: Bundle, root: Path, state: str) -> BundleResult:
    source = BundleSource(str(root), await anyio.to_thread.run_sync(_commit, str(root)))
    copy = await anyio.to_thread.run_sync(partial(install_bundle, bundle, desk.config, source))
    await decide_trust(desk.database, copy.root, copy.parts, "trusted", at_ms=SystemClock().now_ms())
    return BundleResult(state, copy.name, copy.identity, count_parts(copy.parts))


async def _agreement(desk: BundleDesk, place: Path) -> Agreement | None:
    return await desk.database.read(lambda tx: load_agreement(tx, str(place)))


def _readable(place: Path) -> str:
    """The digest of an installed copy; empty for one that is broken."""
    try:
        return read_bundle(place).digest
    except PatternError:
        return ""


def _meant(folder: str) -> Path:
    """The folder of a command line, with symbolic links followed."""
    return Path(resolve_path(str(Path(folder).expanduser().absolute())))


def _installed(desk: BundleDesk, name: str) -> Path:
    place = desk.config / BUNDLES / name
    if not name or name.startswith(".") or Path(name).name != name or not place.is_dir():
        sentence = (
            f"There is no bundle {one_line(name, 64)!r}; `pattern-acp bundle list` shows those that are installed."
        )
        raise PatternError(sentence, failure_code="cli.usage")
    return place


def _commit(folder: str) -> str:
    """The commit that is checked out in `folder`; its branch where git has packed it away."""
    facts = git_facts(folder)
    try:
        loose = (
            Path(facts.common_dir, "refs", "heads", facts.branch).read_text(encoding="utf-8") if facts.branch else ""
        )
    except (OSError, UnicodeDecodeError):
        loose = ""
    return facts.commit or loose.strip() or facts.branch


def _heading(bundle: Bundle) -> str:
    about = f": {one_line(bundle.description, 300)}" if bundle.description else ""
    version = f" {one_line(bundle.version, 40)}" if bundle.version else ""
    return f"Bundle {bundle.name}{version}, identity {bundle.identity[:SHOWN_IDENTITY]}{about}"


def _plain(shown: str) -> str:
    from pattern_acp.cli.chat.calls import plain_text

    return plain_text(shown, None)


def _agrees(shown: str, bundle: Bundle, verb: str, *, assume_yes: bool) -> bool:
    write_line(_plain(shown))
    question = f"\n{verb} {bundle.name} and let its {count_parts(bundle.parts)} act as you?"
    return assume_yes or agreed(question, _UNASKED)


_UNASKED = "pattern-acp: nothing was changed; say --yes to do this without a question."
