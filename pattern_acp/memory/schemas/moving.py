"""Moving an item of a list, as a block or as a field.

Owns: where an item goes. Must not know: what the items are.
"""

from collections.abc import Sequence

from pattern_acp.memory.schemas.finding import find_item
from pattern_acp.memory.schemas.steps import MoveItem, Step


def move_steps(root: str, shown: Sequence[str], item: str, to: str) -> list[Step]:
    """The step that moves an item behind another one, or to the beginning.

    Raises:
        ContentError: one of them is not there.
    """
    at = find_item(shown, item)
    if not to:
        target = 0
    else:
        behind = find_item(shown, to)
        target = behind if at <= behind else behind + 1
    return [] if target == at else [MoveItem(root, at, target)]
