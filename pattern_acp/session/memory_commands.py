"""/memory and /recall in a session.

Owns: what the verbs of memory work with here, and asking the user before something is forgotten. Must not know: what
the verbs do (`commands.memory_actions`), or how anything is stored.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pattern_acp.commands.document import Column, Result, Table, as_result, columns
from pattern_acp.commands.memory import SEARCH, VERBS
from pattern_acp.commands.memory_actions import Desk
from pattern_acp.commands.memory_results import forgetting_question
from pattern_acp.commands.parameters import CommandMisusedError, read_slash, take_word
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import ToolCallView, ToolKind
from pattern_acp.memory.blocks import Isolation
from pattern_acp.memory.service.access import MemoryFilter, MemoryHit
from pattern_acp.memory.service.forget import ForgettingPreview, MemoryForgetting
from pattern_acp.memory.service.share import MemorySetup
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.policy.decision import ApprovalOption, PermissionAnswer
from pattern_acp.session.memory_context import history_scope, memory_history, memory_owner, reload_history
from pattern_acp.session.ports import ask_recorded
from pattern_acp.session.redaction import KEPT_SOURCES
from pattern_acp.tasks.forget import FORGETTING
from pattern_acp.tools.registry import parameter_names

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

FORGET_CALL = "memory_forget"
"""Name of the call that shows the question."""


async def run_memory(session: "Session", argument: str) -> Result:
    """Carry out a verb; a label alone shows that block, and nothing at all lists the blocks.

    Raises:
        CommandMisusedError: an argument is missing or wrong.
        BlockError: nothing was changed, and why.
    """
    # The default blocks are made when memory is first looked at.
    await session.memory.blocks()
    word, rest = take_word(argument)
    if word == "help":
        return _help()
    verb = VERBS.get(word or "list")
    if verb is None or verb.only == "terminal":
        if rest.strip() and not re.fullmatch(r"\s*\d{1,9}\s*", rest):
            raise CommandMisusedError(f"/memory has no verb {one_line(word)!r}; /memory help lists them.")
        verb, rest = VERBS["show"], argument
    result = await verb.run(_desk(session), **read_slash(verb, rest, f"/memory {verb.name}"))
    if verb.name == "forget":
        # What this session has in memory would go to the model with the next prompt.
        await reload_history(session.dialogue)
    return result


async def run_recall(session: "Session", argument: str) -> Result:
    """Search memory and past messages.

    Raises:
        CommandMisusedError: there is nothing to look for, or a limit is none.
    """
    return await SEARCH.run(_desk(session), **read_slash(SEARCH, argument, "/recall"))


def _help() -> Result:
    verbs = [verb for verb in VERBS.values() if verb.only != "terminal"]
    rows = [(f"/memory {verb.name} {verb.usage}".strip(), verb.description) for verb in verbs]
    first, last = ("/memory [LABEL]", "List the blocks, or show one"), ("/memory help", "This list")
    return as_result(Table(columns(Column("Command", code=True), "What it does"), (first, *rows, last)))


def _desk(session: "Session") -> Desk:
    shared, state, scope = session.constellation, session.state, history_scope(session.constellation, session.state)
    setup = MemorySetup(shared.database, memory_owner(session.state), clock=shared.clock)
    reverts = MemoryReverts(shared.database, scope, clock=shared.clock)
    forgetting = MemoryForgetting(
        shared.database,
        scope,
        clock=shared.clock,
        parameters=parameter_names,
        tasks=FORGETTING,
        sources=KEPT_SOURCES,
        telling=shared.tell_forgetting,
    )
    setup.turn_id = reverts.turn_id = forgetting.turn_id = session.person_memory.turn_id

    async def find(query: str, limit: int, narrowing: MemoryFilter) -> Sequence[MemoryHit]:
        # Isolation keeps the persona's memory from the agent of a project, never from the user.
        return await session.person_memory.search(query, limit, narrowing)

    async def confirm(taken: ForgettingPreview) -> bool:
        return await _confirmed(session, taken)

    return Desk(
        memory_history(shared, state),
        reverts,
        forgetting,
        setup,
        session.person_memory,
        state.cwd,
        shared.template_folder,
        Isolation(state.settings.memory.isolation),
        find,
        confirm,
        recalled=session.memory.recalled,
    )


async def _confirmed(session: "Session", taken: ForgettingPreview) -> bool:
    """Ask the user to confirm the forgetting. The question does not repeat the words."""
    turn_id = session.turn_id
    question = forgetting_question(taken)
    what = f"the block {taken.label}" if taken.whole else f"a passage of {taken.label}"
    call = ToolCallView(
        ToolCallId(session.constellation.ids.new("call")),
        FORGET_CALL,
        f"Forget {what} for good?",
        ToolKind.DELETE,
        {"label": taken.label},
    )
    options = (
        ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Forget for good"),
        ApprovalOption(PermissionAnswer.REJECT_ONCE, "Leave everything as it is"),
    )
    answer = await ask_recorded(session.dialogue, turn_id, call, question, options)
    return answer.allows
