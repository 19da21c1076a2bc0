"""Writes to the archive, inside one transaction.

Owns: new entries, corrections, verifications, whether a trap holds, and passages that move there from a block, each
with its event. Must not know: tools, who is asked. An entry is never changed: a correction supersedes it and is linked
to it.
"""

from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, WriteMemory, WriteVerdict
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.globs import compile_glob
from pattern_acp.domain.text_limits import one_line
from pattern_acp.journal.events import EntryArchived, EntryStatusChanged, EntryVerified
from pattern_acp.journal.leases import host_name
from pattern_acp.journal.writer import append
from pattern_acp.memory.archive import (
    OF_MACHINE,
    RUNTIME_MS,
    ArchivalEntry,
    EntryMissingError,
    NewEntry,
    NoteKind,
    NoteRule,
    NoteStatusChange,
    Severity,
    Status,
    bind_entry,
    bound_of,
    end_of_day,
    end_of_span,
    entry_facts,
    find_same,
    insert_entry,
    last_day,
    load_entry,
    set_status,
    verify_entry,
)
from pattern_acp.memory.blocks import Isolation, Scope
from pattern_acp.memory.errors import DuplicateFoundError, PermissionDeniedError, UnusableEditError
from pattern_acp.memory.schemas.planning import find_item
from pattern_acp.memory.schemas.types import ContentError, ListSchema, TextSchema
from pattern_acp.memory.service.access import ARCHIVE, STATUS_OPERATIONS, MemoryChange, MemoryEdit
from pattern_acp.memory.service.scope import WriteContext
from pattern_acp.memory.store import ProposedChange
from pattern_acp.memory.write_validation import Passages, check_repeats


def change_archive(tx: Transaction, edit: MemoryEdit, scope: Scope, writing: WriteContext) -> MemoryChange:
    """Add an entry, supersede one, or note that one is still true.

    Raises:
        BlockError: there is no such entry, memory says the same already, or it is another operation.
    """
    match edit.operation:
        case "append" | "add":
            _refuse_repeat(tx, edit.text, scope, writing)
            entry = _insert(tx, edit, edit.text, scope, writing)
            notes = (f"It is archival entry {entry.id}{_as_what(edit)}.", *_expired_note(tx, entry, writing))
            return MemoryChange(ARCHIVE, "", entry.text, notes)
        case "replace":
            old = _find(tx, edit.old_text, writing)
            text = edit.text or (old.text if edit.has_conditions else "")
            entry = _insert(tx, edit, text, old.scope, writing, supersedes=old)
            note = f"Archival entry {entry.id} supersedes {old.id}, which stays in history."
            return MemoryChange(ARCHIVE, old.text, entry.text, (note, *_expired_note(tx, entry, writing)))
        case "verify":
            old = _find(tx, edit.old_text, writing)
            _verify(tx, old, writing)
            return MemoryChange(ARCHIVE, old.text, old.text, (f"Archival entry {old.id} is marked as still true.",))
        case "resolve" | "reopen":
            old = _find(tx, edit.old_text, writing)
            return MemoryChange(ARCHIVE, old.text, old.text, (_change_status(tx, edit, old, writing),))
        case operation:
            problem = (
                f"{operation} is none of its operations; use append, replace with the entry's id, verify, "
                "resolve or reopen."
            )
            raise UnusableEditError(ARCHIVE, problem)


def scope_of(tx: Transaction, edit: MemoryEdit, writing: WriteContext) -> Scope:
    """The scope that an edit changes: that of the entry which it names, else of the one that it adds."""
    if edit.operation in {"replace", "verify", *STATUS_OPERATIONS}:
        return _find(tx, edit.old_text, writing).scope
    return Scope(edit.scope) if edit.scope in {Scope.PERSONA.value, Scope.PROJECT.value} else Scope.PROJECT


def reviewed(
    tx: Transaction, access: WriteMemory, edit: MemoryEdit, scope: Scope, writing: WriteContext
) -> WriteMemory:
    """The access, with the user's consent required where the agent decides for the project and the user reviews that.

    Raises:
        PermissionDeniedError: consent is needed, and nobody was asked.
    """
    if not writing.rules.reviews_project or writing.writer.actor is not Actor.PERSONA:
        return access
    named = None
    if edit.operation in {"replace", *STATUS_OPERATIONS}:
        # An entry may be named by its text too.
        entry_id = _find(tx, edit.old_text, writing).id
        named = bound_of(tx, [entry_id]).get(entry_id)
    if named is not None:
        scope = named.entry.scope
    kind = edit.kind or (named.terms.kind if named else "")
    if not kind or edit.operation == "verify" or scope is not Scope.PROJECT:
        return access
    if not (writing.consented or writing.is_trial):
        problem = f"a {kind} of the project waits for the user, and nobody was asked; call again to have it asked."
        raise PermissionDeniedError(ARCHIVE, problem)
    if edit.operation in STATUS_OPERATIONS and named is not None:
        what = f"It says that the project's {kind} “{one_line(named.entry.text)}” is over: {one_line(edit.reason)}"
        what = what if edit.operation == "resolve" else f"It opens the project's {kind} “{one_line(named.entry.text)}”."
    else:
        why = f" Why: {one_line(edit.reason)}" if edit.reason else ""
        text = edit.text or ("" if named is None else named.entry.text)
        what = f"It keeps this as a {kind} of the project{_given(edit)}: “{one_line(text)}”.{why}"
    reason = f"{access.reason} {what}".strip()
    return replace(access, standing=WriteVerdict.CONSENT, reason=reason, only_once=True)


def keep_passage(tx: Transaction, edit: MemoryEdit, change: ProposedChange, writing: WriteContext) -> str:
    """Put the passage that `change` takes out of a block into the archive, and say under which id.

    Raises:
        BlockError: the passage cannot be stored.
    """
    key = change.block.key
    scope = Scope.PROJECT if key.scope is Scope.PROJECT else Scope.PERSONA
    entry = _insert(tx, edit, _passage(change, edit.old_text), scope, writing)
    return f"The passage is archival entry {entry.id} now."


def _passage(change: ProposedChange, named: str) -> str:
    block = change.block
    if isinstance(block.schema, TextSchema):
        return named
    before, after = block.text.split("\n"), set(change.text.split("\n"))
    gone = "\n".join(line for line in before if line not in after)
    if isinstance(block.schema, ListSchema) and not block.schema.fields:
        items = [line.removeprefix("- ") for line in before if line.startswith("- ")]
        try:
            return gone.removeprefix("- ") or items[find_item(items, named)]
        except ContentError:
            return gone
    return gone or named


def _insert(
    tx: Transaction,
    edit: MemoryEdit,
    text: str,
    scope: Scope,
    writing: WriteContext,
    *,
    supersedes: ArchivalEntry | None = None,
) -> ArchivalEntry:
    owner = writing.owner.owner_of(scope) if supersedes is None else supersedes.owner
    older = None if supersedes is None else bound_of(tx, [supersedes.id]).get(supersedes.id)
    terms = terms_of(edit, None if older is None else older.terms, now_ms=writing.at_ms)
    new = NewEntry(
        id=writing.ids.new("entry"),
        scope=scope,
        owner=owner,
        text=text,
        actor=writing.writer.actor,
        origin=writing.writer.origin,
        reason=edit.reason,
        supersedes="" if supersedes is None else supersedes.id,
        verified_ms=writing.at_ms if edit.check else None,
        check_command=edit.check,
    )
    return store_entry(tx, new, terms, writing, at_ms=writing.at_ms)


def store_entry(
    tx: Transaction, new: NewEntry, terms: NoteRule | None, writing: WriteContext, *, at_ms: int
) -> ArchivalEntry:
    """Append the event of a new entry, and store the entry; `terms` are those of a trap, constraint or decision."""
    event = EntryArchived(
        entry_id=new.id,
        scope=new.scope.value,
        owner=new.owner,
        text_hash=sha256_hex(new.text.encode("utf-8", "surrogatepass")),
        reason=new.reason,
        supersedes=new.supersedes,
        turn_id=writing.turn_id,
        call_id=writing.call_id,
        kind="" if terms is None else terms.kind.value,
        paths=() if terms is None else terms.paths,
        severity="" if terms is None else terms.severity.value,
        until_ms=None if terms is None else terms.until_ms,
        facts_hash=entry_facts(new.text, new.check_command),
        host="" if terms is None else terms.host,
    )
    appended = append(tx, writing.owner.session_id, event, actor=new.actor, origin=new.origin, at_ms=at_ms)
    entry = insert_entry(tx, new, at_ms=at_ms, seq=appended.seq)
    if terms is not None:
        bind_entry(tx, entry, terms, seq=appended.seq)
    return entry


def _given(edit: MemoryEdit) -> str:
    """Return the arguments besides the text, which a diff does not show."""
    severity = f", {edit.severity} severity" if edit.severity else ""
    until = f", until {one_line(edit.until, 40)}" if edit.until else ""
    until = ", without a last day" if _is_never(edit.until) else until
    return (f" for {one_line(', '.join(edit.paths))}" if edit.paths else "") + severity + until


def _as_what(edit: MemoryEdit) -> str:
    if not edit.has_conditions:
        return ""
    return f", a {edit.kind}" + (f" for {', '.join(edit.paths)}" if edit.paths else "")


def _expired_note(tx: Transaction, entry: ArchivalEntry, writing: WriteContext) -> tuple[str, ...]:
    bound = bound_of(tx, [entry.id]).get(entry.id)
    until_ms = None if bound is None else bound.terms.until_ms
    if until_ms is None or until_ms > writing.at_ms:
        return ()
    return (f"It has expired already, after {last_day(until_ms)}, so nobody reads it.",)


def _change_status(tx: Transaction, edit: MemoryEdit, entry: ArchivalEntry, writing: WriteContext) -> str:
    status = Status.RESOLVED if edit.operation == "resolve" else Status.ACTIVE
    if status is Status.RESOLVED and not edit.reason.strip():
        raise UnusableEditError(ARCHIVE, "`reason` is missing; say why it has ended.")
    writer = writing.writer
    event = EntryStatusChanged(
        entry.id, entry.scope.value, entry.owner, status.value, edit.reason, writing.turn_id, writing.call_id
    )
    stream = writing.owner.session_id
    appended = append(tx, stream, event, actor=writer.actor, origin=writer.origin, at_ms=writing.at_ms)
    change = NoteStatusChange(writer.actor, writing.at_ms, edit.reason)
    bound = set_status(tx, entry.id, status, change, seq=appended.seq)
    return f"The {bound.terms.kind} {entry.id} is {status} now; it stays in the archive."


def _verify(tx: Transaction, entry: ArchivalEntry, writing: WriteContext) -> None:
    writer = writing.writer
    event = EntryVerified(entry.id, entry.scope.value, entry.owner, writing.turn_id, writing.call_id)
    stream = writing.owner.session_id
    appended = append(tx, stream, event, actor=writer.actor, origin=writer.origin, at_ms=writing.at_ms)
    verify_entry(tx, entry.id, verified_ms=writing.at_ms, seq=appended.seq)


def _refuse_repeat(tx: Transaction, text: str, scope: Scope, writing: WriteContext) -> None:
    owners = tuple(owner for known, owner in writing.owner.sources if known is scope)
    for owner in owners:
        same = find_same(tx, scope, owner, text)
        if same is not None:
            raise DuplicateFoundError(ARCHIVE, f"the archival entry {same.id}", same.text[:200])
    check_repeats(tx, ARCHIVE, text, Passages((), owners))


def _find(tx: Transaction, named: str, writing: WriteContext) -> ArchivalEntry:
    """The entry of an id, or with exactly this text; of the project and, where it is not isolated, of the persona."""
    wanted = named.strip()
    owners = writing.owner.owners[1:] if writing.rules.isolation is not Isolation.NONE else writing.owner.owners
    try:
        entry = load_entry(tx, wanted)
        if (entry.scope, entry.owner) in owners:
            return entry
        if (entry.scope, entry.owner) in writing.owner.sources:
            problem = (
                f"the entry {entry.id} is of the memory that this one was forked from, which stays as it is until "
                "this one is merged; keep a new entry that says what is right."
            )
            raise UnusableEditError(ARCHIVE, problem)
    except EntryMissingError:
        pass
    for scope, owner in owners:
        same = find_same(tx, scope, owner, wanted)
        if same is not None:
            return same
    raise EntryMissingError(wanted[:80])


NEVER = "never"
"""Takes the last day away that a corrected entry has."""


def terms_of(edit: MemoryEdit, old: NoteRule | None = None, *, now_ms: int = 0) -> NoteRule | None:
    """The terms of a new entry, which corrects one of the terms `old`; None for a plain fact.

    Raises:
        UnusableEditError: the kind is missing, a pattern cannot be used, or the day is none.
    """
    if not edit.kind and old is None:
        if edit.has_conditions:
            problem = f"`kind` is missing; paths, severity and until are for {', '.join(NoteKind)}."
            raise UnusableEditError(ARCHIVE, problem)
        return None
    kind = NoteKind(edit.kind) if edit.kind else (old.kind if old is not None else NoteKind.TRAP)
    severity = old.severity if old is not None else Severity.MEDIUM
    until_ms = _until(edit.until, now_ms) if edit.until else (old.until_ms if old is not None else None)
    if kind is NoteKind.RUNTIME and until_ms is None:
        until_ms = now_ms + RUNTIME_MS
    return NoteRule(
        kind,
        _usable(edit.paths) or (old.paths if old is not None else ()),
        Severity(edit.severity) if edit.severity else severity,
        until_ms,
        host_name() if kind in OF_MACHINE else "",
    )


def _usable(paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        try:
            compile_glob(path, "/")
        except WorkspaceError as error:
            raise UnusableEditError(ARCHIVE, f"the pattern {path!r} cannot be used. {error.sentence}") from error
        reason = _meaningless(path.strip().removeprefix("!"))
        if reason:
            raise UnusableEditError(ARCHIVE, f"the pattern {path!r} cannot be used. {reason}")
    stripped = tuple(dict.fromkeys(path.strip() for path in paths))
    if stripped and all(path.startswith("!") for path in stripped):
        raise UnusableEditError(
            ARCHIVE, f"{', '.join(stripped)} only take files out; give a pattern before that has them."
        )
    return stripped


def _meaningless(pattern: str) -> str:
    """Why no file of the project is ever meant, in a sentence; empty where one may be."""
    parts = pattern.replace("\\", "/").split("/")
    if parts[0] == "~" or ".." in parts:
        return "Patterns are relative to the project and mean nothing outside of it."
    return "For all files of the project, give '**'." if pattern == "." else ""


def _is_never(until: str) -> bool:
    """Tell whether the argument means that there is no last day."""
    return until.strip().lower() == NEVER


def _until(text: str, now_ms: int) -> int | None:
    if _is_never(text):
        return None
    span_ms = end_of_span(text, now_ms)
    if span_ms is not None:
        return span_ms
    try:
        return end_of_day(text)
    except ValueError:
        raise UnusableEditError(
            ARCHIVE, f"`until` is no day: {text[:40]!r}; write it like 2026-12-31, or 2h, or {NEVER}."
        ) from None
