"""The project at a glance, and the AGENTS.md that is drafted from it.

Owns: which folders and files count, and the words of the draft. Must not know: who reads the manifests, or who writes
the file. Nothing here asks a model: a draft says only what the index and the manifests say.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct, field

from pattern_acp.codemap.store import FILES, SYMBOLS, file_of, symbol_of
from pattern_acp.db.columns import integer, text
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.text_limits import plural

MOST_FOLDERS = 14
MOST_CENTRAL = 10
MOST_ENTRIES = 6
MOST_SCRIPTS = 12

SPLIT_SHARE = 0.5
"""A folder with more of the sources than this is named by its own folders."""

SYMBOLS_NAMED = 3

_ENTRIES = re.compile(r"(?:^|/)(?:__main__|main|cli|index|app|server|manage)\.[a-z]+$")

_TARGET = re.compile(r"^([A-Za-z][\w.-]*)\s*:(?!=)", re.MULTILINE)


class Folder(Struct, frozen=True):
    """A folder with sources: how many, how many of them are tests, and the languages, the commonest first."""

    path: str
    files: int
    tests: int
    languages: tuple[str, ...]


class CentralFile(Struct, frozen=True):
    """A file that others import, and what it defines."""

    path: str
    importers: int
    symbols: tuple[str, ...]


class Overview(Struct, frozen=True):
    """The sources of a project."""

    files: int
    languages: tuple[tuple[str, int], ...]
    folders: tuple[Folder, ...]
    central: tuple[CentralFile, ...]
    entries: tuple[str, ...]


def overview(tx: Transaction) -> Overview:
    """The sources of the index at a glance."""
    sources = [record for record in map(file_of, tx.all(FILES + "ORDER BY f.path")) if record.language]
    languages = Counter(record.language for record in sources)
    counted = {record.path: (record.language, record.is_test) for record in sources}
    folders = _folders(counted)
    entries = [record.path for record in sources if not record.is_test and _ENTRIES.search(record.path)]
    entries.sort(key=lambda path: (path.count("/"), path))
    return Overview(
        len(sources), tuple(languages.most_common()), folders, tuple(_central(tx)), tuple(entries[:MOST_ENTRIES])
    )


def _folders(sources: Mapping[str, tuple[str, bool]]) -> tuple[Folder, ...]:
    inside = Counter(above for name in sources for above in _above(name))
    large = {path for path, count in inside.items() if count > SPLIT_SHARE * len(sources)}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in sources:
        folders = _above(name)
        groups[next((path for path in folders if path not in large), folders[-1] if folders else "")].append(name)
    groups.pop("", None)
    most = sorted(groups, key=lambda path: -len(groups[path]))[:MOST_FOLDERS]
    return tuple(
        Folder(
            path,
            len(groups[path]),
            sum(sources[name][1] for name in groups[path]),
            tuple(one for one, _ in Counter(sources[name][0] for name in groups[path]).most_common(2)),
        )
        for path in sorted(most)
    )


def _above(name: str) -> list[str]:
    """The folders of a file, the topmost first."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]


def _central(tx: Transaction) -> list[CentralFile]:
    rows = tx.all(
        "SELECT i.resolved_path, count(DISTINCT i.file_id) AS n FROM imports AS i JOIN files AS f ON f.id = i.file_id "
        "JOIN files AS t ON t.path = i.resolved_path WHERE NOT f.is_test AND NOT t.is_test "
        "GROUP BY i.resolved_path HAVING n > 1 ORDER BY n DESC, i.resolved_path LIMIT ?",
        (MOST_CENTRAL,),
    )
    return [CentralFile(text(row[0]), integer(row[1]), _symbols(tx, text(row[0]))) for row in rows]


def _symbols(tx: Transaction, path: str) -> tuple[str, ...]:
    rows = tx.all(
        SYMBOLS + "WHERE f.path = ? AND s.parent_id IS NULL AND s.exported ORDER BY s.end_line - s.line DESC LIMIT ?",
        (path, SYMBOLS_NAMED),
    )
    return tuple(symbol_of(row).name for row in rows)


def agents_file(found: Overview, manifests: Mapping[str, str]) -> str:
    """The draft of AGENTS.md; `manifests` are the texts of the root's files that say how it is built."""
    counts = ", ".join(f"{count:,} in {language}" for language, count in found.languages)
    sections = [
        "# For agents that work on this repository",
        "Drafted from the code map; correct it, and add what the code does not say.",
        f"{found.files:,} source files: {counts}.",
    ]
    if commands := commands_of(manifests):
        sections.append("## Commands\n\n" + "\n".join(f"    {line}" for line in commands))
    if found.folders:
        sections.append("## Where things are\n\n" + "\n".join(_folder_line(folder) for folder in found.folders))
    if found.entries:
        sections.append("It starts in " + ", ".join(f"`{path}`" for path in found.entries) + ".")
    if found.central:
        lines = [_central_line(file) for file in found.central]
        sections.append(
            "## Files that most others use\n\nLook at their users before you change them.\n\n" + "\n".join(lines)
        )
    sections.append("## Rules\n\n- Run the tests before you call a change done.")
    return "\n\n".join(sections) + "\n"


def _folder_line(folder: Folder) -> str:
    tests = "tests" if folder.tests == folder.files else f"{folder.tests} of them tests" if folder.tests else ""
    told = ", ".join(
        part for part in (f"{plural(folder.files, 'file')} in {' and '.join(folder.languages)}", tests) if part
    )
    return f"- `{folder.path}/`: {told}"


def _central_line(file: CentralFile) -> str:
    names = ", ".join(f"`{name}`" for name in file.symbols)
    return f"- `{file.path}`, used by {file.importers:,} files{f': {names}' if names else ''}"


class _Package(Struct):
    scripts: dict[str, str] = field(default_factory=dict[str, str])


def commands_of(manifests: Mapping[str, str]) -> Sequence[str]:
    """The commands that the manifests name, or that their kind of project has."""
    commands: list[str] = []
    if "Makefile" in manifests:
        targets = [name for name in dict.fromkeys(_TARGET.findall(manifests["Makefile"])) if "." not in name]
        commands += [f"make {name}" for name in targets[:MOST_SCRIPTS]]
    if "package.json" in manifests:
        try:
            scripts = msgspec.json.decode(manifests["package.json"], type=_Package).scripts
        except msgspec.MsgspecError:
            scripts = {}
        commands += [f"npm run {name}" for name in list(scripts)[:MOST_SCRIPTS]]
    if "pytest" in manifests.get("pyproject.toml", ""):
        commands.append("python -m pytest")
    if "Cargo.toml" in manifests:
        commands += ["cargo build", "cargo test"]
    if "go.mod" in manifests:
        commands += ["go build ./...", "go test ./..."]
    return commands
