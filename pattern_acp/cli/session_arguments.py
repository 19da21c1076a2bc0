"""What `pattern-acp sessions` takes.

Owns: its arguments. Must not know: what they do. Imports nothing heavy, since the command line is read before anything
else.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from msgspec import Struct, field

from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    import argparse

SessionAction: TypeAlias = Literal[
    "list", "show", "search", "rename", "archive", "unarchive", "delete", "undelete", "fork", "rewind"
]

ACTIONS: tuple[str, ...] = get_args(SessionAction)


class Sessions(Struct, frozen=True):
    """List sessions, or do something with one."""

    flags: Flags = field(default_factory=Flags)
    action: SessionAction = "list"
    session: str = ""
    """The session that is meant; empty for `list` and `search`, and for `undelete` that lists."""
    json: bool = False
    everywhere: bool = False
    """List or search the sessions of every directory instead of the current one's."""
    archived: bool = False
    """List those that were put away."""
    text: str = ""
    """The words of `search`, the title of `rename`, the turn of `fork`, the moment of `rewind`."""
    parts: tuple[str, ...] = ()
    """What `rewind` puts back: conversation, files, memory; empty for all of it."""
    preview: bool = False
    overwrite: bool = False
    assume_yes: bool = False


REWIND_PARTS = ("conversation", "files", "memory")


class SessionUsageError(ValueError):
    """The arguments cannot be used; the message is a sentence."""


def add_session_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments."""
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list", metavar="ACTION", help=", ".join(ACTIONS))
    about = "the session's id, then a TITLE for rename, a TURN for fork, a moment for rewind; for search: the words"
    parser.add_argument("words_given", nargs="*", metavar="ID", help=about)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--all", action="store_true", help="list or search the sessions of every directory")
    parser.add_argument("--archived", action="store_true", help="list the sessions that were put away")
    going = parser.add_argument_group("rewind", "without a moment, the moments are listed; 'undo' takes a rewind back")
    going.add_argument("--to", metavar="MOMENT", default="", help="a turn's number, a checkpoint's name, last or undo")
    for part in REWIND_PARTS:
        going.add_argument(f"--{part}", action="store_true", help=f"go back with the {part}; all three without any")
    going.add_argument("--preview", action="store_true", help="only show what would change")
    going.add_argument("--overwrite", action="store_true", help="also put back files that others changed since")
    going.add_argument("--yes", action="store_true", help="go back without a question")


def session_arguments(flags: Flags, found: Mapping[str, object]) -> Sessions:
    """What parsed arguments mean.

    Raises:
        SessionUsageError: something is missing, or too much.
    """
    action = cast("SessionAction", found.get("action"))
    words = [str(word) for word in cast("list[object]", found.get("words_given") or [])]
    _check_rewind_options(action, found)
    json, everywhere, archived = bool(found.get("json")), bool(found.get("all")), bool(found.get("archived"))
    if archived and action != "list":
        raise SessionUsageError(f"--archived belongs to sessions list, not to sessions {action}.")
    if action == "list":
        if words:
            raise SessionUsageError("sessions list takes no session; did you mean sessions show?")
        return Sessions(flags, "list", "", json, everywhere, archived)
    if action == "search":
        if not words:
            raise SessionUsageError("sessions search needs the words to look for.")
        return Sessions(flags, "search", "", json, everywhere, text=" ".join(words))
    if (not words and action != "undelete") or words[:1] == [""]:
        raise SessionUsageError(f"sessions {action} needs the id of a session; sessions list shows them.")
    session, rest = (words[0], words[1:]) if words else ("", [])
    if action == "rename" and not rest:
        raise SessionUsageError("sessions rename needs a title behind the id.")
    most = {"rename": len(rest), "fork": 1, "rewind": 1}.get(action, 0)
    if len(rest) > most:
        raise SessionUsageError(f"sessions {action} takes no {rest[most]!r} behind the id.")
    text = " ".join(rest) or str(found.get("to") or "")
    return Sessions(
        flags,
        action,
        session,
        json,
        everywhere,
        text=text,
        parts=tuple(part for part in REWIND_PARTS if found.get(part)),
        preview=bool(found.get("preview")),
        overwrite=bool(found.get("overwrite")),
        assume_yes=bool(found.get("yes")),
    )


def _check_rewind_options(action: str, found: Mapping[str, object]) -> None:
    given = [name for name in (*REWIND_PARTS, "to", "preview", "overwrite", "yes") if found.get(name)]
    if given and action != "rewind":
        raise SessionUsageError(f"--{given[0]} belongs to sessions rewind, not to sessions {action}.")
