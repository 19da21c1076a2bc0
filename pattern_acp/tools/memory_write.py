"""The tool memory_write.

Owns: how the model changes memory, and what the person sees of it. Must not know: how blocks are stored or merged. All
edits of one call are one transaction.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from pattern_acp.domain.access import WriteMemory, WriteVerdict
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.tool_calls import DiffContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    MemoryChange,
    MemoryEdit,
    PreparedCall,
    Progress,
    ToolContext,
    ToolInputError,
    ToolOutcome,
)
from pattern_acp.tools.memory_edits import ARCHIVE, REVERTING, STATUS_OPERATIONS, check_arguments
from pattern_acp.tools.memory_paths import memory_path
from pattern_acp.tools.schema import input_schema, parse_arguments

if TYPE_CHECKING:
    from pattern_acp.tools.memory_takeback import Takeback
    from pattern_acp.tools.memory_terms import GivenTerms

MOST_EDITS = 30
"""Edits of one call; more are a rewrite."""


class MemoryOperation(StrEnum):
    """How memory_write changes a block."""

    APPEND = "append"
    REPLACE = "replace"
    INSERT_AFTER = "insert_after"
    REWRITE = "rewrite"
    SET = "set"
    ADD = "add"
    MOVE = "move"
    REMOVE = "remove"
    CREATE = "create"
    ARCHIVE = "archive"
    VERIFY = "verify"
    RESOLVE = "resolve"
    REOPEN = "reopen"
    UNDO = "undo"
    REDO = "redo"
    ROLLBACK = "rollback"


class MemoryScope(StrEnum):
    """Where a new block belongs."""

    PERSONA = "persona"
    PROJECT = "project"
    SHARED = "shared"


class EntryKind(StrEnum):
    """What an archival entry is beside a fact."""

    TRAP = "trap"
    CONSTRAINT = "constraint"
    DECISION = "decision"


class EntrySeverity(StrEnum):
    """How bad it is to overlook an entry."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class OneEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """One of several edits; what it leaves out is that of the call."""

    operation: MemoryOperation | None = None
    label: str = ""
    text: str = ""
    old_text: str = ""
    field: str = ""
    to: str = ""
    check: str = ""
    template: str = ""
    description: str = ""
    scope: MemoryScope | None = None
    kind: EntryKind | None = None
    paths: tuple[str, ...] = ()
    severity: EntrySeverity | None = None
    until: str = ""


class MemoryWriteArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of memory_write."""

    label: Annotated[str, Meta(description="Block, or archive for facts that only search should find.")] = ""
    operation: MemoryOperation | None = None
    text: str = ""
    old_text: Annotated[str, Meta(description="Exact passage or item that is meant, or id of an archival entry.")] = ""
    field: Annotated[str, Meta(description="Section or field, like facts.name.")] = ""
    to: Annotated[str, Meta(description="Item to put it behind, or entry to put it below.")] = ""
    check: Annotated[str, Meta(description="Command that tells whether a fact still holds.")] = ""
    template: Annotated[str, Meta(description="For create, like decision-record.")] = ""
    description: Annotated[str, Meta(description="For create: what belongs there.")] = ""
    scope: MemoryScope | None = None
    kind: EntryKind | None = None
    paths: Annotated[tuple[str, ...], Meta(description="Files like src/db/**: told before they are edited.")] = ()
    severity: EntrySeverity | None = None
    until: Annotated[str, Meta(description="Last day of a kind, or never.")] = ""
    version: Annotated[int, Meta(ge=1, description="Write to undo, or version for rollback.")] | None = None
    reason: str = ""
    edits: Annotated[
        tuple[OneEdit, ...], Meta(description="Several edits with these arguments each; all are done or none.")
    ] = ()


class MemoryWrite:
    """Changes memory, for every later session."""

    spec = ToolSpec(
        "memory_write",
        "Remember for later sessions. add, move, remove: items of lists, trees; set: fields; verify: still true; "
        "archive: move there; resolve: over; undo, rollback ask.",
        input_schema(MemoryWriteArguments, plain=("edits",)),
    )
    kind = ToolKind.EDIT
    changes_things = True

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, MemoryWriteArguments)
        if asked.operation in REVERTING:
            from pattern_acp.tools.memory_takeback import prepare_takeback

            return await prepare_takeback(asked_takeback(asked), call_id, context)
        edits = asked_edits(asked)
        proposal = await context.memory.preview_all(edits)
        labels = ", ".join(dict.fromkeys(edit.label for edit in edits))
        return PreparedCall(
            title=f"Write memory: {one_line(labels)}",
            accesses=distinct(proposal.accesses),
            run=partial(_write, edits, call_id, context, proposal.accesses),
            preview=_diffs(proposal.changes, context),
        )


def asked_edits(asked: MemoryWriteArguments) -> tuple[MemoryEdit, ...]:
    """The edits of a call, in their order.

    Raises:
        ToolInputError: an argument is missing, or one is given that its operation would ignore.
    """
    if len(asked.edits) > MOST_EDITS:
        raise ToolInputError(f"`edits` has {len(asked.edits)} edits; at most {MOST_EDITS} go into one call.")
    own = OneEdit(
        asked.operation,
        asked.label,
        asked.text,
        asked.old_text,
        asked.field,
        asked.to,
        asked.check,
        asked.template,
        asked.description,
        asked.scope,
        asked.kind,
        asked.paths,
        asked.severity,
        asked.until,
    )
    if not asked.edits:
        return (_edit(own, asked, ""),)
    stray = own != OneEdit(asked.operation, asked.label)
    if stray:
        raise ToolInputError("With `edits`, give everything but `label`, `operation` and `reason` in each edit.")
    return tuple(_edit(edit, asked, f"edits[{number}].") for number, edit in enumerate(asked.edits))


def asked_takeback(asked: MemoryWriteArguments) -> "Takeback":
    """What a call asks to be taken back.

    Raises:
        ToolInputError: the block is missing, or an argument is given that would be ignored.
    """
    operation = str(asked.operation)
    if not asked.label.strip():
        raise ToolInputError("`label` is missing; give the block's label.")
    if asked != MemoryWriteArguments(asked.label, asked.operation, version=asked.version, reason=asked.reason):
        raise ToolInputError(f"{operation} takes only `label`, `version` and `reason`, one call each.")
    from pattern_acp.tools.memory_takeback import Takeback

    return Takeback(asked.label, operation, asked.version, asked.reason)


def distinct(accesses: Sequence[WriteMemory]) -> tuple[WriteMemory, ...]:
    """Each access once, in order."""
    return tuple(dict.fromkeys(accesses))


def _edit(one: OneEdit, asked: MemoryWriteArguments, place: str) -> MemoryEdit:
    operation = one.operation or asked.operation
    terms = _terms(one)
    label = one.label or asked.label or (ARCHIVE if terms is not None or operation in STATUS_OPERATIONS else "")
    if operation is None:
        words = ", ".join(MemoryOperation)
        raise ToolInputError(f"`{place}operation` is missing; give one of {words}.")
    if operation in REVERTING:
        raise ToolInputError(f"`{place}operation` is {operation}, which needs a call of its own.")
    if asked.version is not None:
        raise ToolInputError(f"`version` is only for {', '.join(sorted(REVERTING))}; leave it out.")
    if not label.strip():
        raise ToolInputError(f"`{place}label` is missing; give the block's label.")
    if terms is not None and label != ARCHIVE:
        raise ToolInputError(f"`{place}kind`, paths, severity and until are for the label {ARCHIVE}; leave them out.")
    edit = MemoryEdit(
        label,
        operation.value,
        one.text,
        one.old_text,
        asked.reason,
        field=one.field,
        to=one.to,
        check=one.check,
        template=one.template,
        description=one.description,
        scope="" if one.scope is None else one.scope.value,
        terms=terms,
    )
    if label != ARCHIVE:
        check_arguments(edit, place)
    return edit


def _terms(one: OneEdit) -> "GivenTerms | None":
    if (one.kind, one.paths, one.severity, one.until) == (None, (), None, ""):
        return None
    from pattern_acp.tools.memory_terms import GivenTerms

    return GivenTerms(one.kind or "", one.paths, one.severity or "", one.until)


async def _write(
    edits: Sequence[MemoryEdit],
    call_id: ToolCallId,
    context: ToolContext,
    accesses: Sequence[WriteMemory],
    _progress: Progress,
) -> ToolOutcome:
    # The call runs only when everything that wants consent got it.
    consented = any(access.standing is WriteVerdict.CONSENT for access in accesses)
    changes = await context.memory.commit_all(edits, call_id, consented=consented)
    lines = [_done(change) for change in _joined(changes)]
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
