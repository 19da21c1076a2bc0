"""Where streamed Markdown may be cut.

Owns: which blocks of an unfinished text are final, so that they can be printed once and scroll away. Must not know:
screens. The rule is CommonMark's: only the last block that is open can still change, and only by whole lines.
"""

import itertools

from rich.markdown import Markdown

TAIL_LINES = 60
"""Lines of an unfinished block that are drawn; no screen shows more, and drawing is paid ten times a second."""


class MarkdownBlocks:
    """Takes a text in pieces and gives its blocks as soon as nothing can change them."""

    def __init__(self) -> None:
        self._pending = ""

    @property
    def pending(self) -> str:
        """The text of the block that is not final."""
        return self._pending

    def feed(self, text: str) -> list[str]:
        """The blocks that `text` made final, with the blank lines behind them."""
        self._pending += text
        if "\n" not in text:
            return []
        cuts = block_starts(self._pending[: self._pending.rfind("\n") + 1])
        blocks = [self._pending[start:end] for start, end in itertools.pairwise(cuts)]
        if blocks:
            self._pending = self._pending[cuts[-1] :]
        return blocks

    def finish(self) -> str:
        """The last block; the text is over."""
        last, self._pending = self._pending, ""
        return last


def block_starts(text: str) -> list[int]:
    """Offsets at which the top-level blocks of `text` begin; the first is 0."""
    offsets = [0, *itertools.accumulate(len(line) + 1 for line in text.split("\n"))]
    starts = [
        offsets[token.map[0]]
        for token in Markdown(text).parsed
        if token.level == 0 and token.map is not None and token.nesting >= 0 and token.map[0] < len(offsets)
    ]
    return [0, *(start for start in starts[1:] if start > 0)]


def visible_tail(block: str, lines: int = TAIL_LINES) -> str:
    """The end of an unfinished block, still inside its fence when it has one."""
    found = block.split("\n")
    if len(found) <= lines:
        return block
    opener = found[0].lstrip()
    fence = [found[0]] if opener.startswith(("```", "~~~")) else []
    return "\n".join([*fence, *found[-lines:]])
