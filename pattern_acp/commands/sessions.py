"""The table of commands about sessions and trusted folders: slash commands of a session, and commands of a terminal.

Owns: what each takes. Must not know: what it does. Imports nothing heavy, since a command line is read before anything
else.
"""

from pattern_acp.commands.parameters import PAGE, Command, Kind, Parameter

REWIND_PARTS = ("conversation", "files", "memory")

JSON = Parameter("json", "print JSON", Kind.FLAG, option="--json")

_DO = "pattern_acp.session.session_commands:"
_IN_SESSION = f"{_DO}desk_of"
_TRUST = "pattern_acp.session.trust:"


def flag(name: str, about: str, option: str = "", only: str = "") -> Parameter:
    """An option without a value."""
    return Parameter(name, about, Kind.FLAG, option=option or f"--{name.replace('_', '-')}", only=only)


def session_id(name: str = "session", *, required: bool = True, only: str = "") -> Parameter:
    """The word that names a session."""
    return Parameter(
        name,
        "the session's id, or the first of it",
        metavar="ID",
        required=required,
        ask="which session, since it needs the id of a session (sessions list shows them)",
        only=only,
        is_id=True,
    )


_ELSEWHERE = session_id(only="terminal")
"""In a session, that one is meant."""

SEARCH = Command(
    "search",
    "Find what was said in sessions",
    f"{_DO}search",
    (Parameter("text", "the words", Kind.TEXT, "WORDS", required=True, ask="what to look for"),),
    reads=True,
    begins=False,
    in_session=_IN_SESSION,
)
RENAME = Command(
    "rename",
    "Rename a session",
    f"{_DO}rename",
    (_ELSEWHERE, Parameter("text", "the title", Kind.TEXT, "TITLE", required=True, ask="how to call it")),
    begins=False,
    in_session=_IN_SESSION,
)
ARCHIVE = Command(
    "archive",
    "Archive a session until its next prompt",
    f"{_DO}archive",
    (_ELSEWHERE,),
    begins=False,
    in_session=_IN_SESSION,
)
UNDELETE = Command(
    "undelete",
    "Bring a deleted session back; alone, list them",
    f"{_DO}undelete",
    (session_id(required=False),),
    begins=False,
    in_session=_IN_SESSION,
)
FORK = Command(
    "fork",
    "Begin another session with the history of one",
    f"{_DO}fork",
    (
        _ELSEWHERE,
        Parameter("text", "the turn behind which it begins", metavar="TURN"),
        Parameter(
            "memory",
            "use the same memory, or a fork of it that /merge brings back",
            choices=("shared", "forked"),
            option="--memory",
        ),
    ),
    begins=False,
    in_session=_IN_SESSION,
)

SESSION_VERBS = (
    Command(
        "list",
        "List this directory's sessions",
        f"{_DO}list_sessions",
        (flag("archived", "list the archived sessions"),),
        reads=True,
        begins=False,
        extra="sessions list takes no session; did you mean sessions show?",
    ),
    Command(
        "show",
        "Show a session as the chat does",
        "pattern_acp.cli.sessions:show",
        (session_id(), PAGE),
        reads=True,
        begins=False,
    ),
    Command(
        "watch",
        "Follow a session that another process runs, without touching it",
        "pattern_acp.cli.sessions:watch",
        (session_id(),),
        reads=True,
        begins=False,
    ),
    SEARCH,
    RENAME,
    ARCHIVE,
    Command(
        "adopt",
        "Let a session continue with today's persona and instruction files",
        "pattern_acp.cli.sessions:adopt",
        (session_id(),),
        begins=False,
    ),
    Command("unarchive", "Put a session back in the list", f"{_DO}unarchive", (session_id(),), begins=False),
    Command("delete", "Delete a session; `undelete` restores it", f"{_DO}delete", (session_id(),), begins=False),
    UNDELETE,
    FORK,
    Command(
        "rewind",
        "Go back; without a moment, list the moments",
        "pattern_acp.cli.rewinding:rewind",
        (
            session_id(),
            Parameter("to", "a turn's number, a checkpoint's name, last or undo", metavar="MOMENT", also="--to"),
            *(flag(part, f"go back with the {part}; all three without any") for part in REWIND_PARTS),
            flag("preview", "only show what would change"),
            flag("overwrite", "also put back files that others changed since"),
            flag("assume_yes", "go back without a question", "--yes"),
        ),
        reads=True,
        begins=False,
    ),
)
"""The commands of `pattern-acp sessions`, in the order of its help."""

_FOLDER = (
    Parameter("path", "the folder; the current one without", only="terminal"),
    flag("assume_yes", "do not ask", "--yes", "terminal"),
)
_ONE_FOLDER = "trust takes one folder; trust list takes none. ./list names a folder called list."

TRUST_VERBS = (
    Command("add", "Trust a folder; the word may be left out", f"{_TRUST}add", _FOLDER, extra=_ONE_FOLDER),
    Command(
        "list",
        "List the folders that are trusted",
        f"{_TRUST}list_folders",
        (Parameter("json", "print JSON", Kind.FLAG, option="--json", only="terminal"),),
        reads=True,
        begins=False,
        extra=_ONE_FOLDER,
    ),
    Command("revoke", "Revoke the trust in a folder", f"{_TRUST}revoke", _FOLDER),
)
"""The commands of `pattern-acp trust` and `/trust`."""
