"""What an always answer would store for an access, narrowest first.

Owns: how far an always reaches, and the text that says so. Must not know: modes.
"""

from collections.abc import Sequence

from pattern_acp.policy.access import CallServer, FetchUrl, ReadPath, RunCommand, WriteMemory, WritePath
from pattern_acp.policy.command_line import Feature
from pattern_acp.policy.commands import read_command_line
from pattern_acp.policy.covers import (
    any_covers,
    doing_commands,
    exact_pattern,
    is_plain,
    memory_pattern,
    prefix_pattern,
    server_pattern,
)
from pattern_acp.policy.decision import GrantScope
from pattern_acp.policy.destructive import destructive_reason
from pattern_acp.policy.grants import Effect, Grant, GrantKind
from pattern_acp.policy.paths import (
    Resolver,
    folder_of,
    is_inside,
    is_inside_any,
    is_windows_path,
    protection,
    shown_path,
)
from pattern_acp.policy.programs import prefix_words

_LINE_LENGTH, _PREFIX_LENGTH, _FOLDER_LENGTH = 21, 29, 20
"""Characters shown of what is allowed, so that no label is longer than 60: editors cut wider buttons off."""
_UNSEEN = frozenset({Feature.EXPANSION, Feature.SUBSTITUTION, Feature.PROCESS_SUBSTITUTION, Feature.CHANGING_COMMAND})


def edit_scopes(access: WritePath, roots: Sequence[str]) -> tuple[GrantScope, ...]:
    """Edits below the file's folder; only this file when it is outside the roots or protected."""
    folder = folder_of(access.path)
    is_narrow = protection(access.path, roots) is not None or not is_inside_any(folder, roots)
    pattern = access.path if is_narrow else folder
    return (
        GrantScope(GrantKind.EDIT_FOLDER, pattern, allow_label("edits in", _shown_folder(pattern, access.path, roots))),
    )


def read_scopes(access: ReadPath, roots: Sequence[str]) -> tuple[GrantScope, ...]:
    """Reads below the file's folder; only this path when the folder is near the top of the disk or it is protected."""
    folder = access.path if access.is_folder else folder_of(access.path)
    is_wide = len(folder.replace("\\", "/").strip("/").split("/")) < 3 or any(is_inside(root, folder) for root in roots)
    guard = protection(access.path, roots)
    pattern = access.path if is_wide or (guard is not None and guard.for_reading) else folder
    return (
        GrantScope(GrantKind.READ_FOLDER, pattern, allow_label("reads in", _shown_folder(pattern, access.path, roots))),
    )


def command_scopes(access: RunCommand, roots: Sequence[str], resolve: Resolver | None) -> tuple[GrantScope, ...]:
    """The prefix of a line's one command where it would cover the line, else exactly this line.

    None at all for a destructive line whose text changes with what the shell puts into it: nobody can say always to
    what cannot be seen.
    """
    windows = is_windows_path(access.cwd)
    line = read_command_line(access.line, windows=windows)
    if not is_inside_any(access.cwd, roots):
        return ()
    if destructive_reason(line, windows=windows) is not None and not line.features.isdisjoint(_UNSEEN):
        return ()
    exact = GrantScope(
        GrantKind.EXACT_COMMAND, exact_pattern(access), allow_label("exactly", _code(access.line, _LINE_LENGTH))
    )
    doing = doing_commands(line)
    prefix = prefix_words(doing[0]) if len(doing) == 1 and is_plain(line, windows=windows) else None
    if prefix is None:
        return (exact,)
    pattern = prefix_pattern(prefix, access.cwd, resolve)
    if not any_covers((Grant(Effect.ALLOW, GrantKind.COMMAND_PREFIX, pattern),), access, roots=roots, resolve=resolve):
        return (exact,)
    label = allow_label("", _code(f"{' '.join(prefix)} …", _PREFIX_LENGTH))
    return (GrantScope(GrantKind.COMMAND_PREFIX, pattern, label), exact)


def memory_scopes(access: WriteMemory) -> tuple[GrantScope, ...]:
    """Writes to this one block."""
    label = allow_label("writes to", _code(access.label, _FOLDER_LENGTH))
    return (GrantScope(GrantKind.MEMORY_BLOCK, memory_pattern(access), label),)


def server_scopes(access: CallServer) -> tuple[GrantScope, ...]:
    """This one tool of the server, as it is now."""
    label = allow_label("", _code(access.tool, _PREFIX_LENGTH))
    return (GrantScope(GrantKind.SERVER_TOOL, server_pattern(access), label),)


def fetch_scopes(access: FetchUrl) -> tuple[GrantScope, ...]:
    """Every page of this host."""
    shown = access.host if len(access.host) <= _FOLDER_LENGTH else f"…{access.host[1 - _FOLDER_LENGTH :]}"
    return (GrantScope(GrantKind.FETCH_HOST, access.host, allow_label("pages of", shown)),)


def allow_label(what: str, shown: str) -> str:
    """The text of an allowing button: one line that says how far it reaches and how long it lasts."""
    middle = f"{what} {shown}" if what else shown
    return f"Always allow {middle} in this session"


def _code(text: str, length: int) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split()).replace("`", "'")
    return f"`{line if len(line) <= length else line[: length - 1].rstrip(' …') + '…'}`"


def _shown_folder(pattern: str, path: str, roots: Sequence[str]) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in shown_path(pattern, roots))
    if pattern != path:
        shown = f"{shown.rstrip('/')}/"
    # The end of a path tells more than its start.
    return shown if len(shown) <= _FOLDER_LENGTH else f"…{shown[1 - _FOLDER_LENGTH :]}"
