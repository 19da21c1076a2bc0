"""Which shell runs a line, and in which environment.

Owns: the choice of shell on each platform and the variables a command sees. Must not know: processes.
"""

import shutil
from collections.abc import Collection, Mapping

from pattern_acp.config.variables import INSIDE_VARIABLE
from pattern_acp.workspace.flavour import PLATFORM, Flavour

CREDENTIAL_VARIABLES = frozenset({"ANTHROPIC_API_KEY", "OPENAI_API_KEY"})
"""Our own keys, which no command of a model has any business with."""

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
    "DEBIAN_FRONTEND": "noninteractive",
    INSIDE_VARIABLE: "1",
}
"""Nobody can press a key, in a terminal of ours or of the client. An editor that ends at once leaves the prepared text
as it is: `git commit --amend`, a merge and `rebase -i` go on with it, and `git commit` without a message fails. Git
takes `:` without starting anything, also where there is no `true`. A line that sets one of these itself wins."""

QUIET_VARIABLES = {**UNATTENDED_VARIABLES, "TERM": "dumb", "NO_COLOR": "1"}
"""For terminals of ours also without colour, whose codes cost the model tokens (no-color.org)."""

GIT_SETTINGS = {"safe.bareRepository": "explicit"}
"""Settings of git for every command. Files of a project that are named like those of a repository without a work tree
would make a harmless `git status` run the programs that they name; git then wants `--git-dir` said."""

_FORCES_COLOUR = frozenset({"FORCE_COLOR", "CLICOLOR_FORCE"})
_DIGITS = 4
"""A count of more digits is nobody's; git refuses it by itself."""


def shell_program(environment: Mapping[str, str], *, flavour: Flavour = PLATFORM) -> str:
    """The shell that lines are written for: bash when it is on the PATH, since models write bash, else `/bin/sh`.

    On Windows it is `cmd`: a bash found there may be that of another system (WSL) with other paths.
    """
    if flavour.windows:
        return environment.get("COMSPEC", "cmd.exe")
    return shutil.which("bash", path=environment.get("PATH", "")) or "/bin/sh"


def shell_command(line: str, environment: Mapping[str, str], *, flavour: Flavour = PLATFORM) -> list[str] | str:
    """What to start for a line: an argument list, or on Windows the line itself, which Python hands to `cmd /c`.

    `cmd` reads its line raw, so that quoting it as an argument would change it.
    """
    if flavour.windows:
        return line
    return [shell_program(environment, flavour=flavour), "-c", line]


def command_environment(
    base: Mapping[str, str], added: Mapping[str, str], secret_variables: Collection[str] = ()
) -> dict[str, str]:
    """The environment of a command: `base` without keys, made quiet, then `added`, which wins."""
    hidden = {name.upper() for name in (*CREDENTIAL_VARIABLES, *secret_variables)} | _FORCES_COLOUR
    kept = {name: value for name, value in base.items() if name.upper() not in hidden}
    return kept | QUIET_VARIABLES | git_variables(base) | dict(added)


def git_variables(base: Mapping[str, str]) -> dict[str, str]:
    """The variables that give git `GIT_SETTINGS`, behind the settings that `base` gives it already."""
    said = base.get("GIT_CONFIG_COUNT", "")
    first = int(said) if said.isascii() and said.isdecimal() and len(said) < _DIGITS else 0
    variables = {"GIT_CONFIG_COUNT": str(first + len(GIT_SETTINGS))}
    for index, (name, value) in enumerate(GIT_SETTINGS.items(), start=first):
        variables |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    return variables
