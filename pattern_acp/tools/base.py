"""The shape of a tool, and the file or folder that a call names.

A call goes through three steps, so that policy and the user see what would happen before anything happens:
`Tool.prepare` parses the arguments, looks at the current state and states accesses, title, locations and a preview;
policy decides on `PreparedCall.accesses`; `PreparedCall.run` has the effect.

A path has two names, the one the editor knows and the one policy decides on; just before an effect it is checked that
they still belong together.
"""

import os
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

import anyio.to_thread
from msgspec import Meta, Struct, field

from pattern_acp.definitions.personas import Persona
from pattern_acp.domain.access import Access, DataSource, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import SessionId, ToolCallId, TurnId, day_of
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.messages import ImagePart
from pattern_acp.domain.paths import absolute_path, display_path, normal_path, resolve_path
from pattern_acp.domain.tool_calls import Location, Plan, ToolContent, ToolKind
from pattern_acp.policy.decision import Wording
from pattern_acp.policy.paths import protection, protection_of_names
from pattern_acp.providers.base import ToolSpec
from pattern_acp.workspace.files import FileSystem
from pattern_acp.workspace.terminal import Terminal

if TYPE_CHECKING:
    from pattern_acp.codemap.model import IndexProgress, Judgement
    from pattern_acp.db.transaction import Transaction
    from pattern_acp.lsp.model import CodeLocation, FileEdits, Span
    from pattern_acp.memory.service.access import MemoryAccess
    from pattern_acp.memory.service.undo import AgentHistory
    from pattern_acp.policy.decision import UserQuestion
    from pattern_acp.processes.confinement import Profile
    from pattern_acp.tasks.service import Tasks
    from pattern_acp.workspace.git import FileDiff
    from pattern_acp.workspace.jobs import Jobs


def looks_readable(path: str) -> bool:
    """Tell whether the path itself gives no reason to ask before it is read."""
    # A search of 100,000 files asks for each of them; os.path.split would take as long as the rest.
    cut = max(path.rfind("/"), path.rfind(os.sep))
    guard = protection_of_names((path[cut + 1 :],))
    return (guard is None or not guard.for_reading) and _looks_enterable(path[: max(cut, 0)])


@lru_cache(maxsize=1_024)
def _looks_enterable(folder: str) -> bool:
    guard = protection(f"{folder}/file", ())
    return guard is None or not guard.for_reading


def shown_name(real: str) -> str:
    """The path of a file, resolved, by the name that shows it as credentials: that of another hard link beside it.

    Blocks: it looks at the file, and at its folder where the file has several names.
    """
    try:
        facts = os.lstat(real)
        if facts.st_nlink > 1 and stat.S_ISREG(facts.st_mode):
            return _secret_name_of(real, facts.st_ino) or real
    except (OSError, ValueError):
        # What is not there, or has no path that could be, has no other name.
        pass
    return real


def is_shown(path: str) -> bool:
    """Tell whether no name that the file has in its folder gives a reason to ask before it is read."""
    return looks_readable(shown_name(path))


def _secret_name_of(real: str, inode: int) -> str:
    folder, name = os.path.split(real)
    if not looks_readable(name):
        return ""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.inode() == inode and not looks_readable(entry.name):
                return entry.path
    return ""


COMMAND_SECONDS = 120
"""Time limit of a command unless the user or the model sets another (issue 2, section 4)."""


class ToolInputError(PatternError):
    """The arguments are not usable: the sentence names the field and what was expected. Goes back to the model."""

    failure_code = "tool.arguments-wrong"


class ToolFailedError(PatternError):
    """The tool could not do it: the sentence goes back to the model as the result."""

    failure_code = "tool.failed"


class TargetMissingError(ToolFailedError):
    """There is no such file, folder, block or name."""

    failure_code = "tool.target-missing"


class NothingChangedError(ToolFailedError):
    """The call would leave everything as it is."""

    failure_code = "tool.nothing-changed"


class NotAvailableError(ToolFailedError):
    """This session has nothing of the kind that the tool needs."""

    failure_code = "tool.not-available"


class BeyondEndError(ToolFailedError):
    """The text ends before what was asked for."""

    failure_code = "tool.beyond-end"


class WrongTargetError(ToolFailedError):
    """The target is not of the kind that the tool works on, or lies outside of what it may touch."""

    failure_code = "tool.target-unsuitable"


class ToolOutcome(Struct, frozen=True):
    """The result of one call.

    `text` is what the model reads (already cut), `content` what the user sees, `full_output` what the journal keeps
    whole when `text` was cut. `plan` replaces the shown plan.
    """

    text: str
    is_error: bool = False
    content: tuple[ToolContent, ...] = ()
    locations: tuple[Location, ...] = ()
    images: tuple[ImagePart, ...] = ()
    full_output: str = ""
    raw_output: JsonObject = field(default_factory=dict[str, str])
    origin: Origin = Origin.WORKSPACE
    plan: Plan | None = None
    title: str = ""
    """The call's title at its end; empty for the one that it was announced with."""
    changed: tuple[str, ...] = ()
    """Absolute paths of files that the call wrote, as the editor knows them."""
    stopped: str = ""
    """The paths or addresses that the sandbox refused to the call, in a sentence; empty when it refused nothing."""
    failure: str = ""
    """The code of a failure (cli/failures.toml); empty for one that no error stands for, as of a failed command."""


class Progress(Protocol):
    """The receiver of a running tool's progress."""

    async def show(self, content: tuple[ToolContent, ...], *, title: str = "") -> None:
        """Replace the call's shown content, and its title unless that is empty; the title comes back at its end."""
        ...

    def note(self, text: str) -> None:
        """Keep what the model has to know of what was done, should the call be cancelled."""
        ...

    async def terminal_output(self, terminal_id: str, data: str) -> None:
        """More output of a terminal that we run ourselves."""
        ...

    async def terminal_exit(self, terminal_id: str, exit_code: int | None, signal: str | None) -> None:
        """A terminal that we run ourselves ended."""
        ...


def unnoted(path: str, resolved: str) -> None:
    """Ignore named paths, in a context where nobody asks for them."""
    del path, resolved


async def no_text(text_id: str) -> str | None:
    """Answer for a context without a conversation."""
    del text_id
    return None


class ToolsAtClient(Protocol):
    """Runs tools that read on the client's machine."""

    def offers(self, name: str) -> bool:
        """Tell whether the client has the tool."""
        ...

    async def run(self, name: str, arguments: JsonObject) -> ToolOutcome:
        """Return what the tool finds there.

        Raises:
            ToolFailedError: it could not do it; the sentence is the client's.
        """
        ...


class ToolContext(Struct, frozen=True):
    """The capabilities of a tool. `roots` are absolute and resolved; the first is the session's cwd."""

    session_id: SessionId
    turn_id: TurnId
    cwd: str
    roots: tuple[str, ...]
    files: FileSystem
    terminal: Terminal
    memory: "MemoryAccess"
    history: "Callable[[], AgentHistory] | None" = None
    """Gives the history of memory, whose import waits for who asks; None where there is none, as in tests of others."""
    read_fingerprints: dict[str, str] = field(default_factory=dict[str, str])
    """Path to fingerprint of the text the model last saw: what an edit is based on."""
    result_limit: int = 40_000
    """Characters of one result that the model reads."""
    read_limit: int = 100_000
    """Characters of one file that the model reads at once."""
    long_text: Callable[[str], Awaitable[str | None]] = no_text
    """The whole of a text of the conversation, by the id in the marker of its omitted middle."""
    limits: "Callable[[], Awaitable[Profile]] | None" = None
    """The limits of a command that runs in the sandbox; None where there is none."""
    jobs: "Jobs | None" = None
    """Background commands of the session; None where there are none."""
    command_seconds: int = COMMAND_SECONDS
    """Time limit of a command for which the model names none."""
    keeps_slow_commands: bool = False
    """True if a command at its time limit continues in the background instead of being ended."""
    command_ended: Callable[[], None] = lambda: None
    """Called after every command: files may have changed behind the editor's buffers (issue 2, section 4)."""
    code: "CodeAccess | None" = None
    """The code map; None where there is none."""
    delegation: "Delegation | None" = None
    """Runs subagents; None where there are none, as for a subagent."""
    languages: "LanguageAccess | None" = None
    """Language servers; None where there are none."""
    put_question: "Callable[[UserQuestion], Awaitable[str | None]] | None" = None
    """Asks the user, as `UserContact.put` does; None where nobody can be asked."""
    tasks: "Callable[[], Tasks] | None" = None
    """Gives the tasks of the project and the persona, whose import waits for who asks; None where there are none."""
    sessions: "SessionAccess | None" = None
    """The other sessions of the project; None where there are none."""
    may_read: Callable[[str], bool] = looks_readable
    """Tells whether policy lets the agent read an absolute path without a question; other paths are not even listed."""
    read_before: Callable[[], tuple[DataSource, ...]] = tuple
    """The data of others that the turn has read, that of the session's own folders last."""
    is_elsewhere: bool = False
    """True if files and commands are on another machine, so that nothing of a path can be seen on this one."""
    at_client: "ToolsAtClient | None" = None
    """Runs tools where the files are, if that is another machine; None where the client does none."""
    note_path: Callable[[str, str], None] = unnoted
    """Called with every path that a call names: absolute, and resolved through symbolic links."""


class PreparedCall(Struct, frozen=True):
    """A call that is understood but has not run."""

    title: str
    accesses: tuple[Access, ...]
    run: Callable[[Progress], Awaitable[ToolOutcome]]
    locations: tuple[Location, ...] = ()
    preview: tuple[ToolContent, ...] = ()
    kind: ToolKind | None = None
    """The kind of this call, where it differs from most calls of its tool."""
    run_confined: Callable[[Progress], Awaitable[ToolOutcome]] | None = None
    """Has the effect inside the sandbox; None for a call that cannot, and so needs the user's answer."""
    wording: Wording | None = None
    """The text that the user may change before they allow the call, which `run` then uses; None for other calls."""


class Tool(Protocol):
    """One tool."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and schema for the model."""
        ...

    @property
    def kind(self) -> ToolKind:
        """ACP's kind."""
        ...

    @property
    def changes_things(self) -> bool:
        """True if a call can change anything; others run side by side and are offered in plan mode."""
        ...

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext, /) -> PreparedCall:
        """Understand the call.

        An error may quote the files that it is about: the model sees it only if it may read all that was looked at
        through `context` (`turn.permissions.LookedAt`).

        Raises:
            ToolInputError: an argument is missing, unknown or wrong.
            ToolFailedError: the call cannot work on the current state (no such file, passage not found).
            WorkspaceError: the state could not be read.
        """
        ...


class SessionHit(Struct, frozen=True):
    """Something that was said, in a turn of a session, counted from 1. `speaker` is `user` or `assistant`."""

    session_id: SessionId
    title: str
    cwd: str
    turn: int
    speaker: str
    text: str
    at_ms: int

    @property
    def uri(self) -> str:
        """Names the session and the turn; a client that knows the scheme can open it."""
        return f"pattern-acp://session/{self.session_id}?turn={self.turn}"

    @property
    def name(self) -> str:
        """The session's title and the turn, on one line."""
        return f"{' '.join(self.title.split()) or 'Untitled'}, turn {self.turn}"

    @property
    def day(self) -> str:
        """The date, in the user's time zone."""
        return day_of(self.at_ms)


class TurnQuery(Struct, frozen=True):
    """The turns that are looked for: those that have the words, on the days, about the path; empty for any.

    `done` and `said` say where the words are looked for.
    """

    words: str = ""
    days: str = ""
    path: str = ""
    done: bool = True
    said: bool = True


class SessionAccess(Protocol):
    """The other sessions of the session's project."""

    async def turns(self, query: TurnQuery, limit: int) -> tuple[str, ...]:
        """The turns that fit best, each with what was asked, done and answered, as text; the newest first of equals.

        Raises:
            ToolInputError: the days cannot be understood.
        """
        ...

    async def opened(self, uri: str, characters: int) -> str:
        """The turn behind a link as it went, with its neighbours, in at most so many characters; empty for none."""
        ...

    async def search(self, query: str, limit: int) -> tuple[SessionHit, ...]:
        """The best passages of their messages for `query`, best first. Any input is safe."""
        ...


class LanguageAccess(Protocol):
    """The language servers of one session. Paths are absolute; texts are those that the user sees."""

    async def note_before(self, path: str, text: str | None) -> None:
        """Note the text that an edit starts from; None: the file is new. Never fails and waits for no server."""
        ...

    def note_gone(self, path: str) -> None:
        """Note that a file was deleted or got another name. Never fails."""
        ...

    async def definition(self, path: str, text: str, at: "Span") -> "tuple[CodeLocation, ...]":
        """Find the definition of the name at the beginning of `at`.

        Raises:
            LanguageServerError: there is no server for the file, or it cannot say.
        """
        ...

    async def references(self, path: str, text: str, at: "Span") -> "tuple[CodeLocation, ...]":
        """Find the uses of the name at the beginning of `at`, its definition included.

        Raises:
            LanguageServerError: there is no server for the file, or it cannot say.
        """
        ...

    async def rename(self, path: str, text: str, at: "Span", new_name: str) -> "tuple[FileEdits, ...]":
        """Return the edits that rename the name at the beginning of `at` to `new_name`.

        Raises:
            LanguageServerError: there is no server for the file, or it refuses.
        """
        ...

    async def show(self, path: str, text: str) -> None:
        """Tell the file's server the text of a file, which may not be on the disk yet."""
        ...


DELEGATE = "delegate"
"""Name of the tool that runs a subagent."""


class SubagentKind(StrEnum):
    """The most that a subagent may do; its session's mode and policy apply to it as well."""

    EXPLORER = "explorer"
    WORKER = "worker"
    REVIEWER = "reviewer"

    @property
    def only_reads(self) -> bool:
        """True if it changes nothing."""
        return self is not SubagentKind.WORKER


class DelegatedTask(Struct, frozen=True):
    """The task of one subagent."""

    kind: SubagentKind
    task: str
    name: str
    """One short line, by which the user knows it."""
    tools: tuple[str, ...] = ()
    """The only tools that it may use; none for all of its kind."""
    paths: tuple[str, ...] = ()
    """The only places where it may write: absolute, resolved paths of files and folders; none for the session's own."""
    needs: tuple[str, ...] = ()
    """Names of those whose results it starts from."""
    checks: tuple[str, ...] = ()
    """Command lines that have to succeed on what it changed."""
    background: bool = False
    """True for one that continues when the prompt has ended."""
    persona: Persona | None = None
    """The persona that does it; None for the session's."""
    reports: Mapping[str, str] = field(default_factory=dict[str, str])
    """Reports of others that it starts from, by their names: data."""


class Delegation(Protocol):
    """Runs subagents for one turn."""

    def expect(self, calls: Mapping[ToolCallId, JsonObject]) -> None:
        """Take the arguments of the calls of one answer, before the first of them is prepared."""
        ...

    def refusal(self, call_id: ToolCallId) -> str:
        """Why the subagent of a call cannot run for what it needs; empty when it can."""
        ...

    def tool_names(self, kind: SubagentKind) -> tuple[str, ...]:
        """The tools that a subagent of this kind has, in the order of the session's."""
        ...

    def background_refusal(self, kind: SubagentKind) -> str:
        """Why one of this kind cannot work in the background here; empty when it can."""
        ...

    async def run(self, task: DelegatedTask, call_id: ToolCallId, progress: Progress) -> ToolOutcome:
        """Run one to its end; what it found, and what it changed.

        Raises:
            DatabaseError: something could not be recorded; the turn must stop.
            PatternError: it could not run.
        """
        ...


FoundT = TypeVar("FoundT")


MOST_DEPTH = 5


class CodeOperation(StrEnum):
    """The questions that the code map answers."""

    FIND = "find"
    OUTLINE = "outline"
    BRIEF = "brief"
    CALLERS = "callers"
    IMPORTERS = "importers"
    IMPACT = "impact"
    DEFINITION = "definition"
    REFERENCES = "references"
    RENAME = "rename"


class CodeMapArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of code_map."""

    operation: CodeOperation
    query: Annotated[str, Meta(description="Name, Class.method, path, path:line:name or topic.")] = ""
    kinds: tuple[str, ...] = ()
    under: str = ""
    depth: Annotated[int, Meta(ge=1, le=MOST_DEPTH)] = 2
    limit: Annotated[int, Meta(ge=1, le=200)] | None = None
    new_name: str = ""


class CodeState(Struct, frozen=True):
    """The reliability of an answer of the index."""

    judgement: "Judgement"
    building: bool = False
    """True while the index is being built or brought up to date."""


class CodeAccess(Protocol):
    """The code maps of this process, one a folder."""

    async def ask(
        self,
        root: str,
        question: "Callable[[Transaction], FoundT]",
        *,
        on_progress: "Callable[[IndexProgress], Awaitable[None]]",
        briefly: bool = False,
    ) -> tuple[FoundT | None, CodeState]:
        """Ask the index of the absolute folder `root` a question; None if there is no index to ask.

        `briefly` is for what can be found without an index: it waits less for one that is being built.

        A first question waits a few seconds for the index to be built; the building continues in the background.
        `on_progress` is called while it waits. Then the answer is what the index can say.

        Raises:
            WorkspaceError: the index can be neither read nor made again, and why.
        """
        ...

    def note_changed(self, paths: Sequence[str]) -> None:
        """Files were written by the agent itself; their part of the index is renewed at once. Returns at once."""
        ...

    def note_command_ended(self) -> None:
        """A command ended, which may have changed anything. Returns at once."""
        ...

    async def changed_files(self, root: str) -> "tuple[FileDiff, ...]":
        """Return the differences from the last commit below `root`.

        Raises:
            WorkspaceError: git cannot say.
        """
        ...


T = TypeVar("T")

NAMES_COMPARED = 5_000
"""Most names of a folder that are compared with a misspelt one."""


class CodeTarget(Struct, frozen=True):
    """A path as the model named it.

    `path` is absolute and what the editor knows, `resolved` goes through symbolic links and is what policy decides on,
    `shown` is short for people and the model.
    """

    path: str
    resolved: str
    shown: str
    is_elsewhere: bool = False
    """True if it is on another machine: what this one has at the path means nothing."""


async def find_target(raw: str, context: ToolContext) -> CodeTarget:
    """The target that `raw` names in this session. Raises WorkspaceError where the path cannot be used."""
    path = absolute_path(raw, context.cwd)
    if context.is_elsewhere:
        resolved = normal_path(path)
        context.note_path(path, resolved)
        return CodeTarget(path, resolved, display_path(path, context.cwd), is_elsewhere=True)
    resolved = await anyio.to_thread.run_sync(resolve_path, path)
    context.note_path(path, resolved)
    return CodeTarget(path, resolved, display_path(path, context.cwd))


async def confirm_target(target: CodeTarget) -> None:
    """Check that the path still leads where policy thought (issue 2, section 9: again just before the effect).

    Raises:
        ToolFailedError: a symbolic link was changed since.
    """
    if not target.is_elsewhere:
        await confirmed(target, lambda _: None)


async def confirmed(target: CodeTarget, look: Callable[[str], T]) -> T:
    """Return the result of `look` at the path, checked as by `confirm_target` on the same way to a worker thread.

    Raises:
        ToolFailedError: a symbolic link was changed since.
    """

    def look_there() -> T:
        if resolve_path(target.path) != target.resolved:
            raise ToolFailedError(
                f"{target.shown} now leads to another place than when it was decided on; nothing was done.",
                advice="Try again.",
            )
        return look(target.path)

    return await anyio.to_thread.run_sync(look_there)


async def missing_target(target: CodeTarget, then: str = "", *, advice: str = "") -> TargetMissingError:
    """The error for a path that does not exist, with names that are like it; `then` is a sentence after that."""
    if target.is_elsewhere:
        sentence, where = f"There is no file {target.shown}.", ""
    else:
        sentence, where = await anyio.to_thread.run_sync(_missing, target)
    return TargetMissingError(f"{sentence} {then}".rstrip(), advice=f"{where} {advice}".strip())


def _missing(target: CodeTarget) -> tuple[str, str]:
    """Describe what is missing in a sentence, and name the tools that find it."""
    parent = Path(target.path).parent
    if not os.path.isdir(parent):  # noqa: PTH112  a Path raises where it may not look
        return f"{target.shown} does not exist, nor does its folder.", "Look for it with find_files."
    near = _nearest_names(parent, Path(target.path).name)
    if not near:
        return f"{target.shown} does not exist.", "Look for it with find_files or list_directory."
    folder = target.shown[: len(target.shown) - len(Path(target.path).name)]
    return f"{target.shown} does not exist; did you mean {' or '.join(folder + name for name in near)}?", ""


def _nearest_names(folder: Path, name: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(NAMES_COMPARED), strict=False)]
    except OSError:
        return []
    by_lower = {known.lower(): known for known in names}
    import difflib

    near = difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.6)
    return [by_lower[lower] for lower in near]
