"""Files that a command changed, as the user is shown them.

Owns: which of them are shown with their texts, and which were moved. Must not know: how they were found.
"""

from pattern_acp.domain.tool_calls import ChangedPath, FilesChanged, FileSide
from pattern_acp.workspace.snapshots import Captured

MOST_FILES = 50
"""Most files that one call shows; a checkout changes thousands."""

MOST_BYTES = 100_000
"""Most bytes of texts that one call shows, as the journal keeps them."""


class ShownChanges:
    """The changes of one command, as they are found."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Captured, Captured]] = {}

    def add(self, path: str, before: Captured, after: Captured) -> None:
        """Take note of a change."""
        self._found[path] = (before, after)

    def content(self) -> FilesChanged | None:
        """See `turn.tool_runner.FoundFiles`."""
        if not self._found:
            return None
        moved = self._moved()
        files: list[ChangedPath] = []
        room = MOST_BYTES
        for path, (before, after) in self._found.items():
            if path in moved.values() or len(files) == MOST_FILES:
                continue
            source = moved.get(path, "")
            was = self._found[source][0] if source else before
            size = len(was.content or b"") + len(after.content or b"")
            with_texts = size <= room
            room -= size if with_texts else 0
            files.append(
                ChangedPath(path, _side(was, with_text=with_texts), _side(after, with_text=with_texts), source)
            )
        return FilesChanged(tuple(files), len(self._found) - len(moved) - len(files))

    def _moved(self) -> dict[str, str]:
        """New paths, with those that are gone and held the very same."""
        gone = {
            before.state.digest: path for path, (before, after) in self._found.items() if after.state.kind == "missing"
        }
        made = {
            after.state.digest: path for path, (before, after) in self._found.items() if before.state.kind == "missing"
        }
        return {path: gone[digest] for digest, path in made.items() if digest and digest in gone}


def _side(captured: Captured, *, with_text: bool) -> FileSide:
    state = captured.state
    if state.kind == "missing":
        return FileSide("missing")
    if state.kind == "link":
        return FileSide("link", state.digest)
    if captured.content is None:
        return FileSide("file", mode=state.mode)
    try:
        text = captured.content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    is_binary = "\0" in text
    return FileSide("file", text if with_text and not is_binary else None, state.mode, is_binary)
