"""The files to open first for a topic, the outline of one file, and the project at a glance.

Owns: the choice of these files, their order, and the reason for each; which folders and files count for the AGENTS.md
that is drafted, and its words. Must not know: memory on the topic, how an answer is worded, or who writes the draft.
Nothing here asks a model: a draft says only what the index and the manifests say.

The topic's words are looked up in names of files and symbols. Rare words count more than common ones. Tests are at most
a quarter, and the number of a file's users only breaks ties.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from pattern_acp.codemap import lookups, store
from pattern_acp.codemap.lookups import fold, stem_of, words_of
from pattern_acp.codemap.model import FileRecord, Import, Symbol
from pattern_acp.codemap.store import FILES, SYMBOLS, file_of, symbol_of
from pattern_acp.db.columns import integer, text
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.text_limits import plural

MOST_FILES = 12
"""Files of a brief (issue 4, section 2); at most a quarter of them are tests."""

MOST_NEIGHBOURS = 2
"""Limit on files that are included only because the matches import them."""

MOST_OTHER_TEXTS = 2
"""Limit on files that are no source, such as documents."""

NEIGHBOUR_SHARE = 0.3
"""Share of a file's importers that must be among the matches."""

SYMBOLS_SHOWN = 4
"""Symbols of one file that are named."""

RELEVANT, RELEVANT_OF_FEW, FEW_FILES = 0.2, 0.08, 6
"""Share of the best file's score that a file needs to be included; less if few files would be."""

EMPTY = 0.5
"""Factor for the score of a file that defines nothing, such as an `__init__.py`."""

STEM_WEIGHT, FOLDER_WEIGHT, IMPORT_WEIGHT = 4.0, 1.2, 1.2
"""Weight of a word in a file's own name, in its folder's, and in the name of something that the file imports."""

SPREAD = 0.6
"""Factor for the score of a file that has the topic among very much else."""

_KIND_WEIGHT = {"class": 2.0, "interface": 2.0, "type": 2.0, "enum": 2.0, "function": 2.0, "method": 1.0}
_BEGINS = 0.6
"""Weight of a word that only begins with the topic's word."""

_NOT_TELLING = frozenset(
    {
        "a", "an", "and", "are", "as", "at", "be", "by", "do", "does", "for", "from", "get", "how", "i", "in",
        "into", "is", "it", "its", "of", "on", "or", "the", "this", "to", "what", "when", "where", "which",
        "who", "why", "with", "code", "file", "files", "function", "class", "handle", "handled", "handling",
        "work", "works", "used", "use",
    }
)  # fmt: skip


class BriefFile(Struct, frozen=True):
    """A file of a brief: its matching symbols, best first, and the reason why it is included."""

    file: FileRecord
    symbols: tuple[Symbol, ...]
    why: str


class Brief(Struct, frozen=True):
    """The files for a topic, best first, and the number of further related ones in `more`."""

    files: tuple[BriefFile, ...]
    more: int = 0


class _Evidence(Struct):
    """The evidence for one file, by words of the topic."""

    weights: dict[str, float] = field(default_factory=dict[str, float])
    symbols: dict[int, tuple[float, Symbol]] = field(default_factory=dict[int, tuple[float, Symbol]])
    named: list[str] = field(default_factory=list[str])
    """Parts of the path that match."""
    imported: list[str] = field(default_factory=list[str])

    def add(self, word: str, weight: float) -> None:
        """Add evidence for a word: the best counts whole, the rest a little, so that many weak pieces do not win."""
        best = self.weights.get(word, 0.0)
        self.weights[word] = max(best, weight) + 0.1 * min(best, weight)


def brief(tx: Transaction, topic: str, *, may_show: Callable[[str], bool]) -> Brief:
    """Return the files for a topic: a few words, a name or a question."""
    words = topic_words(topic)
    paths = lookups.paths_and_tests(tx)
    found: dict[str, _Evidence] = defaultdict(_Evidence)
    for word in words:
        _look_at_paths(paths, word, found)
        _look_at_symbols(tx, word, found)
        _look_at_imports(tx, word, found)
    scores = _scores(found, words, len(paths))
    sizes = lookups.symbol_counts(tx, scores)
    for path in scores:
        # A file that is all about the topic comes before one that has a little of everything.
        share = min(len(found[path].symbols) / sizes[path], 1.0) if path in sizes else 0.0
        scores[path] *= SPREAD + (1 - SPREAD) * share if path in sizes else EMPTY
    least = _least(scores, paths)
    wanted = fold(topic)
    relevant = {path: score for path, score in scores.items() if score >= least and may_show(path)}
    defining = {path for path in relevant if _defines(path, found[path], wanted)}
    used = lookups.importer_counts(tx, relevant)
    ranked = sorted(
        relevant, key=lambda path: (path not in defining, -round(relevant[path], 3), -used.get(path, 0), path)
    )
    files = lookups.files_named(tx, ranked)
    chosen = _within_limits([files[path] for path in ranked])
    # A test asked for by its name is the answer.
    chosen.sort(key=lambda file: file.path not in defining)
    entries = [BriefFile(file, _best_symbols(found[file.path]), _why(found[file.path])) for file in chosen]
    if 0 < len(entries) < MOST_FILES:
        entries += _neighbours(tx, entries, may_show)[: MOST_FILES - len(entries)]
    return Brief(tuple(entries), len(relevant) - len(chosen))


def _least(scores: Mapping[str, float], tests: Mapping[str, bool]) -> float:
    """The score that a file needs: a share of the best source's, since with `test` in the topic every test has more."""
    source = [score for path, score in scores.items() if not tests[path]]
    best = max(source or scores.values(), default=0.0)
    many = sum(1 for score in source if score >= RELEVANT * best) >= FEW_FILES
    return best * (RELEVANT if many else RELEVANT_OF_FEW)


def topic_words(topic: str) -> tuple[str, ...]:
    """The words to look a topic up by: in lower case, without endings and filler words."""
    words = [word for part in re.split(r"\s+", topic) for word in words_of(part)]
    telling = [word for word in words if word not in _NOT_TELLING] or words
    return tuple(dict.fromkeys(_stem(word) for word in telling))


def _stem(word: str) -> str:
    for ending, least in (("ies", 5), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4)):
        if word.endswith(ending) and len(word) >= least and not word.endswith("ss"):
            stem = word[: -len(ending)]
            return stem[:-1] if ending in {"ing", "ed"} and stem[-1] == stem[-2] else stem
    return word


def _alike(stem: str, word: str) -> float:
    """Weight of `word` for a topic's word: 1 if they differ only in their ending, less for a common prefix."""
    if word == stem or _stem(word) == stem:
        return 1.0
    return _BEGINS if word.startswith(stem) and len(stem) >= 3 else 0.0


def _best_alike(stem: str, words: Iterable[str]) -> float:
    return max((_alike(stem, word) for word in words), default=0.0)


def _look_at_paths(paths: Iterable[str], word: str, evidence: dict[str, _Evidence]) -> None:
    for path in paths:
        if word not in path.lower():
            continue
        *folders, stem = stem_of(path, whole=True)
        if alike := _best_alike(word, words_of(stem)):
            evidence[path].add(word, STEM_WEIGHT * alike)
            evidence[path].named.append(stem)
        folder = next((part for part in reversed(folders) if _best_alike(word, words_of(part))), "")
        if folder:
            evidence[path].add(word, FOLDER_WEIGHT)
            evidence[path].named.append(f"{folder}/")


def _look_at_symbols(tx: Transaction, word: str, evidence: dict[str, _Evidence]) -> None:
    for symbol in lookups.symbols_with_word(tx, word):
        alike = _best_alike(word, words_of(symbol.name))
        weight = _KIND_WEIGHT.get(symbol.kind, 0.7) * alike * (1.0 if symbol.exported else 0.6)
        if not weight:
            continue
        item = evidence[symbol.path]
        item.add(word, weight)
        before = item.symbols.get(symbol.id, (0.0, symbol))[0]
        item.symbols[symbol.id] = (before + weight, symbol)


def _look_at_imports(tx: Transaction, word: str, evidence: dict[str, _Evidence]) -> None:
    for imported in lookups.imports_with_word(tx, word):
        if _best_alike(word, words_of(imported.name)):
            evidence[imported.path].add(word, IMPORT_WEIGHT)
            evidence[imported.path].imported.append(imported.name)


def _scores(evidence: dict[str, _Evidence], words: Sequence[str], total: int) -> dict[str, float]:
    having = {word: sum(1 for item in evidence.values() if item.weights.get(word, 0) >= 1) for word in words}
    rarity = {word: math.log(1 + total / (1 + having[word])) for word in words}
    scores: dict[str, float] = {}
    for path, item in evidence.items():
        score = sum(rarity[word] * weight for word, weight in item.weights.items())
        coverage = sum(rarity[word] for word in item.weights) / (sum(rarity.values()) or 1)
        scores[path] = score * coverage
    return scores


def _defines(path: str, item: _Evidence, wanted: str) -> bool:
    """Return whether the topic is the name of the file, or of a symbol that it defines."""
    return fold(stem_of(path)[-1]) == wanted or any(fold(symbol.name) == wanted for _, symbol in item.symbols.values())


def _within_limits(files: Sequence[FileRecord]) -> list[FileRecord]:
    """Select the best files so that at most a quarter are tests and few are no source."""
    tests = [file for file in files if file.is_test]
    others = [file for file in files if not file.is_test and not file.language][:MOST_OTHER_TEXTS]
    source = [file for file in files if not file.is_test and file.language]
    plain = {file.path for file in (*source, *others)}
    chosen = [file for file in files if file.path in plain][:MOST_FILES]
    # Tests alone are still an answer, as many as there would be beside others.
    most_tests = min(MOST_FILES // 4, len(chosen) // 3) if chosen else MOST_FILES // 4
    chosen = chosen[: MOST_FILES - min(most_tests, len(tests))]
    return [*chosen, *tests[:most_tests]]


def _best_symbols(item: _Evidence) -> tuple[Symbol, ...]:
    best = sorted(item.symbols.values(), key=lambda pair: (-pair[0], pair[1].line))[:SYMBOLS_SHOWN]
    return tuple(symbol for _, symbol in best)


def _why(item: _Evidence) -> str:
    reasons: list[str] = []
    if item.named:
        reasons.append("named " + ", ".join(dict.fromkeys(item.named)))
    if item.symbols:
        best = _best_symbols(item)
        more = len(item.symbols) - len(best)
        names = ", ".join(f"{symbol.qualified_name}:{symbol.line}" for symbol in best)
        reasons.append(f"defines {names}" + (f" and {more} more" if more else ""))
    elif item.imported:
        reasons.append("imports " + ", ".join(list(dict.fromkeys(item.imported))[:SYMBOLS_SHOWN]))
    return "; ".join(reasons)


def _neighbours(tx: Transaction, entries: Sequence[BriefFile], may_show: Callable[[str], bool]) -> list[BriefFile]:
    """Files that several of the matches import and few others do."""
    shown = {entry.file.path for entry in entries}
    by: dict[str, set[str]] = defaultdict(set)
    for imported in lookups.imports_in(tx, (entry.file.path for entry in entries[:5] if not entry.file.is_test)):
        target = imported.resolved_path
        if target is not None and target not in shown:
            by[target].add(imported.path)
    used = lookups.importer_counts(tx, by)
    shares = {path: len(by[path]) / max(used.get(path, 1), 1) for path in by if len(by[path]) >= 2 and may_show(path)}
    files = lookups.files_named(tx, shares)
    close = [path for path in files if shares[path] >= NEIGHBOUR_SHARE and not files[path].is_test]
    close.sort(key=lambda path: (-len(by[path]), -shares[path], path))
    return [BriefFile(files[path], (), f"imported by {len(by[path])} of these") for path in close[:MOST_NEIGHBOURS]]


SYMBOLS_OF_A_FILE = 6
"""Symbols that represent a file in the outline of its folder."""


class OutlineLine(Struct, frozen=True):
    """A symbol and how deep it is nested; 0 at the top."""

    depth: int
    symbol: Symbol


class FileOutline(Struct, frozen=True):
    """A file, its symbols in the order of lines, and what it imports."""

    file: FileRecord
    lines: tuple[OutlineLine, ...]
    imports: tuple[Import, ...] = ()


class FolderOutline(Struct, frozen=True):
    """The files of a folder, each with its top-level symbols, and the number of files left out."""

    files: tuple[FileOutline, ...]
    more: int = 0


def outline_file(tx: Transaction, path: str) -> FileOutline | None:
    """The outline of the file at `path`; None when the index does not have it."""
    found = store.files_at(tx, path) if path and not path.endswith("/") else []
    if not found:
        return None
    symbols = store.symbols_in(tx, path)
    return FileOutline(found[0], nested(symbols), tuple(store.imports_of(tx, path)))


def outline_folder(tx: Transaction, folder: str, *, limit: int, may_show: Callable[[str], bool]) -> FolderOutline:
    """The files below `folder` (with a final slash, "" for all), those nearest to it first; at most `limit`."""
    files = [file for file in store.files_at(tx, folder) if file.language and may_show(file.path)]
    files.sort(key=lambda file: (file.is_test, file.path.count("/"), file.path))
    shown = sorted(files[:limit], key=lambda file: file.path)
    return FolderOutline(
        tuple(FileOutline(file, _top(store.symbols_in(tx, file.path))) for file in shown), len(files) - len(shown)
    )


def nested(symbols: Sequence[Symbol]) -> tuple[OutlineLine, ...]:
    """The symbols of one file with their depth. One whose parent is not among them counts as top level."""
    depths: dict[int, int] = {}
    for symbol in symbols:
        depths[symbol.id] = depths.get(symbol.parent_id, -1) + 1 if symbol.parent_id is not None else 0
    return tuple(OutlineLine(depths[symbol.id], symbol) for symbol in symbols)


def _top(symbols: Sequence[Symbol]) -> tuple[OutlineLine, ...]:
    top = [symbol for symbol in symbols if symbol.parent_id is None]
    # Public symbols say more about a file than its constants and private ones.
    top.sort(key=lambda symbol: (not symbol.exported, symbol.kind in {"constant", "variable", "field"}))
    chosen = sorted(top[:SYMBOLS_OF_A_FILE], key=lambda symbol: symbol.line)
    return tuple(OutlineLine(0, symbol) for symbol in chosen)


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
