"""Looks for options among the arguments of a command.

Owns: how options are spelt. Must not know: any program.
"""

from collections.abc import Sequence


def has_option(arguments: Sequence[str], letters: str, *names: str) -> bool:
    """Whether a short option of `letters` or a long one of `names` (shortened ones count) is among the arguments."""
    for argument in arguments:
        if argument.startswith("--"):
            given = argument[2:].split("=", 1)[0]
            if given and any(name.startswith(given) for name in names):
                return True
        elif argument.startswith("-") and any(letter in argument[1:] for letter in letters):
            return True
    return False
