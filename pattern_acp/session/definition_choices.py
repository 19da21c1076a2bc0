"""Choices of the user about definitions that have changed: `/definitions`, and the question when some of theirs have.

Owns: when it is asked, what is shown, and how the answer is recorded. A choice for all sessions of a project is an
event of the constellation, so that nothing in the project can make it. Must not know: how definitions differ, or what
adopting them means (`session/adoption.py`).
"""

from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.config.settings import DefinitionSettings
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import TextContent, ToolCallView, ToolKind
from pattern_acp.journal.events import (
    DefinitionsFollowed,
    DriftTold,
)
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.policy.approver import ApprovalOption, PermissionAnswer
from pattern_acp.session.adoption import adopt_definitions, compare_definitions, list_definitions
from pattern_acp.session.definition_pins import chosen_follow
from pattern_acp.session.questions import recorded_question
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.config.settings import Follow
    from pattern_acp.db.connection import Transaction
    from pattern_acp.session.session import Session

DRIFT_CALL = "definitions"
"""Name of the call that shows the question."""

OPTIONS = (
    ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Adopt today's"),
    ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Always adopt in this project"),
    ApprovalOption(PermissionAnswer.REJECT_ONCE, "Keep what the session has"),
)

KEPT = "This session keeps what it has. `/definitions adopt` takes today's at any time."

CHOICES = {
    "adopt": "Sessions of this project adopt changed definitions, and say so.",
    "keep": "Sessions of this project keep the definitions that they have, and say what changed.",
    "ask": "You are asked in this project when definitions of yours have changed.",
    "settings": "In this project the setting `definitions.follow` counts again.",
}

HOW_TO_UNDO = "`/definitions follow settings` takes that back."


async def run_definitions(session: "Session", argument: str) -> str:
    """List what the session is defined by, compare it with today's, adopt today's, or choose for the project.

    Raises:
        CommandMisusedError: there is no such verb.
        DatabaseError: what is adopted or chosen could not be recorded.
    """
    match argument.split():
        case []:
            project = session.state.project_key
            chosen = await session.constellation.database.read(lambda tx: chosen_follow(tx, project))
            listed = await list_definitions(session)
            return f"{listed}\n\n{CHOICES[chosen]} {HOW_TO_UNDO}" if chosen else listed
        case ["diff"]:
            return await compare_definitions(session)
        case ["adopt"]:
            return await adopt_definitions(session)
        case ["adopt", "--with-permissions"]:
            return await adopt_definitions(session, with_permissions=True)
        case ["follow", choice] if choice in CHOICES:
            return await _follow(session, choice)
        case _:
            raise CommandMisusedError(
                "Say /definitions, /definitions diff, /definitions adopt [--with-permissions] or /definitions follow "
                "ask|adopt|keep|settings."
            )


async def _follow(session: "Session", choice: str) -> str:
    await _choose(session, "" if choice == "settings" else choice)
    later = "It counts in this session once you open it again." if choice == "settings" else HOW_TO_UNDO
    return f"{CHOICES[choice]} {later}"


async def _choose(session: "Session", follow: str) -> None:
    shared, state = session.constellation, session.state
    event, now = DefinitionsFollowed(state.project_key, follow), shared.clock.now_ms()

    def write(tx: "Transaction") -> None:
        append(tx, CONSTELLATION_STREAM, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=now)

    await shared.database.write(write)
    if follow:
        state.settings = replace(state.settings, definitions=DefinitionSettings(cast("Follow", follow)))


async def ask_about_drift(session: "Session", turn_id: TurnId) -> None:
    """Ask what the session takes over of the definitions that have changed; nothing, where none did.

    Raises:
        DatabaseError: the question could not be recorded; the turn stops.
    """
    drift = session.state.untold_drift
    if not drift or session.state.settings.definitions.follow != "ask":
        return
    reason = " ".join(each.sentence for each in drift)
    call = ToolCallView(
        ToolCallId(session.constellation.ids.new("call")),
        DRIFT_CALL,
        f"Adopt {plural(len(drift), 'changed definition')}?",
        ToolKind.OTHER,
        {"definitions": [each.seen.symbol for each in drift]},
        content=(TextContent(f"{reason}\n\n{await compare_definitions(session)}"),),
    )
    async with recorded_question(session.approver, session.recorder, turn_id, call, reason, OPTIONS) as question:
        question.told, question.done = KEPT, False
        answer = await question.put()
        question.done = answer is not PermissionAnswer.CANCELLED
        if answer.allows:
            question.told = await adopt_definitions(session)
        if answer is PermissionAnswer.ALLOW_ALWAYS:
            await _choose(session, "adopt")
            question.told = f"{question.told} {CHOICES['adopt']} {HOW_TO_UNDO}"
        session.state.untold_drift = []
        if not answer.allows:
            seen = DriftTold(tuple(each.seen for each in drift))
            question.events.append(NewEvent(seen, Actor.SYSTEM, Origin.WORKSPACE))
