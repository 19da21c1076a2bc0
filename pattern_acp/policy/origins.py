"""Origin of a call: whether data that somebody else wrote is behind it.

Owns: the comparison of a call with what the session has read, and what follows for its decision. Must not know: where
that data is stored, or who is asked. Pure. The comparison is honest and bounded: it finds what was taken over word for
word, an address, a path, a name or a passage, and no paraphrase; only writes into memory of other projects ask for what
the turn has read at all.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.access import (
    Access,
    CallServer,
    DataSource,
    FetchUrl,
    Origin,
    RunCommand,
    WriteMemory,
    WritePath,
    flat_text,
)
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.policy.commands import read_command_line
from pattern_acp.policy.decision import Decision, Mode, Verdict
from pattern_acp.policy.external_effects import network_need, reaching_reason
from pattern_acp.policy.grant_matching import exact_pattern
from pattern_acp.policy.grants import Grant, GrantKind
from pattern_acp.policy.paths import is_inside_any, is_windows_path, name_of

PASSAGE = 80
"""Characters of the pieces in which long texts are compared: a passage of twice as many is surely found."""

MOST_PIECES = 200
"""Most pieces of one call that are compared."""

MOST_COMPARED = 400_000
"""Most characters of a call's arguments that are compared."""

NAMED = 3
"""Most sources that a sentence names."""

_COMMAND_LENGTH = 12
_LINE = 16
_WORD_LENGTH = 12

_ADDRESS = re.compile(r"(?:https?|ssh|git|ftp|wss?)://([^\s/\"'`<>)\]}]+)", re.IGNORECASE)
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}(?::\d+)?", re.IGNORECASE)
_WORDS = re.compile(r"[^\s\"'`<>|;&(){}\[\],]+")
_SHARED_SCOPES = frozenset({"persona", "shared"})

_INSTRUCTIONS = frozenset(
    {
        "agents.md",
        "agents.override.md",
        "claude.md",
        "claude.local.md",
        "gemini.md",
        ".cursorrules",
        ".windsurfrules",
        ".clinerules",
    }
)

_RULES_OF_MODE = frozenset({"inside_write", "memory_write", "auto_mode"})
"""Rules by which a mode allows a call, and no answer or rule of the user."""


class KnownTexts(Struct, frozen=True):
    """Texts that a call is compared with."""

    sources: Sequence[DataSource] = ()
    """All that the session has read, oldest first."""
    turn: Sequence[DataSource] = ()
    """Data that this turn has read."""
    said: Sequence[str] = ()
    """Words that the user typed, as they are compared."""
    trusts_folder: bool = False
    """True when the user trusts the session's folder."""


def with_origin(
    decision: Decision,
    accesses: Sequence[Access],
    arguments: JsonObject,
    known: KnownTexts,
    *,
    mode: Mode,
    roots: Sequence[str],
    grants: Sequence[Grant] = (),
) -> Decision:
    """Return the decision with the origin of the call, and stricter where data of somebody else is behind it.

    A write of memory that other projects see asks in every mode when its turn has read such data. Anything else asks
    when its arguments are from there: in `ask` and `edit` where the mode alone allowed it, in `auto` when it leaves the
    project or uses the network. A denial stays one, and a question names the origin.
    """
    if decision.verdict is Verdict.DENY:
        return decision
    is_edit = all(isinstance(access, WritePath | WriteMemory) for access in accesses)
    texts = tuple(_texts(arguments, _NOT_WRITTEN if is_edit else frozenset()))
    remembered = _remembering(decision, accesses, texts, known) or _instructing(decision, accesses, known)
    if remembered is not None:
        return remembered
    found = source_of(accesses, texts, known)
    if found is None:
        return decision
    decision = replace(decision, origin=found.source.name)
    if not found.is_foreign:
        return decision
    sentence = f"{found.what} comes from {found.source.name}, not from you."
    if decision.verdict is Verdict.ASK:
        return replace(decision, reason=f"{decision.reason} {sentence}")
    if _asks(decision, [access for access in accesses if not _was_seen(access, grants)], mode, roots):
        return Decision(Verdict.ASK, "foreign_origin", sentence, origin=found.source.name)
    return decision


def is_foreign(source: DataSource, *, trusts_folder: bool, beyond_project: bool) -> bool:
    """Return whether `source` is data that somebody else may have written.

    `beyond_project`: for an effect that other projects see, where files of a folder that nobody trusts count too.
    """
    match source.origin:
        case Origin.WEB | Origin.MCP | Origin.AGENT:
            return True
        case Origin.COMMAND:
            return (beyond_project and not trusts_folder) or _brings_from_outside(source.line)
        case Origin.WORKSPACE if source.of_user:
            return False
        case Origin.WORKSPACE if source.of_project:
            return beyond_project and not trusts_folder
        case Origin.WORKSPACE:
            return beyond_project or not source.given
        case _:
            return False


def read_before(known: KnownTexts, *, beyond_project: bool) -> tuple[DataSource, ...]:
    """Return the data of others that this turn has read, each place once, the newest first."""
    found = {
        source.name: source
        for source in reversed(known.turn)
        if is_foreign(source, trusts_folder=known.trusts_folder, beyond_project=beyond_project)
    }
    return tuple(found.values())


_USER = DataSource(Origin.PERSON, "the user's words")

_OF_PROJECT = frozenset({Origin.WORKSPACE, Origin.COMMAND})


class CallSource(Struct, frozen=True):
    """The source of something in a call. `what` begins a sentence about it."""

    source: DataSource
    what: str
    is_foreign: bool


def source_of(accesses: Sequence[Access], texts: Sequence[str], known: KnownTexts) -> CallSource | None:
    """Return the source of a call's arguments: data of others, else files of the project, else the user's words."""
    servers = {access.server for access in accesses if isinstance(access, CallServer)}
    # An edit is made of what the project holds; for it that is neither news nor worth the search.
    is_edit = all(isinstance(access, WritePath | WriteMemory) for access in accesses)
    of_project: CallSource | None = None
    is_said = False
    for piece in _pieces(accesses, texts):
        if any(piece.text in said for said in known.said):
            is_said = True
            continue
        # Found first and judged then: a long session has read hundreds of texts, of which hardly one has the piece.
        holders = [source for source in reversed(known.sources) if source.text and piece.text in source.text]
        other = next((source for source in holders if _is_of_others(source, servers)), None)
        if other is None and (is_edit or of_project is not None):
            continue
        holder = next((source for source in holders if _is_of_project(source, servers)), None)
        if holder is not None:
            of_project = of_project or CallSource(holder, piece.what, is_foreign=False)
        elif other is not None and not any(
            piece.text in source.name.casefold() for source in known.sources if _is_of_project(source, servers)
        ):
            return CallSource(other, piece.what, is_foreign=True)
    if of_project is None and is_said:
        return CallSource(_USER, "", is_foreign=False)
    return of_project


def _is_of_others(source: DataSource, servers: Collection[str]) -> bool:
    # What a server said goes back to it.
    return source.server not in servers and is_foreign(source, trusts_folder=False, beyond_project=False)


def _is_of_project(source: DataSource, servers: Collection[str]) -> bool:
    return (
        bool(source.text)
        and source.server not in servers
        and source.origin in _OF_PROJECT
        and not _is_of_others(source, servers)
    )


def named(sources: Sequence[DataSource]) -> str:
    """The places in words: “the page …, the file `a` and 2 more”."""
    names = [source.name for source in sources]
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _remembering(
    decision: Decision, accesses: Sequence[Access], texts: Sequence[str], known: KnownTexts
) -> Decision | None:
    labels = [a.label for a in accesses if isinstance(a, WriteMemory) and a.scope in _SHARED_SCOPES]
    if not labels:
        return None
    written = [flat_text(text) for text in texts if text.strip()]
    if written and all(any(text in said for said in known.said) for text in written):
        # Word for word what the user typed.
        return None
    read, when = read_before(known, beyond_project=True), "this turn"
    if not read:
        read, when = _copied(texts, known), "an earlier turn"
    if not read:
        return None
    block = f"memory block `{labels[0]}`" if labels[0] != "archive" else "archive of your persona"
    reason = (
        f"It writes to the {block}, which every project sees, and {when} has read {named(read)}: "
        "an instruction in there may be behind it."
    )
    if decision.verdict is Verdict.ASK:
        reason = f"{decision.reason} {reason}"
    # No scope: what the next text holds, and where it is from, nobody knows yet.
    settled = decision.verdict is Verdict.ALLOW and not any(
        is_foreign(source, trusts_folder=True, beyond_project=True) for source in read
    )
    return Decision(Verdict.ASK, "memory_origin", reason, origin=named(read), settled_by_trust=settled)


def _copied(texts: Sequence[str], known: KnownTexts) -> tuple[DataSource, ...]:
    """Return the data of others, of any turn, in which a line of the text is found word for word."""
    lines = [
        flat for text in texts for line in text.splitlines() if len(flat := flat_text(line.strip(" -*#>"))) >= _LINE
    ]
    found = (
        source
        for source in reversed(known.sources)
        if is_foreign(source, trusts_folder=known.trusts_folder, beyond_project=True)
        and any(line in source.text for line in lines[:MOST_PIECES])
    )
    return tuple(islice(found, 1))


def _instructing(decision: Decision, accesses: Sequence[Access], known: KnownTexts) -> Decision | None:
    """Return the question about an edit of a file whose text every later session obeys."""
    paths = [a.path for a in accesses if isinstance(a, WritePath) and name_of(a.path).casefold() in _INSTRUCTIONS]
    read = read_before(known, beyond_project=False) if paths and decision.rule in _RULES_OF_MODE else ()
    if not read:
        return None
    reason = (
        f"It changes `{name_of(paths[0])}`, which later sessions follow, and this turn has read {named(read)}: "
        "an instruction in there may be behind it."
    )
    return Decision(Verdict.ASK, "instructions_origin", reason, origin=named(read))


def _asks(decision: Decision, accesses: Sequence[Access], mode: Mode, roots: Sequence[str]) -> bool:
    leaves = [access for access in accesses if _leaves(access, roots)]
    if mode is Mode.AUTO:
        return bool(leaves) and not all(isinstance(access, FetchUrl) for access in leaves)
    # What the user allowed by an answer or rule, they allowed: but not that a call sends what others wrote.
    return decision.rule in _RULES_OF_MODE or any(isinstance(a, RunCommand | CallServer) for a in leaves)


def _was_seen(access: Access, grants: Sequence[Grant]) -> bool:
    """Return whether the user allowed exactly this line: it is in their words then."""
    if not isinstance(access, RunCommand):
        return False
    pattern = exact_pattern(access)
    return any(each.kind is GrantKind.EXACT_COMMAND and each.pattern == pattern for each in grants)


def _leaves(access: Access, roots: Sequence[str]) -> bool:
    match access:
        case CallServer() | FetchUrl():
            return True
        case WritePath(path):
            return not is_inside_any(path, roots)
        case RunCommand(line, cwd):
            windows = is_windows_path(cwd)
            read = read_command_line(line, windows=windows)
            return bool(network_need(read)) or reaching_reason(read, windows=windows) is not None
        case _:
            return False


@lru_cache(maxsize=512)
def _brings_from_outside(line: str) -> bool:
    """Return whether a command's output may be data of another machine."""
    if not line:
        return False
    read = read_command_line(line)
    return bool(network_need(read)) or reaching_reason(read) is not None or _ADDRESS.search(line) is not None


class _Piece(Struct, frozen=True):
    text: str
    what: str


def _pieces(accesses: Sequence[Access], texts: Sequence[str]) -> Iterator[_Piece]:
    """The distinctive parts of a call, as they are compared, the most telling first."""
    made: dict[str, _Piece] = {}
    for access in accesses:
        for piece in _pieces_of(access, texts):
            made.setdefault(piece.text, piece)
            if len(made) > MOST_PIECES:
                break
    yield from made.values()


def _pieces_of(access: Access, texts: Sequence[str]) -> Iterator[_Piece]:
    match access:
        case FetchUrl(host, url):
            yield _Piece(flat_text(url), "The address")
            yield _Piece(flat_text(host), f"The host `{host}`")
        case RunCommand(line):
            yield from _addresses([line])
            yield from _commands(line)
        case CallServer():
            yield from _addresses(texts)
            for text in texts:
                yield from _passages(text)
                yield from _telling_words(text if len(text) <= PASSAGE else "")
        case WritePath() | WriteMemory():
            yield from _addresses(texts)
            for text in texts:
                yield from _passages(text)
        case _:
            pass


def _commands(line: str) -> Iterator[_Piece]:
    for command in read_command_line(line).commands:
        flat = flat_text(" ".join(command.words))
        if len(command.words) > 1 and len(flat) >= _COMMAND_LENGTH:
            yield _Piece(flat, "The command")
        for word in command.words[1:]:
            yield from _distinctive(word)


def _telling_words(text: str) -> Iterator[_Piece]:
    for word in _WORDS.findall(text):
        yield from _distinctive(word)


def _addresses(texts: Iterable[str]) -> Iterator[_Piece]:
    for text in texts:
        for found in _ADDRESS.finditer(text):
            host = found[1].rpartition("@")[2]
            yield _Piece(flat_text(host), f"The host `{host[:PASSAGE]}`")


def _distinctive(word: str) -> Iterator[_Piece]:
    """A word that is hardly in two texts by chance: a host, a path, a mail address, a long or mixed name."""
    bare = word.strip(".,:'\"").lstrip("-").rpartition("=")[2]
    is_mixed = any(c.isdigit() or c in "/@_.:-" for c in bare) and any(c.isalpha() for c in bare)
    is_telling = (len(bare) >= 6 and is_mixed) or _HOST.fullmatch(bare) is not None or len(bare) >= _WORD_LENGTH
    if is_telling and not bare.startswith("."):
        yield _Piece(flat_text(bare), f"`{bare[:PASSAGE]}`")


def _passages(text: str) -> Iterator[_Piece]:
    flat = flat_text(text)
    for at in range(0, len(flat) - PASSAGE + 1, PASSAGE):
        yield _Piece(flat[at : at + PASSAGE], "A passage of the text")


def _texts(arguments: Json, left_out: Collection[str]) -> Iterator[str]:
    """The strings among the arguments, without those of these names."""
    left = MOST_COMPARED
    waiting: list[Json] = [arguments]
    while waiting and left > 0:
        match waiting.pop(0):
            case str(text):
                yield text[:left]
                left -= len(text)
            case dict() as members:
                waiting += [value for name, value in members.items() if name not in left_out]
            case list() as items:
                waiting += items
            case _:
                pass


_NOT_WRITTEN = frozenset({"old_text", "label", "operation", "path", "reason"})
"""Arguments of an edit that say where it is, what is there already, and why."""
