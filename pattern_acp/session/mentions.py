"""`@path` in what the person wrote.

Owns: what counts as a mention in a text. Must not know: whether such a path exists, files. Pure.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from pattern_acp.domain.late_pattern import late_pattern

MENTIONS = 20
"""Most mentions of one prompt that are looked at; a pasted text may hold thousands of `@`."""

LOOKED_AT = 100_000
"""Characters of a text in which mentions are looked for; what is behind them was pasted."""

_MENTION = late_pattern(
    r"""
    (?<![\w@/.+`\\-])@            # not the middle of an address, a scope such as npm's, or code
    (?: "(?P<quoted>[^"\n]{1,500})" (?P<quoted_lines>(?::\d+(?:-\d+)?)?)
      | (?= (?P<wide> (?: \\[ ] | [^\s"'`<>(){}\[\],;|@] | [,;'] (?=[\w.]) | (?<=/) @ (?=\w)
            | \[ \[? [^\s"'`<>(){}\[\]]{1,100} \]? \]
            | \( [^\s"'`<>(){}\[\]]{1,100} \)
            | \{ [^\s"'`<>(){}\[\]]{1,100} \}
          ){1,500} ) )
        (?P<plain> (?: \\[ ] | [^\s"'`<>(){}\[\],;|@] ){0,500} )
    )
    """,
    re.VERBOSE,
)
_LINES = late_pattern(r"(?P<path>.+?)(?::(?P<first>\d+)(?:-(?P<last>\d+))?|#L(?P<first2>\d+)(?:[-:]L?(?P<last2>\d+))?)")
_ENDING = late_pattern(r"[^/]+\.[A-Za-z][A-Za-z0-9]{0,3}")
_FENCE = late_pattern(r"\s{0,3}(`{3,}|~{3,})")
_CODE = late_pattern(r"`[^`\n]+`")


class Mention(Struct, frozen=True):
    """A path as it was written, and the lines that were asked for as `10-20`; empty for all."""

    path: str
    lines: str = ""


def mentions_in(text: str) -> tuple[tuple[Mention, ...], ...]:
    """What may be mentions, in order and each once: for each the ways to read it, the likeliest first.

    `@src/x.py:3.` may end in a full stop or not, `:3` be a line or part of the name, and brackets belong to the path
    (`@app/[id]/(group)/page.tsx`) or to the sentence: the first way whose path exists is meant. Code is left out,
    since decorators look the same.
    """
    if "@" not in text:
        return ()
    found: dict[tuple[Mention, ...], None] = {}
    for match in _matches(text):
        if match["quoted"]:
            ways = _ways(match["quoted"] + match["quoted_lines"])
        else:
            ways = _unquoted(match["wide"], match["plain"])
        if ways:
            found[ways] = None
        if len(found) == MENTIONS:
            break
    return tuple(found)


def looks_like_path(written: str) -> bool:
    """Whether a mention of nothing that there is was meant as a path: it has folders, or a file's usual ending.

    A name alone may be a person's, and `@scope/name` one of npm's packages; addresses have no `@` in front.
    """
    bare = written.rstrip(".:!?*_")
    folder, _, name = bare.rpartition("/")
    return bool(_ENDING.fullmatch(name)) or folder.count("/") > 0 or bare.startswith(("./", "../", "~/", "/"))


def _matches(text: str) -> Iterator[re.Match[str]]:
    """Line by line, since a pasted log may have megabytes: what is between fences is code."""
    fence = ""
    for line in text[:LOOKED_AT].split("\n"):
        mark = _FENCE.match(line)
        if mark is not None and not fence:
            fence = mark[1]
        elif mark is not None and mark[1].startswith(fence):
            fence = ""
        elif not fence and "@" in line:
            searched = _CODE.sub(" ", line)
            # What is called without a fence around it is a decorator.
            yield from (m for m in _MENTION.finditer(searched) if searched[m.end() : m.end() + 1] != "(" or "/" in m[0])


def _unquoted(wide: str, plain: str) -> tuple[Mention, ...]:
    # Of `@app/[id]/page.tsx`, the folder in front of the bracket is not meant when there is no such file.
    readings = (wide,) if plain in ("", wide) or plain.endswith("/") else (wide, plain)
    written = [one.replace("\\ ", " ") for one in readings]
    return tuple(dict.fromkeys(way for one in written for text in (one, one.rstrip(".:!?*_")) for way in _ways(text)))


def _ways(written: str) -> tuple[Mention, ...]:
    if not written:
        return ()
    match = _LINES.fullmatch(written)
    if match is None:
        return (Mention(written),)
    first = int(match["first"] or match["first2"])
    last = int(match["last"] or match["last2"] or first)
    return (Mention(written), Mention(match["path"], f"{min(first, last)}-{max(first, last)}"))
