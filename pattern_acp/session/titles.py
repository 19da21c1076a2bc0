"""A title from the first prompt."""

from pattern_acp.domain.messages import ImagePart, Message, ResourcePart

TITLE_LENGTH = 60


def title_of(message: Message) -> str:
    """The first line of the prompt, cut at a word to 60 characters; never empty."""
    for line in message.text.splitlines():
        words = line.strip().lstrip("#>*- ").strip()
        # A paste often begins with the fence of its code.
        if words and not words.startswith("```"):
            return _cut(words)
    for part in message.parts:
        if isinstance(part, ResourcePart) and part.name:
            return _cut(part.name)
        if isinstance(part, ImagePart) and part.name:
            return _cut(part.name)
    return "Untitled"


def _cut(text: str) -> str:
    if len(text) <= TITLE_LENGTH:
        return text
    head = text[: TITLE_LENGTH - 1]
    at_word = head.rsplit(" ", 1)[0]
    return (at_word if len(at_word) > TITLE_LENGTH // 2 else head).rstrip(" ,.;:") + "…"
