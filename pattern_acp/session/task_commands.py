"""/tasks and /task: tasks that outlive a session, for the user; and whose tasks a session sees.

Owns: what the user typed, and when the plan panel is shown a task. Must not know: how tasks are stored, or their words.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.domain.ids import TurnId
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.text_limits import one_line
from pattern_acp.journal.events import Event, PlanUpdated
from pattern_acp.session.memory_context import memory_owner
from pattern_acp.tasks.model import OPEN, GraphQuery, Task, TaskFilter, TaskPatch, TaskRow, TaskStatus
from pattern_acp.tasks.service import TaskDesk, Tasks
from pattern_acp.tasks.showing import graph_text, task_line, task_lines, task_text
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

TASKS_USAGE = (
    "`/tasks` lists what is open, `/tasks all` everything, `/tasks WORDS` what has the words; `/tasks add TITLE` adds "
    "a task, `/tasks keep TITLE` makes the plan of this session one."
)

TASK_USAGE = (
    "`/task N` shows a task, `/task N graph` what it hangs together with; `start`, `done`, `drop`, `block` and `todo` "
    "change its state, `comment TEXT` adds a comment."
)

MOST_LISTED = 100
"""Tasks of one list."""

_STATES = {
    "start": TaskStatus.IN_PROGRESS,
    "done": TaskStatus.DONE,
    "drop": TaskStatus.DROPPED,
    "block": TaskStatus.BLOCKED,
    "todo": TaskStatus.TODO,
}


def tasks_of_agent(session: "Session", turn_id: TurnId) -> Tasks:
    """Tasks as the agent sees and changes them in a turn."""
    tasks = _tasks(session, session.state.persona.name, Actor.PERSONA, Origin.MODEL)
    tasks.turn_id = turn_id
    tasks.read = session.state.policy.read_before
    return tasks


async def run_tasks(session: "Session", argument: str) -> str:
    """List tasks, add one, or make the session's plan one."""
    verb, rest = first_word(argument)
    tasks = tasks_of_user(session)
    match verb:
        case "add":
            if not rest.strip():
                raise CommandMisusedError(f"Write the title behind it. {TASKS_USAGE}")
            task = await tasks.create(rest, TaskPatch())
            session.state.has_tasks = True
            return f"Added {_line(task)}."
        case "keep":
            return await _keep(session, rest.strip() or session.state.title)
        case "" | "all":
            asked = TaskFilter(OPEN if not verb else None, limit=MOST_LISTED)
        case _:
            asked = TaskFilter(keyword=argument.strip(), limit=MOST_LISTED)
    return preserved(task_lines(await tasks.list(asked), asked)) + (f"\n\n{TASKS_USAGE}" if not verb else "")


async def run_task(session: "Session", argument: str) -> str:
    """Show one task, or change it."""
    ref, rest = first_word(argument)
    verb, words = first_word(rest)
    if not ref:
        raise CommandMisusedError(f"Name a task by its number. {TASK_USAGE}")
    tasks = tasks_of_user(session)
    match verb:
        case "":
            return preserved(task_text(await tasks.shown(ref)))
        case "graph":
            return preserved(graph_text(await tasks.graph(GraphQuery(ref))))
        case "comment":
            return f"Commented on {_line(await tasks.comment(ref, words))}."
        case "start" | "done" | "drop" | "block" | "todo":
            own = await tasks.is_own(await tasks.get(ref))
            task = await tasks.update(ref, TaskPatch(status=_STATES[verb]))
            session.state.has_tasks = True
            if own or await tasks.is_own(task):
                await _record_plan(session, task)
            return f"{_line(task)}"
        case _:
            raise CommandMisusedError(TASK_USAGE)


async def show_task(session: "Session", replayed: Sequence[Event] = ()) -> None:
    """Show the steps of the session's task to the editor, unless the replayed events end with them.

    Another window may have changed them since; so this is not recorded, only shown.
    """
    session.state.has_tasks = True
    task = await tasks_of_user(session).active()
    last = next((event.plan for event in reversed(replayed) if isinstance(event, PlanUpdated)), None)
    if task is not None and task.plan != last:
        await session.view.show(PlanUpdated(TurnId(""), task.plan))


async def _keep(session: "Session", title: str) -> str:
    # Late: only this asks for the plan of before.
    from pattern_acp.journal.reader import read_stream

    database = session.constellation.database
    recorded = await database.read(lambda tx: read_stream(tx, session.session_id, kinds=(PlanUpdated,)))
    plan = next((entry.event.plan for entry in reversed(recorded) if isinstance(entry.event, PlanUpdated)), None)
    if plan is None or not plan.entries:
        raise CommandMisusedError(f"This session has no plan yet. {TASKS_USAGE}")
    task = await tasks_of_user(session).show_plan(plan, title or plan.entries[0].content)
    session.state.has_tasks = True
    if task is None:
        raise CommandMisusedError(TASKS_USAGE)
    return f"Kept {_line(task)}. From now on the plan of this session is its steps."


async def _record_plan(session: "Session", task: Task) -> None:
    turn_id = session.memory.turn_id
    await session.recorder.record(NewEvent(PlanUpdated(turn_id or TurnId(""), task.plan), Actor.HUMAN, Origin.PERSON))


def tasks_of_user(session: "Session") -> Tasks:
    """Tasks as the user of a session sees and changes them."""
    return _tasks(session, "user", Actor.HUMAN, Origin.PERSON)


def _tasks(session: "Session", author: str, actor: Actor, origin: Origin) -> Tasks:
    shared = session.constellation
    desk = TaskDesk(
        memory_owner(session.state).lasting.owners,
        session.session_id,
        session.session_id,
        author,
        actor,
        origin,
        shared.holder,
    )
    tasks = Tasks(shared.database, desk, clock=shared.clock, ids=shared.ids, peer=shared.peer)
    tasks.turn_id = session.memory.turn_id
    return tasks


def _line(task: Task) -> str:
    return f"`{one_line(task_line(TaskRow(task)))}`"


def preserved(text: str) -> str:
    """Lines that Markdown must not join."""
    return "\n".join(f"{line}  " if line else "" for line in text.split("\n"))
