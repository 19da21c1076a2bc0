"""Regular expressions that are compiled when they are first used, and such that are tried only where they can match.

Owns: putting the compiling off, and finding the places. It pays for an expression, or a module's expressions together,
that take more than 0.1 ms to compile; others are compiled at import. `re` tries a pattern that begins with a choice at
every character, which takes 0.1 s a megabyte; a fixed text is found in a hundredth of it.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator
from typing import AnyStr, Generic, cast


class _LatePattern(Generic[AnyStr]):
    """Stands for a compiled expression until one of its methods is asked for."""

    def __init__(self, expression: AnyStr, flags: int) -> None:
        self._expression = expression
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        # Stored in the instance, where the next use finds it without coming here.
        found: object = getattr(re.compile(self._expression, self._flags), name)
        self.__dict__[name] = found
        return found


def late_pattern(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A stand-in for `re.compile`, for a constant of a module: it has the methods and attributes, and no more.

    The functions of `re` do not take it. A mistake in the expression shows at the first use, so each needs a test.
    """
    return cast("re.Pattern[AnyStr]", _LatePattern(expression, flags))


_OTHER_CASES = {"\u017f": "s", "\u212a": "k", "\u0130": "i", "\u0131": "i"}
"""The four characters that are no ASCII letters and equal one where case does not count."""


class AnchoredPattern:
    """An expression that is tried only where `anchors` say that a match can begin."""

    def __init__(
        self, pattern: re.Pattern[str], anchors: Iterable[tuple[str, int]], *, ignore_case: bool = False
    ) -> None:
        """A pattern and where it can match.

        Args:
            pattern: The expression. It must not match an empty text.
            anchors: ASCII texts, and how many characters behind the beginning of each a match may begin: 0 for what a
                match begins with, its length for what is in front of one, less than 0 for what a match continues with.
            ignore_case: Whether the anchors, in lower case here, may be written in any case.
        """
        self._pattern = pattern
        self.anchors = tuple(anchors)
        self._beginnings = tuple(dict.fromkeys(anchor for anchor, _ in self.anchors))
        self._ignore_case = ignore_case

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """The matches, leftmost first and without overlap."""
        return self._matches(text, without_case(text) if self._ignore_case else text)

    def sub(self, replacement: str | Callable[[re.Match[str]], str], text: str) -> str:
        """`text` with `replacement` instead of each match; one that is a text is taken as it is."""
        parts: list[str] = []
        end = 0
        for match in self.finditer(text):
            parts += text[end : match.start()], replacement if isinstance(replacement, str) else replacement(match)
            end = match.end()
        return "".join((*parts, text[end:])) if parts else text

    def is_possible(self, searched: str) -> bool:
        """Tell whether a text, without case where that does not count, has an anchor."""
        # Four times as fast as a loop, over as many as there are.
        return any(map(searched.__contains__, self._beginnings))

    def _matches(self, text: str, searched: str) -> Iterator[re.Match[str]]:
        # Most texts have none, and a merge of nothing for each of a hundred expressions takes longer than the search.
        present = [(anchor, offset) for anchor, offset in self.anchors if anchor in searched]
        end = 0
        for start in heapq.merge(*(_places(searched, anchor, offset) for anchor, offset in present)) if present else ():
            if start >= end and (match := self._pattern.match(text, start)):
                end = match.end()
                yield match


def without_case(text: str) -> str:
    """Return the text with small letters for ASCII letters and their equals, and something instead of all others."""
    if not text.isascii():
        for other, letter in _OTHER_CASES.items():
            text = text.replace(other, letter)
        text = text.encode("ascii", "replace").decode("ascii")
    return text.lower()


def _places(text: str, anchor: str, offset: int) -> Iterator[int]:
    place = text.find(anchor)
    while place >= 0:
        yield place + offset
        place = text.find(anchor, place + 1)
