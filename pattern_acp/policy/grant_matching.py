"""Remembered decisions of the user: their rows, what each covers, and which ones a question offers.

Owns: the reach of allowances and refusals. An allowance reaches as little as possible, a refusal as far as possible: an
allowance needs every command of a line, a refusal is met by any of them. Must not know: modes, or the event that
records a grant (the caller appends `GrantStored` first, in the same transaction, and passes its `seq`: rule R1).
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import cast

from msgspec import Struct

from pattern_acp.db.columns import integer
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.access import Access, CallServer, FetchUrl, ReadPath, RunCommand, WriteMemory, WritePath
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import PatternError, PolicyError
from pattern_acp.policy.command_paths import command_targets, outside_paths, protected_words
from pattern_acp.policy.commands import CommandLine, SimpleCommand, read_command_line
from pattern_acp.policy.decision import ApprovalOption, Decision, GrantScope, Lifetime, PermissionAnswer
from pattern_acp.policy.destructive import destructive_reason
from pattern_acp.policy.layers import CLAIMED
from pattern_acp.policy.nested_lines import effective_commands
from pattern_acp.policy.paths import Resolver, is_inside, is_inside_any, is_windows_path, protection, resolve_by_text
from pattern_acp.policy.programs import gives_script_words, has_escape_option, prefix_words, program_name


class Effect(StrEnum):
    """Effect of a grant."""

    ALLOW = "allow"
    DENY = "deny"


class GrantKind(StrEnum):
    """Subject of a grant; see `decision.GrantScope` for the form of each pattern."""

    COMMAND_PREFIX = "command_prefix"
    EXACT_COMMAND = "exact_command"
    EDIT_FOLDER = "edit_folder"
    EDITS = "edits"
    READ_FOLDER = "read_folder"
    MEMORY_BLOCK = "memory_block"
    SERVER_TOOL = "server_tool"
    FETCH_HOST = "fetch_host"


class Grant(Struct, frozen=True):
    """One remembered answer: an "always" of either kind, and how far it reaches."""

    effect: Effect
    kind: GrantKind
    pattern: str
    lifetime: Lifetime = Lifetime.SESSION


class GrantOwner(Struct, frozen=True):
    """Identity of the project and of the persona that lasting grants belong to; empty for those of a session."""

    project: str = ""
    persona: str = ""

    def of(self, lifetime: Lifetime) -> "GrantOwner":
        """Return the owner of a grant with this lifetime."""
        match lifetime:
            case Lifetime.TURN | Lifetime.SESSION:
                return NOBODY
            case Lifetime.PROJECT:
                return self
            case Lifetime.PERSONA:
                return GrantOwner("", self.persona)


NOBODY = GrantOwner()
"""Owner of the grants that end with their session."""


def load_grants(tx: Transaction, session_id: SessionId, owner: GrantOwner = NOBODY) -> tuple[Grant, ...]:
    """The grants and refusals of a session, and those that last for its project and persona, oldest first.

    Raises:
        PolicyError: a row is not one that this version understands; nothing is allowed on a guess.
    """
    values = {"session_id": session_id, "project": owner.project, "persona": owner.persona}
    rows = tx.all(load_queries("pattern_acp.policy")["load_grants"], values)
    try:
        return tuple(
            Grant(Effect(str(effect)), GrantKind(str(kind)), str(pattern), Lifetime(str(lifetime)))
            for _, effect, kind, pattern, lifetime in rows
        )
    except ValueError as error:
        raise PolicyError(
            "A remembered permission is of a kind that this version does not know; update pattern-acp, start a new "
            "session, or revoke it (`pattern-acp policy grants`)."
        ) from error


def store_grant(
    tx: Transaction, session_id: SessionId, grant: Grant, owner: GrantOwner = NOBODY, *, seq: int, at_ms: int
) -> None:
    """Remember a grant; storing the same one again changes nothing.

    Args:
        tx: the transaction that also appended the event `seq`.
        session_id: the session in which the user answered.
        grant: the grant to remember.
        owner: whose it is, as `GrantOwner.of` says.
        seq: the journal event that records it.
        at_ms: milliseconds since 1970 UTC.

    Raises:
        DatabaseError: the file cannot be written.
    """
    queries = load_queries("pattern_acp.policy")
    values = {
        "session_id": session_id,
        "effect": grant.effect,
        "kind": grant.kind,
        "pattern": grant.pattern,
        "lifetime": grant.lifetime,
        "project": owner.project,
        "persona": owner.persona,
    }
    if tx.one(queries["has_grant"], values) is None:
        tx.execute(queries["store_grant"], values | {"created_ms": at_ms, "last_seq": seq})


class StoredGrant(Struct, frozen=True):
    """A grant in force, by its number."""

    number: int
    grant: Grant
    owner: GrantOwner
    session_id: SessionId
    persona: str
    """The name of the persona that asked."""
    created_ms: int

    def is_of(self, session_id: SessionId, owner: GrantOwner) -> bool:
        """Return whether it holds in a session of this owner."""
        if self.grant.lifetime is Lifetime.SESSION:
            return self.session_id == session_id
        return self.owner == owner.of(self.grant.lifetime)


def list_grants(tx: Transaction) -> list[StoredGrant]:
    """Every grant and refusal in force, oldest first; those of kinds that this version does not know are left out."""
    found: list[StoredGrant] = []
    for row in tx.all(load_queries("pattern_acp.policy")["list_grants"]):
        number, session_id, effect, kind, pattern, created, lifetime, project, identity, persona = row
        if str(kind) in set(GrantKind) and str(lifetime) in set(Lifetime):
            grant = Grant(Effect(str(effect)), GrantKind(str(kind)), str(pattern), Lifetime(str(lifetime)))
            owner = GrantOwner(str(project), str(identity))
            place = SessionId(str(session_id))
            found.append(StoredGrant(integer(number), grant, owner, place, str(persona), integer(created)))
    return found


def revoke_grant(tx: Transaction, number: int, *, seq: int, at_ms: int) -> None:
    """Take a grant back; `seq` is the event that records it."""
    values = {"id": number, "revoked_ms": at_ms, "last_seq": seq}
    tx.execute(load_queries("pattern_acp.policy")["revoke_grant"], values)


def describe_grant(grant: Grant) -> str:
    """Say what a grant reaches, whole and in one line."""
    words = _words(grant.pattern)
    match grant.kind:
        case GrantKind.COMMAND_PREFIX:
            text = f"`{shlex.join(words)} …`"
        case GrantKind.EXACT_COMMAND:
            text = f"exactly `{words[-1]}` in {words[0]}" if len(words) == 2 else grant.pattern
        case GrantKind.EDIT_FOLDER:
            text = f"edits in {grant.pattern}"
        case GrantKind.EDITS:
            text = "edits"
        case GrantKind.READ_FOLDER:
            text = f"reads in {grant.pattern}"
        case GrantKind.MEMORY_BLOCK:
            text = f"writes to `{words[-1] if words else grant.pattern}`"
        case GrantKind.SERVER_TOOL:
            text = f"`{'/'.join(words[:2])}`"
        case GrantKind.FETCH_HOST:
            text = f"pages of {grant.pattern}"
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def any_covers(
    grants: Sequence[Grant], access: Access, *, roots: Sequence[str], resolve: Resolver | None = None
) -> bool:
    """Return whether the allowances among `grants`, taken together, allow `access`.

    `pytest && ruff check` needs one for each of its commands.
    """
    allowances = [grant for grant in grants if grant.effect is Effect.ALLOW]
    if not allowances:
        return False
    match access:
        case ReadPath(path=path):
            return any(_covers_path(grant, GrantKind.READ_FOLDER, path, roots) for grant in allowances)
        case WritePath(path=path):
            return any(_covers_path(grant, GrantKind.EDIT_FOLDER, path, roots) for grant in allowances)
        case RunCommand():
            return _covers_command(allowances, access, roots, resolve)
        case WriteMemory():
            return any(_is_block(grant, access) for grant in allowances)
        case CallServer():
            return any(_is_server_tool(grant, access) for grant in allowances)
        case FetchUrl(host=host):
            return any(grant.kind is GrantKind.FETCH_HOST and grant.pattern == host for grant in allowances)
        case _:
            return False


def forbids(grant: Grant, access: Access, *, resolve: Resolver | None = None) -> bool:
    """Return whether `grant` is a refusal that reaches `access`. An allowance never does."""
    if grant.effect is not Effect.DENY:
        return False
    match access:
        case ReadPath(path=path):
            return grant.kind is GrantKind.READ_FOLDER and is_inside(path, grant.pattern)
        case WritePath(path=path):
            return grant.kind is GrantKind.EDIT_FOLDER and is_inside(path, grant.pattern)
        case RunCommand():
            return _forbids_command(grant, access, resolve)
        case WriteMemory():
            return _is_block(grant, access)
        case CallServer():
            # A refusal outlives a new description of the tool, which the server chooses.
            is_meant = _words(grant.pattern)[:2] == (access.server, access.tool)
            return grant.kind is GrantKind.SERVER_TOOL and is_meant
        case FetchUrl(host=host):
            return grant.kind is GrantKind.FETCH_HOST and grant.pattern == host
        case _:
            return False


def memory_pattern(access: WriteMemory) -> str:
    """The pattern of a `memory_block` grant for this access."""
    return json.dumps([access.scope, access.owner, access.label], ensure_ascii=False)


def server_pattern(access: CallServer) -> str:
    """The pattern of a `server_tool` grant for this access."""
    return json.dumps([access.server, access.tool, access.definition], ensure_ascii=False)


def exact_pattern(access: RunCommand) -> str:
    """The pattern of an `exact_command` grant for this access."""
    return json.dumps([access.cwd, access.line.strip()], ensure_ascii=False)


def prefix_pattern(words: Sequence[str], cwd: str, resolve: Resolver | None) -> str:
    """The pattern of a `command_prefix` grant for these first words, typed in `cwd`."""
    return json.dumps([_program(words[0], cwd, resolve), *words[1:]], ensure_ascii=False)


def _is_block(grant: Grant, access: WriteMemory) -> bool:
    return grant.kind is GrantKind.MEMORY_BLOCK and grant.pattern == memory_pattern(access)


def _is_server_tool(grant: Grant, access: CallServer) -> bool:
    return grant.kind is GrantKind.SERVER_TOOL and grant.pattern == server_pattern(access)


def _program(word: str, cwd: str, resolve: Resolver | None) -> str:
    # `./build.sh` is another program in another folder; a bare name is looked up on the PATH from any folder.
    try:
        return (resolve or resolve_by_text)(word, cwd) if "/" in word else word
    except PatternError:
        return ""


def _covers_path(grant: Grant, kind: GrantKind, path: str, roots: Sequence[str]) -> bool:
    guard = protection(path, roots)
    if grant.kind is GrantKind.EDITS and kind is GrantKind.EDIT_FOLDER:
        return guard is None and is_inside_any(path, roots)
    if grant.kind is not kind:
        return False
    if path == grant.pattern:
        return True
    if not is_inside(path, grant.pattern) or (
        guard is not None and (guard.for_reading or kind is GrantKind.EDIT_FOLDER)
    ):
        return False
    # A folder may have left the roots since it was allowed.
    return kind is GrantKind.READ_FOLDER or is_inside_any(path, roots)


def _covers_command(
    grants: Sequence[Grant], access: RunCommand, roots: Sequence[str], resolve: Resolver | None
) -> bool:
    if not is_inside_any(access.cwd, roots):
        return False
    exact = exact_pattern(access)
    if any(grant.kind is GrantKind.EXACT_COMMAND and grant.pattern == exact for grant in grants):
        return True
    prefixes = [_words(grant.pattern) for grant in grants if grant.kind is GrantKind.COMMAND_PREFIX]
    if not any(prefixes):
        return False
    windows = is_windows_path(access.cwd)
    line = read_command_line(access.line, windows=windows)
    return (
        # First: few lines begin as one that was allowed, and this takes the least time.
        all(_starts_with_any(command, prefixes, access.cwd, resolve) for command in doing_commands(line, access))
        and is_plain(line, windows=windows)
        and not outside_paths(targets := command_targets(line, access.cwd, resolve), roots)
        and not protected_words(targets, roots)
    )


def doing_commands(line: CommandLine, access: RunCommand) -> tuple[SimpleCommand, ...]:
    """The commands of a line that need an allowance: those that do not surely only read.

    What git reads counts where a setting has it run a program. A program named by its path is another one after a `cd`,
    so there `cd` counts. A line of nothing else counts whole.
    """
    # Late: its table takes 10 ms to read.
    from pattern_acp.policy.reading import command_reads

    windows = is_windows_path(access.cwd)
    has_path = any("/" in command.words[0] for command in line.commands if command.words)

    def does_nothing(command: SimpleCommand) -> bool:
        if command.words[:1] == ("cd",):
            # `+1` and `~1` are places of a stack that nobody sees.
            return not has_path and command_reads(command) and not command.words[1].startswith(("+", "~"))
        return command.words in {("true",), ("false",)}

    def reads(command: SimpleCommand) -> bool:
        name = command.words[0] if command.words else ""
        counts = windows or name == "cd" or (name == "git" and access.git_setting)
        return does_nothing(command) or (not counts and command_reads(command))

    for ignored in (reads, does_nothing):
        if doing := tuple(command for command in line.commands if not ignored(command)):
            return doing
    return line.commands


def is_plain(line: CommandLine, *, windows: bool) -> bool:
    """Return whether a line consists only of simple commands that a prefix may cover."""
    return (
        line.parse_ok
        and bool(line.commands)
        and not line.features
        and not line.redirections
        and destructive_reason(line, windows=windows) is None
        and all(command.words and not command.assignments and not command.changing for command in line.commands)
        and not any(has_escape_option(command.words) for command in line.commands)
    )


def _starts_with_any(
    command: SimpleCommand, prefixes: Sequence[tuple[str, ...]], cwd: str, resolve: Resolver | None
) -> bool:
    # No stored prefix is wider than the one that would be offered: `npm` alone never stands for `npm run deploy`.
    narrowest = prefix_words(command)
    if narrowest is None or gives_script_words(command.words):
        return False
    words = (_program(command.words[0], cwd, resolve), *command.words[1:])
    return any(len(prefix) >= len(narrowest) and words[: len(prefix)] == prefix for prefix in prefixes)


def _forbids_command(grant: Grant, access: RunCommand, resolve: Resolver | None) -> bool:
    windows = is_windows_path(access.cwd)
    if grant.kind is GrantKind.EXACT_COMMAND:
        refused = _words(grant.pattern)
        return bool(refused) and " ".join(refused[-1].split()) == " ".join(access.line.split())
    line = read_command_line(access.line, windows=windows)
    if grant.kind is GrantKind.COMMAND_PREFIX:
        prefix = _words(grant.pattern)
        commands = effective_commands(line, windows=windows)
        return any(_is_refused(command.words, prefix) for command in commands) if prefix else False
    writes = {redirection.target for redirection in line.redirections if redirection.writes}
    targets = command_targets(line, access.cwd, resolve) if writes and grant.kind is GrantKind.EDIT_FOLDER else ()
    return any(
        target.resolved is not None and target.word in writes and is_inside(target.resolved, grant.pattern)
        for target in targets
    )


def _is_refused(words: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether the words start with a refused prefix; options before it do not hide it: `git -C x push`."""
    if not words or program_name(words[0]) != program_name(prefix[0]):
        return False
    wanted = tuple(prefix[1:])
    for start in range(1, len(words) + 1):
        if tuple(words[start : start + len(wanted)]) == wanted:
            return True
        if start < len(words) and not words[start].startswith("-") and not words[start - 1].startswith("-"):
            return False
    return False


@lru_cache(maxsize=4_096)
def _words(pattern: str) -> tuple[str, ...]:
    """The words of a pattern; empty if it is not a list of strings, so that it covers nothing."""
    try:
        words = cast("object", json.loads(pattern))
    except ValueError:
        return ()
    if not isinstance(words, list):
        return ()
    items = cast("list[object]", words)
    return tuple(item for item in items if isinstance(item, str)) if all(isinstance(i, str) for i in items) else ()


def approval_options(
    decision: Decision, accesses: Sequence[Access], *, edits_text: bool = False
) -> tuple[ApprovalOption, ...]:
    """The buttons; the first of each kind has the kind's id and reaches least.

    "Always" answers are offered only if the decision has a scope, and say how far they reach and how long they last. A
    refusal is always among them. `edits_text`: the user may change the text of the call, or refuse it with a reason.
    """
    if decision.rule == CLAIMED:
        return _BESIDE_CLAIMS
    once = "Run once" if any(isinstance(access, RunCommand) for access in accesses) else "Allow once"
    options = [ApprovalOption(PermissionAnswer.ALLOW_ONCE, once)]
    if edits_text:
        options.append(ApprovalOption(PermissionAnswer.ALLOW_EDITED, "Change the text, then allow it"))
    options += [ApprovalOption(answer, scope.label(lifetime)) for answer, scope, lifetime in _offers(decision)]
    if decision.settled_by_trust:
        options.append(ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Allow, and trust the files of this folder"))
    options.append(ApprovalOption(PermissionAnswer.REJECT_ONCE, "Reject"))
    if edits_text:
        options.append(ApprovalOption(PermissionAnswer.REJECT_WITH_REASON, "Reject, with a reason"))
    if lasting := _lasting(decision):
        label = lasting[0].label(Lifetime.SESSION).replace("Always allow", "Never allow", 1)
        options.append(ApprovalOption(PermissionAnswer.REJECT_ALWAYS, label))
    return tuple(options)


_BESIDE_CLAIMS = (
    ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Continue: edit beside that session"),
    ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Take over: ask that session, and edit once it gives way"),
    ApprovalOption(PermissionAnswer.REJECT_ONCE, "Wait: leave it alone for now"),
)


def _offers(decision: Decision) -> Iterator[tuple[PermissionAnswer, GrantScope, Lifetime]]:
    """Every "always" that a question offers, and what it stores."""
    lasting = _lasting(decision)
    if lasting:
        yield PermissionAnswer.ALLOW_ALWAYS, lasting[0], Lifetime.SESSION
    for scope in decision.scopes:
        if Lifetime.TURN in scope.lifetimes:
            yield PermissionAnswer.ALLOW_TURN, scope, Lifetime.TURN
    for scope in lasting[1:2]:
        yield PermissionAnswer.ALLOW_EXACT, scope, Lifetime.SESSION
    for answer, lifetime in (
        (PermissionAnswer.ALLOW_PROJECT, Lifetime.PROJECT),
        (PermissionAnswer.ALLOW_PERSONA, Lifetime.PERSONA),
    ):
        if lasting and lifetime in lasting[0].lifetimes:
            yield answer, lasting[0], lifetime


def _lasting(decision: Decision) -> tuple[GrantScope, ...]:
    return tuple(scope for scope in decision.scopes if Lifetime.SESSION in scope.lifetimes)


def grant_for(answer: PermissionAnswer, decision: Decision) -> Grant | None:
    """Return the grant that an answer stores; None for an answer that lasts for this call only."""
    lasting = _lasting(decision)
    if answer is PermissionAnswer.REJECT_ALWAYS and lasting:
        scope = lasting[0]
        return Grant(Effect.DENY, GrantKind(scope.kind), scope.pattern)
    for offered, scope, lifetime in _offers(decision):
        if offered is answer:
            return Grant(Effect.ALLOW, GrantKind(scope.kind), scope.pattern, lifetime)
    return None
