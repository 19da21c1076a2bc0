"""The folders that a question about code goes to, and the words of its answer.

Owns: the index of each root, one line for each symbol, use and file, and how fresh an answer is, in words. Must not
know: how things are found.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from pattern_acp.codemap.brief import BriefFile, FileOutline, FolderOutline, OutlineLine
from pattern_acp.codemap.callers import ReachedFile, Use
from pattern_acp.codemap.lookups import FindAnswer, SymbolHit, Targets
from pattern_acp.codemap.model import FileRecord, Judgement, Symbol
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import Location
from pattern_acp.tools.base import CodeMapArguments, CodeOperation, CodeState, ToolContext
from pattern_acp.workspace.git import FileDiff

CHANGED_NAMED = 5
"""Changed files that a stale answer names."""

STEPS_SHOWN = 3
"""Uses by which a file is reached that its line names."""

_WORST_FIRST = ("missing", "partial", "stale", "fresh")


class Line(Struct, frozen=True):
    """One line of an answer. `head` names `place` and is what a reader clicks; `text` follows it."""

    text: str
    place: Location | None = None
    head: str = ""
    depth: int = 0
    """The depth of its indentation."""

    @property
    def whole(self) -> str:
        """The line as plain text."""
        return "  " * self.depth + self.head + self.text


class Naming(Struct, frozen=True):
    """The names of the files of one root: `show` gives the path for a reader, `locate` the absolute one."""

    show: Callable[[str], str]
    locate: Callable[[str], str]

    def place(self, path: str, line: int | None = None) -> Location:
        """A place for the editor."""
        return Location(self.locate(path), line)

    def line(self, path: str, line: int | None, text: str) -> Line:
        """A line that begins with a place; a blank of the reader's choice comes with `text`."""
        head = self.show(path) if line is None else f"{self.show(path)}:{line}"
        return Line(text, self.place(path, line), head)


NO_EXACT = "no exact match"
"""Words of an answer that has only names that are like the one that was asked for."""

NARROWER = "narrow with kinds, under or a longer name, or raise limit"
MEANWHILE = ", or use search_text meanwhile"
ELSEWHERE = "; try another name or fewer words, or search_text for its text"
LISTED = "; look with list_directory"
"""The model's alternative, in the words of its tools: who asks by hand has others."""

TYPED = {NARROWER: "type a longer name, or `/code outline PATH`", MEANWHILE: "", ELSEWHERE: "", LISTED: ""}
"""Words that the user can type instead of those that the model can call."""


def as_typed(answer: str) -> str:
    """An answer as the user reads it."""
    for called, typed in TYPED.items():
        answer = answer.replace(called, typed)
    return answer


def freshness_line(states: Sequence[CodeState]) -> str:
    """Describe the freshness of an answer: one word, and what it means now. Of several folders the worst counts."""
    worst = min(states, key=lambda state: _WORST_FIRST.index(state.judgement.freshness))
    judgement = worst.judgement
    return f"freshness: {judgement.freshness}{_meaning(judgement, building=worst.building)}{_grammars(states)}"


def _meaning(judgement: Judgement, *, building: bool) -> str:
    match judgement.freshness:
        case "fresh":
            return ""
        case "stale":
            names = ", ".join(judgement.changed[:CHANGED_NAMED])
            more = ", ..." if len(judgement.changed) > CHANGED_NAMED else ""
            what = plural(len(judgement.changed), "file differs", "files differ")
            return f" ({what} from the index: {names}{more}; ask again for a fresh answer)"
        case "partial":
            soon = "; it is being built, ask again for the rest" if building else ""
            return f" ({judgement.indexed:,} of {judgement.listed:,} files are indexed{soon})"
        case "missing":
            soon = f"is being built; ask again in a moment{MEANWHILE}" if building else "has no files"
            return f" (the index {soon})"


def _grammars(states: Sequence[CodeState]) -> str:
    missing = dict.fromkeys(each for state in states for each in state.judgement.missing_languages)
    return f"; not indexed for want of a grammar: {', '.join(missing)}" if missing else ""


def find_lines(query: str, answer: FindAnswer, naming: Naming) -> list[Line]:
    """List the matches, and the number of further ones."""
    if not answer.hits:
        return []
    exact = sum(1 for hit in answer.hits if hit.match.is_exact)
    count = plural(exact, "exact match", "exact matches") if exact else NO_EXACT
    others = len(answer.hits) - exact
    more = f", {plural(others, 'other')}" if others else ""
    lines = [Line(f"{query}: {count}{more}")]
    lines += [_hit_line(hit, naming) for hit in answer.hits]
    if answer.more:
        number = f"{answer.more:,}" if answer.more_is_exact else f"at least {answer.more:,}"
        lines.append(Line(f"{number} more; {NARROWER}"))
    return lines


def _hit_line(hit: SymbolHit, naming: Naming) -> Line:
    if hit.symbol is None:
        return naming.line(hit.path, None, " file")
    return symbol_line(hit.symbol, naming)


def symbol_line(symbol: Symbol, naming: Naming) -> Line:
    """`path:line kind signature`, and what it is inside of."""
    outer = symbol.qualified_name[: -len(symbol.name)].rstrip(".:#")
    inside = f"  [in {outer}]" if outer else ""
    return naming.line(symbol.path, symbol.line, f" {_described(symbol)}{inside}")


def _described(symbol: Symbol) -> str:
    """Kind and signature; the kind once, where the language begins the signature with it."""
    signature = symbol.signature or symbol.name
    return signature if symbol.kind in signature.split() else f"{symbol.kind} {signature}"


def outline_lines(outline: FileOutline, naming: Naming) -> list[Line]:
    """The file, then its symbols, nested."""
    file = outline.file
    about = f": {file.language or 'no source file'}" + (f", {plural(file.lines, 'line')}" if _is_counted(file) else "")
    lines = [naming.line(file.path, None, about + (f" ({file.note})" if file.note else ""))]
    modules = dict.fromkeys(item.module for item in outline.imports)
    if modules:
        lines.append(Line(f"imports {', '.join(modules)}"))
    lines += [_outline_line(line, file.path, naming) for line in outline.lines]
    return lines


def _is_counted(file: FileRecord) -> bool:
    """Return whether a file was read; of those that are no source, or whose turn has not come, only names are known."""
    return file.status not in {"listed", "pending"}


def _size(file: FileRecord) -> str:
    return f" ({plural(file.lines, 'line')})" if _is_counted(file) else ""


def _outline_line(line: OutlineLine, path: str, naming: Naming) -> Line:
    symbol = line.symbol
    span = f"{symbol.line}-{symbol.end_line}" if symbol.end_line > symbol.line else f"{symbol.line}"
    return Line(f" {_described(symbol)}", naming.place(path, symbol.line), span, line.depth)


def folder_lines(outline: FolderOutline, naming: Naming) -> list[Line]:
    """A line a file, with the symbols that stand for it."""
    lines: list[Line] = []
    for item in outline.files:
        names = ", ".join(line.symbol.name for line in item.lines)
        text = _size(item.file) + (f": {names}" if names else "")
        lines.append(naming.line(item.file.path, None, text))
    if outline.more:
        lines.append(Line(f"{plural(outline.more, 'more file')}; name a folder inside, or raise limit"))
    return lines


def brief_lines(files: Iterable[BriefFile], naming: Naming) -> list[Line]:
    """A line a file with the reason why it is there."""
    return [
        naming.line(
            item.file.path,
            item.symbols[0].line if item.symbols else None,
            f"{_size(item.file)}{' test' if item.file.is_test else ''}: {item.why}",
        )
        for item in files
    ]


def use_line(use: Use, naming: Naming) -> Line:
    """`path:line kind in Enclosing: reason`."""
    where = f" in {use.within.qualified_name}" if use.within is not None else ""
    times = f" ({use.count} times)" if use.count > 1 and use.kind != "import" else ""
    kind = "" if use.kind == "import" else f" {use.kind}"
    return naming.line(use.path, use.line, f"{kind}{where}{times}: {use.why}")


def reached_line(reached: ReachedFile, naming: Naming) -> Line:
    """A file that a change reaches, and by which uses."""
    parts = dict.fromkeys(_step_words(use, reached.depth) for use in reached.uses)
    more = f"; {len(parts) - STEPS_SHOWN} more" if len(parts) > STEPS_SHOWN else ""
    first = reached.uses[0]
    return naming.line(reached.file.path, first.line, f" {'; '.join(list(parts)[:STEPS_SHOWN])}{more}")


def _step_words(use: Use, depth: int) -> str:
    words = use.why if use.within is None else use.within.qualified_name
    return f"{words} through {use.target}" if depth > 1 else words


_LIMITS = {CodeOperation.FIND: 20, CodeOperation.OUTLINE: 60, CodeOperation.CALLERS: 50}
_USUAL_LIMIT = 40


class CodeRoot(Struct, frozen=True):
    """One root of the session as questions see it."""

    path: str
    """Absolute and resolved."""
    known_as: str
    """The path by which the session names it; "" if that is the same."""
    context: ToolContext
    changes: tuple[FileDiff, ...] = ()
    judged: dict[str, bool] = field(default_factory=dict[str, bool])
    """The verdicts of policy on files so far: one question may ask about a file many times."""

    def may_show(self, relative: str) -> bool:
        """Tell whether policy lets the agent read the file without a question."""
        if relative not in self.judged:
            self.judged[relative] = self.context.may_read(str(Path(self.path, relative)))
        return self.judged[relative]

    def locate(self, relative: str) -> str:
        """The absolute path as the editor knows it: behind the links by which the session's folder was named."""
        return str(Path(self.known_as or self.path, relative))

    def show(self, relative: str) -> str:
        """The path as it is shown."""
        return display_path(self.locate(relative), self.context.cwd)

    def relative(self, absolute: str) -> str:
        """The path in the index of an absolute one inside this root; "" for the root itself."""
        below = display_path(absolute, self.path)
        return "" if below == "." else below

    @property
    def naming(self) -> Naming:
        """The names of this root's files."""
        return Naming(self.show, self.locate)


Question: TypeAlias = Callable[[Transaction, CodeMapArguments, CodeRoot, Naming], list[Line]]
"""Answers from the index of one root; no lines when that has nothing to say."""


def limit_of(asked: CodeMapArguments) -> int:
    """Return the most things of one kind that an answer shows."""
    return asked.limit or _LIMITS.get(asked.operation, _USUAL_LIMIT)


def near_lines(targets: Targets) -> list[Line]:
    """List the likely meanings of a name that the index does not have; empty if nothing is like it."""
    near = " or ".join(targets.near)
    return [Line(f"The index knows nothing called so; did you mean {near}?")] if near else []
