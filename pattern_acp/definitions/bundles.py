"""Bundles: folders of skills, commands, personas, hooks and MCP servers that a user installs as one.

Owns: the file `pattern-bundle.toml`, every part of a bundle as the user is shown it, and the copies that are installed.
Must not know: who agreed to which. All bytes of a bundle are in one of its parts, so that nothing in it can change
unseen; what begins with a dot is no part of it and is not copied.
"""

import shutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.config.programs import read_hooks, read_mcp_servers
from pattern_acp.config.project_offer import ProjectOffer, hook_parts, server_parts
from pattern_acp.config.toml_file import TomlFile, read_toml
from pattern_acp.definitions.collection import COMMANDS, SKILLS, Definitions
from pattern_acp.definitions.commands import find_commands, inline_commands
from pattern_acp.definitions.files import DefinitionFiles, files_below
from pattern_acp.definitions.identity import DefinitionSource, identity_of
from pattern_acp.definitions.personas import read_persona_file
from pattern_acp.definitions.skills import SHOWN_CHARACTERS, find_skills
from pattern_acp.domain.access import TrustTier
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.errors import ConfigError, PatternError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.project_parts import PartKind, ProjectPart, digest_of_parts

BUNDLE_FILE = "pattern-bundle.toml"

BUNDLES = "bundles"
"""Folder beside the user's config.toml that has the installed copies."""

PERSONAS = "personas"

FOLDER_VARIABLE = "PATTERN_BUNDLE_DIR"
"""A placeholder in hooks and servers for the folder of the installed copy."""

MOST_FILES = 2_000
MOST_BYTES = 20_000_000
"""Bytes of a whole bundle; a larger one is a mistake, such as a folder with a build in it."""

_SOURCE = ".source.json"
_NAME = late_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_KEYS = ("name", "version", "description", "hooks", "mcp_servers")


class BundleUnusableError(PatternError):
    """The folder is no bundle, or its file has a mistake."""

    failure_code = "cli.file-unusable"


class Bundle(Struct, frozen=True):
    """A bundle as it is in the folder `root`."""

    name: str
    root: str
    version: str = ""
    description: str = ""
    identity: str = ""
    """Its identity over all its files (definitions/identity.py)."""
    parts: tuple[ProjectPart, ...] = ()
    offer: ProjectOffer = field(default_factory=ProjectOffer)
    """Its hooks and servers as they run."""
    definitions: Definitions = field(default_factory=Definitions)

    @property
    def digest(self) -> str:
        """SHA-256 over its parts, which is what the user agrees to."""
        return digest_of_parts(self.parts)


class BundleSource(Struct, frozen=True):
    """The folder that an installed copy was made from, and the commit that was checked out there, if any."""

    folder: str
    commit: str = ""


def read_bundle(folder: Path) -> Bundle:
    """Read the bundle in `folder`. Blocks while it reads; what has not changed since is not read again.

    Raises:
        BundleUnusableError: it is none, and where the mistake is.
    """
    reading = DefinitionFiles()
    paths = tuple(files_below(folder, folder, reading, most=MOST_FILES))
    if reading.problems:
        raise BundleUnusableError(reading.problems[0])
    try:
        stamps = tuple(_stamp(path) for path in paths)
    except OSError as error:
        raise BundleUnusableError(f"{folder} cannot be read ({error.strerror}).") from error
    if folder / BUNDLE_FILE not in paths:
        raise BundleUnusableError(f"{folder} is no bundle: it has no {BUNDLE_FILE}.")
    if sum(stamp[3] for stamp in stamps) > MOST_BYTES:
        raise BundleUnusableError(f"{folder} is larger than {MOST_BYTES // 1_000_000} MB, so it is not used.")
    return _read(folder, stamps)


def _stamp(path: Path) -> tuple[Path, int, int, int]:
    found = path.stat()
    return (path, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


@lru_cache(maxsize=64)
def _read(folder: Path, stamps: tuple[tuple[Path, int, int, int], ...]) -> Bundle:
    file, problems = read_toml(folder / BUNDLE_FILE)
    if problems:
        raise BundleUnusableError(str(problems[0]))
    name = _checked(file)
    try:
        contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path, *_ in stamps}
    except OSError as error:
        raise BundleUnusableError(f"{folder} cannot be read ({error.strerror}).") from error
    servers, server_problems, _ = read_mcp_servers(file)
    hooks = read_hooks(file.table.get("hooks", []), file.path)
    mistakes = (*(str(problem) for problem in server_problems), *(str(file.problem(*each)) for each in hooks.problems))
    reading = DefinitionFiles()
    commands = tuple(find_commands(folder / COMMANDS, folder, reading, tier=TrustTier.BUNDLE))
    skills = tuple(find_skills(folder / SKILLS, folder, reading, tier=TrustTier.BUNDLE, bundle=name))
    for mistake in (*mistakes, *reading.problems):
        raise BundleUnusableError(mistake)
    offer = ProjectOffer(servers, tuple(hooks.hooks))
    definitions = Definitions(commands, skills)
    parts = (*hook_parts(offer.hooks, str(folder)), *server_parts(servers, str(folder)))
    return Bundle(
        name,
        str(folder),
        _text(file, "version"),
        _text(file, "description"),
        identity_of(DefinitionSource(f"bundle/{name}", contents)),
        (*parts, *_file_parts(definitions, contents, folder)),
        _in_place(offer, str(folder)),
        definitions,
    )


def _checked(file: TomlFile) -> str:
    for key in file.table:
        if key not in _KEYS:
            sentence = f"there is no such key; allowed are {', '.join(_KEYS)}."
            raise BundleUnusableError(str(file.problem(key, sentence)))
    name = _text(file, "name")
    if not _NAME.fullmatch(name):
        sentence = "a bundle needs a name of letters, digits, - and _, 64 at most."
        raise BundleUnusableError(str(file.problem("name", sentence)))
    return name


def _text(file: TomlFile, key: str) -> str:
    value = file.table.get(key, "")
    return " ".join(value.split())[:500] if isinstance(value, str) else ""


def _file_parts(definitions: Definitions, contents: Mapping[str, bytes], folder: Path) -> Iterator[ProjectPart]:
    """Yield a part for each command, skill and persona, and for every other file."""
    left = dict(contents)
    for command in definitions.commands:
        path = Path(command.path).relative_to(folder).as_posix()
        runs = "".join(f"\nruns: {line}" for line in inline_commands(command.body))
        yield ProjectPart(PartKind.COMMAND, f"/{command.name}", command.body + runs, sha256_hex(left.pop(path)))
    for skill in definitions.skills:
        yield ProjectPart(PartKind.SKILL, skill.name, skill.shown, skill.digest)
        inside = f"{Path(skill.folder).relative_to(folder).as_posix()}/"
        # Files beside a skill are shown each on its own: scripts are among them.
        left.pop(f"{inside}SKILL.md")
    for path, data in left.items():
        if path.startswith(f"{PERSONAS}/") and path.endswith(".md"):
            try:
                read_persona_file(Path(path).stem, folder / path, folder)
            except (OSError, ConfigError) as error:
                raise BundleUnusableError(error.sentence if isinstance(error, ConfigError) else str(error)) from error
            yield ProjectPart(PartKind.PERSONA, Path(path).stem, _shown(data), sha256_hex(data))
        else:
            yield ProjectPart(PartKind.FILE, path, _shown(data), sha256_hex(data))


def _shown(data: bytes) -> str:
    try:
        return data.decode("utf-8")[:SHOWN_CHARACTERS]
    except UnicodeDecodeError:
        return f"{len(data)} bytes, no text"


def _in_place(offer: ProjectOffer, folder: str) -> ProjectOffer:
    """The offer with the bundle's folder instead of its variable."""

    def filled(text: str) -> str:
        return text.replace(f"${{{FOLDER_VARIABLE}}}", folder).replace(f"${FOLDER_VARIABLE}", folder)

    hooks = tuple(replace(hook, command=filled(hook.command)) for hook in offer.hooks)
    servers = {
        name: replace(
            server,
            command=filled(server.command),
            args=tuple(map(filled, server.args)),
            env={key: filled(value) for key, value in server.env.items()},
        )
        for name, server in offer.mcp_servers.items()
    }
    return ProjectOffer(servers, hooks)


def installed_bundles(config: Path) -> tuple[tuple[Bundle, ...], tuple[str, ...]]:
    """The copies that are installed beside config.toml, by name, and sentences about such that cannot be used."""
    bundles: list[Bundle] = []
    problems: list[str] = []
    try:
        folders = sorted(path for path in (config / BUNDLES).iterdir() if not path.name.startswith("."))
    except OSError:
        return (), ()
    for folder in folders:
        try:
            bundles.append(read_bundle(folder))
        except BundleUnusableError as error:
            problems.append(f"The bundle {folder.name} is not used: {error.sentence}")
    return tuple(bundles), tuple(problems)


def install_bundle(bundle: Bundle, config: Path, source: BundleSource) -> Bundle:
    """Copy what the user agreed to beside config.toml, instead of an earlier copy.

    Raises:
        BundleUnusableError: it changed since it was shown, or the copy cannot be written.
    """
    place, new, old = (config / BUNDLES / f"{mark}{bundle.name}" for mark in ("", ".new-", ".old-"))
    root = Path(bundle.root)
    try:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
        for path in files_below(root, root, DefinitionFiles(), most=MOST_FILES):
            target = new / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            # Also the mode: scripts stay executable.
            shutil.copy2(path, target)
        if read_bundle(new).digest != bundle.digest:
            shutil.rmtree(new, ignore_errors=True)
            raise BundleUnusableError(f"{root} has changed while it was copied; run the command again.")
        (new / _SOURCE).write_bytes(msgspec.json.encode(source))
        if place.exists():
            place.rename(old)
        new.rename(place)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise BundleUnusableError(f"{place} cannot be written ({error.strerror}).") from error
    return read_bundle(place)


def remove_bundle(config: Path, name: str) -> None:
    """Delete the installed copy, whatever is in it. Raises BundleUnusableError where it cannot be deleted."""
    try:
        shutil.rmtree(config / BUNDLES / name)
    except OSError as error:
        raise BundleUnusableError(f"{config / BUNDLES / name} cannot be deleted ({error.strerror}).") from error


def source_of_bundle(root: Path) -> BundleSource:
    """The source of an installed copy; an empty one where it is not known."""
    try:
        return msgspec.json.decode((root / _SOURCE).read_bytes(), type=BundleSource)
    except (OSError, msgspec.MsgspecError):
        return BundleSource("")
