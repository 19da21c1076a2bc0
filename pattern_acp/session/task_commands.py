"""/tasks and /task: tasks that outlive a session, for the user; and whose tasks a session sees.

Owns: what the user typed, and when the plan panel is shown a task. Must not know: how tasks are stored, or their words.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pattern_acp.commands.document import Paragraph, Result, Said, ShownFacts
from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import TurnId
from pattern_acp.domain.text_limits import one_line
from pattern_acp.journal.events import Event, PlanUpdated
from pattern_acp.session.memory_context import memory_owner
from pattern_acp.tasks.model import Task, TaskRow, task_line
from pattern_acp.tasks.service import TaskDesk, Tasks
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
"""Tasks of a list in a session."""


def tasks_of_agent(session: "Session", turn_id: TurnId) -> Tasks:
    """Tasks as the agent sees and changes them in a turn."""
    tasks = _tasks(session, session.state.persona.name, Actor.PERSONA, Origin.MODEL)
    tasks.turn_id = turn_id
    tasks.read = session.state.policy.read_before
    return tasks


async def run_tasks(session: "Session", argument: str) -> Result:
    """List tasks, add one, or make the session's plan one."""
    # Late: most sessions ask for no task.
    from pattern_acp.commands import task_actions

    verb, rest = first_word(argument)
    desk = task_actions.TaskVerbs(tasks_of_user(session), MOST_LISTED)
    match verb:
        case "add":
            if not rest.strip():
                raise CommandMisusedError(f"Write the title behind it. {TASKS_USAGE}")
            added = await task_actions.add(desk, rest)
            session.state.has_tasks = True
            return added
        case "keep":
            return Said(await _keep(session, rest.strip() or session.state.title))
        case "" | "all":
            listed = await task_actions.list_tasks(desk, everything=verb == "all")
            return listed if verb else ShownFacts(listed.value, (*listed.document, Paragraph(TASKS_USAGE)))
        case _:
            return await task_actions.list_tasks(desk, argument, everything=True)


async def run_task(session: "Session", argument: str) -> Result:
    """Show one task, or change it."""
    from pattern_acp.commands import task_actions

    ref, rest = first_word(argument)
    verb, words = first_word(rest)
    if not ref:
        raise CommandMisusedError(f"Name a task by its number. {TASK_USAGE}")
    tasks = tasks_of_user(session)
    desk = task_actions.TaskVerbs(tasks)
    match verb:
        case "":
            return await task_actions.show(desk, ref)
        case "graph":
            return await task_actions.graph(desk, ref)
        case "comment":
            return await task_actions.comment(desk, ref, words)
        case "start" | "done" | "drop" | "block" | "todo":
            own = await tasks.is_own(await tasks.get(ref))
            change = {
                "start": task_actions.start,
                "done": task_actions.done,
                "drop": task_actions.drop,
                "block": task_actions.block,
                "todo": task_actions.todo,
            }[verb]
            changed = await change(desk, ref)
            session.state.has_tasks = True
            if own or await tasks.is_own(changed.task):
                await _record_plan(session, changed.task)
            return changed
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
    line = one_line(task_line(TaskRow(task)))
    return f"Stored `{line}`. From now on the plan of this session is its steps."


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
