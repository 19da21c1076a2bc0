"""The shell that runs a line, its environment, and a line as a script for clients that take no arguments.

Owns: the choice of shell on each platform and the variables a command sees. Must not know: processes.
"""

import re
import secrets
import shlex
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from pattern_acp.config.keys import INSIDE_VARIABLE
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.paths import PLATFORM, Flavour

CREDENTIAL_VARIABLES = frozenset({"ANTHROPIC_API_KEY", "OPENAI_API_KEY"})
"""Keys that no command of a model may see, whatever else is hidden from it."""

_PAGERS = "PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER GH_PAGER AWS_PAGER BAT_PAGER PSQL_PAGER"
_EDITORS = (
    "EDITOR VISUAL FCEDIT HGEDITOR SVN_EDITOR JJ_EDITOR GH_EDITOR KUBE_EDITOR PSQL_EDITOR SYSTEMD_EDITOR SUDO_EDITOR"
)
"""Variables that a program prefers to `PAGER` or `EDITOR`, and that people set."""

UNATTENDED_VARIABLES = {
    **dict.fromkeys(_PAGERS.split(), "cat"),
    **dict.fromkeys(_EDITORS.split(), "true"),
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "force",
    "DEBIAN_FRONTEND": "noninteractive",
    "APT_LISTCHANGES_FRONTEND": "none",
    "GH_PROMPT_DISABLED": "1",
    "PIP_NO_INPUT": "1",
    "POETRY_NO_INTERACTION": "1",
    "COMPOSER_NO_INTERACTION": "1",
    "TF_INPUT": "0",
    INSIDE_VARIABLE: "1",
}
"""Nobody can press a key, in a terminal of ours or of the client. An editor that ends at once leaves the prepared text
as it is: `git commit --amend`, a merge and `rebase -i` continue with it, and `git commit` without a message fails. Git
takes `:` without starting anything, also where there is no `true`. Credentials that git or ssh lacks are a failure at
once: no window of an editor or desktop asks for them, and ssh (OpenSSH 8.4) takes the program that always fails before
a terminal. A line that sets one of these itself wins."""

QUIET_VARIABLES = {**UNATTENDED_VARIABLES, "TERM": "dumb", "NO_COLOR": "1"}
"""For terminals of ours also without colour, whose codes cost the model tokens (no-color.org)."""

GIT_SETTINGS = {"safe.bareRepository": "explicit"}
"""Settings of git for every command. Files of a project with the names of a repository without a work tree would make a
harmless `git status` run the programs that they name; git then requires `--git-dir`."""

_READING_SETTINGS = {**GIT_SETTINGS, "core.fsmonitor": "false", "log.showSignature": "false", "core.pager": "cat"}
_EMPTY_WHEN_READING = "BASH_ENV ENV LESSOPEN LESSCLOSE RIPGREP_CONFIG_PATH GREP_OPTIONS NODE_OPTIONS JAVA_TOOL_OPTIONS"

_UNWANTED = frozenset({"FORCE_COLOR", "CLICOLOR_FORCE", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_PARAMETERS"})
"""Variables that no command gets: they force colours, or replace what git prints by what a program of theirs does."""
PROGRAMS = ("git", "rg", "python3", "uv", "node", "pnpm", "cargo", "go", "make", "docker", "gh")
"""The programs that a model learns of: it would otherwise try them to see whether they are there."""

_DIGITS = 4
"""A count of more digits is nobody's; git refuses it on its own."""


def shell_program(environment: Mapping[str, str], *, flavour: Flavour = PLATFORM) -> str:
    """The shell for lines: bash if it is on the PATH, since models write bash, else `/bin/sh`.

    On Windows it is `cmd`: a bash there may be that of another system (WSL) with other paths.
    """
    if flavour.windows:
        return environment.get("COMSPEC", "cmd.exe")
    return shutil.which("bash", path=environment.get("PATH", "")) or "/bin/sh"


class Machine(Struct, frozen=True):
    """The shell and the well-known programs that commands find."""

    shell: str = ""
    programs: tuple[str, ...] = ()


def machine_of(environment: Mapping[str, str]) -> Machine:
    """Look for the shell and for `PROGRAMS` on the PATH. Blocks for some small looks at the disk."""
    path = environment.get("PATH", "")
    found = tuple(name for name in PROGRAMS if shutil.which(name, path=path))
    return Machine(re.split(r"[/\\]", shell_program(environment))[-1], found)


def shell_command(line: str, environment: Mapping[str, str], *, flavour: Flavour = PLATFORM) -> list[str] | str:
    """The command for a line: an argument list, or on Windows the line itself, which Python passes to `cmd /c`.

    `cmd` reads its line raw, so that quoting it as an argument would change it.
    """
    if flavour.windows:
        return line
    return [shell_program(environment, flavour=flavour), "-c", line]


def hidden_names(secret_variables: Collection[str]) -> frozenset[str]:
    """The variables that no command sees, in capitals, since Windows takes a name in any case."""
    return frozenset(name.upper() for name in (*CREDENTIAL_VARIABLES, *secret_variables))


def command_environment(
    base: Mapping[str, str], added: Mapping[str, str], secret_variables: Collection[str] = ()
) -> dict[str, str]:
    """The environment of a command: `base` without keys, made quiet, then `added`, which wins."""
    hidden = hidden_names(secret_variables) | _UNWANTED
    kept = {name: value for name, value in base.items() if name.upper() not in hidden}
    return kept | QUIET_VARIABLES | git_variables(base) | dict(added)


def reading_variables() -> dict[str, str]:
    """The variables with which a command that only reads starts no program that a setting or variable names."""
    return {
        **dict.fromkeys(_EMPTY_WHEN_READING.split(), ""),
        **git_variables({}, _READING_SETTINGS),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GOTOOLCHAIN": "local",
    }


def git_variables(base: Mapping[str, str], settings: Mapping[str, str] = GIT_SETTINGS) -> dict[str, str]:
    """The variables that add `settings` to git's settings in `base`."""
    said = base.get("GIT_CONFIG_COUNT", "")
    first = int(said) if said.isascii() and said.isdecimal() and len(said) < _DIGITS else 0
    variables = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for index, (name, value) in enumerate(settings.items(), start=first):
        variables |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    return variables


_WITHOUT_INPUT = "exec </dev/null; "
"""Beginning of a script in a terminal of the client: what reads its input gets the end of it at once, as in ours. It is
on the script's first line, so that errors name the model's lines."""

_PLAIN_WORD = late_pattern(r"[A-Za-z0-9_./:=@%+,-]+")

_SHELL_WORD_LIST = """
    . : [ alias bg bind break builtin case cd command continue coproc declare dirs disown do done echo elif else enable
    esac eval exec exit export false fc fg fi for function getopts hash help history if in jobs kill let local logout
    mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend test then time
    times trap true type typeset ulimit umask unalias unset until wait while
"""
_SHELL_WORDS = frozenset(_SHELL_WORD_LIST.split())
"""Words that only a shell knows, or knows better than a program of the same name (POSIX 2.14, bash manual 4)."""


_PROMPT_LIST = """
    bc dc pdb pdb3 ipdb ipdb3 ipython ipython3 bpython ptpython irb pry ghci gdb lldb psql mysql mariadb sqlite3 sqlplus
    mongosh redis-cli ftp sftp telnet ed tclsh wish R julia octave erl iex jshell sbcl clisp scala
"""
_PROMPTS = frozenset(_PROMPT_LIST.split())
"""Programs that read commands once they have done what they were started for."""

_INTERPRETER = late_pattern(r"(python|pypy|node|ruby|perl|php|lua|bun|deno)[\d.]*")


class ClientCommand(Struct, frozen=True):
    """Arguments for `terminal/create`; `script` is the file to remove afterwards, if there is one."""

    command: str
    args: tuple[str, ...]
    script: Path | None = None


def client_command(line: str, *, scratch: Path, shell: str = "/bin/sh", flavour: Flavour = PLATFORM) -> ClientCommand:
    """Program and arguments for a shell line. Blocks to write a script file into `scratch` if necessary.

    The path of `scratch` should contain no spaces: it becomes an argument.

    Raises:
        OSError: the script could not be written.
    """
    words = plain_words(line, flavour=flavour)
    if words and not _reads_commands(words):
        return ClientCommand(words[0], words[1:])
    name = f"command-{secrets.token_hex(8)}{'.cmd' if flavour.windows else '.sh'}"
    script = scratch / name
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Bytes as they are: a shell script with translated line ends would not run.
    script.write_bytes(script_text(line, flavour=flavour).encode("utf-8", "surrogateescape"))
    script.chmod(0o600)
    if flavour.windows:
        return ClientCommand("cmd.exe", ("/d", "/c", str(script)), script)
    return ClientCommand(shell, (str(script),), script)


def client_words(words: Sequence[str], *, scratch: Path) -> ClientCommand:
    """Program and arguments for words that need no shell, in a script where a client could join them wrongly (POSIX).

    Raises:
        OSError: the script could not be written.
    """
    if all(_PLAIN_WORD.fullmatch(word) for word in words):
        return ClientCommand(words[0], tuple(words[1:]))
    return client_command(f"exec {shlex.join(words)}", scratch=scratch)


def remove_script(script: Path) -> None:
    """Delete a script; harmless when it is gone or, on Windows, still open."""
    try:
        script.unlink(missing_ok=True)
    except PermissionError:
        return


def plain_words(line: str, *, flavour: Flavour = PLATFORM) -> tuple[str, ...]:
    """The words of a line with the same meaning with and without a shell; () when it needs one."""
    words = tuple(line.strip().split(" "))
    # On Windows even `npm` is a batch file, which only `cmd` starts by its bare name.
    if flavour.windows or words[0] in _SHELL_WORDS or "=" in words[0]:
        return ()
    return words if all(_PLAIN_WORD.fullmatch(word) for word in words) else ()


def _reads_commands(words: Sequence[str]) -> bool:
    """Return whether a program, started so, reads commands: in a terminal of the client it would wait for them."""
    name, options = words[0].rpartition("/")[2], words[1:]
    if name in _PROMPTS:
        return True
    if not _INTERPRETER.fullmatch(name):
        return False
    module = options[options.index("-m") + 1 :][:1] if "-m" in options else ()
    return "-i" in options or module == ("pdb",) or not [word for word in options if word not in {"-u", "-q", "-B"}]


def script_text(line: str, *, flavour: Flavour = PLATFORM) -> str:
    """The script of a line. In a batch file a second batch file would never return, so an inner `cmd` runs the line."""
    if flavour.windows:
        return f'@cmd.exe /d /s /c "{line.replace("%", "%%")}"\r\n'
    return f"{_WITHOUT_INPUT}{line}\n"
