"""The command /memory: looking at memory and its history, and changing it as the person.

Owns: the verbs and what they take. Must not know: how anything is stored, or rendered (session/memory_markdown.py).
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.tool_calls import ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import PermissionAnswered, PermissionAsked, ToolCallFinished, ToolCallStarted
from pattern_acp.memory.block_files import TOML, editable_text, text_of_edited
from pattern_acp.memory.bound import BoundKind
from pattern_acp.memory.permissions import Isolation, isolation_sentence
from pattern_acp.memory.undo import plan_merge, plan_redo, plan_rollback, plan_undo
from pattern_acp.policy.approver import Answer, ApprovalOption, ApprovalRequest
from pattern_acp.session import memory_markdown as markdown
from pattern_acp.session.errors import CommandMisusedError
from pattern_acp.session.history_scope import history_scope
from pattern_acp.session.memory_context import memory_owner
from pattern_acp.session.memory_setup import (
    SetupPlace,
    create_block,
    set_up_block,
    share_block,
    take_word,
    unshare_block,
)
from pattern_acp.session.memory_traps import HINT, list_traps, note_as, set_status_to
from pattern_acp.session.recall_command import run_recall
from pattern_acp.tools.memory_forgetting import ForgettingPreview, MemoryForgetting
from pattern_acp.tools.memory_history import MemoryHistory
from pattern_acp.tools.memory_reverts import MemoryReverts
from pattern_acp.tools.memory_sharing import MemorySetup
from pattern_acp.tools.text_limits import one_line
from pattern_acp.turn.sink import Fact
from pattern_acp.turn.tool_runner import CLEANUP_SECONDS

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

LOG_LENGTH = 30
"""Writes that /memory history shows at a time."""

WHOLE = "--all"
"""What the person types to forget a whole block, so that a passage left out by mistake does not."""

YES = "--yes"
"""What the user types before a passage, or before `--all`, to have it forgotten without a question."""

FORGET_CALL = "memory_forget"
"""Name of the call that shows the question."""

Run = Callable[["Session", str], Awaitable[str]]


class Verb(Struct, frozen=True):
    """A verb of /memory: what to type behind it, what it does, and what carries it out."""

    hint: str
    summary: str
    run: Run


async def run_memory(session: "Session", argument: str) -> str:
    """Carry out a verb; a label alone shows that block, and nothing at all lists the blocks.

    Raises:
        InvalidRequestError: an argument is missing or wrong.
        BlockError: nothing was changed, and why.
    """
    # The default blocks are made when memory is first looked at.
    await session.memory.blocks()
    word, rest = take_word(argument)
    if not word:
        return await _list(session, "")
    verb = VERBS.get(word)
    if verb is not None:
        return await verb.run(session, rest)
    if rest.strip() and not re.fullmatch(r"\s*\d{1,9}\s*", rest):
        raise CommandMisusedError(f"/memory has no verb {one_line(word)!r}; /memory help lists them.")
    return await _show(session, argument)


async def _help(session: "Session", argument: str) -> str:
    del session, argument
    # A bar would end the cell, even in code.
    usages = {name: f"/memory {name} {verb.hint}".strip().replace("|", "\\|") for name, verb in VERBS.items()}
    rows = [(f"`{usages[name]}`", verb.summary) for name, verb in VERBS.items()]
    return markdown.table(("Command", "What it does"), [("`/memory [LABEL]`", "List the blocks, or show one"), *rows])


async def _list(session: "Session", argument: str) -> str:
    del argument
    healed = await _reverts(session).heal()
    history = _history(session)
    blocks, deleted, elsewhere = await history.blocks(), await history.deleted(), await history.elsewhere()
    isolation = isolation_sentence(Isolation(session.state.settings.memory.isolation))
    return markdown.list_table(blocks, deleted, healed, elsewhere, await history.damaged(), isolation)


async def _show(session: "Session", argument: str) -> str:
    label, rest = _label(argument, "show")
    number = _optional_number(rest, "version")
    version = await _history(session).show(label, number)
    return markdown.version_text(version, now_ms=session.constellation.clock.now_ms())


async def _log(session: "Session", argument: str) -> str:
    label, rest = _label(argument, "history")
    writes = await _history(session).log(label, before=_optional_number(rest, "version"), limit=LOG_LENGTH)
    return markdown.log_table(label, writes)


async def _diff(session: "Session", argument: str) -> str:
    label, rest = _label(argument, "diff")
    words = rest.split()
    numbers = [_number(word, "version") for word in words if word != "--words"]
    if len(numbers) > 2:
        raise CommandMisusedError("Compare two versions at most: /memory diff LABEL [OLD [NEW]] [--words].")
    history = _history(session)
    old = numbers[0] if numbers else max(1, (await history.show(label)).block.head_update - 1)
    versions = await history.compare(label, old, numbers[1] if len(numbers) == 2 else None)
    return markdown.versions_diff(versions, words="--words" in words)


async def _blame(session: "Session", argument: str) -> str:
    label, rest = _label(argument, "blame")
    history = _history(session)
    if not rest.strip():
        return markdown.blame_table(await history.blame(label))
    start, end = character_range(rest)
    return markdown.range_table(await history.blame_range(label, start, end))


def character_range(text: str) -> tuple[int, int]:
    """A range of characters typed as `10-25`, counted from 0; the end is not part of it.

    Raises:
        InvalidRequestError: it is no range.
    """
    found = re.fullmatch(r"\s*(\d{1,9})-(\d{1,9})\s*", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise CommandMisusedError("Give characters as START-END, counted from 0, such as 10-25.")
    return int(found[1]), int(found[2])


async def _undo(session: "Session", argument: str) -> str:
    label, rest = _label(argument, "undo")
    plan = partial(plan_undo, number=_optional_number(rest, "write"))
    return markdown.change_text(await _reverts(session).change(label, plan))


async def _redo(session: "Session", argument: str) -> str:
    label, rest = _label(argument, "redo")
    plan = partial(plan_redo, number=_optional_number(rest, "write"))
    return markdown.change_text(await _reverts(session).change(label, plan))


async def _rollback(session: "Session", argument: str) -> str:
    label, rest = _label(argument, "rollback")
    plan = partial(plan_rollback, number=_number(rest, "version"))
    return markdown.change_text(await _reverts(session).change(label, plan))


async def _delete(session: "Session", argument: str) -> str:
    label, reason = _label(argument, "delete")
    await _reverts(session).delete(label, reason.strip())
    return f"`{label}` is deleted; `/memory restore {label}` brings it back, `/memory forget {label} {WHOLE}` ends it."


async def _restore(session: "Session", argument: str) -> str:
    label, rest = _label(argument, "restore")
    counted = re.fullmatch(r"\s*(\d{1,4})(?:\s+(.*))?", rest, re.DOTALL)
    number, reason = (int(counted[1]), counted[2] or "") if counted else (1, rest)
    block = await _reverts(session).restore(label, reason.strip(), number=number)
    return f"`{label}` is back with {len(block.text):,} characters and its whole history."


async def _archive(session: "Session", argument: str) -> str:
    del argument
    return markdown.archive_table(await _history(session).archive(), now_ms=session.constellation.clock.now_ms())


async def _verify(session: "Session", argument: str) -> str:
    del argument
    return markdown.verified_table(await _history(session).verify())


async def _edit(session: "Session", argument: str) -> str:
    label, text = _label(argument, "edit")
    shown = await _history(session).show(label)
    schema = shown.block.schema
    if not text.strip():
        editable = editable_text(schema, shown.text)
        language = "toml" if editable.suffix == TOML else ""
        return (
            f"Run `pattern-acp memory edit {label}` in a terminal in this folder to open it in your editor, or send "
            f"`/memory edit {label}` with the whole new text behind it. It reads now:\n\n"
            f"{markdown.fence(editable.text.rstrip(), language)}"
        )
    wanted = text_of_edited(label, schema, text.strip("\n"), shown.text)
    plan = partial(plan_merge, opened=shown.write.number, text=wanted)
    return markdown.change_text(await _reverts(session).change(label, plan))


async def _forget(session: "Session", argument: str) -> str:
    label, passage = _label(argument, "forget")
    if not passage.strip():
        raise CommandMisusedError(
            f"Say what to forget for good: /memory forget {label} PASSAGE, or /memory forget {label} {WHOLE} for the "
            "whole block with its history."
        )
    forgetting = MemoryForgetting(
        session.constellation.database, history_scope(session), clock=session.constellation.clock
    )
    forgetting.turn_id = session.person_memory.turn_id
    word, rest = take_word(passage)
    sure = word == YES
    wanted = (rest if sure else passage).strip()
    whole = None if wanted == WHOLE else wanted
    if not sure:
        taken = await forgetting.preview(label, whole)
        if not await _confirmed(session, taken):
            return (
                f"Nothing was forgotten. Where your editor cannot ask, `/memory forget {label} {YES} …` does it "
                "without a question."
            )
    report = await forgetting.forget(label, whole)
    # What this session has in memory would go to the model with the next prompt.
    await session.reload_history()
    return markdown.forgotten_text(report)


async def _confirmed(session: "Session", taken: ForgettingPreview) -> bool:
    """Whether the user wants to have it forgotten. The question does not repeat the words."""
    turn_id = session.person_memory.turn_id or TurnId("")
    question = markdown.forgetting_question(taken)
    what = f"the block {taken.label}" if taken.whole else f"a passage of {taken.label}"
    call = ToolCallView(
        ToolCallId(session.constellation.ids.new("call")),
        FORGET_CALL,
        f"Forget {what} for good?",
        ToolKind.DELETE,
        {"label": taken.label},
    )
    options = (
        ApprovalOption(Answer.ALLOW_ONCE, "Forget for good"),
        ApprovalOption(Answer.REJECT_ONCE, "Leave everything as it is"),
    )
    offered = tuple(option.answer.value for option in options)
    asked = PermissionAsked(turn_id, call.call_id, question, offered)
    await session.sink.record(Fact(ToolCallStarted(turn_id, call), Actor.SYSTEM), Fact(asked, Actor.SYSTEM))
    answer = Answer.CANCELLED
    try:
        answer = await session.approver.ask(ApprovalRequest(call, question, options))
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
            status = ToolCallStatus.COMPLETED if answer.allows else ToolCallStatus.FAILED
            chosen = next((each.name for each in options if each.answer is answer), "Nobody answered.")
            await session.sink.record(
                Fact(PermissionAnswered(turn_id, call.call_id, answer.value), Actor.HUMAN, Origin.PERSON),
                Fact(ToolCallFinished(turn_id, call.call_id, status, chosen), Actor.SYSTEM),
            )
    return answer.allows


def _set_up(verb: Callable[[SetupPlace, str], Awaitable[str]]) -> Run:
    async def run(session: "Session", argument: str) -> str:
        shared, state = session.constellation, session.state
        setup = MemorySetup(shared.database, memory_owner(session), clock=shared.clock)
        setup.turn_id = session.person_memory.turn_id
        isolated = state.settings.memory.isolation != Isolation.NONE
        place = SetupPlace(setup, session.person_memory, state.cwd, shared.template_folder, isolated)
        return await verb(place, argument)

    return run


def _noting(kind: BoundKind) -> Run:
    return _set_up(note_as(kind))


def _history(session: "Session") -> MemoryHistory:
    return MemoryHistory(session.constellation.database, history_scope(session).owners)


def _reverts(session: "Session") -> MemoryReverts:
    reverts = MemoryReverts(session.constellation.database, history_scope(session), clock=session.constellation.clock)
    reverts.turn_id = session.person_memory.turn_id
    return reverts


def _label(argument: str, verb: str) -> tuple[str, str]:
    label, rest = take_word(argument)
    if not label:
        raise CommandMisusedError(f"Say which block: /memory {verb} {VERBS[verb].hint}.")
    return label, rest


def _optional_number(text: str, what: str) -> int | None:
    return _number(text, what) if text.strip() else None


def _number(text: str, what: str) -> int:
    word = text.strip()
    if not re.fullmatch(r"\d{1,9}", word):
        raise CommandMisusedError(f"Give the number of a {what}; /memory history LABEL shows them.")
    return int(word)


VERBS: dict[str, Verb] = {
    "list": Verb("", "List the blocks with size, limit and last change", _list),
    "show": Verb("LABEL [VERSION]", "Show a block, or an older version of it", _show),
    "history": Verb("LABEL [BEFORE]", "Every write: who, when, what, why, and where it is recorded", _log),
    "diff": Verb("LABEL [OLD [NEW]] [--words]", "What changed between two versions; the newest write alone", _diff),
    "blame": Verb("LABEL [START-END]", "Who wrote each line, or these characters", _blame),
    "undo": Verb("LABEL [WRITE]", "Take back a write and keep later ones", _undo),
    "redo": Verb("LABEL [UNDO]", "Take back an undo", _redo),
    "rollback": Verb("LABEL VERSION", "Make it read as a version did, as a new change", _rollback),
    "delete": Verb("LABEL [REASON]", "Delete a block; it can be restored", _delete),
    "restore": Verb("LABEL [NUMBER] [REASON]", "Bring back a deleted block", _restore),
    "edit": Verb("LABEL [TEXT]", "Replace the text, or tell how to open it in an editor", _edit),
    "create": Verb(
        "LABEL [--template NAME] [--scope SCOPE] [--text TEXT] [DESCRIPTION]",
        "Make a block; alone, list the templates",
        _set_up(create_block),
    ),
    "set": Verb("LABEL [SETTING VALUE]", "Change description, limit, permission, pinned, tier", _set_up(set_up_block)),
    "share": Verb(
        "LABEL [persona:NAME|project:FOLDER [PERMISSION]]",
        "Let others use a block; alone, tell who may",
        _set_up(share_block),
    ),
    "unshare": Verb("LABEL persona:NAME|project:FOLDER", "Take a share back", _set_up(unshare_block)),
    "search": Verb("WORDS", "Search memory and past sessions, as /recall does", run_recall),
    "archive": Verb("", "List the facts that only search finds, and what superseded them", _archive),
    "traps": Verb("[PATH]", "List traps, constraints and decisions; with a path, those about it", _set_up(list_traps)),
    "trap": Verb(HINT, "Note a trap, which the agent reads before it edits these files", _noting(BoundKind.TRAP)),
    "constraint": Verb(HINT, "Note what has to hold; it is told like a trap", _noting(BoundKind.CONSTRAINT)),
    "decision": Verb(HINT, "Note a decision; it is told along with traps", _noting(BoundKind.DECISION)),
    "resolve": Verb("ENTRY [REASON]", "Such an entry holds no longer", _set_up(set_status_to("resolve"))),
    "reopen": Verb("ENTRY [REASON]", "It holds again", _set_up(set_status_to("reopen"))),
    "verify": Verb("", "Check that what is stored of each block agrees with itself", _verify),
    "forget": Verb(
        f"LABEL PASSAGE|{WHOLE}", "Forget a passage or a whole block everywhere, for good; asks before", _forget
    ),
    "help": Verb("", "This list", _help),
}
"""All verbs, in the order of the help."""
