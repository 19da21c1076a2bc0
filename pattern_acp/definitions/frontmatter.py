"""The head of a Markdown file, between two lines of `---`.

Owns: the part of YAML that such heads use: one level of `key: value` with plain and quoted text, lists, and `|` and `>`
blocks. Must not know: which keys there are. Plain text may hold a colon, which YAML forbids and people write all the
time; whatever is deeper is kept as text (docs/adr/0014).
"""

import re
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from pattern_acp.domain.late_pattern import late_pattern

Value: TypeAlias = str | tuple[str, ...]

HEAD_CHARACTERS = 16_000
"""A longer head is taken for a mistake: nothing of it could be shown in one line."""

_KEY = late_pattern(r"(?P<key>[A-Za-z][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?")
_BLOCK = late_pattern(r"[|>][+-]?\d?")


class Document(Struct, frozen=True):
    """A file's head and the text below it; `problem` says what is wrong with the head, as the end of a sentence."""

    head: Mapping[str, Value] = field(default_factory=dict[str, Value])
    body: str = ""
    problem: str = ""

    def text(self, key: str) -> str:
        """The value of `key` on one line; empty when there is none."""
        value = self.head.get(key, "")
        return " ".join((value if isinstance(value, str) else ", ".join(value)).split())

    def items(self, key: str) -> tuple[str, ...]:
        """The value of `key` as a list; text is split at commas outside brackets."""
        value = self.head.get(key, "")
        if not isinstance(value, str):
            return value
        return tuple(item.strip() for item in re.split(r",(?![^()]*\))", value) if item.strip())


def read_document(text: str) -> Document:
    """Split a file into head and body. Never fails: a head that cannot be read is empty and says why."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return Document(body=text.strip())
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() in {"---", "..."}), 0)
    if not end:
        return Document(problem="its head has no closing line ---")
    head_lines, body = lines[1:end], "\n".join(lines[end + 1 :]).strip()
    if sum(map(len, head_lines)) > HEAD_CHARACTERS:
        return Document(body=body, problem=f"its head is longer than {HEAD_CHARACTERS} characters")
    return _read_head(head_lines, body)


def _read_head(lines: list[str], body: str) -> Document:
    head: dict[str, Value] = {}
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _KEY.fullmatch(line.rstrip())
        if match is None:
            return Document(body=body, problem=f"line {position + 1} of its head is not `key: value`")
        below: list[str] = []
        # A list may stand as far left as its key.
        while position < len(lines) and (not lines[position].strip() or lines[position][0] in " \t-"):
            below.append(lines[position])
            position += 1
        head[match["key"]] = _value((match["value"] or "").strip(), below)
    return Document(head, body)


def _value(raw: str, below: list[str]) -> Value:
    if _BLOCK.fullmatch(raw):
        return _block(below, folded=raw[0] == ">")
    if raw.startswith("[") and raw.endswith("]"):
        return tuple(_unquoted(item) for item in raw[1:-1].split(",") if item.strip())
    items = [line.strip() for line in below if line.strip()]
    if not raw and items and all(item == "-" or item.startswith("- ") for item in items):
        return tuple(_unquoted(item[1:].strip()) for item in items)
    return _unquoted(" ".join((raw, *items)).strip())


def _block(lines: list[str], *, folded: bool) -> str:
    margins = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(margins, default=0)
    text = "\n".join(line[margin:].rstrip() for line in lines).strip("\n")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text) if folded else text


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text[1:-1])
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return re.sub(r"\s+#.*$", "", text)
