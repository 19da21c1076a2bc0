"""Links to places in files, as a terminal shows them.

Owns: leaving out of a link what its text says already. Must not know: who wrote the link.

Terminals open `path:line` by themselves, and the Markdown parser takes no link to a file, which would then stand there
in its source form. A link whose text says something else than where it leads is left as it is: nothing is hidden.
"""

import re
from urllib.parse import unquote

_LINK = re.compile(r"\[((?:[^\]\\\n]|\\.)+)\]\(file://(/[^)\s#]*)(?:#L(\d+))?\)")
_ESCAPE = re.compile(r"\\(.)")


def shortened_links(markdown: str) -> str:
    """The text with each link to a file's place replaced by its own words, where these name that place."""
    return _LINK.sub(_shortened, markdown) if "](file://" in markdown else markdown


def _shortened(link: re.Match[str]) -> str:
    words, path, line = _ESCAPE.sub(r"\1", link[1]), unquote(link[2]), link[3]
    name, _, number = words.rpartition(":")
    if not number.isdecimal():
        name, number = words, line or ""
    is_span = re.fullmatch(r"\d+(?:-\d+)?", words) is not None and words.partition("-")[0] == line
    says_it = f"{path}".endswith(f"/{name.lstrip('/')}") and number == (line or "")
    return link[1] if is_span or says_it else link[0]
