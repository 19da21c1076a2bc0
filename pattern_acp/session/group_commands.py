"""`/group`: the groups of a project for the user.

Owns: what was typed, and the list. Must not know: how a group runs.
"""

from typing import TYPE_CHECKING

from pattern_acp.commands.document import cell, table
from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.definitions.groups import GROUPS_FILE, GroupDefinition
from pattern_acp.session.group_watches import switch_watch
from pattern_acp.session.groups import (
    groups_of,
    look_at_groups,
    named_group,
    run_goal,
    unknown_persona,
    usable_group,
)

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

USAGE = '`/group NAME "GOAL"` runs one, `/group NAME` shows it, `/group watch NAME on` or `off` switches a watch.'

NO_GROUPS = (
    f"This project has no groups. `{'/'.join(GROUPS_FILE)}` names some: a pipeline of personas, a panel, or a watch "
    "(docs/how-to/groups.md)."
)


async def run_group(session: "Session", argument: str) -> str:
    """List the groups, show one, run one, or switch a watch.

    Raises:
        PatternError: a sentence about what is wrong.
    """
    name, rest = first_word(argument)
    if not name:
        return await _listed(session)
    if name == "watch":
        return await switch_watch(session, rest)
    goal = rest.strip()
    if len(goal) > 1 and goal[0] == goal[-1] and goal[0] in "\"'" and goal[0] not in goal[1:-1]:
        goal = goal[1:-1].strip()
    if not goal:
        await look_at_groups(session)
        return _shown(session, named_group(session, name))
    group = await usable_group(session, name)
    if group.kind == "watch":
        raise CommandMisusedError(f"{name} is a watch; `/group watch {name} on` switches it on.")
    return await run_goal(session, group, goal)


async def _listed(session: "Session") -> str:
    await look_at_groups(session)
    groups = groups_of(session)
    if not groups.usable and not groups.problems:
        return NO_GROUPS
    trusted = "" if session.trust.granted else " (not trusted: /trust)"
    rows = [
        [
            f"`{each.name}`",
            f"{each.kind}{_is_on(session, each)}{trusted}",
            cell(each.summary, 300),
            each.max or "no limit",
        ]
        for each in groups.usable
    ]
    shown = [table(["Group", "Kind", "Personas", "At most"], rows)] if rows else []
    shown += [f"> {sentence}" for sentence in groups.problems]
    shown += [f"> {sentence}" for each in groups.usable if (sentence := unknown_persona(session, each))]
    return "\n\n".join((*shown, USAGE))


def _is_on(session: "Session", group: GroupDefinition) -> str:
    return ", on" if group.name in session.state.watches else ""


def _shown(session: "Session", group: GroupDefinition) -> str:
    missing = unknown_persona(session, group)
    about = [f"**{group.name}** ({group.kind}{_is_on(session, group)}): {group.description or group.summary}"]
    about += [f"- {each.line}" for each in group.members]
    about += [f"- decides: {group.decides.line}"] if group.decides is not None else []
    about += [f"- at most {group.max}"] if group.max else []
    return "\n".join((*about, *(["", f"> {missing}"] if missing else [])))
