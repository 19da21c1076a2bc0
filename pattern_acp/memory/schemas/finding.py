"""Finding the item or entry that an edit names.

Owns: how an item is named: by its text, by a part of it that no other has, or by its number. Must not know: what is
done with it.
"""

import re
from collections.abc import Sequence

from pattern_acp.memory.schemas.trees import Place
from pattern_acp.memory.schemas.values import ContentError, clean

_NUMBER = re.compile(r"#?(\d+(?:\.\d+)*)\.?")


def find_item(shown: Sequence[str], wanted: str) -> int:
    """The place of the item that `wanted` names.

    Raises:
        ContentError: none is meant, or more than one.
    """
    return _find(shown, [str(number) for number in range(1, len(shown) + 1)], wanted, "item")


def find_node(places: Sequence[Place], wanted: str) -> Place:
    """The node that `wanted` names; its number is that of an outline, such as 2.1.

    Raises:
        ContentError: none is meant, or more than one.
    """
    numbers: list[str] = []
    trail: list[int] = []
    for place in places:
        trail = [*trail[: place.depth - 1], place.at + 1]
        numbers.append(".".join(map(str, trail)))
    return places[_find([place.node.text for place in places], numbers, wanted, "entry")]


def _find(texts: Sequence[str], numbers: Sequence[str], wanted: str, what: str) -> int:
    cleaned = clean(wanted).removeprefix("- ")
    if not cleaned:
        raise ContentError("", f"say in `old_text` which {what} is meant")
    exact = [at for at, text in enumerate(texts) if text == cleaned]
    found = exact or [at for at, text in enumerate(texts) if cleaned in text]
    if len(found) == 1:
        return found[0]
    number = _NUMBER.fullmatch(cleaned)
    if number is not None and not exact and number[1] in numbers:
        return numbers.index(number[1])
    if not found:
        raise ContentError("", f"it has no {what} that reads like that; read the block and copy the {what}")
    which = ", ".join(f"#{numbers[at]}" for at in found[:10])
    raise ContentError("", f"{len(found)} of its {what}s read like that ({which}); give the number with its `#`")
