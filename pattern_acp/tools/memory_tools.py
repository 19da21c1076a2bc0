"""The tools memory_read, memory_search and memory_write.

Owns: the model's arguments and what it reads in return. Must not know: how blocks are stored, merged or taken back. All
edits of one call are one transaction. The user may always take a write back; the agent may look at history and propose
it, so every undo, redo and rollback asks, once, with the diff.
"""

import difflib
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from pattern_acp.domain.access import Origin, ReadMemory, WriteMemory, WriteVerdict
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import ToolCallId, day_of, local_minute
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import DiffContent, TextContent, ToolKind
from pattern_acp.memory.archive import NoteKind, Severity
from pattern_acp.memory.blocks import Permission, Scope, WriteAction, explain_permission, judge
from pattern_acp.memory.errors import PermissionDeniedError
from pattern_acp.memory.service.access import (
    ARCHIVE,
    EVERY_OPERATION,
    NO_GOOD_MATCH,
    OF_ARCHIVE,
    OPERATIONS,
    REVERTING,
    STATUS_OPERATIONS,
    MemoryBlockView,
    MemoryChange,
    MemoryEdit,
    MemoryFilter,
    MemoryHit,
)
from pattern_acp.memory.service.search import day_bounds, repeats, without_repeats
from pattern_acp.policy.decision import Wording
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    NotAvailableError,
    PreparedCall,
    Progress,
    TargetMissingError,
    ToolContext,
    ToolFailedError,
    ToolInputError,
    ToolOutcome,
)
from pattern_acp.tools.schema import input_schema, parse_arguments

if TYPE_CHECKING:
    from pattern_acp.memory.history import Write
    from pattern_acp.memory.service.undo import AgentHistory, HistoryChange
    from pattern_acp.memory.undo import RevertPlan

DEFAULT_HITS = 8
"""Hits when the model asks for no number; each is at most a short paragraph."""

MOST_LOOKED_AT = 40
"""Hits that are counted, more than the model can ask for."""


class SearchKind(StrEnum):
    """The scope of memory_search: blocks, archival entries, replaced ones, messages by author, plan steps, skills."""

    BLOCK = "block"
    ARCHIVAL = "archival"
    SUPERSEDED = "superseded"
    USER = "user"
    ASSISTANT = "assistant"
    TASK = "task"
    SKILL = "skill"


class MemoryReadArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of memory_read."""

    label: str | None = None
    version: Annotated[int, Meta(ge=1)] | None = None
    history: bool = False


class MemorySearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of memory_search."""

    query: Annotated[str, Meta(min_length=1)]
    limit: Annotated[int, Meta(ge=1, le=30)] = DEFAULT_HITS
    kinds: tuple[SearchKind, ...] = ()
    scope: Scope | None = None
    session: str = ""
    since: Annotated[str, Meta(description="Like 2026-11-27.")] = ""
    until: str = ""


class MemoryRead:
    """Reads one block, or all."""

    spec = ToolSpec(
        "memory_read",
        "Read a memory block, or all without label.",
        input_schema(MemoryReadArguments),
    )
    kind = ToolKind.READ
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, MemoryReadArguments)
        title = f"Read memory: {one_line(asked.label)}" if asked.label else "Read memory"
        if not asked.label and (asked.history or asked.version is not None):
            raise ToolInputError("`label` is missing; history and version are those of one block.")
        return PreparedCall(title, (ReadMemory(),), partial(_read_asked, asked, context))


class MemorySearch:
    """Finds what was said or remembered before."""

    spec = ToolSpec(
        "memory_search",
        "Search memory and earlier messages by words and meaning.",
        input_schema(MemorySearchArguments, unlisted=("limit", "session", "scope")),
    )
    kind = ToolKind.SEARCH
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, MemorySearchArguments)
        narrowing = _narrowing(asked)
        title = f"Search memory: {one_line(asked.query)}"
        return PreparedCall(title, (ReadMemory(),), partial(_search, asked, narrowing, context))


def _narrowing(asked: MemorySearchArguments) -> MemoryFilter:
    return MemoryFilter(
        scope=asked.scope or "",
        kinds=tuple(asked.kinds),
        session=asked.session,
        since_ms=_bounds(asked.since, "since")[0] if asked.since else None,
        until_ms=_bounds(asked.until, "until")[1] if asked.until else None,
    )


def _bounds(text: str, name: str) -> tuple[int, int]:
    """The first and the last millisecond of a date of this machine's zone; a time behind the date is left out."""
    try:
        return day_bounds(text[:10])
    except ValueError:
        raise ToolInputError(f"`{name}` is no date", advice="write it like 2026-11-27.") from None


async def _read_asked(asked: MemoryReadArguments, context: ToolContext, progress: Progress) -> ToolOutcome:
    label = asked.label or ""
    if asked.version is not None:
        return await _read_version(label, asked.version, context)
    if asked.history:
        return await _read_log(label, context)
    return await _read(label, context, progress)


async def _read(label: str, context: ToolContext, _progress: Progress) -> ToolOutcome:
    blocks = await context.memory.blocks()
    damaged = context.memory.unreadable()
    if label in damaged:
        raise ToolFailedError(damaged[label], advice="Tell the user; other blocks can be read.")
    chosen = [block for block in blocks if label in {"", block.label}]
    if not chosen:
        known = ", ".join(block.label for block in blocks)
        raise TargetMissingError(f"There is no memory block of this label; the blocks are {known}.")
    if label:
        context.memory.touch(label)
    told = [*map(_block_text, chosen), *(() if label else damaged.values())]
    text = cut_middle("\n\n".join(told), context.result_limit).text
    shown = ", ".join(f"{block.label}: {len(block.text):,} characters" for block in chosen)
    return ToolOutcome(text, content=(TextContent(shown),), origin=Origin.MEMORY)


def _block_text(block: MemoryBlockView) -> str:
    head = f"[{block.label}] {block.description} ({len(block.text):,} of {block.limit:,} characters)"
    about = [] if block.permission == "read_write" else [f"Permission: {block.permission}."]
    if block.shared_from:
        whose = "Shared by those it is attached to." if block.scope == "shared" else f"Shared by {block.shared_from}."
        about.append(whose)
    about += [block.form] if block.form else []
    lines = [head, *([" ".join(about)] if about else []), block.text or "(empty)"]
    return "\n".join((*lines, *(f"[{note}]" for note in block.notes)))


async def _search(
    asked: MemorySearchArguments, narrowing: MemoryFilter, context: ToolContext, _progress: Progress
) -> ToolOutcome:
    looked_at = await context.memory.search(asked.query, MOST_LOOKED_AT, narrowing)
    found = without_repeats(looked_at)
    hits = found[: asked.limit]
    context.memory.recalled([hit.entry for hit in hits])
    text = "\n\n".join(_hit_text(hit) for hit in hits) or "Nothing was found; try other words."
    guessed = any(hit.is_guess for hit in hits)
    text = f"{NO_GOOD_MATCH}\n\n{text}" if guessed else text
    # What is near in meaning alone is always there, however far it is.
    further = 0 if guessed else sum(1 for hit in found[asked.limit :] if hit.words)
    in_all = f"{len(hits) + further}{' or more' if len(looked_at) == MOST_LOOKED_AT else ''}"
    if further:
        text += (
            f"\n\n({len(hits)} of {in_all} that have words of the query; a higher limit or narrower words show others.)"
        )
    count = f"{len(hits)} of {in_all} hits" if further else plural(len(hits), "hit")
    summary = f"{count}{', none of them close' if guessed else ''}."
    return ToolOutcome(
        cut_middle(text, context.result_limit).text, content=(TextContent(summary),), origin=Origin.MEMORY
    )


def _hit_text(hit: MemoryHit) -> str:
    day = day_of(hit.at_ms)
    why = f"; {hit.why}" if hit.why else ""
    return f"[{hit.source}{repeats(hit)}, {day}{why}]\n{hit.text}"


WORDED = frozenset({"append", "replace", "insert_after", "rewrite", "add", "create"})
"""Operations whose text the user may change before they allow it."""

MOST_EDITS = 30
"""Edits of one call; more are a rewrite."""


def _signatures() -> str:
    """Every operation of memory_write with what it needs besides a label; those that need the same stand together."""
    names: dict[str, list[str]] = {}
    for name, rule in EVERY_OPERATION.items():
        names.setdefault(rule.signature, []).append(name)
    return ", ".join(f"{'|'.join(alike)}{signature}" for signature, alike in names.items())


class OneEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """One of several edits; what it leaves out is that of the call."""

    operation: str = ""
    label: str = ""
    text: str = ""
    old_text: str = ""
    field: str = ""
    to: str = ""
    check: str = ""
    template: str = ""
    description: str = ""
    scope: Scope | None = None
    kind: NoteKind | None = None
    paths: tuple[str, ...] = ()
    severity: Severity | None = None
    until: str = ""


class MemoryWriteArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of memory_write."""

    label: Annotated[str, Meta(description="Block, or archive: only searched.")] = ""
    operation: Annotated[str, Meta(description=_signatures())] = ""
    text: str = ""
    old_text: Annotated[str, Meta(description="Exact passage or entry id.")] = ""
    field: Annotated[str, Meta(description="Like facts.name.")] = ""
    to: str = ""
    check: str = ""
    template: Annotated[str, Meta(description="Like decision-record.")] = ""
    description: str = ""
    scope: Scope | None = None
    kind: NoteKind | None = None
    paths: Annotated[tuple[str, ...], Meta(description="Like src/db/**.")] = ()
    severity: Severity | None = None
    until: Annotated[str, Meta(description="Date, 2h, never.")] = ""
    version: Annotated[int, Meta(ge=1)] | None = None
    reason: str = ""
    edits: Annotated[tuple[OneEdit, ...], Meta(description="Several; all or none.")] = ()


_UNLISTED = ("severity", "template", "check", "edits")
"""Arguments that answers and notes name, and edits: several calls do the same."""


class MemoryWrite:
    """Changes memory, for every later session."""

    spec = ToolSpec(
        "memory_write",
        "Remember what later sessions need, not the present task.",
        input_schema(MemoryWriteArguments, unlisted=_UNLISTED),
    )
    kind = ToolKind.EDIT
    changes_things = True

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, MemoryWriteArguments)
        if _word(asked.operation) in REVERTING:
            return await _prepare_undo(asked, call_id, context)
        read = context.read_before()
        edits = tuple(replace(edit, read=read) for edit in _asked_edits(asked))
        proposal = await context.memory.preview_all(edits)
        labels = ", ".join(dict.fromkeys(edit.label for edit in edits))
        # Several edits, and those of fields, have no one text that a user could change.
        wording = Wording(edits[0].text) if len(edits) == 1 and edits[0].operation in WORDED and edits[0].text else None
        return PreparedCall(
            title=f"Write memory: {one_line(labels)}",
            accesses=tuple(dict.fromkeys(proposal.accesses)),
            run=partial(_write, edits, wording, call_id, context, proposal.accesses),
            preview=_diffs(proposal.changes, context),
            wording=wording,
        )


def _asked_edits(asked: MemoryWriteArguments) -> tuple[MemoryEdit, ...]:
    """The edits of a call, in their order.

    Raises:
        ToolInputError: an argument is missing, or there is one that its operation would ignore.
    """
    if len(asked.edits) > MOST_EDITS:
        raise ToolInputError(f"`edits` has {len(asked.edits)} edits; at most {MOST_EDITS} go into one call.")
    if not asked.edits:
        return (_edit(asked, asked, ""),)
    shared = ("label", "operation", "version", "reason", "edits")
    if asked != MemoryWriteArguments(**{name: getattr(asked, name) for name in shared}):
        first = asked.edits[0]
        advice = "with `edits`, give everything but `label`, `operation` and `reason` in each edit."
        right = _right_call(_as_edit(first, asked), _meant_operation(first, asked), "edits[0].")
        raise ToolInputError("There are `edits` and arguments of a single edit", advice=f"{advice} {right}")
    return tuple(_edit(edit, asked, f"edits[{number}].") for number, edit in enumerate(asked.edits))


def _word(operation: str) -> str:
    return operation.strip().lower().replace("-", "_").replace(" ", "_")


def _as_edit(one: OneEdit | MemoryWriteArguments, asked: MemoryWriteArguments) -> MemoryEdit:
    """The edit as it was asked for, not checked; without a label it is the archive's where only that can be meant."""
    operation = _word(one.operation or asked.operation)
    if not operation and one.text:
        operation = "replace" if one.old_text else "append"
    edit = MemoryEdit(
        label=(one.label or asked.label).strip(),
        operation=operation,
        text=one.text,
        old_text=one.old_text,
        reason=asked.reason,
        field=one.field,
        to=one.to,
        check=one.check,
        template=one.template,
        description=one.description,
        scope=one.scope or "",
        kind=one.kind or "",
        paths=one.paths,
        severity=one.severity or "",
        until=one.until,
    )
    is_archives = not edit.label and (edit.has_conditions or edit.operation in STATUS_OPERATIONS)
    return replace(edit, label=ARCHIVE) if is_archives else edit


def _edit(one: OneEdit | MemoryWriteArguments, asked: MemoryWriteArguments, place: str) -> MemoryEdit:
    edit = _as_edit(one, asked)
    operation = edit.operation
    if operation not in EVERY_OPERATION:
        what = f"is {one_line(operation)!r}, which there is not" if operation else "is missing"
        right = _right_call(edit, _meant_operation(one, asked), place, asked.version)
        advice = f"give one of {', '.join(EVERY_OPERATION)}. {right}"
        raise ToolInputError(f"`{place}operation` {what}", advice=advice)
    if operation in REVERTING:
        sentence = f"`{place}operation` is {operation}, which needs a call of its own."
        raise ToolInputError(sentence, advice=_right_call(edit, operation, version=asked.version))
    right = _right_call(edit, operation, place)
    if asked.version is not None:
        raise ToolInputError(f"`version` is only for {', '.join(sorted(REVERTING))}", advice=f"leave it out. {right}")
    if not edit.label:
        raise ToolInputError(f"`{place}label` is missing", advice=f"give the block's label. {right}")
    if edit.label != ARCHIVE and (edit.has_conditions or operation in STATUS_OPERATIONS):
        what = f"`{place}kind`, paths, severity and until are" if edit.has_conditions else f"{operation} is"
        right = _right_call(replace(edit, label=ARCHIVE), _of_archive(edit), place)
        advice = f"leave them out, or give that label. {right}" if edit.has_conditions else right
        raise ToolInputError(f"{what} for the label {ARCHIVE}{'' if edit.has_conditions else '.'}", advice=advice)
    _check_arguments(edit, place)
    return edit


async def _write(
    edits: Sequence[MemoryEdit],
    wording: Wording | None,
    call_id: ToolCallId,
    context: ToolContext,
    accesses: Sequence[WriteMemory],
    _progress: Progress,
) -> ToolOutcome:
    # The call runs only when everything that wants consent got it.
    consented = any(access.standing is WriteVerdict.CONSENT for access in accesses)
    said: list[str] = []
    if wording is not None and wording.changed not in {"", wording.text}:
        reason = f"{edits[0].reason} (in the user's words)".strip()
        edits = (replace(edits[0], text=wording.changed, reason=reason),)
        said = [f"The user changed the text before they allowed it. It is now: {wording.changed}"]
    changes = await context.memory.commit_all(edits, call_id, consented=consented)
    lines = [*map(_done, _joined(changes)), *said]
    return ToolOutcome("\n".join(lines), content=_diffs(changes, context), origin=Origin.MEMORY)


def _done(change: MemoryChange) -> str:
    if change.label == ARCHIVE:
        return " ".join(("The archive is saved.", *change.notes))
    size = f"Memory block {change.label} is saved; it has {plural(len(change.after), 'character')} now."
    return " ".join((size, *change.notes))


def _diffs(changes: Sequence[MemoryChange], context: ToolContext) -> tuple[DiffContent, ...]:
    return tuple(
        DiffContent(memory_path(change.label, context.cwd), change.before, change.after) for change in _joined(changes)
    )


def _joined(changes: Sequence[MemoryChange]) -> tuple[MemoryChange, ...]:
    """One change a block, from before the first edit to after the last; entries of the archive stay apart."""
    joined: dict[tuple[str, int], MemoryChange] = {}
    for number, change in enumerate(changes):
        key = (change.label, number if change.label == ARCHIVE else -1)
        first = joined.get(key)
        before = change.before if first is None else first.before
        joined[key] = MemoryChange(change.label, before, change.after, change.notes)
    return tuple(joined.values())


def memory_path(label: str, cwd: str) -> str:
    """The path under which a block's diff is shown: ACP wants an absolute one, but a block is no file.

    It lies at the root of the drive that `cwd` is on, where nobody keeps files, so that no editor takes it for one.
    """
    pure = PureWindowsPath(cwd) if PureWindowsPath(cwd).drive else PurePosixPath(cwd)
    return str(type(pure)(pure.anchor or "/") / "memory" / f"{label}.md")


LOG_LENGTH = 20
"""Writes that the model is shown."""


async def _prepare_undo(asked: MemoryWriteArguments, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
    operation = _word(asked.operation)
    asked = replace(asked, operation=operation)
    right = _right_call(_as_edit(asked, asked), operation, version=asked.version)
    if not asked.label.strip():
        raise ToolInputError("`label` is missing", advice=f"give the block's label. {right}")
    if asked != MemoryWriteArguments(asked.label, operation, version=asked.version, reason=asked.reason):
        sentence = f"{operation} takes only `label`, `version` and `reason`, one call each."
        raise ToolInputError(sentence, advice=right)
    if operation == "rollback" and asked.version is None:
        sentence = f"`version` is missing; rollback needs {_MEANINGS['version']}."
        raise ToolInputError(sentence, advice=right)
    history = await _history_of(asked.label, context)
    _refuse_without_permission([block for block in await context.memory.blocks() if block.label == asked.label])
    change = await history.reverts.change(asked.label, _plan(asked), asked.reason, store=False)
    access = WriteMemory(
        asked.label,
        standing=WriteVerdict.CONSENT,
        reason=f"It would {_deed(asked, change)}; taking back what was remembered asks each time.",
        only_once=True,
    )
    return PreparedCall(
        title=f"{operation.capitalize()} in memory: {one_line(asked.label)}",
        accesses=(access,),
        run=partial(_undo, asked, change.number - 1, call_id, context),
        preview=(_diff(change, context),),
    )


def _refuse_without_permission(blocks: Sequence[MemoryBlockView]) -> None:
    for block in blocks:
        if block.write_denied:
            raise ToolFailedError(block.write_denied)
        permission = Permission(block.permission)
        if judge(permission, WriteAction.OVERWRITE) is WriteVerdict.DENIED:
            raise PermissionDeniedError(block.label, explain_permission(permission) + ".")


async def _read_log(label: str, context: ToolContext) -> ToolOutcome:
    """The log of a block for the model.

    Raises:
        ToolFailedError: this session has no history.
        BlockError: there is no such block.
    """
    history = await _history_of(label, context)
    writes = await history.reading.log(label, limit=LOG_LENGTH)
    text = cut_middle("\n".join(map(_entry, writes)), context.result_limit).text
    return ToolOutcome(text, content=(TextContent(plural(len(writes), "write")),), origin=Origin.MEMORY)


async def _read_version(label: str, number: int, context: ToolContext) -> ToolOutcome:
    history = await _history_of(label, context)
    version = await history.reading.show(label, number)
    text = cut_middle(f"{_entry(version.write)}\n\n{version.text or '(empty)'}", context.result_limit).text
    return ToolOutcome(text, content=(TextContent(f"Version {number} of {label}"),), origin=Origin.MEMORY)


async def _history_of(label: str, context: ToolContext) -> "AgentHistory":
    if context.history is None:
        raise NotAvailableError("This session keeps no history of memory.")
    seen = [block.label for block in await context.memory.blocks()]
    if label not in seen and label not in context.memory.unreadable():
        raise TargetMissingError(f"There is no memory block of this label; the blocks are {', '.join(seen)}.")
    return context.history()


async def _undo(
    asked: MemoryWriteArguments, head: int, call_id: ToolCallId, context: ToolContext, _progress: Progress
) -> ToolOutcome:
    history = await _history_of(asked.label, context)
    change = await history.reverts.change(asked.label, _plan(asked), asked.reason, call_id=call_id, expected_head=head)
    text = f"Done: {_deed(asked, change)}. Memory block {asked.label} has {plural(len(change.after), 'character')} now."
    return ToolOutcome(text, content=(_diff(change, context),), origin=Origin.MEMORY)


def _plan(asked: MemoryWriteArguments) -> "partial[RevertPlan]":
    # Late, with all of memory's history behind it.
    from pattern_acp.memory.undo import plan_redo, plan_rollback, plan_undo

    if asked.operation == "rollback":
        return partial(plan_rollback, number=asked.version or 0)
    return partial(plan_undo if asked.operation == "undo" else plan_redo, number=asked.version)


def _deed(asked: MemoryWriteArguments, change: "HistoryChange") -> str:
    if asked.operation == "rollback":
        return f"make {asked.label} read as in version {change.target}"
    return f"take back write {change.target} of {asked.label}"


def _diff(change: "HistoryChange", context: ToolContext) -> DiffContent:
    return DiffContent(memory_path(change.label, context.cwd), change.before, change.after)


def _entry(write: "Write") -> str:
    at = local_minute(write.at_ms)
    target = "" if write.target is None else f" of {write.target}"
    size = "" if write.size is None else f", {write.size:,} characters"
    reason = f": {one_line(write.reason)}" if write.reason else ""
    return f"{write.number}. {at} {write.actor} {write.operation}{target}{size}{reason}"


_OPTIONAL = ("text", "old_text", "field", "to", "check", "template", "description", "scope")


def _check_arguments(edit: MemoryEdit, place: str) -> None:
    """Check that an edit has what its operation needs, and nothing that it would ignore.

    Raises:
        ToolInputError: the sentence shows the right call.
    """
    operation, rule = edit.operation, EVERY_OPERATION[edit.operation]
    of_archive = edit.label == ARCHIVE
    if of_archive and operation not in OF_ARCHIVE:
        sentence = f"{operation} is no operation of the archive, which has {', '.join(OF_ARCHIVE)}."
        raise ToolInputError(sentence, advice=_right_call(edit, _of_archive(edit), place))
    right = _right_call(edit, operation, place)
    for name in rule.needs:
        if not getattr(edit, name).strip():
            sentence = f"`{place}{name}` is missing; {operation} needs {_MEANINGS[name]}."
            raise ToolInputError(sentence, advice=right)
    if rule.either and not any(getattr(edit, name).strip() for name in rule.either):
        names = " or ".join(f"`{name}`" for name in rule.either)
        raise ToolInputError(f"`{place}{rule.either[0]}` is missing; {operation} needs {names}.", advice=right)
    if of_archive and edit.has_conditions and not edit.kind and operation in {"append", "add"}:
        sentence = f"`{place}kind` is missing; paths, severity and until are for {', '.join(NoteKind)}."
        raise ToolInputError(sentence, advice=right)
    for name in () if of_archive else _OPTIONAL:
        if getattr(edit, name).strip() and name not in (*rule.needs, *rule.takes):
            users = ", ".join(user for user, other in OPERATIONS.items() if name in (*other.needs, *other.takes))
            raise ToolInputError(f"`{place}{name}` is only for {users}", advice=f"leave it out to {operation}. {right}")


def _meant_operation(one: OneEdit | MemoryWriteArguments, asked: MemoryWriteArguments) -> str:
    """The operation that is likely meant, by its word, else by its arguments. Never one that replaces a whole block."""
    edit = _as_edit(one, asked)
    if edit.operation in EVERY_OPERATION:
        return edit.operation
    alike = [name for name in EVERY_OPERATION if name.startswith(edit.operation) or edit.operation.startswith(name)]
    alike += difflib.get_close_matches(edit.operation, EVERY_OPERATION, n=1, cutoff=0.8)
    safe = [name for name in alike if edit.operation and name != "rewrite"]
    if safe:
        return safe[0]
    if asked.version is not None:
        return "rollback"
    if edit.old_text:
        return "replace" if edit.text else "remove"
    return "create" if edit.description or edit.template else "append"


def _of_archive(edit: MemoryEdit) -> str:
    """The operation of the archive that comes nearest to that of an edit."""
    if edit.operation in OF_ARCHIVE:
        return edit.operation
    return "replace" if edit.old_text else "append"


_SHOWN = 80
"""Characters of the longest argument that a right call repeats; the model has longer ones."""


def _right_call(edit: MemoryEdit, operation: str, place: str = "", version: int | None = None) -> str:
    """The call of this operation with its own arguments, in a sentence; dots stand for what the model fills in."""
    rule = EVERY_OPERATION[operation]
    conditions = ("kind", "paths", "severity", "until") if edit.label == ARCHIVE else ()
    own = {name: _shown(getattr(edit, name, version)) for name in (*rule.needs, *rule.takes, *conditions, "reason")}
    needed = [*rule.needs, *(rule.either[:1] if not any(own[name] for name in rule.either) else ())]
    needed += ["kind"] if conditions and edit.has_conditions and operation in {"append", "add"} else []
    call: dict[str, Json] = {"operation": operation, "label": _shown(edit.label) or "…"}
    call |= {name: own[name] or "…" for name in needed}
    call |= {name: value for name, value in own.items() if value and name not in call}
    if place:
        # The reason is that of all edits.
        whole: dict[str, Json] = {"reason": call.pop("reason")} if "reason" in call else {}
        call = {"edits": [call], **whole}
    return f"Right: {json.dumps(call, ensure_ascii=False)}."


def _shown(value: str | int | tuple[str, ...] | None) -> Json:
    if isinstance(value, str):
        # Half of a text would be stored as if it were all.
        return "…" if len(value) > _SHOWN else value.strip().encode("utf-8", "replace").decode()
    return [*value] if isinstance(value, tuple) else value


_MEANINGS: Mapping[str, str] = {
    "text": "the text to write",
    "old_text": "the exact passage or item that is meant",
    "reason": "why it has ended",
    "version": "the number of the version to go back to",
}
