"""Lists: items in an order.

Owns: how a list reads, its checks and its steps. Must not know: who may change it.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

from pattern_acp.memory.schemas.states import Item, ListState
from pattern_acp.memory.schemas.steps import InsertItem, RemoveItem, SetItem, Step
from pattern_acp.memory.schemas.text_forms import read_items, show_items
from pattern_acp.memory.schemas.types import ListSchema
from pattern_acp.memory.schemas.values import ContentError


def show_list(schema: ListSchema, state: ListState) -> str:
    """One bullet an item."""
    return show_items(state.items, schema.fields)


def read_list(schema: ListSchema, text: str) -> ListState:
    """The list of a text.

    Raises:
        ContentError: see `text_forms.read_items`.
    """
    return ListState(read_items(text, schema.fields))


def check_list(schema: ListSchema, state: ListState) -> None:
    """Refuse more items than the schema allows.

    Raises:
        ContentError: says how many there would be.
    """
    if schema.max_items is not None and len(state.items) > schema.max_items:
        raise ContentError(
            "", f"it may have {schema.max_items} items and would have {len(state.items)}; remove or join some first"
        )


def list_steps(root: str, before: Sequence[Item], after: Sequence[Item]) -> list[Step]:
    """The steps from one order of items to another; items that stay are not touched."""
    steps: list[Step] = []
    matcher = SequenceMatcher(a=before, b=after, autojunk=False)
    # From the end, so that places before stay right.
    for tag, start, end, new_start, new_end in reversed(matcher.get_opcodes()):
        if tag == "equal":
            continue
        shared = min(end - start, new_end - new_start)
        steps += [RemoveItem(root, at) for at in range(end - 1, start + shared - 1, -1)]
        steps += [SetItem(root, start + step, after[new_start + step]) for step in range(shared)]
        steps += [
            InsertItem(root, start + step, after[new_start + step]) for step in range(shared, new_end - new_start)
        ]
    return steps
