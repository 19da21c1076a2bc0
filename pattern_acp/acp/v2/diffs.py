"""Changes of files for ACP v2: what became of each path, and a patch in git's form with absolute paths. Pure.

Owns: additions, changes, deletions, moves, modes, links, and files that are no text. Must not know: who made them.
"""

from collections.abc import Iterable, Sequence
from difflib import unified_diff

from pattern_acp.acp.content import DIFF_BYTES, fits
from pattern_acp.acp.v2 import schema
from pattern_acp.domain.tool_calls import ChangedPath, DiffContent, FileSide, ToolContent

PATCH_LINES = 1_500
"""Most lines between the first and the last change that are compared; beyond, they are replaced as a whole."""

AROUND = 3
"""Unchanged lines that a patch shows on either side."""

EXECUTABLE = 0o100
"""The permission bit by which git tells programs from other files."""


def paths_of(content: Sequence[ToolContent]) -> dict[int, ChangedPath]:
    """The changes that diffs among the content show, by their places in it; a moved file is one change."""
    diffs = {place: item for place, item in enumerate(content) if isinstance(item, DiffContent)}
    gone = {item.path: item for item in diffs.values() if item.is_gone}
    moved = {item.moved_from for item in diffs.values() if item.moved_from in gone}
    return {
        place: _changed(item, gone.get(item.moved_from))
        for place, item in diffs.items()
        if not (item.is_gone and item.path in moved)
    }


def _changed(item: DiffContent, before: DiffContent | None) -> ChangedPath:
    old = before.old_text if before is not None else item.old_text
    return ChangedPath(
        item.path,
        FileSide("missing") if old is None else FileSide("file", old),
        FileSide("missing") if item.is_gone else FileSide("file", item.new_text),
        before.path if before is not None else "",
    )


def diff(files: Sequence[ChangedPath]) -> schema.Diff:
    """The changes of files; with a patch of those whose texts are small enough to be whole here."""
    text = "".join(git_patch(file) for file in files if _is_whole(file.before) and _is_whole(file.after))
    return schema.Diff(
        changes=tuple(_change(file) for file in files),
        patch=schema.DiffPatch(format="git_patch", text=text) if text else None,
    )


def _is_whole(side: FileSide) -> bool:
    if side.text is None:
        return side.is_binary or side.kind == "missing"
    return fits(side.text, DIFF_BYTES)


def _change(file: ChangedPath) -> schema.DiffChange:
    side = file.before if file.after.kind == "missing" else file.after
    operation = "modify"
    if file.moved_from:
        operation = "move"
    elif file.after.kind == "missing":
        operation = "delete"
    elif file.before.kind == "missing":
        operation = "add"
    kind = "symlink" if side.kind == "link" else "binary" if side.is_binary else "text"
    return schema.DiffChange(operation=operation, path=file.path, old_path=file.moved_from or None, file_type=kind)


def git_patch(file: ChangedPath) -> str:
    """The change of a file in git's form, with absolute paths; empty where nothing changed."""
    before, after = file.before, file.after
    new_name = _quoted(file.path)
    old_name = _quoted(file.moved_from) if file.moved_from else new_name
    header = [f"diff --git {old_name} {new_name}\n", *_modes(before, after)]
    if file.moved_from:
        header += [f"rename from {old_name}\n", f"rename to {new_name}\n"]
    shown_old = "/dev/null" if before.kind == "missing" else old_name
    shown_new = "/dev/null" if after.kind == "missing" else new_name
    if before.is_binary or after.is_binary:
        return "".join([*header, f"Binary files {shown_old} and {shown_new} differ\n"])
    hunks = list(_hunks(before.text or "", after.text or ""))
    if not hunks:
        return "".join(header) if len(header) > 1 else ""
    return "".join([*header, f"--- {shown_old}\n", f"+++ {shown_new}\n", *hunks])


def _modes(before: FileSide, after: FileSide) -> list[str]:
    if before.kind == "missing":
        return [f"new file mode {_mode(after)}\n"]
    if after.kind == "missing":
        return [f"deleted file mode {_mode(before)}\n"]
    if _mode(before) == _mode(after) or not (before.mode and after.mode):
        return []
    return [f"old mode {_mode(before)}\n", f"new mode {_mode(after)}\n"]


def _mode(side: FileSide) -> str:
    if side.kind == "link":
        return "120000"
    return "100755" if side.mode & EXECUTABLE else "100644"


def _hunks(old: str, new: str) -> Iterable[str]:
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    # Only line feeds end a line for git; others stay inside it.
    before, after = _by_line_feed(before), _by_line_feed(after)
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    same_end = 0
    while same_end < min(len(before), len(after)) - same and before[-1 - same_end] == after[-1 - same_end]:
        same_end += 1
    if len(before) - same - same_end <= PATCH_LINES and len(after) - same - same_end <= PATCH_LINES:
        start, end = max(same - AROUND, 0), max(same_end - AROUND, 0)
        lines = unified_diff(before[start : len(before) - end], after[start : len(after) - end], n=AROUND)
        for number, line in enumerate(lines):
            if number >= 2:
                yield _moved(line, start) if line.startswith("@@") else _ended(line)
        return
    yield f"@@ -{_span(same, len(before) - same - same_end)} +{_span(same, len(after) - same - same_end)} @@\n"
    for line in before[same : len(before) - same_end]:
        yield _ended(f"-{line}")
    for line in after[same : len(after) - same_end]:
        yield _ended(f"+{line}")


def _by_line_feed(lines: Sequence[str]) -> list[str]:
    text = "".join(lines)
    return [f"{line}\n" for line in text.split("\n")[:-1]] + ([last] if (last := text.rpartition("\n")[2]) else [])


def _span(before: int, count: int) -> str:
    """A range of a hunk: one without lines stands behind the line before it."""
    return f"{before + 1 if count else before},{count}"


def _moved(header: str, lines: int) -> str:
    """The header of a hunk, of which the texts began so many lines further down."""
    _, old, new, _ = header.split(" ", 3)
    return f"@@ -{_shifted(old[1:], lines)} +{_shifted(new[1:], lines)} @@\n"


def _shifted(span: str, lines: int) -> str:
    start, comma, count = span.partition(",")
    return f"{int(start) + lines}{comma}{count}"


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def _quoted(path: str) -> str:
    """A path as git writes it: quoted when it has unusual characters, its bytes in octal."""
    if path.isascii() and path.isprintable() and '"' not in path and "\\" not in path:
        return path
    written = (
        _ESCAPES.get(one)
        or (one if " " <= one <= "~" else "".join(f"\\{byte:03o}" for byte in one.encode("utf-8", "replace")))
        for one in path
    )
    return f'"{"".join(written)}"'
