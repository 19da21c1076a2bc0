"""Cutting and cleaning text for the model and for one-line places.

Owns: how much is left out and how that is said. Must not know: any tool.
"""

import re
import unicodedata

from msgspec import Struct

from pattern_acp.domain.late_pattern import late_pattern

_MARKER_SPACE = 60
"""Characters for the marker that replaces what was cut."""

SHOWN_NAME = 80
"""Most characters of a made-up tool name in titles and sentences."""

_TITLE_LIMIT = 500
"""Characters of a title. Long, since some clients show nothing but the title when they ask (zed#54819)."""

_DIFF_LIMIT = 4_000
"""Characters of a diff that the model reads; it wrote most of what the diff shows."""

DIFFED_LINES = 20_000
"""Lines of both texts together up to which they are compared; the time grows with their square."""

_CONTROL_SIGNS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"} | {0x7F: 0x2421}
"""Unicode has a picture of each."""

_CONTROLS = late_pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_ESCAPES = late_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")


class Cut(Struct, frozen=True):
    """Text that fits, and how many UTF-8 bytes of the original it leaves out."""

    text: str
    bytes_cut: int


def cut_middle(text: str, limit: int) -> Cut:
    """Keep the beginning and the end of `text`, at most `limit` characters with the marker between them.

    The ends matter most: a command names itself first and fails last. Cuts fall on line ends where one is near.
    """
    if len(text) <= limit:
        return Cut(text, 0)
    space = max(limit - _MARKER_SPACE, 0)
    head = _whole_lines_at_start(text[: space - space // 2])
    tail = _whole_lines_at_end(text[len(text) - space // 2 :])
    cut = text[len(head) : len(text) - len(tail)]
    size = len(cut.encode("utf-8", "surrogatepass"))
    marker = f"\n[... {size:,} bytes cut ...]\n"[: max(limit, 0)]
    return Cut(head.removesuffix("\n") + marker + tail, size)


def cut_line(line: str, limit: int) -> str:
    """One line of at most `limit` characters; says how many were left out."""
    if len(line) <= limit:
        return line
    return f"{line[:limit]} [... {len(line) - limit:,} characters cut]"


def one_line(text: str, limit: int = _TITLE_LIMIT) -> str:
    """Text for a title, name or description: one line, invisible and control characters spelled out.

    Every name that reaches a screen goes through here, so that nothing hides in one or steers a terminal. Doing it
    again changes nothing.
    """
    if text.isprintable():
        # Nearly always; a hundred commands and skills are named at the start of a session.
        visible = text.strip()
    else:
        flat = " ↵ ".join(part for part in (line.strip() for line in text.splitlines()) if part)
        visible = with_visible_characters(flat)
    return visible if len(visible) <= limit else visible[: limit - 1] + "…"


def with_visible_characters(text: str) -> str:
    """`text` with its lines, and every other invisible or control character spelled out."""
    # Nearly all text is printable, and looking costs a tenth of going through it.
    if text.isprintable():
        return text
    last = len(text) - 1
    return "".join(
        character
        if character == "\u200d" and 0 < at < last and _is_emoji(text[at - 1]) and _is_emoji(text[at + 1])
        else _visible(character)
        for at, character in enumerate(text)
    )


def plain_output(text: str) -> str:
    """The text as a terminal would show it: no escape sequences, lines that were overwritten in place only once."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def with_visible_controls(text: str) -> str:
    """`text` with a sign instead of each control character but tab and line ends, which no reader shows."""
    # Looking costs a tenth of translating, and nearly no text holds one.
    return text.translate(_CONTROL_SIGNS) if _CONTROLS.search(text) else text


def numbered(lines: list[str], first: int) -> str:
    """Lines with their 1-based numbers, as read_file shows them: number, tab, text."""
    return "\n".join(f"{first + offset}\t{line}" for offset, line in enumerate(lines))


def short_diff(before: str, after: str, limit: int = _DIFF_LIMIT) -> str:
    """A unified diff of two texts, cut in the middle at `limit` characters."""
    import difflib

    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > DIFFED_LINES:
        return "(too long to compare; read the file again)"
    lines = difflib.unified_diff(old, new, "before", "after", n=2, lineterm="")
    return cut_middle("\n".join(lines), limit).text


def plural(count: int, word: str, words: str = "") -> str:
    """The count and the word in the right number."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"


def fenced(text: str, language: str = "") -> str:
    """A Markdown code block whose fence is longer than any in `text`."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _is_emoji(character: str) -> bool:
    return character == "\ufe0f" or unicodedata.category(character) in {"So", "Sk"}


def _visible(character: str) -> str:
    # Bidirectional controls can make a command read as another one (CVE-2021-42574).
    if character not in "\n\t" and unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}:
        return f"\\u{ord(character):04x}"
    return character


def _whole_lines_at_start(text: str) -> str:
    at = text.rfind("\n")
    return text[: at + 1] if at + 1 > len(text) // 2 else text


def _whole_lines_at_end(text: str) -> str:
    at = text.find("\n")
    return text[at + 1 :] if 0 <= at < len(text) // 2 else text
