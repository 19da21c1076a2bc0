"""The text of shell words: what quotes and escapes stand for, and which characters make a line unreadable.

Owns: pure functions over strings. Must not know: grammar, commands, paths.
"""

import re
import unicodedata

_SIMPLE_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_BRACES = re.compile(r"\{([^{}]*)\}")
_SEQUENCE = re.compile(r"(?:-?\d+\.\.-?\d+|[A-Za-z]\.\.[A-Za-z])(?:\.\.-?\d+)?")
_OPEN, _CLOSE = "\x00", "\x01"  # stand for braces that expand to nothing while the others are expanded
_BRACE_LIMIT = 64
"""Most words one brace expression is expanded to; a line that makes more is not read but asked about."""


def unquote_word(text: str) -> str:
    """What an unquoted word stands for: a backslash keeps the next character, before a line's end it vanishes."""
    return re.sub(r"\\(.)", lambda match: "" if match[1] == "\n" else match[1], text, flags=re.DOTALL)


def unquote_double(text: str) -> str:
    """What the inside of double quotes stands for; expansions stay as they are written."""
    return re.sub(r'\\([$`"\\\n])', lambda match: "" if match[1] == "\n" else match[1], text)


def unquote_ansi(text: str) -> str:
    r"""What the inside of `$'…'` stands for, such as `rm` for `\x72\155`."""
    return _ANSI_ESCAPE.sub(_ansi_character, text)


def _ansi_character(match: re.Match[str]) -> str:
    two, four, eight, octal, control, simple = match.groups()
    if two or four or eight:
        number = int(two or four or eight, 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if octal:
        return chr(int(octal, 8) & 0xFF)
    if control:
        return chr(ord(control) & 0x1F)
    return _SIMPLE_ESCAPES.get(simple, simple)


def has_control_characters(text: str) -> bool:
    """Whether a character other than tab and newline could hide or change what is read."""
    return any(unicodedata.category(char) in {"Cc", "Cs", "Co", "Cn"} and char not in "\t\n" for char in text)


def has_invisible_characters(text: str) -> bool:
    """Whether the line holds format characters (zero width, text direction) or spaces that only look like one."""
    return any(unicodedata.category(char) in {"Cf", "Zl", "Zp"} or (char != " " and _is_space(char)) for char in text)


def _is_space(char: str) -> bool:
    # U+115F, U+1160, U+2800, U+3164 and U+FFA0 are drawn as nothing though they are letters or symbols.
    return unicodedata.category(char) == "Zs" or char in "\u115f\u1160\u2800\u3164\uffa0"


def expand_braces(word: str) -> tuple[str, ...] | None:
    """The words that `word` stands for in a shell with brace expansion, itself included; None when it cannot be told.

    Ranges of numbers or letters hold no path separator, so one stand-in is enough for them.
    """
    pending, done = [word], [word]
    while pending:
        current = pending.pop()
        match = _BRACES.search(current)
        if match is None:
            done.append(current.replace(_OPEN, "{").replace(_CLOSE, "}"))
            continue
        choices = _brace_choices(match[1])
        if choices is None or len(done) + len(pending) + len(choices) > _BRACE_LIMIT:
            return None
        pending += [current[: match.start()] + choice + current[match.end() :] for choice in choices]
    return tuple(dict.fromkeys(done))


def _brace_choices(inside: str) -> list[str] | None:
    if "," in inside:
        return inside.split(",")
    if _SEQUENCE.fullmatch(inside):
        return [re.split(r"\.\.", inside)[0]]
    if ".." in inside:
        return None
    return [f"{_OPEN}{inside}{_CLOSE}"]
