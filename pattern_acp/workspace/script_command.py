"""Handing a shell line to a client's terminal.

Owns: which lines may go as program and arguments, and the script files for the others. Clients differ in what they make
of arguments: some start the program, some join everything into one line for a shell, quoted or not (reference clients,
interop rule 4; kimi-cli#1517). Only words without any special character, or a script file, arrive unchanged everywhere.
Must not know: the protocol.

Who deletes the script: whoever called `client_command` calls `remove_script` once the terminal is released, not sooner,
since a shell reads its script while it runs. `scratch` is private to us; what a killed process left there may go.
"""

import secrets
from pathlib import Path

from msgspec import Struct

from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.workspace.flavour import PLATFORM, Flavour

_PLAIN_WORD = late_pattern(r"[A-Za-z0-9_./:=@%+,-]+")

_SHELL_WORD_LIST = """
    . : [ alias bg bind break builtin case cd command continue coproc declare dirs disown do done echo elif else enable
    esac eval exec exit export false fc fg fi for function getopts hash help history if in jobs kill let local logout
    mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend test then time
    times trap true type typeset ulimit umask unalias unset until wait while
"""
_SHELL_WORDS = frozenset(_SHELL_WORD_LIST.split())
"""What only a shell knows, or knows better than a program of the same name (POSIX 2.14, bash manual 4)."""


class ClientCommand(Struct, frozen=True):
    """What to ask of `terminal/create`; `script` is the file to remove afterwards, if one was needed."""

    command: str
    args: tuple[str, ...]
    script: Path | None = None


def client_command(line: str, *, scratch: Path, shell: str = "/bin/sh", flavour: Flavour = PLATFORM) -> ClientCommand:
    """Program and arguments for a shell line. Blocks to write a script file into `scratch` where one is needed.

    The path of `scratch` should hold no spaces: it becomes an argument.

    Raises:
        OSError: the script could not be written.
    """
    words = plain_words(line, flavour=flavour)
    if words:
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


def remove_script(script: Path) -> None:
    """Delete a script; harmless when it is gone or, on Windows, still read by somebody."""
    try:
        script.unlink(missing_ok=True)
    except PermissionError:
        return


def plain_words(line: str, *, flavour: Flavour = PLATFORM) -> tuple[str, ...]:
    """The words of a line that means the same with and without a shell; () when it needs one."""
    words = tuple(line.strip().split(" "))
    # On Windows even `npm` is a batch file, which only `cmd` starts by its bare name.
    if flavour.windows or words[0] in _SHELL_WORDS or "=" in words[0]:
        return ()
    return words if all(_PLAIN_WORD.fullmatch(word) for word in words) else ()


def script_text(line: str, *, flavour: Flavour = PLATFORM) -> str:
    """The script of a line. In a batch file a second batch file would never return, so an inner `cmd` runs the line."""
    if flavour.windows:
        return f'@cmd.exe /d /s /c "{line.replace("%", "%%")}"\r\n'
    return line + "\n"
