"""Names of code in the forms in which they are found.

Owns: splitting identifiers into words, and the form that is alike for every way to write one. Must not know: who
searches.
"""

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def words_of(name: str) -> tuple[str, ...]:
    """The words of an identifier in lower case: `HTTPServer2_start` has http, server, 2 and start."""
    return tuple(word.lower() for word in _WORD.findall(name))


def fold(name: str) -> str:
    """The identifier in lower case and without separators, so that `getUser`, `get_user` and `get-user` are alike."""
    return re.sub(r"[\W_]+", "", name).lower()
