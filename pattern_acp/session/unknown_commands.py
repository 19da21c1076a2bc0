"""A prompt that looks like a slash command and is none.

Owns: telling such a slip from a path and from prose, and the sentence that answers it. Must not know: what commands do.
A model that is sent a mistyped command guesses at its meaning and may act on the guess.
"""

import difflib
from typing import TYPE_CHECKING

import anyio

from pattern_acp.commands.slash import COMMANDS
from pattern_acp.domain.ids import TurnId
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.messages import Message
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.stop_reason import StopReason
from pattern_acp.journal.events import PromptRefused, SessionTitled
from pattern_acp.session.commands import more_commands
from pattern_acp.session.titles import title_of
from pattern_acp.turn.loop import TurnEnd
from pattern_acp.turn.sink import Fact

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

_LOOKS_LIKE_ONE = late_pattern(r"/([A-Za-z][A-Za-z0-9_:-]{0,63})(?=\s|$)")
"""A name behind a slash; with another slash or a dot it is a path."""

NEAR = 0.6
"""Likeness from which on a name is offered; difflib's own."""


async def refuse_unknown(session: "Session", turn_id: TurnId) -> TurnEnd | None:
    """The end of a turn whose prompt is a command that there is not; None for anything else.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    prompt = session.state.history[-1]
    sentence = await _unknown(session, prompt)
    if not sentence:
        return None
    session.state.history.remove(prompt)
    facts = [Fact(PromptRefused(turn_id, sentence), Actor.SYSTEM)]
    if session.state.title == title_of(prompt):
        # No session is about a slip; its next prompt gives the title.
        session.state.title = ""
        facts.append(Fact(SessionTitled(""), Actor.SYSTEM, Origin.PERSON))
    await session.sink.record(*facts)
    return TurnEnd(StopReason.END_TURN, sentence)


async def _unknown(session: "Session", message: Message) -> str:
    typed = message.typed_line
    found = _LOOKS_LIKE_ONE.match(typed)
    names = [*COMMANDS, *(command.name for command in more_commands(session))]
    # A name that is a path of this machine (`/tmp`) is taken for one.
    if found is None or found[1] in names or await anyio.Path(f"/{found[1]}").exists():
        return ""
    near = difflib.get_close_matches(found[1].lower(), names, 1, NEAR)
    meant = f" Did you mean /{near[0]}?" if near else ""
    advice = "/help lists all; with a blank in front, the text goes to the model as it is."
    return f"There is no command /{found[1]}.{meant} {advice}"
