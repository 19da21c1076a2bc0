"""Files and commands through the editor, with the disk and our own processes behind it.

Owns: when the editor is asked, when it is believed, and what happens when it fails (issue 2, section 4). The disk and
our own processes replace an editor that cannot; what it refuses is not done. Must not know: the protocol; the
editor is another `FileSystem` and another `Terminal`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar

import anyio
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.clock import Clock, SystemClock
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.errors import (
    CommandFailedToStartError,
    EditorLacksError,
    EditorRefusedError,
    EditorUnavailableError,
    FileMissingError,
)
from pattern_acp.workspace.files import FileSystem, LineWindow, TextFile, TextLines, TextStore
from pattern_acp.workspace.kinds import PathFacts, encoding_of_file, inspect_path
from pattern_acp.workspace.local_files import MAX_TEXT_BYTES
from pattern_acp.workspace.terminal import CommandRequest, RunningCommand, Terminal

T = TypeVar("T")

MUTE_CALLS = 2
"""Calls in a row without an answer after which the editor is left alone; each costs the user a whole deadline."""

PAUSE_SECONDS = 60.0
"""Time for which it is left alone. A busy editor (start-up, a modal question) is back by then."""

_NEARLY = 0.9
"""An adapter with the same deadline gives up first and reports only that the editor is unavailable."""


class EditorCalls:
    """Calls to one editor; `deadline` is in seconds."""

    def __init__(self, deadline: float, on_warning: Callable[[str], None]) -> None:
        self._deadline = deadline
        self._on_warning = on_warning
        self._mute_calls = 0
        self._paused_until = 0.0

    @property
    def paused(self) -> bool:
        """Return whether the editor is being left alone."""
        return anyio.current_time() < self._paused_until

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `call`, and raise its errors.

        Raises:
            EditorUnavailableError: no answer in time.
        """
        began = anyio.current_time()
        try:
            with anyio.fail_after(self._deadline):
                answer = await call()
        except TimeoutError as error:
            self._note_mute()
            message = f"The editor did not answer within {self._deadline:g} s."
            raise EditorUnavailableError(message) from error
        except EditorUnavailableError:
            if anyio.current_time() - began >= self._deadline * _NEARLY:
                self._note_mute()
            else:
                self._mute_calls = 0
            raise
        self._mute_calls = 0
        return answer

    def _note_mute(self) -> None:
        self._mute_calls += 1
        if self._mute_calls >= MUTE_CALLS:
            self._mute_calls = 0
            self._paused_until = anyio.current_time() + PAUSE_SECONDS
            self._on_warning(
                f"The editor did not answer {MUTE_CALLS} times in a row; "
                f"files are read and written on the disk for the next {PAUSE_SECONDS:g} s."
            )


_SAVE_WAITS = (0.02, 0.05, 0.1, 0.3)
"""Seconds between checks: an editor may answer a write shortly before it is on the disk."""

_CLOCK_MARGIN_NS = 100_000_000
"""File times come from a coarser clock than ours."""

_NOT_UTF_8 = frozenset({"utf-16-le", "utf-16-be", "cp1252"})
"""Encodings that most editors read wrongly and all but few write back as UTF-8 when a client asks them to."""


class _Buffer(Struct, frozen=True):
    """Facts about the editor's text of one file."""

    disk_mtime_ns: int
    """The file's time on the disk when the editor was last read or written."""
    commands: int
    """Commands that had run by then; -1 when we wrote to the disk behind the editor's back."""


async def tell_nobody() -> None:
    """Continue without showing anything."""


class DelegatingFileSystem:
    """`FileSystem` over an editor that may be stale, mute or wrong, and the disk.

    `deadline` is the longest wait for one answer in seconds. `on_warning` gets a sentence for the user whenever the
    disk has to take its place; the `TextFile` carries the same. `show_warnings` shows it before the disk is read or
    written.
    """

    def __init__(
        self,
        editor: TextStore,
        local: FileSystem,
        *,
        can_read: bool,
        can_write: bool,
        deadline: float,
        on_warning: Callable[[str], None],
        show_warnings: Callable[[], Awaitable[None]] = tell_nobody,
        clock: Clock | None = None,
    ) -> None:
        self._editor = editor
        self._local = local
        self._can_read = can_read
        self._can_write = can_write
        self._calls = EditorCalls(deadline, on_warning)
        self._on_warning = on_warning
        self._show_warnings = show_warnings
        self._clock = clock or SystemClock()
        self._buffers: dict[str, _Buffer] = {}
        self._gone: set[str] = set()
        """Files that we moved away or removed; an editor may continue showing its buffer of them."""
        self._commands = 0
        self._watched_from_ns = self._now_ns()
        self._watched_until_ns = 0
        self._drops_final_newline = False

    def note_command_ran(self) -> None:
        """Note that a shell command ended: files may have changed under the editor's buffers (zed#49162)."""
        self._commands += 1
        self._watched_until_ns = self._now_ns() + _CLOCK_MARGIN_NS

    async def read_text_file(self, path: str) -> TextFile:
        """See `FileSystem.read_text_file`: the editor's text, unsaved changes included, unless the disk is ahead."""
        if not self._can_read or self._calls.paused or not _can_name(path):
            return await self._local.read_text_file(path)
        facts = await _inspect_whole(path)
        if (path in self._gone and facts.kind == "missing") or not _editor_can_hold(facts):
            return await self._local.read_text_file(path)
        if self._is_stale(path, facts):
            return await self._read_changed(path, facts)
        try:
            file = await self._ask_to_read(path, facts)
        except FileMissingError:
            # Editors know only files of the project they show.
            return await self._local.read_text_file(path)
        except EditorLacksError as error:
            return replace(await self._local.read_text_file(path), warning=await self._read_no_more(error))
        except EditorRefusedError:
            if facts.kind == "missing":
                # Editors have many words for a missing file.
                raise FileMissingError(f"There is no file {path}; check the path.") from None
            raise
        except WorkspaceError as error:
            warning = await self._tell_of_reading(error, path, facts)
            return replace(await self._local.read_text_file(path), warning=warning)
        if file.source == "editor":
            self._buffers[path] = _Buffer(facts.mtime_ns, self._commands)
        return file

    async def read_lines(self, path: str, window: LineWindow) -> TextLines:
        """See `FileSystem.read_lines`. What the editor refuses is not read from the disk either.

        Of lines that are the same on the disk, the disk tells the rest; others are unsaved changes, unless the editor
        counts lines from 0, reads the encoding wrongly, or shows what was there before a command ran.
        """
        facts = await _inspect(path)
        if not self._can_read or self._calls.paused or facts.marked in _NOT_UTF_8 or not _can_name(path):
            return await self._local.read_lines(path, window)
        try:
            shown = await self._calls.ask(lambda: self._editor.read_lines(path, window))
        except EditorRefusedError:
            raise
        except FileMissingError:
            return await self._local.read_lines(path, window)
        except EditorLacksError as error:
            return replace(await self._local.read_lines(path, window), warning=await self._read_no_more(error))
        except WorkspaceError as error:
            warning = await self._tell_of_reading(error, path, facts)
            return replace(await self._local.read_lines(path, window), warning=warning)
        disk = await self._local.read_lines(path, window)
        if shown.lines == disk.lines or not shown.lines or self._is_stale(path, facts):
            return disk
        is_shifted = shown.lines[1:] == disk.lines[:-1] or shown.lines[:-1] == disk.lines[1:]
        return disk if is_shifted or "\ufffd" in "".join(shown.lines) else shown

    async def write_text_file(self, path: str, text: str) -> TextFile:
        """See `FileSystem.write_text_file`: through the editor when it can, through the disk when it did not."""
        if not self._can_write or self._calls.paused or not _can_name(path):
            return await self._write_to_disk(path, text)
        before = await _inspect_whole(path)
        if before.marked in _NOT_UTF_8:
            return await self._write_to_disk(path, text)
        self._gone.discard(path)
        try:
            await self._calls.ask(lambda: self._editor.write_text_file(path, text))
        except WorkspaceError as error:
            # It may have written and only failed to say so; writing again would then be the second writer.
            if not await self._is_on_disk(path, text, before):
                if isinstance(error, EditorRefusedError):
                    raise
                if isinstance(error, EditorLacksError):
                    warning = await self._write_no_more(error)
                    return replace(await self._write_to_disk(path, text), warning=warning)
                warning = await self._tell(f"{error} {path} is written on the disk instead.")
                return replace(await self._write_to_disk(path, text), warning=warning)
            file = await self._local.read_text_file(path)
            return self._warned(file, f"{error} {path} was written all the same.")
        written = await self._read_back(path, text, before)
        added = written.text.removeprefix(text) if text.endswith("\n") else ""
        return await self._write_shorter(path, text, added, written) if added in {"\n", "\r\n"} else written

    async def _write_shorter(self, path: str, text: str, added: str, written: TextFile) -> TextFile:
        """Write a text again without its last line end, to an editor that `added` one to it.

        CodeCompanion does that for files that are open in a buffer, so that each edit would leave one more empty line.
        """
        before = await _inspect_whole(path)
        shorter = text.removesuffix(added)
        try:
            await self._calls.ask(lambda: self._editor.write_text_file(path, shorter))
        except WorkspaceError:
            return written
        return await self._read_back(path, text, before)

    async def move_file(self, path: str, to: str) -> None:
        """See `FileSystem.move_file`; on the disk, since ACP has no request for it."""
        await self._local.move_file(path, to)
        self._gone.add(path)
        self._gone.discard(to)
        self._buffers.pop(path, None)
        self._buffers.pop(to, None)

    async def remove_file(self, path: str) -> None:
        """See `FileSystem.remove_file`; on the disk, since ACP has no request for it."""
        await self._local.remove_file(path)
        self._gone.add(path)
        self._buffers.pop(path, None)

    async def _write_to_disk(self, path: str, text: str) -> TextFile:
        file = await self._local.write_text_file(path, text)
        self._buffers[path] = _Buffer(disk_mtime_ns=0, commands=-1)
        return file

    async def _read_back(self, path: str, text: str, before: PathFacts) -> TextFile:
        """Read the file after the editor took `text`, which it may have formatted."""
        saved = await self._wait_until_saved(path, text, before)
        facts = await _inspect(path)
        if saved and before.marked and facts.marked is None:
            # The editor left out the byte order mark; only the disk can put it back.
            disk = await self._local.read_text_file(path)
            await self._local.write_text_file(path, f"\ufeff{disk.text}")
            facts = await _inspect(path)
        self._buffers[path] = _Buffer(facts.mtime_ns, self._commands)
        file = TextFile(path, text, "editor")
        try:
            if self._can_read and not self._calls.paused:
                file = await self._ask_to_read(path, facts)
            else:
                file = await self._local.read_text_file(path)
        except EditorRefusedError:
            # The encoding of its last write is known all the same.
            pass
        except WorkspaceError:
            if saved:
                file = await self._local.read_text_file(path)
        if saved:
            return file
        return self._warned(file, f"The editor took the change of {path} but did not save it; commands do not see it.")

    async def _ask_to_read(self, path: str, facts: PathFacts) -> TextFile:
        """The editor's text, checked against the disk where editors are known to be wrong.

        Several clients answer "" for a file that they cannot read, and several leave out the final newline
        (reference clients: CodeCompanion and Toad; avante, agentic.nvim and Toad).
        """
        file = await self._calls.ask(lambda: self._editor.read_text_file(path))
        if file.text.endswith("\n"):
            return file
        if facts.kind == "missing":
            if file.text:
                return file
            raise FileMissingError(f"There is no file {path}; check the path.")
        if facts.size == 0 or (not self._drops_final_newline and facts.size == _size(file.text)):
            # As long as the file on the disk, it lacks nothing.
            return file
        disk = await self._local.read_text_file(path)
        if disk.text and not file.text:
            return replace(
                disk, warning=await self._tell(f"The editor showed {path} as empty; the disk's text is read.")
            )
        ending = "\r\n" if disk.text.endswith("\r\n") else "\n" if disk.text.endswith("\n") else ""
        if ending and file.text + ending == disk.text:
            self._drops_final_newline = True
        return replace(file, text=file.text + ending) if self._drops_final_newline else file

    async def _read_changed(self, path: str, facts: PathFacts) -> TextFile:
        """Read a file that changed under the editor: from the disk, unless the editor has caught up."""
        disk = await self._local.read_text_file(path)
        try:
            file = await self._ask_to_read(path, facts)
        except EditorRefusedError:
            raise
        except WorkspaceError:
            return disk
        if file.text == disk.text:
            self._buffers[path] = _Buffer(facts.mtime_ns, self._commands)
            return file
        return replace(disk, warning=f"{path} changed on the disk; the editor still shows another text.")

    async def _is_on_disk(self, path: str, text: str, before: PathFacts) -> bool:
        """Return whether an unconfirmed write has happened all the same; other text means a formatter ran."""
        if await _inspect(path) != before:
            return True
        try:
            return (await self._local.read_text_file(path)).text == text
        except WorkspaceError:
            return False

    async def _wait_until_saved(self, path: str, text: str, before: PathFacts) -> bool:
        for wait in (0.0, *_SAVE_WAITS):
            await anyio.sleep(wait)
            if await self._is_on_disk(path, text, before):
                return True
        return False

    def _is_stale(self, path: str, facts: PathFacts) -> bool:
        if facts.kind == "missing":
            return False
        buffer = self._buffers.get(path)
        if buffer is not None:
            return buffer.commands < self._commands and facts.mtime_ns != buffer.disk_mtime_ns
        # Never read through the editor, so only the time shows whether a command may have written it.
        return self._watched_from_ns - _CLOCK_MARGIN_NS <= facts.mtime_ns <= self._watched_until_ns

    async def _tell_of_reading(self, error: WorkspaceError, path: str, facts: PathFacts) -> str:
        """Show that the disk is read instead of the editor, before it is; not where there is nothing to read."""
        sentence = f"{error} {path} is read from the disk, without unsaved changes."
        return sentence if facts.kind == "missing" else await self._tell(sentence)

    async def _read_no_more(self, error: EditorLacksError) -> str:
        """Leave reading to the disk from here on; the user hears of it once, not with each file."""
        was_able, self._can_read = self._can_read, False
        return await self._tell(f"{error} They are read from the disk, without unsaved changes.") if was_able else ""

    async def _write_no_more(self, error: EditorLacksError) -> str:
        """Leave writing to the disk from here on; the user hears of it once, not with each file."""
        was_able, self._can_write = self._can_write, False
        return await self._tell(f"{error} They are written on the disk.") if was_able else ""

    async def _tell(self, sentence: str) -> str:
        self._on_warning(sentence)
        await self._show_warnings()
        return sentence

    def _warned(self, file: TextFile, sentence: str) -> TextFile:
        self._on_warning(sentence)
        return replace(file, warning=sentence)

    def _now_ns(self) -> int:
        return self._clock.now_ms() * 1_000_000


class DelegatingTerminal:
    """`Terminal` over the editor's, with our own where the editor cannot start a command."""

    def __init__(
        self,
        editor: Terminal,
        local: Terminal,
        *,
        on_warning: Callable[[str], None],
        show_warnings: Callable[[], Awaitable[None]] = tell_nobody,
    ) -> None:
        self._editor = editor
        self._local = local
        self._on_warning = on_warning
        self._show_warnings = show_warnings

    def start(self, request: CommandRequest) -> AbstractAsyncContextManager[RunningCommand]:
        """See `Terminal.start`."""
        return self._run(request)

    @asynccontextmanager
    async def _run(self, request: CommandRequest) -> AsyncGenerator[RunningCommand, None]:
        async with AsyncExitStack() as stack:
            if request.takes_input:
                # ACP has no way to write to a terminal of the client.
                yield await stack.enter_async_context(self._local.start(request))
                return
            try:
                command = await stack.enter_async_context(self._editor.start(request))
            except (CommandFailedToStartError, EditorUnavailableError) as error:
                self._on_warning(f"{error} The command runs outside the editor instead.")
                await self._show_warnings()
                command = await stack.enter_async_context(self._local.start(request))
            yield command


async def _inspect(path: str) -> PathFacts:
    return await to_thread.run_sync(inspect_path, path, abandon_on_cancel=True)


async def _inspect_whole(path: str) -> PathFacts:
    """Inspect a file, and whether its text is UTF-8 to the end; editors would replace other bytes by U+FFFD."""
    return await to_thread.run_sync(_whole_facts, path, abandon_on_cancel=True)


def _whole_facts(path: str) -> PathFacts:
    facts = inspect_path(path)
    if facts.kind != "text" or facts.marked is not None or facts.size > MAX_TEXT_BYTES:
        return facts
    encoding = encoding_of_file(path)
    return replace(facts, marked=encoding) if encoding in _NOT_UTF_8 else facts


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _can_name(path: str) -> bool:
    """Return whether JSON can carry the path; for a name that is no UTF-8, an editor would make another file."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _editor_can_hold(facts: PathFacts) -> bool:
    """Return whether an editor's buffer makes sense for it: text, or a file that is not saved yet."""
    fits = facts.kind in {"text", "missing"} and facts.size <= MAX_TEXT_BYTES
    return fits and facts.marked not in _NOT_UTF_8
