"""Checks of what works, with a remedy for everything that does not.

Used by `pattern-acp doctor` and by /doctor. It changes nothing: the database is opened read-only when it is not open.
"""

import importlib.metadata
import platform
import stat
import sys
import sysconfig
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import anyio
from msgspec.structs import replace

from pattern_acp import __version__
from pattern_acp.bootstrap.constellation import PERSONAS, read_persona
from pattern_acp.bootstrap.constellation_choice import is_per_project, is_replica
from pattern_acp.bootstrap.credentials import KeysOfPerson
from pattern_acp.bootstrap.embedding import MODELS, choose_embedder
from pattern_acp.bootstrap.process import Process
from pattern_acp.codemap.model import LANGUAGES, absent_grammars
from pattern_acp.commands.document import Column, Heading, Paragraph, Part, Result, Table, columns
from pattern_acp.config.keys import KEYS
from pattern_acp.config.load import known_secrets
from pattern_acp.config.settings import (
    HTTP_WIRES,
    McpServerSettings,
    ProviderSettings,
    SearchSettings,
    Settings,
)
from pattern_acp.context.instructions import BUILT_IN
from pattern_acp.credentials.store import ServerToken
from pattern_acp.db.backup import quick_check
from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.db.migrate import load_migrations
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import ConfigError, DatabaseError, ProviderError, SignInError
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.reader import streams_by_use, verify_stream
from pattern_acp.journal.retention import StorageBreakdown, storage_breakdown, storage_summary
from pattern_acp.lsp.model import configured_kind, find_program, kinds
from pattern_acp.mcp_servers.catalogue import ServerError
from pattern_acp.mcp_servers.host import problem_of
from pattern_acp.mcp_servers.transports import find_command
from pattern_acp.memory.embeddings import HASHED_NGRAMS
from pattern_acp.memory.indexer import Indexer
from pattern_acp.memory.secrets import find_secret
from pattern_acp.policy.commands import read_command_line
from pattern_acp.processes.confinement import Confinement
from pattern_acp.providers.catalogue import assumed
from pattern_acp.providers.choose import WHERE_TO_SET, usable_providers
from pattern_acp.providers.endpoints import sent_openly
from pattern_acp.providers.registry import Providers
from pattern_acp.recovery.backups import lost_constellation
from pattern_acp.recovery.checks import Finding, Health, Repair, check_environment, verify


def key_findings(settings: Settings, keys: KeysOfPerson) -> list[Finding]:
    """Report the source of each provider's key, and further keys that are not used."""
    try:
        keys.store.check()
    except SignInError as error:
        remedy = "The sentence above says what to do."
        return [Finding("Credentials", Health.NOTE, error.sentence, remedy, code=error.failure_code)]
    findings: list[Finding] = []
    for provider in settings.providers.values():
        sources = keys.stored.sources(provider)
        if sources:
            others = ", ".join(each.where for each in sources[1:])
            unused = f"; not used: {others}" if others else ""
            findings.append(Finding(f"Key of {provider.name}", Health.OK, f"{sources[0].sentence}{unused}"))
        if (sources or provider.headers) and (warning := sent_openly(provider)):
            findings.append(Finding(f"Address of {provider.name}", Health.NOTE, warning, "Change its base_url."))
    return findings


def web_search_finding(settings: SearchSettings, environ: Mapping[str, str], keys: KeysOfPerson) -> Finding:
    """Report the vendor that web_search asks and the source of its key, or what it still needs."""
    name = settings.provider
    if name == "off":
        return Finding("Web search", Health.OK, "off; search.provider in config.toml names who is asked")
    from pattern_acp.web import key_owner, what_is_missing

    owner = key_owner(name, environ)
    source = keys.used(owner) if owner is not None else ""
    if remedy := what_is_missing(settings, has_key=bool(source)):
        return Finding("Web search", Health.NOTE, f"{name} is not set up, so web_search is not offered.", remedy)
    where = f" at {urlsplit(settings.url).hostname}" if settings.url else ""
    return Finding("Web search", Health.OK, f"{name}{where}{f'; key: {source}' if source else ''}")


def holds_no_secret(path: Path, settings: Settings) -> bool:
    """Tell whether a file is free of the settings' secrets and of anything like one, so that others may read it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return find_secret(text) is None and not any(secret in text for secret in known_secrets(settings) if secret)


CHECKED_SESSIONS = 20
"""Sessions whose chains are checked: those that were used last."""

CHECK_SECONDS = 2.0
"""Time after which no further session is checked."""

PROBE_SECONDS = 5.0
"""Longest wait for a provider to answer."""


SETTING = "Setting "
"""Prefix of findings about settings in use; they have a table of their own."""

ALWAYS_SHOWN = (
    "pattern-acp",
    "Constellation file",
    "Configuration",
    "Log",
    "Provider ",
    "Model",
    "Disk usage",
    "Verified ",
)
"""Prefixes of findings that inform even when all is well: what is used, and where it is."""

STYLES = {Health.OK: "green", Health.NOTE: "yellow", Health.BROKEN: "bold red"}

WHOLE = "`pattern-acp doctor --all`"

DETAIL_SHOWN = 600
"""Characters of a finding that Markdown shows."""


class Diagnosis(Result, frozen=True):
    """Everything that was found."""

    findings: tuple[Finding, ...]
    whole: bool = False
    """Show findings that all is well one by one, too."""
    repaired: tuple[tuple[Repair, str], ...] | None = None
    """Repairs that were done, each with a sentence; None where nobody asked for them."""

    @property
    def is_usable(self) -> bool:
        """True when everything that is needed works."""
        return all(finding.health is not Health.BROKEN for finding in self.findings)

    @property
    def is_failure(self) -> bool:
        """True when something that is needed is broken."""
        return not self.is_usable

    @property
    def document(self) -> Sequence[Part]:
        """The repairs, a table of findings, one of settings, and a sentence that sums up."""
        rows = rows_of(self.findings, whole=self.whole)
        settings = [one for one in rows if is_setting(one)]
        done = () if self.repaired is None else ("Nothing can be repaired without a decision of yours.",)
        return (
            *map(Paragraph, [sentence for _, sentence in self.repaired or ()] or done),
            _table([one for one in rows if not is_setting(one)]),
            *((Paragraph(""), Heading("Settings"), _table(settings)) if settings else ()),
            Paragraph(""),
            Paragraph(self.summary, STYLES[Health.OK if self.is_usable else Health.BROKEN]),
        )

    @property
    def value(self) -> object:
        """`ok`, the findings with the repair that each has, and what was repaired."""
        findings = [
            {
                "name": one.name,
                "health": one.health.value,
                "detail": one.detail,
                "remedy": one.remedy,
                "code": one.code or None,
                "repair": _facts(one.repair) if one.repair else None,
            }
            for one in self.findings
        ]
        repaired = [{**_facts(one), "done": sentence} for one, sentence in self.repaired or ()]
        return {"ok": self.is_usable, "findings": findings, "repaired": repaired}

    @property
    def summary(self) -> str:
        """The diagnosis in one sentence."""
        broken = [finding.name for finding in self.findings if finding.health is Health.BROKEN]
        notes = sum(finding.health is Health.NOTE for finding in self.findings)
        if broken:
            return f"Broken: {', '.join(broken)}."
        if notes:
            return f"Everything that is needed works; {plural(notes, 'remark')} above."
        return "Everything that is needed works."


def _facts(wanted: Repair) -> dict[str, str | bool]:
    return {"action": wanted.action, "target": wanted.target, "safe": wanted.safe}


def _table(findings: Sequence[Finding]) -> Table:
    heads = columns(
        Column("State", styles={health.value: style for health, style in STYLES.items()}),
        Column("What", "bold"),
        Column("Detail", limit=DETAIL_SHOWN, lines=True),
    )
    return Table(heads, tuple((one.health.value, _name(one), _told(one)) for one in findings))


def _name(finding: Finding) -> str:
    return finding.name.removeprefix(SETTING) if is_setting(finding) else finding.name


def _told(finding: Finding) -> str:
    """The finding with the failure code that `pattern-acp explain` knows, and below it what to do."""
    detail = f"{finding.detail} [{finding.code}]" if finding.code else finding.detail
    return f"{detail}\nRemedy: {finding.remedy}" if finding.remedy else detail


def rows_of(findings: Sequence[Finding], *, whole: bool) -> list[Finding]:
    """Order the findings: broken, remarks, then what is well: all of it, or what informs and a count of the rest."""
    attention = [one for health in (Health.BROKEN, Health.NOTE) for one in findings if one.health is health]
    well = [one for one in findings if one.health is Health.OK]
    checks, settings = [one for one in well if not is_setting(one)], [one for one in well if is_setting(one)]
    if whole:
        return [*attention, *checks, *settings]
    rows = [*attention, *(one for one in checks if not _is_counted(one))]
    if counted := [one.name for one in checks if _is_counted(one)]:
        rows.append(Finding(f"{len(counted)} more", Health.OK, f"{', '.join(counted)} ({WHOLE} tells more)"))
    rows += [one for one in settings if not _is_counted(one)]
    if untouched := sum(map(_is_counted, settings)):
        rows.append(Finding(f"{SETTING}{untouched} more", Health.OK, f"have their defaults ({WHOLE} lists them)"))
    return rows


def _is_counted(finding: Finding) -> bool:
    """Tell whether a finding that all is well is only counted, since no user looks for it."""
    if is_setting(finding):
        return finding.detail.endswith(FROM_DEFAULT)
    return not finding.name.startswith(ALWAYS_SHOWN)


def is_setting(finding: Finding) -> bool:
    """Tell whether a finding shows the value of a setting with nothing wrong."""
    return finding.name.startswith(SETTING) and finding.health is Health.OK


def _worker_folders() -> list[Finding]:
    """Report folders that workers of ended processes left."""
    # Late: a start asks for no diagnosis.
    from pattern_acp.journal.leases import host_name, is_running
    from pattern_acp.journal.retention import size_text
    from pattern_acp.workspace.worker_tree import leftovers

    remedy = "pattern-acp gc takes it away"
    return [
        Finding(
            "Leftover", Health.NOTE, f"{one.path} ({size_text(one.size)}) was left by a worker that was killed.", remedy
        )
        for one in leftovers(is_running, host_name())
    ]


async def diagnose(
    process: Process, database: Database | None = None, indexer: Indexer | None = None, *, thorough: bool = False
) -> Diagnosis:
    """Look at everything. `database` is the open one, if there is one, and `indexer` what embeds for it.

    With `thorough`, the whole constellation is copied and checked too, which takes as long as reading it does.
    """
    findings = [
        *_versions(),
        *_files(process),
        *_settings(process),
        await anyio.to_thread.run_sync(_persona, process),
        *await anyio.to_thread.run_sync(_definitions, process),
        _grammar(),
        _code_grammars(),
        _extras(),
        await _sandbox(process),
    ]
    findings += await _database_findings(process, database)
    findings += await _users_memory(process)
    findings += await _forgettings(process, database)
    path = process.constellation_path
    findings += await anyio.to_thread.run_sync(partial(check_environment, path, now_ms=SystemClock().now_ms()))
    findings += await anyio.to_thread.run_sync(_worker_folders)
    if thorough and path.exists():
        findings += await anyio.to_thread.run_sync(verify, path)
    findings.append(await _meaning(process, indexer))
    if process.loaded.settings.sync.url and path.exists() and not is_replica(process):
        findings += await _sync(process, path, database)
    findings += await anyio.to_thread.run_sync(_servers, process)
    findings += await anyio.to_thread.run_sync(_language_servers, process)
    findings += await _provider_findings(process)
    return Diagnosis(tuple(findings))


FROM_DEFAULT = " from default"
"""Suffix of the detail of a finding about a setting that nobody set."""


def _versions() -> list[Finding]:
    libraries = ", ".join(f"{name} {_version_of(name)}" for name in ("apsw", "loro", "httpx", "tree-sitter-bash"))
    return [
        Finding("pattern-acp", Health.OK, __version__),
        Finding(
            "Python",
            Health.OK,
            f"{platform.python_version()} at {sys.executable}{build_note(sysconfig.get_config_vars())}",
        ),
        Finding("System", Health.OK, f"{platform.system()} {platform.release()} {platform.machine()}"),
        Finding("Libraries", Health.OK, libraries),
    ]


def build_note(settings: Mapping[str, object]) -> str:
    """Say how Python was built, by `sysconfig`'s settings; empty where they do not tell, as on Windows."""
    asked = settings.get("CONFIG_ARGS")
    if not isinstance(asked, str):
        return ""
    if "--enable-optimizations" in asked:
        return ", an optimised build (PGO)"
    return ", built without --enable-optimizations: an optimised build takes about a tenth less time"


def _version_of(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _server_token(process: Process) -> list[Finding]:
    """Report the token of `pattern-acp serve`, where one was made."""
    token = ServerToken(process.loaded.paths.data)
    try:
        if not token.exists():
            return []
    except SignInError as error:
        remedy = "Make a new one, and pass it to the clients."
        return [Finding("Token of the server", Health.NOTE, error.sentence, remedy, code=error.failure_code)]
    return [_permissions("Token of the server", token.path)]


async def _users_memory(process: Process) -> list[Finding]:
    """The file of the user's own memory, where it is another one than that of the project."""
    if not is_replica(process):
        return []
    name = process.loaded.settings.constellation.name
    path = process.using(name).constellation_path
    if not path.exists():
        return [_permissions("Your own memory", path)]
    try:
        async with _opened(path, None) as opened:
            problems = await opened.read(quick_check)
    except DatabaseError as error:
        remedy = f"The sentence above says what to do; its commands are of this file with --constellation {name}."
        return [Finding("Your own memory", Health.BROKEN, error.sentence, remedy, code=error.failure_code)]
    if problems:
        remedy = f"Close every window, then run: pattern-acp --constellation {name} restore --latest"
        detail = f"{path}: {'; '.join(problems[:3])}"
        return [Finding("Your own memory", Health.BROKEN, detail, remedy, code="database.corrupt")]
    return [_permissions("Your own memory", path)]


async def _forgettings(process: Process, database: Database | None) -> list[Finding]:
    """Words that were forgotten, and cannot be in the constellations of other projects."""
    if not is_per_project(process.loaded):
        return []
    # Late: most users have one constellation.
    from pattern_acp.bootstrap.replicas import unread_forgettings

    found: dict[str, Finding] = {}
    users = process.using(process.loaded.settings.constellation.name).constellation_path
    for path, one in {users: None, process.constellation_path: database}.items():
        if not path.exists():
            continue
        try:
            async with _opened(path, one) as opened:
                unread = await opened.read(partial(unread_forgettings, process))
            code = ""
        except DatabaseError as error:
            unread, code = error.sentence, error.failure_code
            if error.failure_code != DatabaseError.failure_code:
                # What is wrong with the file is said already.
                continue
        if unread:
            remedy = "Do what the sentence says."
            found[unread] = Finding("Forgotten words", Health.BROKEN, unread, remedy, code=code)
    return list(found.values())


def _files(process: Process) -> list[Finding]:
    paths = process.loaded.paths
    named = {
        "Constellation file": process.constellation_path,
        "Configuration": paths.config_file,
        "Log": paths.log_file,
        "Cache": paths.cache,
    }
    if holds_no_secret(paths.config_file, process.loaded.settings):
        # Others may read what gives nothing away.
        config = Finding("Configuration", Health.OK, str(paths.config_file))
        found = [config if name == config.name else _permissions(name, path) for name, path in named.items()]
    else:
        found = [_permissions(name, path) for name, path in named.items()]
    return [*found, *_server_token(process)]


def _permissions(name: str, path: Path) -> Finding:
    if not path.exists():
        return Finding(name, Health.OK, f"{path} (not made yet)")
    mode = stat.S_IMODE(path.stat().st_mode)
    if platform.system() != "Windows" and mode & 0o077 and path.is_file():
        detail = f"{path} can be read by others (mode {mode:o})."
        return Finding(name, Health.NOTE, detail, f"chmod 600 '{path}'", Repair("chmod", str(path), safe=True))
    return Finding(name, Health.OK, str(path))


def _settings(process: Process) -> list[Finding]:
    empty = {key.name: f"({key.when_empty})" for key in KEYS}
    found = [
        Finding(
            f"Setting {value.key}",
            Health.OK,
            f"{value.shown or empty.get(value.key, '(automatic)')} from {value.source}",
        )
        for value in process.loaded.values
    ]
    return found + [
        Finding("Setting not used", Health.NOTE, str(problem), "Correct it, or take it out.")
        for problem in process.loaded.problems
    ]


def _persona(process: Process) -> Finding:
    name = process.loaded.settings.persona
    path = process.loaded.paths.config / PERSONAS / f"{name}.md"
    if path.exists():
        try:
            read_persona(process, name)
        except ConfigError as error:
            remedy = "Correct the file, or choose another persona."
            return Finding("Persona", Health.BROKEN, error.sentence, remedy, code=error.failure_code)
        return Finding("Persona", Health.OK, str(path))
    if name in BUILT_IN:
        return Finding("Persona", Health.OK, f"{name}, built in")
    detail = f"{path} does not exist, so {name} has the built-in prompt."
    known = ", ".join(BUILT_IN)
    return Finding("Persona", Health.NOTE, detail, f"Write that file, or choose one that is built in: {known}.")


def _definitions(process: Process) -> list[Finding]:
    """The user's skills and commands, and those of the folder: what a start reads, and what a resume reads again."""
    # Late: nothing else in this report needs them.
    from pattern_acp.definitions.collection import find_definitions
    from pattern_acp.definitions.skills import parsed_skills

    own, folder = process.loaded.paths.config, str(Path.cwd())
    begun = time.perf_counter()
    found = find_definitions(folder, own)
    known, middle = parsed_skills(), time.perf_counter()
    find_definitions(folder, own)
    again = (time.perf_counter() - middle) * 1000
    detail = (
        f"{plural(len(found.skills), 'skill')} and {plural(len(found.commands), 'command')}, read in"
        f" {(middle - begun) * 1000:.0f} ms; a resume takes {again:.0f} ms (parsed {parsed_skills() - known})"
    )
    problems = [Finding("Definition not used", Health.NOTE, each, "Correct the file.") for each in found.problems]
    return [Finding("Definitions", Health.OK, detail), *problems]


def _servers(process: Process) -> list[Finding]:
    """The MCP servers of the user's file. They are not started: that may take long."""
    return [_server(process, settings) for settings in process.loaded.settings.mcp_servers.values()]


def _server(process: Process, settings: McpServerSettings) -> Finding:
    name = f"MCP server {settings.name}"
    if problem := problem_of(settings):
        return Finding(name, Health.NOTE, problem, "Correct its table in config.toml.")
    if settings.transport != "stdio":
        return Finding(name, Health.OK, f"{settings.transport} at {urlsplit(settings.url).hostname} (not asked now)")
    try:
        found = find_command(settings.command, str(process.loaded.paths.config), process.environ)
    except ServerError as error:
        remedy = "Install it, or correct its table in config.toml."
        return Finding(name, Health.NOTE, error.sentence, remedy, code=error.failure_code)
    return Finding(name, Health.OK, f"{found} (not started now)")


def _language_servers(process: Process) -> list[Finding]:
    """The language servers that are on PATH, or that the user named; they are not started."""
    settings = process.loaded.settings.lsp
    if settings.mode == "off":
        return [Finding("Language servers", Health.OK, "off")]
    own = [configured_kind(each) for each in settings.servers]
    findings: list[Finding] = []
    for kind in kinds(own):
        program = find_program(kind, "/", process.environ, trusted=True)
        if program:
            waits = "; only in trusted folders" if kind.runs_project_code else ""
            what = f"{program} for {', '.join(kind.languages) or 'nothing'} (not started now{waits})"
            findings.append(Finding(f"Language server {kind.name}", Health.OK, what))
        elif kind in own:
            detail = f"there is no program {kind.command[0]!r}"
            remedy = "Install it, or correct its table in config.toml."
            findings.append(Finding(f"Language server {kind.name}", Health.NOTE, detail, remedy))
    nothing = "none on PATH; docs/how-to/lsp.md says which are looked for"
    return findings or [Finding("Language servers", Health.OK, nothing)]


async def _sandbox(process: Process) -> Finding:
    """Report what confines commands here."""
    setting = process.loaded.settings.policy.sandbox
    if setting == "off":
        return Finding("Sandbox", Health.NOTE, "It is off.", 'Set sandbox = "auto" in [policy].')
    with TemporaryDirectory(prefix="pattern-acp-") as folder:
        found = await Confinement(Path(folder)).find()
    if found.problem:
        shown = f"{found.name}. {found.problem}" if found.name else found.problem
        return Finding("Sandbox", Health.NOTE, shown, "docs/reference/permissions.md says what the sandbox needs.")
    return Finding("Sandbox", Health.OK, f"{found.name} confine commands that run unasked.")


def _grammar() -> Finding:
    if read_command_line("true && echo one").parse_ok:
        return Finding("Shell grammar", Health.OK, "tree-sitter-bash reads shell lines")
    return Finding(
        "Shell grammar",
        Health.NOTE,
        "tree-sitter-bash does not load, so every command asks.",
        "pip install --force-reinstall tree-sitter tree-sitter-bash",
    )


def _code_grammars() -> Finding:
    """The grammars of the code map. A language without one is found by its file names only."""
    every = absent_grammars()
    absent = {name: package for name, package in every.items() if not LANGUAGES[name].is_optional}
    if not absent:
        return Finding("Code map", Health.OK, f"{len(LANGUAGES) - len(every)} languages can be read")
    packages = sorted({package.replace("_", "-") for package in absent.values()})
    detail = f"No grammar for {', '.join(sorted(absent))}; their files are found by name only."
    return Finding("Code map", Health.NOTE, detail, f"pip install {' '.join(packages)}")


def _extras() -> Finding:
    """The optional parts that everyday work can need. Those of clouds and embedders are named where they are set up."""
    absent: dict[str, str] = {}
    if find_spec("PIL") is None:
        absent["images"] = "scaling of large images"
    if find_spec("pypdf") is None:
        absent["pdf"] = "reading PDF files"
    if languages := sorted(name for name in absent_grammars() if LANGUAGES[name].is_optional):
        absent["languages"] = f"the code map of {', '.join(languages)}"
    if not absent:
        return Finding("Optional parts", Health.OK, "images, PDF files and all languages of the code map")
    remedy = f'For these: pip install "pattern-acp[{",".join(absent)}]"'
    return Finding("Optional parts", Health.NOTE, f"Not installed: {'; '.join(absent.values())}.", remedy)


async def _database_findings(process: Process, database: Database | None) -> list[Finding]:
    path = process.constellation_path
    if database is None and (lost := lost_constellation(path, begun=False)):
        return [Finding("Database", Health.BROKEN, lost, "Do what the sentence says.", code="database.lost")]
    if database is None and not path.exists():
        return [Finding("Database", Health.OK, "will be made at the first session")]
    try:
        async with _opened(path, database) as opened:
            problems = await opened.read(quick_check)
            facts = opened.facts
            journal = await opened.read(_journal)
            # A file that an older version used last has not all tables yet.
            is_newest = facts.schema_version == load_migrations()[-1].version
            inside = await opened.read(storage_breakdown) if is_newest else StorageBreakdown(0, 0, 0)
    except DatabaseError as error:
        remedy = "The sentence above says what to do."
        return [Finding("Database", Health.BROKEN, error.sentence, remedy, code=error.failure_code)]
    vectors = f"sqlite-vec {facts.vector_version}" if facts.vector_version else "not installed; search uses words alone"
    findings = [
        Finding(
            "Database driver", Health.OK, f"SQLite {facts.sqlite_version} through apsw, schema {facts.schema_version}"
        ),
        Finding("Vector support", Health.OK if facts.vector_version else Health.NOTE, vectors),
    ]
    if problems:
        remedy = "Close every window that uses it, then run: pattern-acp restore --latest"
        detail = "; ".join(problems[:3])
        findings.append(Finding("Database integrity", Health.BROKEN, detail, remedy, code="database.corrupt"))
    else:
        findings.append(Finding("Database integrity", Health.OK, "sound"))
    taken = await anyio.to_thread.run_sync(storage_summary, path, inside)
    return [*findings, journal, Finding("Disk usage", Health.OK, taken)]


def _journal(tx: Transaction) -> Finding:
    """Check the chains of the most recently used sessions, as far as that takes no time."""
    started, checked = SystemClock().monotonic(), 0
    for stream in streams_by_use(tx, limit=CHECKED_SESSIONS):
        report = verify_stream(tx, stream)
        if not report.ok:
            detail = f"Session {stream} is not sound at event {report.first_bad_index}: {report.problem}."
            remedy = "`pattern-acp journal verify` checks every session; restore a backup if nobody meant to change it."
            return Finding("Journal", Health.BROKEN, detail, remedy, code="journal.not-sound")
        checked += 1
        if SystemClock().monotonic() - started > CHECK_SECONDS:
            break
    return Finding("Journal", Health.OK, f"the chains of the sessions used last are sound ({checked} checked)")


async def _meaning(process: Process, indexer: Indexer | None) -> Finding:
    chosen = choose_embedder(process.loaded.settings, SystemClock(), process.loaded.paths.cache / MODELS)
    model = chosen.embedder.model
    name = model.name
    if chosen.problem:
        return Finding("Search by meaning", Health.NOTE, f"{name}: {chosen.problem}", "Do what the sentence says.")
    about = ""
    if model == HASHED_NGRAMS:
        about = ", which compares spelling, not meaning; the extra [semantic] adds that (docs/explanation/recall.md)"
    if process.loaded.settings.memory.embedder == "mpnet":
        waits = await anyio.to_thread.run_sync(_mpnet, process)
        if waits is not None:
            return waits
    if indexer is None:
        return Finding("Search by meaning", Health.OK, f"{name}{about}")
    state = await indexer.state()
    if state.problem:
        return Finding("Search by meaning", Health.NOTE, f"{name}: {state.problem}", "Search goes by words until then.")
    waiting = f", {state.waiting:,} texts to go" if state.waiting else ""
    return Finding("Search by meaning", Health.OK, f"{name}{waiting}{about}")


def _mpnet(process: Process) -> Finding | None:
    """The state of mpnet's model; None once it can be used."""
    from pattern_acp.memory.mpnet import ModelStage, preparation

    found = preparation(process.loaded.paths.cache / MODELS)
    if found.stage is ModelStage.READY:
        return None
    remedy = "Do what the sentence says." if found.stage is ModelStage.FAILED else ""
    return Finding("Search by meaning", Health.NOTE, f"{found.stage}: {found.detail}", remedy)


async def _sync(process: Process, path: Path, database: Database | None) -> list[Finding]:
    """Report the exchange with other devices."""
    # Late: most have none.
    from pattern_acp.bootstrap.syncing import sync_finding

    with suppress(DatabaseError):
        async with _opened(path, database) as opened:
            return [await sync_finding(process, opened)]
    # What is wrong with the database is said already.
    return []


@asynccontextmanager
async def _opened(path: Path, database: Database | None) -> AsyncGenerator[Database, None]:
    if database is not None:
        yield database
        return
    async with open_database(path, clock=SystemClock(), read_only=True) as opened:
        yield opened


async def _provider_findings(process: Process) -> list[Finding]:
    settings = process.loaded.settings
    keys = KeysOfPerson(process)
    held = replace(settings, providers=keys.with_stored_keys(settings.providers))
    usable = [provider for provider in usable_providers(held) if provider.wire in HTTP_WIRES]
    return [
        await _model(settings, keys),
        *key_findings(settings, keys),
        web_search_finding(settings.search, process.environ, keys),
        *[await _reach(provider, settings, keys) for provider in usable],
    ]


async def _model(settings: Settings, keys: KeysOfPerson) -> Finding:
    """Report the model of a new session, found as the session finds it, but without a stored list."""
    providers = Providers(settings, keys=keys)
    try:
        choice = await providers.choose()
    finally:
        await providers.aclose()
    missing = providers.missing_key(choice.qualified)
    if missing:
        return Finding("Model", Health.BROKEN, missing, f"Set the key, or correct {WHERE_TO_SET}.")
    if choice.problem:
        return Finding("Model", Health.NOTE, choice.problem, "Do what the sentence says.")
    if choice.provider == "offline" and not settings.model:
        remedy = (
            "Run `pattern-acp auth login`, set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, start Ollama, or "
            "name a provider in config.toml."
        )
        return Finding("Model", Health.NOTE, f"{choice.reason} offline answers with plain commands.", remedy)
    taken = "" if choice.provider == "offline" else assumed(providers.resolve(choice.qualified)[1])
    guessed = f" Nobody says it, so this is assumed: {taken}." if taken else ""
    return Finding("Model", Health.OK, f"{choice.qualified}: {choice.reason}{guessed}")


async def _reach(provider: ProviderSettings, settings: Settings, keys: KeysOfPerson) -> Finding:
    from pattern_acp.providers.discovery import fetch_models
    from pattern_acp.providers.http import Deadlines, HttpClient

    http = HttpClient(Deadlines(), SystemClock())
    name = f"Provider {provider.name}"
    try:
        with anyio.fail_after(PROBE_SECONDS):
            signed = await keys.signed(settings.providers[provider.name])
            if signed.host:
                # The clouds list no models in the format of the wire.
                return Finding(name, Health.OK, f"{signed.region}, with {keys.used(provider) or 'headers of its own'}")
            models = await fetch_models(http, signed)
        return Finding(name, Health.OK, f"reachable, {len(models)} {'model' if len(models) == 1 else 'models'}")
    except ProviderError as error:
        remedy = "Correct the key or the address, or check the network."
        return Finding(name, Health.BROKEN, error.sentence, remedy, code=error.failure_code)
    except TimeoutError:
        return Finding(name, Health.BROKEN, f"did not answer within {PROBE_SECONDS:.0f} s", "Check the network.")
    finally:
        await http.aclose()
