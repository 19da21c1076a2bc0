"""Who may do what with a block.

Owns: the table of permissions, and isolation of a project from the persona. Must not know: SQL, how a user is asked.

The table is that of pattern (reference: pattern, section 2.4). It binds the agent. The user owns the memory, so they
may always write, and so may the program; both still keep to the schema and the limit.
"""

from enum import StrEnum

from pattern_acp.domain.access import Actor, WriteVerdict
from pattern_acp.memory.edits import AddItem, AnyEdit, Append, Operation, Within
from pattern_acp.memory.schemas.types import BlockSchema, CompositeSchema, ListSchema, LogSchema, TextSchema, TreeSchema


class Permission(StrEnum):
    """Rights of the agent over a block, from the least to the most."""

    READ_ONLY = "read_only"
    PARTNER = "partner"
    """Every write needs the consent of the user that the agent works with."""
    HUMAN = "human"
    """Every write needs the consent of a user."""
    APPEND = "append"
    READ_WRITE = "read_write"
    ADMIN = "admin"
    """Deleting too."""

    @property
    def rank(self) -> int:
        """0 for the least."""
        return tuple(Permission).index(self)


class WriteAction(StrEnum):
    """Effect of a write on the present content."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    DELETE = "delete"


class Isolation(StrEnum):
    """Separation of a project from the persona's memory, from the least to the most."""

    NONE = "none"
    """Both are read and written."""
    CORE_ONLY = "core-only"
    """The persona's core blocks are read; nothing of the persona is written."""
    FULL = "full"
    """No memory of the persona is read or written."""


_ASKING = frozenset({Permission.PARTNER, Permission.HUMAN})

_MAY = {
    Permission.READ_ONLY: "nobody but the user writes it",
    Permission.PARTNER: "every write needs the consent of the user",
    Permission.HUMAN: "every write needs the consent of a user",
    Permission.APPEND: "text can only be added at its end",
    Permission.READ_WRITE: "it can be written, but not deleted",
    Permission.ADMIN: "everything is allowed",
}


def judge(permission: Permission, action: WriteAction, actor: Actor = Actor.PERSONA) -> WriteVerdict:
    """True when `actor` may do `action` with a block of this permission."""
    if actor in {Actor.HUMAN, Actor.SYSTEM, Actor.IMPORT}:
        return WriteVerdict.ALLOWED
    if action is WriteAction.DELETE:
        return WriteVerdict.ALLOWED if permission is Permission.ADMIN else WriteVerdict.DENIED
    if permission in _ASKING:
        return WriteVerdict.CONSENT
    needed = Permission.APPEND if action is WriteAction.APPEND else Permission.READ_WRITE
    return WriteVerdict.ALLOWED if permission.rank >= needed.rank else WriteVerdict.DENIED


def explain_permission(permission: Permission) -> str:
    """Meaning of a permission, as the end of a sentence."""
    return f"its permission is {permission}, so {_MAY[permission]}"


def isolation_sentence(isolation: Isolation) -> str:
    """Meaning of isolation, for the user, from whom it hides nothing; "" where there is no isolation."""
    kept = {
        Isolation.NONE: "",
        Isolation.CORE_ONLY: "the agent reads the persona's core blocks here and nothing else of it, and writes none",
        Isolation.FULL: "the agent neither reads nor writes memory of the persona here",
    }[isolation]
    if not kept:
        return ""
    return f"This project is isolated (memory.isolation is {isolation}): {kept}. You see all of it."


def action_of(edit: AnyEdit, schema: BlockSchema) -> WriteAction:
    """The action of an edit. Only what is added at the end of a text, list, log or outline counts as an append."""
    if isinstance(edit, Within):
        if not isinstance(schema, CompositeSchema) or "." in edit.place:
            return WriteAction.OVERWRITE
        inner = next((part.schema for part in schema.sections if part.name == edit.place), None)
        return WriteAction.OVERWRITE if inner is None else action_of(edit.edit, inner)
    adds = isinstance(edit, Append | AddItem)
    takes_more = isinstance(schema, TextSchema | ListSchema | LogSchema | TreeSchema)
    return WriteAction.APPEND if adds and takes_more else WriteAction.OVERWRITE


def action_named(operation: Operation) -> WriteAction:
    """Action of an operation of the history: undo, redo and rollback change what is there."""
    return WriteAction.DELETE if operation is Operation.DELETE else WriteAction.OVERWRITE
