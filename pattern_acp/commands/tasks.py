"""The table of commands about tasks: `pattern-acp tasks VERB`.

Owns: what each takes. Must not know: what it does. Imports nothing heavy, since a command line is read before anything
else.
"""

from pattern_acp.commands.parameters import Command, Kind, Parameter

STATES = ("todo", "in_progress", "blocked", "done", "dropped")
"""`tasks.model.TaskStatus`; a test keeps both equal."""

FORMATS = ("checklist", "todo", "github")
"""`tasks.interchange.TaskFormat`; a test keeps both equal."""

_DO = "pattern_acp.commands.task_actions:"

_TASK = Parameter("task", "its number", metavar="N", required=True, ask="which task, by its number")
_SCOPE = Parameter(
    "scope", "whose it is: project (the default) or persona", option="--scope", choices=("project", "persona")
)
_PRIORITY = Parameter("priority", "how soon", option="--priority", choices=("high", "medium", "low"))
_OWNER = Parameter("owner", "who does it", metavar="NAME", option="--owner")
_LABELS = Parameter("labels", "a label; more than once for more", Kind.MANY, "LABEL", option="--label")


TASK_VERBS = (
    Command(
        "list",
        "List the open tasks, or those that fit",
        f"{_DO}list_tasks",
        (
            Parameter("words", "words that they have", Kind.TEXT, "WORDS"),
            Parameter(
                "states",
                "only this state; more than once for more",
                Kind.MANY,
                "STATE",
                option="--status",
                choices=STATES,
            ),
            _OWNER,
            Parameter("label", "only with this label", metavar="LABEL", option="--label"),
            Parameter("blocked", "only those that wait for an open task", Kind.FLAG, option="--blocked"),
            Parameter("everything", "also those that are done or dropped", Kind.FLAG, option="--all"),
        ),
        reads=True,
        begins=False,
    ),
    Command("show", "Show all of a task", f"{_DO}show", (_TASK,), reads=True, begins=False),
    Command(
        "add",
        "Add a task",
        f"{_DO}add",
        (
            Parameter("title", "what is to be done", Kind.TEXT, required=True, ask="what is to be done"),
            Parameter("description", "more about it", metavar="TEXT", option="--description"),
            _PRIORITY,
            _OWNER,
            _LABELS,
            _SCOPE,
        ),
    ),
    Command(
        "edit",
        "Edit a task in your editor",
        "pattern_acp.cli.tasks:edit",
        (
            _TASK,
            Parameter(
                "file", "take the task from a file that you edited, or - for stdin", metavar="FILE", option="--file"
            ),
        ),
        begins=False,
    ),
    Command("start", "Say that a task is begun", f"{_DO}start", (_TASK,), begins=False),
    Command("done", "Say that a task is done", f"{_DO}done", (_TASK,), begins=False),
    Command("block", "Say that a task cannot continue", f"{_DO}block", (_TASK,), begins=False),
    Command("drop", "Say that a task will not be done", f"{_DO}drop", (_TASK,), begins=False),
    Command("todo", "Put a task back among those to do", f"{_DO}todo", (_TASK,), begins=False),
    Command(
        "comment",
        "Comment on a task",
        f"{_DO}comment",
        (_TASK, Parameter("text", "the comment", Kind.TEXT, required=True, ask="what")),
        begins=False,
    ),
    Command(
        "link",
        "Link two tasks: N blocks OTHER, relates to it, or is part of it",
        f"{_DO}link",
        (
            _TASK,
            Parameter(
                "kind",
                "blocks, relates or parent",
                metavar="blocks|relates|parent",
                required=True,
                ask="how: blocks, relates or parent",
            ),
            Parameter("other", "the other task's number", metavar="OTHER", required=True, ask="to which task"),
            Parameter("remove", "take the link away", Kind.FLAG, option="--remove"),
        ),
        begins=False,
    ),
    Command("graph", "Show what a task hangs together with", f"{_DO}graph", (_TASK,), reads=True, begins=False),
    Command(
        "import",
        "Make tasks of a check list, a TODO.md or issues of GitHub",
        "pattern_acp.cli.tasks:import_tasks",
        (Parameter("file", "the file, or - for stdin", metavar="FILE", required=True, ask="which FILE"), _SCOPE),
    ),
    Command(
        "export",
        "Write tasks as a check list, a TODO.md or issues of GitHub",
        "pattern_acp.cli.tasks:export_tasks",
        (
            Parameter("file", "the file; without it they are printed", metavar="FILE"),
            Parameter("form", "without it, what the file is called decides", option="--format", choices=FORMATS),
            Parameter("everything", "also those that are done or dropped", Kind.FLAG, option="--all"),
            Parameter("replace", "write over the file", Kind.FLAG, option="--replace"),
        ),
        begins=False,
    ),
)
"""The commands of `pattern-acp tasks`, in the order of its help."""
