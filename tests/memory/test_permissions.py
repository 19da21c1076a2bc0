"""The table of permissions (reference: pattern, section 2.4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.access import Actor, WriteVerdict
from pattern_acp.memory.blocks import (
    Permission,
    WriteAction,
    action_named,
    action_of,
    explain_permission,
    judge,
)
from pattern_acp.memory.edits import AddItem, AnyEdit, Append, Operation, RemoveItem, Replace, Rewrite, SetField, Within
from pattern_acp.memory.schemas.types import (
    TEXT,
    BlockSchema,
    CompositeSchema,
    FieldSpec,
    ListSchema,
    LogSchema,
    MapSchema,
    SectionSpec,
    TreeSchema,
)

A, C, D = WriteVerdict.ALLOWED, WriteVerdict.CONSENT, WriteVerdict.DENIED
MAP = MapSchema((FieldSpec("a"),))
COMPOSITE = CompositeSchema((SectionSpec("list", ListSchema()), SectionSpec("map", MAP)))


@pytest.mark.parametrize(
    ("permission", "append", "overwrite", "delete"),
    [
        (Permission.READ_ONLY, D, D, D),
        (Permission.PARTNER, C, C, D),
        (Permission.HUMAN, C, C, D),
        (Permission.APPEND, A, D, D),
        (Permission.READ_WRITE, A, A, D),
        (Permission.ADMIN, A, A, A),
    ],
)
def test_the_agent_may_what_the_table_says(
    permission: Permission, append: WriteVerdict, overwrite: WriteVerdict, delete: WriteVerdict
):
    assert judge(permission, WriteAction.APPEND) is append
    assert judge(permission, WriteAction.OVERWRITE) is overwrite
    assert judge(permission, WriteAction.DELETE) is delete


@pytest.mark.parametrize("actor", [Actor.HUMAN, Actor.SYSTEM, Actor.IMPORT])
@given(permission=st.sampled_from(Permission), action=st.sampled_from(WriteAction))
def test_the_person_and_the_program_may_do_everything(actor: Actor, permission: Permission, action: WriteAction):
    assert judge(permission, action, actor) is WriteVerdict.ALLOWED


def test_the_permissions_have_an_order():
    assert [permission.value for permission in Permission] == [
        "read_only",
        "partner",
        "human",
        "append",
        "read_write",
        "admin",
    ]
    assert sorted(Permission, key=lambda permission: permission.rank) == list(Permission)


@pytest.mark.parametrize(
    ("edit", "schema", "action"),
    [
        (Append("x"), TEXT, WriteAction.APPEND),
        (Append("x"), ListSchema(), WriteAction.APPEND),
        (Append("x"), LogSchema(), WriteAction.APPEND),
        (AddItem("x"), TreeSchema(), WriteAction.APPEND),
        (Append("x"), MAP, WriteAction.OVERWRITE),
        (Within("list", AddItem("x")), COMPOSITE, WriteAction.APPEND),
        (Within("map", AddItem("x")), COMPOSITE, WriteAction.OVERWRITE),
        (Within("map.a", SetField("x")), COMPOSITE, WriteAction.OVERWRITE),
        (Within("none", AddItem("x")), COMPOSITE, WriteAction.OVERWRITE),
        (Replace("a", "b"), TEXT, WriteAction.OVERWRITE),
        (Rewrite("a"), TEXT, WriteAction.OVERWRITE),
        (RemoveItem("a"), ListSchema(), WriteAction.OVERWRITE),
    ],
)
def test_only_what_is_added_at_an_end_is_an_append(edit: AnyEdit, schema: BlockSchema, action: WriteAction):
    assert action_of(edit, schema) is action


def test_operations_of_the_history_change_what_is_there():
    assert action_named(Operation.UNDO) is WriteAction.OVERWRITE
    assert action_named(Operation.DELETE) is WriteAction.DELETE


@pytest.mark.parametrize("permission", Permission)
def test_every_permission_is_explained(permission: Permission):
    assert explain_permission(permission).startswith(f"its permission is {permission}, so ")
