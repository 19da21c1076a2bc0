"""What `pattern-acp journal` takes.

Owns: its arguments. Must not know: what they do. Imports nothing heavy, since the command line is read before anything
else.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from msgspec import Struct, field

from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    import argparse

JournalAction: TypeAlias = Literal["verify", "export", "anchor", "rebuild", "redact", "replay", "tail"]

ACTIONS: tuple[str, ...] = get_args(JournalAction)

LEVELS = ("none", "secrets", "content")
"""`journal.bundle_masks.REDACTIONS`; a test keeps both equal."""

JOURNAL_VALUED = frozenset(
    {
        "-o",
        "--output",
        "--leave-out",
        "--anchor",
        "--event",
        "--match",
        "--reason",
        "--lines",
        "--into",
        "--from",
        "--turn",
    }
)
"""Options that take a value."""

_OF = {
    "anchor": {"verify"},
    "output": {"export"},
    "leave_out": {"export"},
    "git_note": {"anchor"},
    "event": {"redact"},
    "match": {"redact"},
    "reason": {"redact"},
    "yes": {"redact", "rebuild"},
    "into": {"rebuild"},
    "generation": {"rebuild"},
    "replace": {"rebuild"},
    "lines": {"tail"},
    "no_follow": {"tail"},
    "turn": {"replay"},
}
"""Which actions each option belongs to."""

TAIL_LINES = 20


class Journal(Struct, frozen=True):
    """Do something with the journal."""

    flags: Flags = field(default_factory=Flags)
    action: JournalAction = "verify"
    target: str = ""
    """A session's id; for `verify` a bundle too. Empty for all sessions, with `verify` and `tail`."""
    json: bool = False
    anchor: str = ""
    """What the chain has to agree with: an anchor, a file that holds it, or `git` for the notes of this repository."""
    git_note: bool = False
    output: str = ""
    leave_out: str = "secrets"
    event: int = 0
    match: str = ""
    reason: str = ""
    assume_yes: bool = False
    into: str = ""
    generation: int = 0
    """The number of the segments to rebuild from; 0 for the newest."""
    replace: bool = False
    lines: int = TAIL_LINES
    follow: bool = True
    turn: int = 0
    """The one turn to run again; 0 for all."""


class JournalUsageError(ValueError):
    """The arguments cannot be used; the message is a sentence."""


def add_journal_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments."""
    parser.add_argument("action", nargs="?", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    about = "the session's id; for verify also the file of a bundle, or nothing for every session"
    parser.add_argument("words_given", nargs="*", metavar="SESSION", help=about)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--anchor", metavar="ANCHOR", help="verify: an anchor, a file that holds one, or git")
    parser.add_argument("--git-note", action="store_true", help="anchor: keep it as a git note on HEAD as well")
    parser.add_argument("-o", "--output", metavar="FILE", help="export: the file to write")
    about = "export: what to leave out: none (nothing), secrets (the default), content (all words)"
    parser.add_argument("--leave-out", choices=LEVELS, help=about)
    parser.add_argument("--event", type=int, metavar="N", help="redact: the event of that number, as tail shows it")
    parser.add_argument("--match", metavar="TEXT", help="redact: this text, wherever the session recorded it")
    parser.add_argument("--reason", metavar="TEXT", help="redact: why; it is recorded")
    parser.add_argument("--yes", action="store_true", help="redact, rebuild: do not ask")
    parser.add_argument("--into", metavar="FILE", help="rebuild: the new file to write; nothing else is changed")
    about = "rebuild: from the segments of that number instead of the newest"
    parser.add_argument("--from", dest="generation", type=int, metavar="N", help=about)
    about = "rebuild: put the new file in the place of the constellation, which is kept"
    parser.add_argument("--replace", action="store_true", help=about)
    parser.add_argument("--lines", type=int, metavar="N", help=f"tail: events to begin with ({TAIL_LINES})")
    parser.add_argument(
        "--turn", type=int, metavar="N", help="replay: run only this turn again, as /rewind counts them"
    )
    parser.add_argument("--no-follow", action="store_true", help="tail: do not wait for more")


def journal_arguments(flags: Flags, found: Mapping[str, object]) -> Journal:
    """What parsed arguments mean.

    Raises:
        JournalUsageError: something is missing, or too much.
    """
    action = _action(found)
    words = [str(word) for word in cast("list[object]", found.get("words_given") or [])]
    for name, actions in _OF.items():
        if found.get(name) not in (None, False) and action not in actions:
            flag = "from" if name == "generation" else name.replace("_", "-")
            raise JournalUsageError(f"--{flag} belongs to journal {min(actions)}, not to {action}.")
    if action == "rebuild":
        return _rebuild_arguments(flags, found, words)
    if len(words) > 1:
        meant = " Name an event with --event N, or the words with --match TEXT." if action == "redact" else ""
        raise JournalUsageError(f"journal {action} takes one session, not {words[1]!r} too.{meant}")
    if (not words and action not in {"verify", "tail"}) or words == [""]:
        raise JournalUsageError(f"journal {action} needs the id of a session; sessions list shows them.")
    event, match = cast("int | None", found.get("event")), str(found.get("match") or "")
    if action == "redact" and (event is None) == (not match):
        raise JournalUsageError("journal redact needs either --event N or --match TEXT.")
    if event is not None and event < 1:
        raise JournalUsageError("--event must be 1 or more.")
    lines = cast("int | None", found.get("lines"))
    if lines is not None and lines < 0:
        raise JournalUsageError("--lines must be 0 or more.")
    turn = cast("int | None", found.get("turn"))
    if turn is not None and turn < 1:
        raise JournalUsageError("--turn must be 1 or more.")
    return Journal(
        flags,
        action,
        words[0] if words else "",
        json=bool(found.get("json")),
        anchor=str(found.get("anchor") or ""),
        git_note=bool(found.get("git_note")),
        output=str(found.get("output") or ""),
        leave_out=str(found.get("leave_out") or "secrets"),
        event=event or 0,
        match=match,
        reason=str(found.get("reason") or ""),
        assume_yes=bool(found.get("yes")),
        lines=TAIL_LINES if lines is None else lines,
        follow=not found.get("no_follow"),
        turn=turn or 0,
    )


def _action(found: Mapping[str, object]) -> "JournalAction":
    if found.get("action") is None:
        raise JournalUsageError(f"journal needs one of {', '.join(ACTIONS)}.")
    return cast("JournalAction", found["action"])


def _rebuild_arguments(flags: Flags, found: Mapping[str, object], words: list[str]) -> Journal:
    if words:
        raise JournalUsageError("journal rebuild takes no session: it makes the whole constellation again.")
    generation, into = cast("int | None", found.get("generation")), str(found.get("into") or "")
    if generation is not None and generation < 1:
        raise JournalUsageError("--from must be 1 or more.")
    if into and found.get("replace"):
        raise JournalUsageError("journal rebuild takes either --into FILE or --replace, not both.")
    return Journal(
        flags,
        "rebuild",
        json=bool(found.get("json")),
        into=into,
        generation=generation or 0,
        replace=bool(found.get("replace")),
        assume_yes=bool(found.get("yes")),
    )
