"""Variables of the environment that are named as ours and that nothing reads.

Owns: the names of our variables, and what is said of others. Must not know: values; none is repeated.
"""

from collections.abc import Iterator, Mapping

from pattern_acp.config.keys import KEYS
from pattern_acp.config.paths import HOME_VARIABLE
from pattern_acp.config.providers import SCRIPT_VARIABLE
from pattern_acp.config.toml_file import Problem

_PREFIX = "PATTERN_ACP_"

INSIDE_VARIABLE = "PATTERN_ACP_INSIDE"
"""The mark in the environment of everything that an agent of ours starts: what is run there is not run by the user."""

TOKEN_VARIABLE = "PATTERN_ACP_TOKEN"  # noqa: S105  the name of one
"""Holds the token of the server that `pattern-acp connect` connects to, where no keyring does."""

NAMES = (
    HOME_VARIABLE,
    SCRIPT_VARIABLE,
    INSIDE_VARIABLE,
    TOKEN_VARIABLE,
    *(key.variable for key in KEYS if key.variable),
)
"""All that are read."""


def unknown_variables(environ: Mapping[str, str]) -> Iterator[Problem]:
    """A problem for each variable that is set, begins as ours do, and is none of them."""
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in NAMES and environ[name]:
            yield Problem(f"${name}", None, "", f"{_sentence(name)} It is not used.")


def _sentence(name: str) -> str:
    # Late: only a slip of the keys needs it, and the import costs a start 2 ms.
    from difflib import get_close_matches

    wanted = name.removeprefix(_PREFIX).lower()
    for key in KEYS:
        if wanted == key.name.replace(".", "_"):
            # The nearest variable would be that of another setting.
            by_flag = f"{key.flag} or " if key.flag else ""
            return f"the setting {key.name} is not read from the environment; use {by_flag}config.toml."
    [nearest, *_] = get_close_matches(name, NAMES, 1, 0)
    return f"there is no such variable; the nearest is {nearest}."
