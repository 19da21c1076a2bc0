"""/queue: the prompts that wait while a turn runs, and what becomes of new ones.

Owns: showing, editing and dropping them. Must not know: when they run (`session.session`, `session.turn_stages`).
"""

from typing import TYPE_CHECKING

from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.session.options import OVERLAP_OPTION, OVERLAPS, Overlap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pattern_acp.session.session import PromptTicket, Session
    from pattern_acp.session.state import SessionState

SHOWN_TEXT = 200
"""Characters of a prompt that the table shows."""

USAGE = (
    "`/queue` shows what waits; `/queue edit N TEXT` and `/queue drop N` change it, `/queue drop all` empties it, "
    "`/queue steer`, `/queue queue` and `/queue replace` choose what new prompts do while a turn runs."
)


async def run_queue(session: "Session", argument: str) -> str:
    """Show, edit or drop the prompts that wait, or choose what new ones do."""
    verb, rest = first_word(argument)
    match verb:
        case "":
            return _shown(session.waiting, session.state)
        case "drop" if rest.strip() == "all":
            dropped = session.waiting
            for ticket in dropped:
                ticket.cancel()
            return f"Dropped {plural(len(dropped), 'prompt')}."
        case "drop":
            ticket = _named(session.waiting, rest)
            ticket.cancel()
            return f"Dropped “{one_line(ticket.text, SHOWN_TEXT)}”."
        case "edit":
            number, text = first_word(rest)
            ticket = _named(session.waiting, number)
            if not text.strip():
                raise CommandMisusedError(f"Write the new text behind the number. {USAGE}")
            ticket.edited = text.strip()
            return f"Prompt {number} is now “{one_line(ticket.text, SHOWN_TEXT)}”."
        case Overlap.STEER | Overlap.QUEUE | Overlap.REPLACE if not rest:
            options = await session.set_option(OVERLAP_OPTION, verb, by="agent")
            if session.state.shows_overlap:
                await session.view.show_options(options)
            return _customs(session.state)
        case _:
            raise CommandMisusedError(USAGE)


def _named(waiting: "Sequence[PromptTicket]", number: str) -> "PromptTicket":
    place = int(number) if number.strip().isdecimal() else 0
    if not 1 <= place <= len(waiting):
        has = f"{plural(len(waiting), 'prompt')} waits" if len(waiting) == 1 else f"{len(waiting)} prompts wait"
        raise CommandMisusedError(f"Name a prompt by its number; {has if waiting else 'no prompt waits'}. {USAGE}")
    return waiting[place - 1]


def _shown(waiting: "Sequence[PromptTicket]", state: "SessionState") -> str:
    if not waiting:
        return f"No prompt waits. {_customs(state)}"
    rows = ["| # | Prompt | |", "| --- | --- | --- |"]
    for number, ticket in enumerate(waiting, start=1):
        text = one_line(ticket.text, SHOWN_TEXT).replace("|", "\\|")
        rows.append(f"| {number} | {text} | {ticket.overlap} |")
    return "\n".join([*rows, "", _customs(state), "", USAGE])


def _customs(state: "SessionState") -> str:
    words = {choice.value: choice.description for choice in OVERLAPS}[state.overlap]
    return f"A prompt that you send while a turn runs: {state.overlap}. {words}"
