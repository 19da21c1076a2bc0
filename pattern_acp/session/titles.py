"""A title from the first prompt."""

from pattern_acp.domain.messages import ImagePart, Message, ResourcePart
from pattern_acp.domain.text_limits import plural

TITLE_LENGTH = 60

PASTE_CHARACTERS = 2_000
"""From here on a text is taken for a paste, of which the title says how much it is."""


def title_of(message: Message) -> str:
    """The first line of the prompt, cut at a word, and of a paste how much follows it.

    At most 60 characters, never empty.
    """
    said = message.words
    lines = said.splitlines()
    for number, line in enumerate(lines, 1):
        words = line.strip().lstrip("#>*- ").strip()
        # A paste often begins with the fence of its code.
        if words and not words.startswith("```"):
            return _with_size(words, said, len(lines) - number)
    for part in message.parts:
        if isinstance(part, ResourcePart) and part.name:
            return _cut(part.name)
        if isinstance(part, ImagePart) and part.name:
            return _cut(part.name)
    return "Untitled"


def _with_size(words: str, text: str, lines_below: int) -> str:
    if len(text) < PASTE_CHARACTERS:
        return _cut(words)
    size = f" (+{plural(lines_below, 'line')})" if lines_below else f" ({len(text):,} characters)"
    return _cut(words, TITLE_LENGTH - len(size)) + size


def _cut(text: str, most: int = TITLE_LENGTH) -> str:
    if len(text) <= most:
        return text
    head = text[: most - 1]
    at_word = head.rsplit(" ", 1)[0]
    return (at_word if len(at_word) > most // 2 else head).rstrip(" ,.;:") + "…"
