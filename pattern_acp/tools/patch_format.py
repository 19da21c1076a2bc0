"""The patch envelope that OpenAI models write: from text to what each file is to become. Pure.

Owns: the grammar, and one sentence for each way to miss it. Must not know: files, whether hunks fit, JSON or which wire
brought the text.

    *** Begin Patch
    *** Add File: PATH            every line follows with a +
    *** Delete File: PATH
    *** Update File: PATH
    *** Move to: PATH             optional, directly below its Update File
    @@ LINE                       optional anchors: a line of the file above the hunk; several go inwards
     kept, -removed, +added       the hunk; an empty line is a kept empty line
    *** End of File               optional: the hunk ends where the file ends
    *** End Patch
"""

from typing import TypeAlias

from msgspec import Struct

from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.tools.base import ToolInputError
from pattern_acp.tools.text_limits import cut_line

BEGIN = "*** Begin Patch"
END = "*** End Patch"
ADD = "*** Add File:"
DELETE = "*** Delete File:"
UPDATE = "*** Update File:"
MOVE = "*** Move to:"
AT_END = "*** End of File"

_UNIFIED = late_pattern(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@")
"""The header of a unified diff. Its numbers are no part of this format and are passed over: lines say where it fits."""

_OPENS = late_pattern(r"(apply_patch\s+)?<<-?\s*['\"]?\w+['\"]?\s*|```\w*\s*")
_CLOSES = late_pattern(r"\w+\s*|```\s*")
"""The first and last line of a here-document or a code fence around a patch."""


class PatchSyntaxError(ToolInputError):
    """The text is no patch of this format: which line is wrong, and what was expected there."""

    failure_code = "tool.patch-malformed"


class Hunk(Struct, frozen=True):
    """Neighbouring lines of a file as (sign, text), the sign one of space, - and +.

    `anchors` are lines that stand above, from the outermost inwards; `line` is the hunk's 1-based line in the patch.
    """

    anchors: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    at_end: bool = False
    line: int = 0

    @property
    def old(self) -> list[str]:
        """The lines that the file must have."""
        return [text for sign, text in self.lines if sign != "+"]


class AddFile(Struct, frozen=True):
    """A new file with its whole text."""

    path: str
    text: str


class DeleteFile(Struct, frozen=True):
    """A file to delete."""

    path: str


class UpdateFile(Struct, frozen=True):
    """Hunks for one file, in the order of the file, and its new name when it gets one. A move may have no hunks."""

    path: str
    hunks: tuple[Hunk, ...]
    move_to: str = ""


Section: TypeAlias = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> tuple[Section, ...]:
    """The sections of a patch, at least one; those that change one file without moving it are one.

    Raises:
        PatchSyntaxError: the text breaks the grammar.
    """
    return _joined(_Parser(text).sections())


def _joined(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    joined: list[Section] = []
    edited: dict[str, int] = {}
    for section in sections:
        if isinstance(section, UpdateFile) and not section.move_to:
            at = edited.setdefault(section.path, len(joined))
            if at < len(joined):
                joined[at] = UpdateFile(section.path, _hunks(joined[at]) + section.hunks)
                continue
        joined.append(section)
    return tuple(joined)


def _hunks(section: Section) -> tuple[Hunk, ...]:
    return section.hunks if isinstance(section, UpdateFile) else ()


class _Parser:
    def __init__(self, text: str) -> None:
        stripped = text.strip("\r\n")
        lines = stripped.split("\n")
        if lines[0].endswith("\r"):
            lines = [line.removesuffix("\r") for line in lines]
        self._first = len(text[: len(text) - len(text.lstrip("\r\n"))].split("\n"))
        if _OPENS.fullmatch(lines[0]) and len(lines) > 2 and _CLOSES.fullmatch(lines[-1]):
            # Models that know the patch as a shell command leave the command's own quoting around it.
            lines = lines[1:-1]
            self._first += 1
        self._lines = lines
        self._at = 0

    def sections(self) -> tuple[Section, ...]:
        if self._lines[0].strip() != BEGIN:
            raise PatchSyntaxError(f"A patch starts with the line `{BEGIN}` and ends with `{END}`; send all of it.")
        if self._lines[-1].strip() != END:
            raise PatchSyntaxError(f"The patch does not end with the line `{END}`; send the whole patch again.")
        self._lines.pop()
        self._at = 1
        found: list[Section] = []
        while self._at < len(self._lines):
            if self._lines[self._at].strip():
                found.append(self._section())
            else:
                self._at += 1
        if not found:
            raise PatchSyntaxError(f"The patch is empty; add a section such as `{UPDATE} PATH`.")
        return tuple(found)

    def _section(self) -> Section:
        line = self._lines[self._at].strip()
        for head, read in ((ADD, self._add), (DELETE, self._delete), (UPDATE, self._update)):
            if line.startswith(head):
                path = line.removeprefix(head).strip()
                if not path:
                    raise self._error(f"`{head}` needs a path behind it.")
                self._at += 1
                return read(path)
        raise self._error(f"a section starts with `{ADD} PATH`, `{DELETE} PATH` or `{UPDATE} PATH`")

    def _add(self, path: str) -> AddFile:
        added: list[str] = []
        while self._at < len(self._lines) and not self._lines[self._at].startswith("*** "):
            line = self._lines[self._at]
            if not line.startswith("+"):
                if self._only_blank_until_section():
                    break
                raise self._error(f"every line of `{ADD} {path}` starts with +, empty ones too")
            added.append(line[1:])
            self._at += 1
        return AddFile(path, "".join(f"{line}\n" for line in added))

    def _delete(self, path: str) -> DeleteFile:
        return DeleteFile(path)

    def _update(self, path: str) -> UpdateFile:
        move_to = ""
        if self._at < len(self._lines) and self._lines[self._at].startswith(MOVE):
            move_to = self._lines[self._at].removeprefix(MOVE).strip()
            if not move_to:
                raise self._error(f"`{MOVE}` needs a path behind it")
            self._at += 1
        hunks: list[Hunk] = []
        while self._at < len(self._lines) and not self._starts_section():
            if self._only_blank_until_section():
                break
            hunks.append(self._hunk(path))
        if not hunks and not move_to:
            raise self._error(f"`{UPDATE} {path}` has no hunk; give kept, removed and added lines", behind=True)
        return UpdateFile(path, tuple(hunks), move_to)

    def _hunk(self, path: str) -> Hunk:
        begins = self._at
        anchors = self._anchors()
        lines: list[tuple[str, str]] = []
        at_end = False
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() == AT_END:
                at_end = True
                self._at += 1
                break
            if line.startswith("@@") or self._starts_section() or self._only_blank_until_section():
                break
            if line[:1] not in {"", " ", "-", "+"}:
                raise self._error(
                    "a line of a hunk starts with a space (kept), - (removed) or + (added), and a hunk with @@"
                )
            lines.append((line[:1] or " ", line[1:]))
            self._at += 1
        if not any(sign != " " for sign, _ in lines):
            raise self._error(f"the hunk of {path} that ends here removes and adds nothing", behind=True)
        return Hunk(anchors, tuple(lines), at_end, begins + self._first)

    def _anchors(self) -> tuple[str, ...]:
        anchors: list[str] = []
        while self._at < len(self._lines) and self._lines[self._at].startswith("@@"):
            line = self._lines[self._at]
            if line.startswith("@@") and not line.startswith("@@ ") and line.strip() != "@@":
                raise self._error("`@@` is followed by a space and a line of the file, or by nothing")
            anchor = "" if _UNIFIED.match(line) else line[3:]
            if anchor.strip():
                anchors.append(anchor)
            self._at += 1
        return tuple(anchors)

    def _starts_section(self) -> bool:
        return self._lines[self._at].startswith((ADD, DELETE, UPDATE))

    def _only_blank_until_section(self) -> bool:
        """Whether nothing but empty lines, which set sections apart, stands before the next section or the end."""
        at = self._at
        while at < len(self._lines) and not self._lines[at]:
            at += 1
        is_section = at == len(self._lines) or self._lines[at].startswith((ADD, DELETE, UPDATE))
        return at > self._at and is_section

    def _error(self, sentence: str, *, behind: bool = False) -> PatchSyntaxError:
        at = min(self._at, len(self._lines)) - 1 if behind else self._at
        shown = cut_line(self._lines[max(at, 0)], 120)
        return PatchSyntaxError(f"Line {max(at, 0) + self._first} of the patch (`{shown}`): {sentence.rstrip('.')}.")
