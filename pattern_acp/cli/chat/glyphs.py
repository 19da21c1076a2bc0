"""The signs that stand for states and kinds, in two alphabets, and words in their place.

Owns: the choice of characters; signs are one column wide. Must not know: what is drawn with them.
"""

from collections.abc import Mapping

from msgspec import Struct, field

_KINDS = {
    "read": "→",
    "edit": "✎",
    "delete": "✂",
    "move": "⇄",
    "search": "⌕",
    "execute": "$",
    "think": "∴",
    "fetch": "↓",
    "switch_mode": "⇆",
    "other": "•",
}

_ASCII_KINDS = {
    "read": ">",
    "edit": "~",
    "delete": "x",
    "move": "=",
    "search": "?",
    "execute": "$",
    "think": ":",
    "fetch": "v",
    "switch_mode": "%",
    "other": "*",
}


class Marks(Struct, frozen=True):
    """One alphabet."""

    done: str = "✓"
    failed: str = "✗"
    waiting: str = "○"
    current: str = "▸"
    dot: str = "·"
    dots: str = "…"
    prompt: str = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
    thought: str = "∴"
    question: str = "?"
    bar: str = "│"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    kinds: Mapping[str, str] = field(default_factory=lambda: _KINDS)

    def kind(self, kind: str | None) -> str:
        """The sign of one of ACP's tool kinds."""
        return self.kinds.get(kind or "other", self.kinds["other"])


UNICODE = Marks()

ASCII = Marks(
    done="+",
    failed="x",
    waiting="o",
    current=">",
    dot="-",
    dots="...",
    prompt=">",
    thought=":",
    bar="|",
    spinner="|/-\\",
    kinds=_ASCII_KINDS,
)


WORDS = Marks(
    done="done:",
    failed="failed:",
    waiting="waiting:",
    current="chosen:",
    dot="-",
    dots="...",
    prompt=">",
    thought="thought:",
    question="question:",
    bar="|",
    spinner=" ",
    kinds=dict.fromkeys(_KINDS, "") | {"execute": "command"},
)
"""Words for a screen reader, which reads signs out by their names or not at all; titles say what a call does."""


def marks_for(encoding: str) -> Marks:
    """The alphabet that a stream in `encoding` can write."""
    return UNICODE if encoding.lower().replace("-", "").startswith("utf") else ASCII
