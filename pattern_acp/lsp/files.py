"""The files that a server was told of, and what it finds wrong in them.

Owns: for each file the text that the server has, the state that the next comparison starts from, and when what it finds
counts as all of it. Must not know: how a server is reached. Nothing here waits.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import anyio
from msgspec import Struct, field

from pattern_acp.lsp.model import Diagnostic, NewError
from pattern_acp.lsp.positions import column_of, split_lines


def introduced(
    path: str, before: Sequence[Diagnostic], text_before: str, after: Sequence[Diagnostic], text_after: str
) -> list[NewError]:
    """The errors of `after` that `before` does not account for, in the order of the text.

    An old error accounts for one new one of the same words: first for one on a line that reads the same, wherever that
    is now, then for any other.
    """
    old_lines, new_lines = split_lines(text_before), split_lines(text_after)
    known = [(_key(each), _line(old_lines, each)) for each in before if each.is_error]
    on_line = Counter(known)
    unplaced: list[Diagnostic] = []
    for each in after:
        if not each.is_error:
            continue
        place = (_key(each), _line(new_lines, each))
        if on_line[place] > 0:
            on_line[place] -= 1
        else:
            unplaced.append(each)
    by_words = Counter[tuple[str, str, str]]()
    for (key, _), count in on_line.items():
        by_words[key] += count
    fresh: list[NewError] = []
    for each in unplaced:
        if by_words[_key(each)] > 0:
            by_words[_key(each)] -= 1
            continue
        line = each.span.line
        column = column_of(new_lines[line], each.span.unit) if line < len(new_lines) else 0
        fresh.append(NewError(path, line + 1, column + 1, each.message, each.code, each.source))
    return sorted(fresh, key=lambda error: (error.line, error.column))


def _key(diagnostic: Diagnostic) -> tuple[str, str, str]:
    return (diagnostic.source, diagnostic.code, diagnostic.message)


def _line(lines: Sequence[str], diagnostic: Diagnostic) -> str:
    return lines[diagnostic.span.line].strip() if diagnostic.span.line < len(lines) else ""


QUIET_SECONDS = 0.1
"""Without another word from the server on a file, what it said of this version counts as all of it."""

QUIET_SECONDS_WITHOUT_VERSION = 0.4
"""The same for a server that does not say which version it means, and may send one kind of errors after another."""


MOST_FILES = 100
"""Most files that a server is told of at a time."""


class OpenFile(Struct):
    """One file."""

    path: str
    language: str
    text: str
    """What the server has."""
    version: int = 1
    found: tuple[Diagnostic, ...] | None = None
    """What is wrong in `text`; None while the server has not said."""
    complete_at: float = 0.0
    """When `found` counts as all of it."""
    base: tuple[Diagnostic, ...] | None = None
    """What was wrong in `base_text`; None until that is known."""
    base_text: str = ""
    next_text: str | None = None
    """The text that the server is told once it has said what was wrong before."""
    is_edited: bool = False
    """Whether an edit is under way that was not compared yet."""

    def is_complete(self, now: float) -> bool:
        """Whether all that is wrong in the file's newest text is known."""
        return self.next_text is None and self.found is not None and now >= self.complete_at


Tell = Callable[[OpenFile], None]
"""Sends the file's text with its version."""


class OpenFiles(Struct):
    """All files of one server. `changed` is called when a file has a new text for the server."""

    changed: Tell
    by_path: dict[str, OpenFile] = field(default_factory=dict[str, OpenFile])
    news: anyio.Event = field(default_factory=anyio.Event)
    """Set, and replaced, whenever the server said something."""

    def named(self, path: str) -> OpenFile | None:
        """The file, if the server was told of it."""
        return self.by_path.get(path)

    def note_before(self, path: str, language: str, text: str | None) -> OpenFile | None:
        """Note the text that an edit starts from (None: the file is new); the file, when the server has to open it.

        What was wrong before is taken at the first edit of several that are compared together.
        """
        file = self.by_path.get(path)
        if file is None:
            # A new file had no errors.
            base = () if text is None else None
            file = self.by_path[path] = OpenFile(path, language, text or "", base=base, is_edited=True)
            return file
        if not file.is_edited:
            file.is_edited = True
            if file.text != (text or ""):
                file.base = None
                self._change(file, text or "")
        return None

    def note_after(self, path: str, text: str) -> None:
        """Note the text that an edit left."""
        file = self.by_path[path]
        if file.base is None:
            file.next_text = text
        elif file.text != text:
            self._change(file, text)

    def show(self, path: str, language: str, text: str) -> OpenFile | None:
        """Note a text that a question is about; the file, when the server has to open it."""
        file = self.by_path.get(path)
        if file is None:
            file = self.by_path[path] = OpenFile(path, language, text)
            return file
        if file.text != text:
            if not file.is_edited:
                file.base = None
            file.next_text = None
            self._change(file, text)
        return None

    def forget_answers(self) -> None:
        """The server was started anew: whatever it had not said it has to say again."""
        for file in self.by_path.values():
            file.found = None

    def note_found(self, path: str, version: int | None, found: tuple[Diagnostic, ...], now: float) -> None:
        """Take what the server finds wrong in a file; of an older text it is dropped."""
        file = self.by_path.get(path)
        if file is None or (version is not None and version != file.version):
            return
        file.found = found
        file.complete_at = now + (QUIET_SECONDS if version is not None else QUIET_SECONDS_WITHOUT_VERSION)
        self._tell_news()

    def advance(self, now: float) -> float | None:
        """Go on to the newest text where what was wrong before is known; the seconds until that is to be tried again.

        None when nothing but a word of the server can change anything.
        """
        due: float | None = None
        for file in self.by_path.values():
            if file.base is not None or file.found is None:
                continue
            if now < file.complete_at:
                left = file.complete_at - now
                due = left if due is None else min(due, left)
                continue
            file.base, file.base_text = file.found, file.text
            if file.next_text is not None:
                following, file.next_text = file.next_text, None
                if following != file.text:
                    self._change(file, following)
        return due

    def incomplete(self, now: float) -> list[OpenFile]:
        """The edited files of which not all is known."""
        return [file for file in self.by_path.values() if file.is_edited and not file.is_complete(now)]

    def compare(self, now: float) -> list[NewError]:
        """The errors that are new since the last comparison, of every file of which all is known."""
        errors: list[NewError] = []
        for file in self.by_path.values():
            if file.base is None or file.found is None or not file.is_complete(now):
                continue
            errors += introduced(file.path, file.base, file.base_text, file.found, file.text)
            file.base, file.base_text, file.is_edited = file.found, file.text, False
        return errors

    def superfluous(self) -> list[str]:
        """The files that were opened first, beyond as many as a server should keep, without those being edited."""
        unused = [path for path, file in self.by_path.items() if not file.is_edited]
        return unused[: max(len(self.by_path) - MOST_FILES, 0)]

    def drop(self, paths: Iterable[str]) -> list[str]:
        """Files that are gone; those of them that the server had open."""
        return [path for path in paths if self.by_path.pop(path, None) is not None]

    def _change(self, file: OpenFile, text: str) -> None:
        file.text, file.version, file.found = text, file.version + 1, None
        self.changed(file)

    def _tell_news(self) -> None:
        news, self.news = self.news, anyio.Event()
        news.set()
