"""The table of commands about memory: `/memory VERB` and `pattern-acp memory VERB`.

Owns: what each takes. Must not know: what it does. Imports nothing heavy, since a command line is read before anything
else.
"""

from collections.abc import Mapping

from pattern_acp.commands.parameters import PAGE, Command, Kind, Parameter, Value

SEARCHED = ("block", "archival", "superseded", "user", "assistant", "task", "skill")
"""The kinds that a search may be limited to; a test checks that they equal `memory.search_terms.ALL_KINDS`."""

SCOPES = ("persona", "project", "shared")

_DO = "pattern_acp.commands.memory_actions:"
_HISTORY = "; /memory history LABEL shows them."

LABEL = Parameter("label", "the block", required=True, ask="which block")
REASON = Parameter("reason", "why, for the history", Kind.TEXT, "TEXT", option="--reason", only="terminal")
WHY = Parameter("reason", "why, for the history", Kind.TEXT, also="--reason")


def _version(name: str, about: str, *, required: bool = False) -> Parameter:
    wrong = f"Give the number of a version{_HISTORY}"
    return Parameter(name, about, Kind.NUMBER, required=required, ask="which version", wrong=wrong)


def _write(metavar: str, about: str) -> Parameter:
    return Parameter("number", about, Kind.NUMBER, metavar, wrong=f"Give the number of a write{_HISTORY}")


_NOTED = (
    Parameter("text", "what it is", Kind.TEXT, required=True, ask="what it is"),
    Parameter("paths", "its files, such as 'src/db/**,*.sql'", metavar="GLOB[,GLOB]", option="--paths"),
    Parameter("severity", "high, medium or low", option="--severity", choices=("high", "medium", "low")),
    Parameter("until", "the last day on which it holds, or for how long (2h)", metavar="DAY", option="--until"),
    Parameter("check", "a command that tells whether it still holds", metavar="COMMAND", option="--check"),
    Parameter("reason", "why", metavar="TEXT", option="--reason"),
    Parameter("scope", "persona or project", option="--scope", choices=("persona", "project")),
)
NOTED_USAGE = "TEXT --paths GLOB[,GLOB] [--severity high|medium|low] [--until DAY] [--check COMMAND] [--reason TEXT]"
_STATUS = (
    Parameter("entry", "the entry's id", required=True, ask="which entry; /memory traps lists them"),
    Parameter("reason", "why", Kind.TEXT, also="--reason"),
)


def wrong_forgetting(values: Mapping[str, Value]) -> str:
    """Describe what is wrong with the arguments of `forget`, after its name; empty when nothing is."""
    if bool(values["whole"]) == (values["passage"] is not None):
        return "takes LABEL and what to forget for good: a PASSAGE, or --all for the whole block with its history."
    return ""


SEARCH = Command(
    "search",
    "Search memory and past sessions, as /recall does",
    f"{_DO}search",
    (
        Parameter("query", "the words to look for", Kind.TEXT, "WORDS", required=True, ask="what to look for"),
        Parameter(
            "kinds", "what is searched; more than once for more", Kind.MANY, "KIND", option="--kind", choices=SEARCHED
        ),
        Parameter("scope", "whose memory is searched", option="--scope", choices=SCOPES),
        Parameter("since", "nothing older, such as 2026-11-28", Kind.DAY, "DAY", option="--since"),
        Parameter("until", "nothing newer", Kind.DAY, "DAY", option="--until"),
    ),
    reads=True,
)

VERBS: dict[str, Command] = {
    command.name: command
    for command in (
        Command(
            "list", "List the blocks with size, limit and last change", f"{_DO}list_blocks", reads=True, begins=False
        ),
        Command(
            "show",
            "Show a block, or an older version of it",
            f"{_DO}show",
            (LABEL, _version("version", "an older version")),
            reads=True,
            begins=False,
        ),
        Command(
            "history",
            "Every write: who, when, what, why, and where it is recorded",
            f"{_DO}log",
            (LABEL, _version("before", "only older writes"), PAGE),
            reads=True,
            begins=False,
        ),
        Command(
            "diff",
            "What changed between two versions; the newest write alone",
            f"{_DO}compare",
            (
                LABEL,
                _version("old", "the older version"),
                _version("new", "the newer version"),
                Parameter("words", "compare word by word", Kind.FLAG, option="--words"),
            ),
            "LABEL [OLD [NEW]] [--words]",
            reads=True,
            begins=False,
        ),
        Command(
            "blame",
            "Who wrote each line, or these characters",
            f"{_DO}blame",
            (
                LABEL,
                Parameter(
                    "characters",
                    "characters as START-END, counted from 0",
                    Kind.RANGE,
                    "START-END",
                    wrong="Give characters as START-END, counted from 0, such as 10-25.",
                ),
            ),
            reads=True,
            begins=False,
        ),
        Command(
            "undo",
            "Take back a write and keep later ones",
            f"{_DO}undo",
            (LABEL, _write("WRITE", "the write; without it the newest"), REASON),
            begins=False,
        ),
        Command("redo", "Take back an undo", f"{_DO}redo", (LABEL, _write("UNDO", "the undo"), REASON), begins=False),
        Command(
            "rollback",
            "Make it read as a version did, as a new change",
            f"{_DO}roll_back",
            (LABEL, _version("version", "the version", required=True), REASON),
            begins=False,
        ),
        Command("delete", "Delete a block; it can be restored", f"{_DO}delete", (LABEL, WHY), begins=False),
        Command(
            "restore",
            "Bring back a deleted block",
            f"{_DO}restore",
            (LABEL, Parameter("number", "which of several of one label", Kind.NUMBER), WHY),
            "LABEL [NUMBER] [REASON]",
            begins=False,
        ),
        Command(
            "edit",
            "Replace the text, or tell how to open it in an editor",
            f"{_DO}edit",
            (
                LABEL,
                Parameter("text", "the new text", Kind.TEXT, only="slash", raw=True),
                Parameter("file", "take the new text from a file, or - for stdin", option="--file", only="terminal"),
                REASON,
            ),
        ),
        Command(
            "import",
            "Take a file into memory",
            "pattern_acp.cli.memory:import_into_memory",
            (
                Parameter("file", "the file, or - for stdin", required=True, ask="which file"),
                Parameter("label", "the block; without it the one that the file names"),
                REASON,
            ),
            only="terminal",
        ),
        Command(
            "create",
            "Make a block; alone, list the templates",
            f"{_DO}create",
            (
                Parameter("label", "the block"),
                Parameter("template", "the template of the block", metavar="NAME", option="--template"),
                Parameter("scope", "whose it is", option="--scope", choices=SCOPES),
                Parameter("text", r"its first text; \n begins a line", option="--text", lines=True),
                Parameter("description", "what it is for", Kind.TEXT),
            ),
            "LABEL [--template NAME] [--scope SCOPE] [--text TEXT] [DESCRIPTION]",
            scattered=True,
        ),
        Command(
            "set",
            "Change description, limit, permission, pinned, tier",
            f"{_DO}set_up",
            (LABEL, Parameter("setting", "the setting"), Parameter("value", "its value", Kind.TEXT)),
            "LABEL [SETTING VALUE]",
        ),
        Command(
            "share",
            "Let others use a block; alone, tell who may",
            f"{_DO}share",
            (
                LABEL,
                Parameter("target", "with whom", metavar="persona:NAME|project:FOLDER"),
                Parameter("permission", "what they may"),
            ),
        ),
        Command(
            "unshare",
            "Take a share back",
            f"{_DO}unshare",
            (
                LABEL,
                Parameter(
                    "target",
                    "with whom",
                    metavar="persona:NAME|project:FOLDER",
                    required=True,
                    ask="with whom no longer",
                ),
            ),
            begins=False,
        ),
        SEARCH,
        Command(
            "archive", "List the facts that only search finds, and what superseded them", f"{_DO}archive", reads=True
        ),
        Command(
            "traps",
            "List traps, constraints and decisions; with a path, those about it",
            f"{_DO}list_traps",
            (Parameter("path", "a file", Kind.TEXT),),
            reads=True,
        ),
        Command(
            "trap",
            "Note a trap, which the agent reads before it edits these files",
            f"{_DO}note_trap",
            _NOTED,
            NOTED_USAGE,
            scattered=True,
        ),
        Command(
            "constraint",
            "Note a constraint; the agent reads it like a trap",
            f"{_DO}note_constraint",
            _NOTED,
            NOTED_USAGE,
            scattered=True,
        ),
        Command(
            "decision",
            "Note a decision; the agent reads it with traps",
            f"{_DO}note_decision",
            _NOTED,
            NOTED_USAGE,
            scattered=True,
        ),
        Command(
            "runtime",
            "Note what runs on this machine for a while; without --until it ends after a day",
            f"{_DO}note_runtime",
            _NOTED,
            "TEXT [--until 2h|DAY] [--check COMMAND] [--reason TEXT]",
            scattered=True,
        ),
        Command(
            "machine",
            "Note a fact of this machine; it stays here",
            f"{_DO}note_machine",
            _NOTED,
            "TEXT [--until DAY] [--check COMMAND] [--reason TEXT]",
            scattered=True,
        ),
        Command("resolve", "Such an entry has ended", f"{_DO}resolve", _STATUS, begins=False),
        Command("reopen", "It holds again", f"{_DO}reopen", _STATUS, begins=False),
        Command("verify", "Check that what is stored of each block agrees with itself", f"{_DO}verify", reads=True),
        Command(
            "forget",
            "Forget a passage or a whole block everywhere, for good; asks before",
            f"{_DO}forget",
            (
                LABEL,
                Parameter("passage", "the words, or - for stdin", Kind.TEXT, absent=None, quoted=True),
                Parameter("whole", "the whole block with its history", Kind.FLAG, option="--all"),
                Parameter("sure", "do not ask", Kind.FLAG, option="--yes"),
                REASON,
            ),
            "LABEL PASSAGE|--all",
            begins=False,
            check="pattern_acp.commands.memory:wrong_forgetting",
        ),
    )
}
"""All verbs, in the order of the help."""
