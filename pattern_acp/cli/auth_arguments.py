"""What `pattern-acp auth` takes.

Owns: its arguments. Must not know: what they do. Imports nothing heavy, since the command line is read before anything
else. A key is never an argument: every process of the machine could read it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, cast

from msgspec import Struct, field

from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    import argparse

Action = Literal["login", "status", "logout"]


class Auth(Struct, frozen=True):
    """Sign in at a provider, show which keys there are, or forget one."""

    flags: Flags = field(default_factory=Flags)
    action: Action = "status"
    provider: str = ""
    device: bool = False
    """Sign in with a code on another device instead of a browser on this one."""
    api_key: bool = False
    """Take a key although the provider has a sign-in."""
    in_file: bool = False
    """Keep it in the file although there is a keyring."""
    browser: bool = True
    """Open a browser; the address is printed in any case."""
    json: bool = False


class AuthUsageError(ValueError):
    """The arguments cannot be used; the message is a sentence."""


def add_auth_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments."""
    parser.add_argument("words_given", nargs="*", metavar="ACTION", help="login, status or logout, and a provider")
    parser.add_argument("--device", action="store_true", help="login: with a code on another device")
    parser.add_argument("--api-key", action="store_true", help="login: with a key, where the provider has a sign-in")
    parser.add_argument("--file", action="store_true", help="login: keep it in a private file, not in the keyring")
    parser.add_argument("--no-browser", action="store_true", help="login: print the address and open nothing")
    parser.add_argument("--json", action="store_true", help="status: print JSON")


def auth_arguments(flags: Flags, found: Mapping[str, object]) -> Auth:
    """What parsed arguments mean.

    Raises:
        AuthUsageError: there is no such action, or there are too many words.
    """
    words = [str(word) for word in cast("list[object]", found.get("words_given") or [])]
    action = _action(words.pop(0)) if words else "status"
    if len(words) > 1:
        # What came too much is not repeated: it may be a key.
        raise AuthUsageError(f"auth {action} takes one provider; a key is read from the terminal or from stdin")
    if action == "logout" and not words:
        raise AuthUsageError("auth logout needs the name of a provider")
    return Auth(
        flags,
        action,
        words[0] if words else "",
        device=bool(found.get("device")),
        api_key=bool(found.get("api_key")),
        in_file=bool(found.get("file")),
        browser=not found.get("no_browser"),
        json=bool(found.get("json")),
    )


def _action(word: str) -> Action:
    match word:
        case "login" | "status" | "logout":
            return word
        case _:
            raise AuthUsageError("auth takes login, status or logout")
