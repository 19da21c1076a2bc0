"""Shell lines that only look: nothing has to be kept before they run.

Owns: a short table of programs that write no files whatever their arguments, or unless an argument says so. Must not
know: whether a line may run. What is not understood counts as writing; a wrong guess here would lose a file's state.
"""

from pattern_acp.policy.command_line import SimpleCommand
from pattern_acp.policy.commands import read_command_line
from pattern_acp.policy.programs import program_name

_LOOKING = frozenset(
    {
        "basename", "cat", "cd", "cksum", "cmp", "cut", "date", "df", "diff", "dirname", "du", "echo", "egrep", "env",
        "false", "fgrep", "file", "grep", "head", "hostname", "id", "ls", "md5sum", "nl", "od", "printenv", "printf",
        "ps", "pwd", "readlink", "realpath", "sha256sum", "sleep", "stat", "strings", "tail", "test", "tr", "true",
        "type", "uname", "uptime", "wc", "which", "whoami",
    }
)  # fmt: skip
_GIT = frozenset(
    {"blame", "cat-file", "describe", "grep", "log", "ls-files", "rev-parse", "shortlog", "show", "status"}
)
_GIT_WRITES = ("--output", "-o", "-c", "--ext-diff", "--textconv", "--open-files-in-pager", "-O")
_FIND_WRITES = frozenset({"-delete", "-exec", "-execdir", "-fls", "-fprint", "-fprint0", "-fprintf", "-ok", "-okdir"})


def only_reads(line: str, *, windows: bool = False) -> bool:
    """Whether a shell line surely changes no file."""
    read = read_command_line(line, windows=windows)
    if not read.parse_ok or not read.commands or read.is_hiding:
        return False
    if any(redirection.writes for redirection in read.redirections):
        return False
    return all(_looks(command) for command in read.commands)


def _looks(command: SimpleCommand) -> bool:
    if not command.words or command.changing or command.assignments:
        return False
    name, arguments = program_name(command.words[0]), command.words[1:]
    if name == "env":
        return not arguments
    if name == "find":
        return not _FIND_WRITES.intersection(arguments)
    if name == "rg":
        return not any(argument.startswith("--pre") for argument in arguments)
    if name == "git":
        writes = any(argument.startswith(_GIT_WRITES) for argument in arguments)
        return bool(arguments) and arguments[0] in _GIT and not writes
    return name in _LOOKING
