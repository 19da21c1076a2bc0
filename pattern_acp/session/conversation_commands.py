"""Slash commands about the conversation as a whole: /clear, /compact, /pin, /queue, /export, /diff.

Owns: what they answer, and what becomes of prompts that wait. Must not know: how a request is built from what is left,
how space is made, or when a prompt runs (`session.session`, `session.turn_stages`).
"""

import os
from collections.abc import Callable, Sequence, Set
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from pattern_acp.commands.document import (
    Column,
    Fence,
    ItemList,
    Paragraph,
    Part,
    Result,
    Table,
    as_result,
    columns,
)
from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, TurnId
from pattern_acp.domain.errors import InvalidRequestError, WorkspaceError
from pattern_acp.domain.messages import Message
from pattern_acp.domain.paths import absolute_path, display_path, resolve_path
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import FileChange
from pattern_acp.domain.usage import Cost, Usage, amount_text
from pattern_acp.journal.events import Event, HistoryCleared, MessagePinned, MessageRecorded, TurnStarted, UsageReported
from pattern_acp.journal.history import active_events, read_history
from pattern_acp.journal.reader import Recorded
from pattern_acp.session.budgets import BudgetGate
from pattern_acp.session.changed_files import ChangedFile, changed_files, net_changes, sentence_of, with_states
from pattern_acp.session.compaction import CompactionRequest, compact, pinned_of, told
from pattern_acp.session.context_usage import context_tokens, show_context
from pattern_acp.session.memory_context import reload_history
from pattern_acp.session.options import OVERLAP_OPTION, OVERLAPS, Overlap
from pattern_acp.session.window import session_limits, strategy_of, tokens_in
from pattern_acp.turn.loop import ModelInUse
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.workspace.kinds import inspect_path
from pattern_acp.workspace.snapshots import canonical_path

if TYPE_CHECKING:
    from pattern_acp.domain.clock import SessionId
    from pattern_acp.memory.service.session_memory import ConstellationMemory
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.ports import Workbench
    from pattern_acp.session.session import PromptTicket, Session
    from pattern_acp.session.state import SessionState


DIFF_CHARACTERS = 60_000
"""Characters of the whole answer of /diff; an editor gets it as one message."""

LEAST_CHARACTERS = 600
"""Characters that each file gets all the same."""

FILES_SHOWN = 100
"""Most files whose diffs are shown; `/diff PATH` shows the others."""

FILES_NAMED = 40
"""Most files that git names beside the diffs."""

GIT_SECONDS = 2.0
"""Longest that /diff waits for git; the user asked for it."""


async def run_clear(session: "Session") -> Result:
    """Let the model's context start again."""
    count = len(session.state.history)
    cleared = HistoryCleared(session.turn_id)
    await session.recorder.record(NewEvent(cleared, Actor.HUMAN, Origin.PERSON))
    await reload_history(session.dialogue)
    # What the model does not know any more it must read again before it edits.
    session.state.fingerprints.clear()
    session.state.window.has_left_out = True
    session.state.window.breaks.expect("cleared")
    await show_context(session.dialogue)
    return as_result(
        "---\n\n**The model's context was cleared here.** "
        f"The model does not see {plural(count, 'message')} above this line. "
        "Memory stays, and `/recall` still finds what was said."
    )


async def run_export(shared: "Constellation", state: "SessionState", workbench: "Workbench", argument: str) -> Result:
    """Write the conversation as Markdown."""
    # Heavy only here: most sessions are never exported.
    from pattern_acp.session.transcript import conversation_markdown

    words = argument.split(None, 1)
    overwrite = bool(words) and words[0] == "--overwrite"
    named = (words[1] if len(words) > 1 else "") if overwrite else argument
    path = absolute_path(named.strip() or f"pattern-acp-{state.session_id}.md", state.cwd)
    facts = await anyio.to_thread.run_sync(inspect_path, path)
    shown = display_path(path, state.cwd)
    if facts.kind == "directory":
        raise CommandMisusedError(f"{shown} is a folder; name a file: /export {shown}/conversation.md.")
    if facts.kind != "missing" and not overwrite:
        raise CommandMisusedError(f"{shown} exists. `/export --overwrite {shown}` replaces it.")
    about = (
        ("Session", f"`{state.session_id}`"),
        ("Folder", f"`{state.cwd}`"),
        ("Model", f"`{state.model.qualified}`"),
    )
    recorded = await _recorded(shared, state.session_id)
    text = conversation_markdown(active_events(recorded), title=state.title, about=about)
    await workbench.files.write_text_file(path, text)
    size = len(text.encode("utf-8", "surrogatepass"))
    return as_result(f"The conversation is in `{shown}` ({size:,} bytes).")


async def run_diff(shared: "Constellation", state: "SessionState", argument: str) -> Result:
    """Show what this session changed in files."""
    cwd = state.cwd
    wanted = absolute_path(argument, cwd) if argument else ""
    events = [entry.event for entry in await _recorded(shared, state.session_id)]
    files, besides = await anyio.to_thread.run_sync(_all_changes, events, wanted)
    room = max(DIFF_CHARACTERS // max(len(files), 1), LEAST_CHARACTERS)
    display = partial(display_path, cwd=cwd)
    sections = [part for file in files[:FILES_SHOWN] for part in _about_file(file, display, room)]
    resolved_cwd = await anyio.to_thread.run_sync(resolve_path, cwd)
    others = sentence_of(besides, partial(display_path, cwd=resolved_cwd))
    if not argument:
        named = {*besides, *(file.path for file in files), *(file.renamed_from for file in files if file.renamed_from)}
        others = "\n\n".join(part for part in (others, await _other_files(shared, state, named)) if part)
    if not sections:
        where = f" in {argument}" if argument else ""
        return as_result(f"This session's edits changed nothing{where}.{' ' + others if others else ''}")
    first = f" The first {FILES_SHOWN} are shown." if len(files) > FILES_SHOWN else ""
    head = f"{plural(len(files), 'file')} changed by edits of this session.{first}"
    return as_result(head, *sections, others)


def _all_changes(events: Sequence[Event], wanted: str) -> tuple[tuple[ChangedFile, ...], dict[str, FileChange]]:
    """The files that edits changed, and what else became another; all of it at or below `wanted`, "" for everywhere."""
    changes = net_changes(events)
    edited = changed_files(events)
    places = {_place(file.path) for file in edited}
    besides = {path: change for path, change in changes.items() if path not in places}
    files = with_states(edited, changes, _place)
    if wanted:
        files = tuple(file for file in files if Path(file.path).is_relative_to(wanted))
        below = _place(wanted)
        besides = {path: change for path, change in besides.items() if Path(path).is_relative_to(below)}
    return files, besides


def _place(path: str) -> str:
    try:
        return canonical_path(path)
    except WorkspaceError:
        # Links that lead in a circle: nothing was changed there.
        return path


def _about_file(file: ChangedFile, display: Callable[[str], str], room: int) -> tuple[Part, ...]:
    shown = display(file.path)
    text = file.unified(shown, display(file.renamed_from) if file.renamed_from else "").rstrip()
    return Paragraph(f"**{shown}** ({file.words(display)})"), Fence(cut_middle(text, room).text, "diff")


def _not_known(paths: Sequence[str], known: Set[str]) -> list[str]:
    """Those that are not known. Git names an untracked folder as one: its files count then."""
    return [
        path
        for path in paths
        if path not in known
        and not (
            any(one.startswith(f"{path}{os.sep}") for one in known)
            and all(str(one) in known for one in Path(path).rglob("*") if not one.is_dir())
        )
    ]


async def _other_files(shared: "Constellation", state: "SessionState", known: set[str]) -> str:
    """Files that git says differ from the last commit and that no edit of the session changed."""
    ask = shared.git_status
    status = await ask(state.cwd, GIT_SECONDS) if ask is not None else None
    if status is None:
        return ""
    resolved = {await anyio.to_thread.run_sync(resolve_path, path) for path in known}
    others = await anyio.to_thread.run_sync(_not_known, status.paths, resolved)
    if not others:
        return ""
    cwd = await anyio.to_thread.run_sync(resolve_path, state.cwd)
    names = ", ".join(f"`{display_path(path, cwd)}`" for path in others[:FILES_NAMED])
    more = f" and {len(others) - FILES_NAMED} more" if len(others) > FILES_NAMED else ""
    return f"Git also names {names}{more}: changed by commands, by you, or before this session."


async def place_rows(session: "Session") -> tuple[tuple[str, str], ...]:
    """Rows of /status: what is in the model's context, what the session cost, and the state of git."""
    used = next(
        (
            e.event
            for e in reversed(await _recorded(session.constellation, session.session_id))
            if isinstance(e.event, UsageReported)
        ),
        None,
    )
    ask = session.constellation.git_status
    git = await ask(session.state.cwd, GIT_SECONDS) if ask is not None else None
    rows: list[tuple[str, str]] = []
    if used is not None:
        cost = "" if used.cost is None else f", {amount_text(used.cost.micro_units, used.cost.currency)} so far"
        cached = used.usage.cache_read_tokens * 100 // max(used.usage.context_tokens - used.usage.output_tokens, 1)
        share = f", {cached} % of it from the cache" if used.usage.cache_read_tokens else ""
        rows.append(("Context", f"{used.used:,} of {used.size:,} tokens after the last request{share}{cost}"))
    if session.state.window.breaks.summary():
        rows.append(("Cached prefix", session.state.window.breaks.summary()))
    if git is not None:
        rows.append(("Git", git.sentence()))
    if session.languages is not None:
        # Only here: most sessions start none.
        from pattern_acp.lsp.servers import states_of

        states = ", ".join(states_of(session.languages))
        rows += [("Language servers", states)] if states else []
    return tuple(rows)


async def room_taken(shared: "Constellation") -> str:
    """Disk usage of the constellation and of the files beside it, in words."""
    from pattern_acp.journal.retention import storage_breakdown, storage_summary

    database = shared.database
    return await anyio.to_thread.run_sync(storage_summary, database.path, await database.read(storage_breakdown))


async def _recorded(shared: "Constellation", session_id: "SessionId") -> list[Recorded]:
    return await shared.database.read(lambda tx: read_history(tx, session_id))


SHOWN_TEXT = 200
"""Characters of a prompt that the table shows."""

USAGE = (
    "`/queue` shows what waits; `/queue edit N TEXT` and `/queue drop N` change it, `/queue drop all` empties it, "
    "`/queue steer`, `/queue queue` and `/queue replace` choose what new prompts do while a turn runs."
)


async def run_queue(session: "Session", argument: str) -> Result:
    """Show, edit or drop the prompts that wait, or choose what new ones do."""
    verb, rest = first_word(argument)
    match verb:
        case "":
            return _shown(session.waiting, session.state)
        case "drop" if rest.strip() == "all":
            dropped = session.waiting
            for ticket in dropped:
                ticket.cancel()
            return as_result(f"Dropped {plural(len(dropped), 'prompt')}.")
        case "drop":
            ticket = _named(session.waiting, rest)
            ticket.cancel()
            return as_result(f"Dropped “{one_line(ticket.text, SHOWN_TEXT)}”.")
        case "edit":
            number, text = first_word(rest)
            ticket = _named(session.waiting, number)
            if not text.strip():
                raise CommandMisusedError(f"Write the new text behind the number. {USAGE}")
            ticket.edited = text.strip()
            return as_result(f"Prompt {number} is now “{one_line(ticket.text, SHOWN_TEXT)}”.")
        case Overlap.STEER | Overlap.QUEUE | Overlap.REPLACE if not rest:
            options = await session.set_option(OVERLAP_OPTION, verb, by="agent")
            if session.state.shows_overlap:
                await session.view.show_options(options)
            return as_result(_customs(session.state))
        case _:
            raise CommandMisusedError(USAGE)


def _named(waiting: "Sequence[PromptTicket]", number: str) -> "PromptTicket":
    place = int(number) if number.strip().isdecimal() else 0
    if not 1 <= place <= len(waiting):
        has = f"{plural(len(waiting), 'prompt')} waits" if len(waiting) == 1 else f"{len(waiting)} prompts wait"
        raise CommandMisusedError(f"Name a prompt by its number; {has if waiting else 'no prompt waits'}. {USAGE}")
    return waiting[place - 1]


def _shown(waiting: "Sequence[PromptTicket]", state: "SessionState") -> Result:
    if not waiting:
        return as_result(f"No prompt waits. {_customs(state)}")
    rows = tuple((str(number), ticket.text, ticket.overlap) for number, ticket in enumerate(waiting, start=1))
    return as_result(Table(columns("#", Column("Prompt", limit=SHOWN_TEXT), ""), rows), _customs(state), USAGE)


def _customs(state: "SessionState") -> str:
    words = {choice.value: choice.description for choice in OVERLAPS}[state.overlap]
    return f"A prompt that you send while a turn runs: {state.overlap}. {words}"


SHOWN_CHARACTERS = 160
"""Characters of a pinned message that /pin repeats."""


async def run_compact(session: "Session", instructions: str) -> Result:
    """Sum up all of the conversation but its last exchange."""
    state, shared = session.state, session.constellation
    if missing := shared.models.missing_key(state.model.qualified):
        raise InvalidRequestError(missing)
    provider, info = shared.models.resolve(state.model.qualified)
    turn_id = session.turn_id
    gate = BudgetGate(session, turn_id, None)
    model = ModelInUse(shared.models.with_fallback(provider, info, tokens_in(session.state), gate.refusal), info)
    tokens = context_tokens(session.dialogue, info)
    wanted = CompactionRequest(
        "person", strategy_of(session.state, model), tokens, 0, session_limits(session.state, model), instructions
    )

    def spend(_usage: Usage, cost: Cost | None) -> Cost | None:
        before = state.cost.micro_units if state.cost is not None else 0
        state.cost = state.cost if cost is None else Cost(before + cost.micro_units, cost.currency)
        return state.cost

    outcome = await compact(session.dialogue, turn_id, model, wanted, spend, gate)
    if outcome is None:
        return as_result(
            "There is nothing to compact: what could leave the conversation is no longer than a note that it is gone."
        )
    # What the model does not know any more it must read again before it edits.
    state.fingerprints.clear()
    await show_context(session.dialogue)
    short = told(outcome.event, outcome.problem).partition(" In their place the model reads:")[0]
    return as_result(f"The conversation is compacted. {short}")


async def run_pin(session: "Session", argument: str) -> Result:
    """Keep the user's last message and its answer in the context, whatever is compacted."""
    said, pinned = await _messages(session.constellation, session.session_id)
    if argument == "off":
        events = [_pinning(session.memory, message_id, pinned=False) for message_id in sorted(pinned)]
        if events:
            await session.recorder.record(*events)
        return as_result(f"{plural(len(events), 'message')} can be compacted again.")
    if argument == "list":
        lines = tuple(one_line(m.text, SHOWN_CHARACTERS) for m in said if m.message_id in pinned)
        return as_result(ItemList(lines) if lines else "No message is pinned.")
    if argument:
        raise CommandMisusedError("/pin pins your last message and its answer; /pin list shows them, /pin off ends it.")
    known = {message.message_id for message in session.state.history}
    last = next((place for place in range(len(said) - 1, -1, -1) if said[place].role == "user"), None)
    chosen = [message for message in said[last:] if message.message_id in known] if last is not None else []
    # The prompt and the last word of its answer: what is between are steps.
    chosen = chosen if len(chosen) < 2 else [chosen[0], chosen[-1]]
    if not chosen:
        raise CommandMisusedError("There is no message of yours to pin in what the model sees.")
    await session.recorder.record(*[_pinning(session.memory, message.message_id, pinned=True) for message in chosen])
    first = one_line(chosen[0].text, SHOWN_CHARACTERS)
    return as_result(f"Pinned: “{first}” and its answer stay, whatever is compacted.")


def _pinning(memory: "ConstellationMemory", message_id: MessageId, *, pinned: bool) -> NewEvent:
    event = MessagePinned(memory.turn_id or TurnId(""), message_id, pinned)
    return NewEvent(event, Actor.HUMAN, Origin.PERSON)


async def _messages(shared: "Constellation", session_id: "SessionId") -> tuple[list[Message], frozenset[MessageId]]:
    """The prompts and answers so far, in order, and the ids of those that are pinned."""
    stream = await shared.database.read(lambda tx: read_history(tx, session_id))
    events = [item.event for item in active_events(stream)]
    said: list[Message] = []
    for event in events:
        match event:
            case TurnStarted(message=message, command=""):
                said.append(message)
            case MessageRecorded(message=message, for_model=True) if not message.tool_calls:
                said.append(message)
            case _:
                pass
    return said, pinned_of([event for event in events if isinstance(event, MessagePinned)])
