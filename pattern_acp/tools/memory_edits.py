"""Operations of memory_write as edits of a block.

Owns: which operations there are, what each needs, and what it means. Must not know: how an edit is stored.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from pattern_acp.memory.edits import Append, Replace, Rewrite
from pattern_acp.memory.errors import UnusableEditError
from pattern_acp.memory.freshness import marked
from pattern_acp.memory.schemas.edits import (
    AddItem,
    AnyEdit,
    ContentEdit,
    InsertAfter,
    MoveItem,
    RemoveItem,
    RewriteFrom,
    SetField,
    Verify,
    Within,
)
from pattern_acp.tools.base import MemoryEdit, ToolInputError

ARCHIVE = "archive"
"""The label that stands for the archive."""

REVERTING = frozenset({"undo", "redo", "rollback"})
"""Operations of memory_write that take back what was written (`tools/memory_takeback.py`)."""

STATUS_OPERATIONS = frozenset({"resolve", "reopen"})
"""Operations that say whether an archival entry holds."""

ADDING = frozenset({"append", "add", "insert_after", "create"})
"""Operations whose text is new beside what is there, so that repeats are looked for."""


class OperationRule(Struct, frozen=True):
    """What an operation needs, and which further arguments it takes, besides `label` and `reason`."""

    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()


OPERATIONS: Mapping[str, OperationRule] = {
    "append": OperationRule(("text",), ("field", "check")),
    "replace": OperationRule(("old_text",), ("text", "field", "check")),
    "insert_after": OperationRule(("old_text", "text"), ("field", "check")),
    "rewrite": OperationRule((), ("text", "field")),
    "set": OperationRule((), ("text", "field")),
    "add": OperationRule(("text",), ("field", "to", "check")),
    "move": OperationRule(("old_text",), ("to", "field")),
    "remove": OperationRule(("old_text",), ("field",)),
    "create": OperationRule((), ("text", "template", "description", "scope")),
    "archive": OperationRule(("old_text",), ("check",)),
    "verify": OperationRule(("old_text",), ("check", "field")),
}
"""Every operation of blocks, in the order that the model reads them."""

_OPTIONAL = ("text", "old_text", "field", "to", "check", "template", "description", "scope")


def check_arguments(edit: MemoryEdit, place: str = "") -> None:
    """Refuse an edit that lacks what its operation needs, or has what it would ignore.

    Raises:
        ToolInputError: names the argument, with `place` in front of it.
    """
    rule = OPERATIONS.get(edit.operation)
    if rule is None:
        return
    for name in rule.needs:
        if not _given(edit, name):
            raise ToolInputError(f"`{place}{name}` is missing; {edit.operation} needs {_meaning(name)}.")
    for name in _OPTIONAL:
        if _given(edit, name) and name not in (*rule.needs, *rule.takes):
            users = ", ".join(
                operation for operation, other in OPERATIONS.items() if name in (*other.needs, *other.takes)
            )
            raise ToolInputError(f"`{place}{name}` is only for {users}; leave it out to {edit.operation}.")


def as_block_edit(edit: MemoryEdit, *, now_ms: int) -> AnyEdit:
    """The edit that is asked for, as memory knows it; `create` and `archive` are none of a block's content.

    Raises:
        UnusableEditError: there is no such operation.
    """
    make = _EDITS.get(edit.operation)
    if make is None:
        problem = f"there is no operation {edit.operation!r}; use {', '.join(OPERATIONS)}."
        raise UnusableEditError(edit.label, problem)
    text = marked(edit.text, edit.check, now_ms=now_ms) if edit.check and edit.text else edit.text
    made = make(edit, text, now_ms)
    return Within(edit.field, made) if edit.field else made


def _rewrite(edit: MemoryEdit, text: str, _now_ms: int) -> ContentEdit:
    return Rewrite(text) if edit.base is None else RewriteFrom(text, edit.base)


_EDITS: Mapping[str, Callable[[MemoryEdit, str, int], ContentEdit]] = {
    "append": lambda _edit, text, _now: Append(text),
    "replace": lambda edit, text, _now: Replace(edit.old_text, text),
    "insert_after": lambda edit, text, _now: InsertAfter(edit.old_text, text),
    "rewrite": _rewrite,
    "set": lambda _edit, text, _now: SetField(text),
    "add": lambda edit, text, _now: AddItem(text, edit.to),
    "move": lambda edit, _text, _now: MoveItem(edit.old_text, edit.to),
    "remove": lambda edit, _text, _now: RemoveItem(edit.old_text),
    "verify": lambda edit, _text, now: Verify(edit.old_text, edit.check, now),
}


def _given(edit: MemoryEdit, name: str) -> bool:
    values = {
        "text": edit.text,
        "old_text": edit.old_text,
        "field": edit.field,
        "to": edit.to,
        "check": edit.check,
        "template": edit.template,
        "description": edit.description,
        "scope": edit.scope,
    }
    return bool(values[name].strip())


def _meaning(name: str) -> str:
    return "the exact passage or item that is meant" if name == "old_text" else "the text to write"
