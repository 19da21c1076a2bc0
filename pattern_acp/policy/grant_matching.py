"""The reach of remembered decisions of the user: which calls each of them covers.

Owns: the reach of allowances and refusals. An allowance reaches as little as possible, a refusal as far as possible: an
allowance needs every command of a line, a refusal is met by any of them. Must not know: modes, or how grants are
stored (`grants`).
"""

import json
from collections.abc import Sequence

from pattern_acp.domain.access import Access, CallServer, FetchUrl, ReadPath, RunCommand, WriteMemory, WritePath
from pattern_acp.domain.errors import PatternError
from pattern_acp.policy.command_paths import command_targets, outside_paths, protected_words
from pattern_acp.policy.commands import CommandLine, SimpleCommand, read_command_line
from pattern_acp.policy.destructive import destructive_reason
from pattern_acp.policy.grants import Effect, Grant, GrantKind, pattern_words
from pattern_acp.policy.nested_lines import effective_commands
from pattern_acp.policy.paths import Resolver, is_inside, is_inside_any, is_windows_path, protection, resolve_by_text
from pattern_acp.policy.programs import gives_script_words, has_escape_option, prefix_words, program_name


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
            is_meant = pattern_words(grant.pattern)[:2] == (access.server, access.tool)
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
    prefixes = [pattern_words(grant.pattern) for grant in grants if grant.kind is GrantKind.COMMAND_PREFIX]
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
        refused = pattern_words(grant.pattern)
        return bool(refused) and " ".join(refused[-1].split()) == " ".join(access.line.split())
    line = read_command_line(access.line, windows=windows)
    if grant.kind is GrantKind.COMMAND_PREFIX:
        prefix = pattern_words(grant.pattern)
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
