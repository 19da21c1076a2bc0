r"""Marks around data in what a model reads, such as `<memory_block ...>`, which the data cannot end.

Owns: the names of our marks, putting one around data, and what becomes of the same names inside. Must not know: what
any of it is for. Pure.

Whatever is inside loses the meaning of a mark by a backslash behind the `<`: `</note>` reads `<\/note>`. A model
reads on what was meant, a text without such names stays as it is to the byte, and it can be taken back: a mark that had
a backslash already gets one more. A model that repeats what it was shown repeats the backslash; `as_stored` knows it.
"""

import re
from collections.abc import Mapping
from itertools import groupby

from pattern_acp.domain.late_pattern import late_pattern

TELLING = (
    "current_state",
    "memory_block",
    "memory_change",
    "memory_repeats",
    "recalled",
    "catch_up",
    "conversation_summary",
    "conversation_gap",
    "attachment",
)
"""Names that hardly anything but our marks has; they mean nothing inside any of them."""

COMMON = ("memory", "about", "note", "context", "changes", "resource", "transcript")
"""Names that files have as well: they mean nothing inside what is memory, and told beside the user's words."""

_OF_FILES = frozenset({"attachment", "changes", "resource", "transcript"})
"""Marks around whole files, whose words stay as they are as far as they can, since the model copies them for edits.
A common name ends nothing there, but for their own."""

_OF_AGENTS = frozenset({"report", "events"})
"""Marks around what other agents say, which mean something only there."""

STATE = "current_state"
"""The mark of what is true now, which wires put behind the newest message, the result of a tool among them."""


_BLANK = r"\\ \t\r\f\v\x1c-\x1f\x85\xa0\u1680\u2000-\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
"""A set of characters: the backslash of marks that mean nothing already, and what shows as white space or not."""


def _forms(*names: str) -> str:
    """An expression for what makes a `<` before it a mark: its end in any spelling, or its beginning up to `>`."""
    name = rf"(?:{'|'.join(names)})(?![\w-])"
    return rf"(?:[{_BLANK}]*+/[{_BLANK}/]*+{name}|\\*+{name}|[{_BLANK}]++{name}[^\n<>]*+>)"


def _pattern(*names: str) -> re.Pattern[str]:
    return late_pattern(rf"<(?={_forms(*names)})", re.IGNORECASE)


_ALL = _pattern(*TELLING, *COMMON)
_WITHIN = {name: _pattern(*TELLING, name) for name in _OF_FILES} | {
    name: _pattern(*TELLING, *COMMON, name) for name in _OF_AGENTS
}
_STATE = _pattern(STATE)
_SHOWN = late_pattern(rf"<\\(?P<mark>{_forms(*TELLING, *COMMON)})", re.IGNORECASE)

_UNQUOTED = {ord("\n"): " ", ord("\r"): " ", ord('"'): "'"}


class Section(str):
    """Text that is framed already, so that a frame around it leaves it as it is.

    Only `framed` and `untrusted_line` make one. What encodes values takes plain text: `str(section)`.
    """

    __slots__ = ()


NOTHING = Section()
"""Stands where there is nothing to tell."""


def untrusted_block(mark: str, /, *content: str, **attributes: str | int) -> Section:
    """`content` between marks of this name, each item on lines of its own; what is no section is data."""
    inside: list[str] = []
    for kind, items in groupby(content, type):
        text = "\n".join(items)
        # Together, so that no two items make a mark of their ends.
        inside.append(text if kind is Section else harmless(text, within=mark))
    return Section("\n".join((_opening(mark, attributes), *inside, f"</{mark}>")))


def untrusted_line(mark: str, data: str, /, **attributes: str | int) -> Section:
    """`data` between marks of this name, on the same line as these."""
    return Section(f"{_opening(mark, attributes)}{harmless(data, within=mark)}</{mark}>")


def harmless(text: str, *, within: str = "") -> str:
    """`text` without a mark of ours that means anything inside the mark `within`."""
    return _WITHIN.get(within, _ALL).sub(r"<\\", text) if "<" in text else text


def harmless_result(text: str) -> str:
    """The result of a tool, which cannot claim to be what is true now; everything else in it stays as it is."""
    return _STATE.sub(r"<\\", text) if "<" in text else text


def as_stored(text: str, stored: str) -> str:
    r"""`text` of a model with the marks that it repeats from what it was shown of `stored` as they are there.

    Only what is there counts: a `<\/note>` of the model's own stays one.
    """

    def restored(found: re.Match[str]) -> str:
        bare = f"<{found['mark']}"
        return bare if bare in stored and found[0] not in stored else found[0]

    return _SHOWN.sub(restored, text) if "<\\" in text else text


def attribute(value: str | int) -> str:
    """A value beside a name in a mark, as it is there: it ends neither its quotes nor the mark."""
    return harmless(value.translate(_UNQUOTED)) if isinstance(value, str) else f"{value}"


def _opening(mark: str, attributes: Mapping[str, str | int]) -> str:
    if not attributes:
        return f"<{mark}>"
    return "".join((f"<{mark}", *(f' {name}="{attribute(value)}"' for name, value in attributes.items()), ">"))
