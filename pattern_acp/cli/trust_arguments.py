"""What `pattern-acp trust` takes.

Owns: its arguments. Must not know: what they do. Imports nothing heavy, since the command line is read before anything
else.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, cast

from msgspec import Struct, field

from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    import argparse


class Trust(Struct, frozen=True):
    """Trust a folder, list those that are trusted, or take it back."""

    flags: Flags = field(default_factory=Flags)
    action: Literal["add", "list", "revoke"] = "add"
    path: str = ""
    """The folder; empty for the current one."""
    assume_yes: bool = False
    json: bool = False
    """Print the list as JSON."""


class TrustUsageError(ValueError):
    """The arguments cannot be used; the message is a sentence."""


def add_trust_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments."""
    about = "a folder (the current one by default); list; or revoke and a folder"
    parser.add_argument("words_given", nargs="*", metavar="PATH", help=about)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="list: print JSON")


def trust_arguments(flags: Flags, found: Mapping[str, object]) -> Trust:
    """What parsed arguments mean.

    Raises:
        TrustUsageError: they do not go together.
    """
    words = [str(word) for word in cast("list[object]", found.get("words_given") or [])]
    action: Literal["add", "list", "revoke"] = "add"
    if words and words[0] in ("list", "revoke"):
        action = "list" if words.pop(0) == "list" else "revoke"
    if len(words) > (0 if action == "list" else 1):
        raise TrustUsageError("trust takes one folder; trust list takes none. ./list names a folder called list.")
    if found.get("json") and action != "list":
        raise TrustUsageError("--json belongs to trust list.")
    path, assume_yes = words[0] if words else "", bool(found.get("yes"))
    return Trust(flags, action, path, assume_yes=assume_yes, json=bool(found.get("json")))
