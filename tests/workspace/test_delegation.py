import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.delegation import MUTE_CALLS, DelegatingFileSystem, DelegatingTerminal
from pattern_acp.workspace.errors import (
    CommandFailedToStartError,
    EditorLacksError,
    EditorRefusedError,
    EditorUnavailableError,
    FileMissingError,
    NotTextError,
)
from pattern_acp.workspace.files import LineWindow
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.terminal import CommandRequest
from tests.support.files import EditorHabits, FakeFileSystem
from tests.support.passing_time import passing
from tests.support.terminal import FakeTerminal, PlayedCommand

HOUR_NS = 3_600_000_000_000


@dataclass
class Bench:
    """An editor with habits over one folder."""

    folder: Path
    habits: EditorHabits = field(default_factory=EditorHabits)
    can_read: bool = True
    can_write: bool = True
    deadline: float = 30.0
    """Seconds; short only for an editor that does not answer, or a busy machine would count as one."""
    warnings: list[str] = field(default_factory=list[str])
    shown: list[list[str]] = field(default_factory=list[list[str]])
    """The warnings that waited each time they were shown."""
    as_shown: Callable[[], object] = list[str]
    """Called whenever warnings are shown."""

    def __post_init__(self) -> None:
        disk = LocalFileSystem()
        self.editor = FakeFileSystem(disk=disk, habits=self.habits)
        self.files = DelegatingFileSystem(
            self.editor,
            disk,
            can_read=self.can_read,
            can_write=self.can_write,
            deadline=self.deadline,
            on_warning=self.warnings.append,
            show_warnings=self.show,
        )

    async def show(self) -> None:
        self.shown.append([*self.warnings])
        self.as_shown()

    def put(self, name: str, text: str, *, hours_old: int = 2, encoding: str = "utf-8") -> str:
        path = self.folder / name
        path.write_bytes(text.encode(encoding))
        when = path.stat().st_mtime_ns - hours_old * HOUR_NS
        os.utime(path, ns=(when, when))
        return str(path)

    def on_disk(self, name: str, *, encoding: str = "utf-8") -> str:
        return (self.folder / name).read_bytes().decode(encoding)


async def read(bench: Bench, path: str) -> tuple[str, str]:
    with anyio.fail_after(30):
        file = await bench.files.read_text_file(path)
    return file.text, file.source


async def write(bench: Bench, path: str, text: str) -> tuple[str, str]:
    with anyio.fail_after(30):
        file = await bench.files.write_text_file(path, text)
    return file.text, file.source


async def test_reads_see_unsaved_changes(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.txt", "saved\n")
    bench.editor.texts[path] = "unsaved\n"
    assert await read(bench, path) == ("unsaved\n", "editor")
    assert bench.warnings == []


WINDOW = LineWindow(start=2, count=2, width=100, characters=1_000)


async def lines(bench: Bench, path: str) -> tuple[tuple[str, ...], int | None, str]:
    with anyio.fail_after(30):
        found = await bench.files.read_lines(path, WINDOW)
    return found.lines, found.total, found.source


async def test_a_window_of_lines_is_that_of_the_disk_where_the_editor_has_the_same(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a", "one\ntwo\nthree\nfour")
    assert await lines(bench, path) == (("two", "three"), 4, "disk")
    assert bench.editor.calls == [("read lines", path)]


async def test_a_window_of_unsaved_lines_is_that_of_the_editor(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a", "one\ntwo\nthree\nfour\n")
    bench.editor.texts[path] = "one\n2\n3\nfour\n"
    assert await lines(bench, path) == (("2", "3"), None, "editor")


@pytest.mark.parametrize("text", ["two\nthree\nfour\n", "zero\none\ntwo\nthree\n", "one\n"])
async def test_an_editor_that_counts_lines_otherwise_or_shows_none_is_not_believed(tmp_path: Path, text: str):
    bench = Bench(tmp_path)
    path = bench.put("a", "one\ntwo\nthree\nfour\n")
    bench.editor.texts[path] = text
    assert await lines(bench, path) == (("two", "three"), 4, "disk")


async def test_a_window_that_the_editor_cannot_give_is_read_from_the_disk_with_a_warning(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(error=EditorUnavailableError("The editor is busy.")))
    path = bench.put("a", "one\ntwo\nthree\nfour\n")
    assert await lines(bench, path) == (("two", "three"), 4, "disk")
    assert bench.warnings == [f"The editor is busy. {path} is read from the disk, without unsaved changes."]
    assert bench.shown == [bench.warnings]


async def test_an_editor_that_lacks_a_request_which_it_declared_is_named_once_and_not_asked_again(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(error=EditorLacksError("The editor said that it can do it, and cannot.")))
    paths = [bench.put(name, "one\ntwo\nthree\nfour\n") for name in "abc"]
    for path in paths:
        assert await read(bench, path) == ("one\ntwo\nthree\nfour\n", "disk")
        assert await lines(bench, path) == (("two", "three"), 4, "disk")
        assert await write(bench, path, "new\n") == ("new\n", "disk")
        assert bench.on_disk(Path(path).name) == "new\n"
    assert bench.warnings == [
        "The editor said that it can do it, and cannot. They are read from the disk, without unsaved changes.",
        "The editor said that it can do it, and cannot. They are written on the disk.",
    ]
    assert [kind for kind, _ in bench.editor.calls] == ["read", "write"]


async def test_a_window_that_the_editor_refuses_is_not_read_from_the_disk(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(error=EditorRefusedError("The editor did not read it.")))
    with pytest.raises(EditorRefusedError):
        await lines(bench, bench.put("a", "one\ntwo\n"))


async def test_a_window_in_another_encoding_is_not_asked_of_the_editor(tmp_path: Path):
    bench = Bench(tmp_path)
    assert await lines(bench, bench.put("a", "one\ntwo\nthree", encoding="utf-16")) == (("two", "three"), 3, "disk")
    assert bench.editor.calls == []


async def test_a_file_that_was_never_saved_is_read_from_its_buffer(tmp_path: Path):
    bench = Bench(tmp_path)
    path = str(tmp_path / "untitled.txt")
    bench.editor.texts[path] = "not saved yet"
    assert await read(bench, path) == ("not saved yet", "editor")


async def test_an_empty_answer_for_a_missing_file_means_missing(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(missing_as_empty=True))
    with pytest.raises(FileMissingError):
        await bench.files.read_text_file(str(tmp_path / "nothing.txt"))


async def test_an_empty_answer_for_a_file_with_text_is_not_believed(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.txt", "text\n")
    bench.editor.texts[path] = ""
    assert await read(bench, path) == ("text\n", "disk")
    assert len(bench.warnings) == 1


async def test_an_empty_file_is_empty(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.txt", "")
    assert await read(bench, path) == ("", "editor")
    assert bench.warnings == []


async def test_a_file_that_the_editor_does_not_show_is_read_from_the_disk(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(error=FileMissingError("The file is outside the project.")))
    path = bench.put("a.txt", "text\n")
    assert await read(bench, path) == ("text\n", "disk")
    assert bench.warnings == []


async def test_an_editor_that_answers_errors_is_replaced_with_a_warning(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(error=EditorUnavailableError("The editor is busy.")))
    path = bench.put("a.txt", "text\n")
    file = await bench.files.read_text_file(path)
    assert (file.text, file.source) == ("text\n", "disk")
    assert bench.warnings == [file.warning]
    assert "The editor is busy." in file.warning


@pytest.mark.parametrize(
    "error", [EditorUnavailableError("It cannot do that."), WorkspaceError("It sent what cannot be read.")]
)
async def test_the_user_sees_that_the_disk_stands_in_before_it_is_read_or_written(
    tmp_path: Path, error: WorkspaceError
):
    bench = Bench(tmp_path, EditorHabits(error=error))
    path = bench.put("a.txt", "earlier\n")
    bench.as_shown = lambda: (tmp_path / "a.txt").write_text("changed while the user saw it\n")
    assert await read(bench, path) == ("changed while the user saw it\n", "disk")
    bench.as_shown = lambda: (tmp_path / "a.txt").write_text("1\n2\n3\n")
    assert (await bench.files.read_lines(path, LineWindow(2, 1, 80, 80))).lines == ("2",)
    bench.as_shown = lambda: (tmp_path / "a.txt").write_text("once more\n")
    await write(bench, path, "mine\n")
    assert bench.on_disk("a.txt") == "mine\n"
    assert len(bench.shown) == 3


async def test_nothing_is_said_of_reading_from_the_disk_what_is_not_there(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(error=EditorUnavailableError("The editor is busy.")))
    with pytest.raises(FileMissingError):
        await read(bench, str(tmp_path / "a.txt"))
    with pytest.raises(WorkspaceError):
        await bench.files.read_lines(str(tmp_path / "a.txt"), LineWindow(1, 1, 80, 80))
    assert bench.warnings == []


async def test_a_missing_file_stays_missing_whatever_the_editor_answers(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(error=WorkspaceError("Something odd.")))
    with pytest.raises(FileMissingError):
        await bench.files.read_text_file(str(tmp_path / "nothing.txt"))


REFUSED = EditorRefusedError("The editor did not do it: denied.")


async def test_what_the_editor_refuses_is_neither_read_from_the_disk_nor_written_there(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(error=REFUSED))
    path = bench.put("a.txt", "text\n")
    with pytest.raises(EditorRefusedError):
        await read(bench, path)
    with pytest.raises(EditorRefusedError):
        await write(bench, path, "new\n")
    assert bench.on_disk("a.txt") == "text\n"
    assert bench.warnings == []


async def test_a_file_that_a_command_changed_is_not_read_past_a_refusal(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.txt", "old\n")
    await read(bench, path)
    bench.put("a.txt", "changed by a command\n", hours_old=0)
    bench.files.note_command_ran()
    bench.habits.error = REFUSED
    with pytest.raises(EditorRefusedError):
        await read(bench, path)


async def test_a_missing_file_is_missing_though_the_editor_refuses(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(error=REFUSED))
    with pytest.raises(FileMissingError):
        await read(bench, str(tmp_path / "nothing.txt"))


async def test_a_mute_editor_costs_two_deadlines_and_is_then_left_alone(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(mute=True), deadline=0.05)
    path = bench.put("a.txt", "text\n")
    for _ in range(5):
        assert await read(bench, path) == ("text\n", "disk")
    assert await write(bench, path, "new\n") == ("new\n", "disk")
    assert len(bench.editor.calls) == MUTE_CALLS
    assert any("times in a row" in warning for warning in bench.warnings)


async def test_an_answer_in_between_restores_patience(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.txt", "text\n")
    for mute in (True, False, True, False):
        bench.habits.mute = mute
        async with passing(bench.deadline) if mute else nullcontext():
            await bench.files.read_text_file(path)
    assert len(bench.editor.calls) == 4


async def test_binary_files_and_folders_are_not_asked_of_the_editor(tmp_path: Path):
    bench = Bench(tmp_path)
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    with pytest.raises(NotTextError):
        await bench.files.read_text_file(str(tmp_path / "image.png"))
    with pytest.raises(WorkspaceError, match="folder"):
        await bench.files.read_text_file(str(tmp_path))
    assert bench.editor.calls == []


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no UTF-8")
async def test_a_file_whose_name_is_no_utf_8_is_read_and_written_on_the_disk(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put(os.fsdecode(b"bad\xff.txt"), "one\n")
    assert await read(bench, path) == ("one\n", "disk")
    assert await write(bench, path, "two\n") == ("two\n", "disk")
    assert bench.on_disk(os.fsdecode(b"bad\xff.txt")) == "two\n"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
async def test_a_final_newline_that_the_editor_leaves_out_is_put_back(tmp_path: Path, ending: str):
    bench = Bench(tmp_path, EditorHabits(drops_final_newline=True))
    path = bench.put("a.txt", f"text{ending}")
    assert await read(bench, path) == (f"text{ending}", "editor")


async def test_once_seen_dropping_newlines_the_editor_is_expected_to_do_so_for_unsaved_text(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(drops_final_newline=True))
    path = bench.put("a.txt", "text\n")
    await read(bench, path)
    bench.editor.texts[path] = "unsaved\n"
    assert await read(bench, path) == ("unsaved\n", "editor")


async def test_unsaved_text_that_is_as_long_as_the_file_is_taken_as_it_is(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.py", "x = 'é'")
    bench.editor.texts[path] = "y = 'é'"
    assert (await read(bench, path))[0] == "y = 'é'"


async def test_a_missing_final_newline_is_kept_missing(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.txt", "text")
    assert await read(bench, path) == ("text", "editor")


@pytest.mark.parametrize("text", ["b = 20\n", "b = 20\n\n", "\n"])
async def test_a_line_end_that_the_editor_adds_to_a_whole_text_is_taken_out_again(tmp_path: Path, text: str):
    bench = Bench(tmp_path, EditorHabits(formatter=lambda taken: f"{taken}\n"))
    path = bench.put("a.py", "b = 1\n")
    for _ in range(2):
        assert await write(bench, path, text) == (text, "editor")
        assert bench.on_disk("a.py") == text
    assert bench.warnings == []


async def test_a_line_end_that_the_editor_adds_to_an_unfinished_line_stays_and_is_told(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(formatter=lambda taken: f"{taken}\n"))
    path = bench.put("a.py", "b = 1\n")
    assert await write(bench, path, "b = 2") == ("b = 2\n", "editor")
    assert len(bench.editor.calls) == 2


async def test_a_buffer_that_a_command_made_stale_is_not_believed(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.txt", "old\n")
    bench.editor.texts[path] = "old\n"
    await read(bench, path)
    bench.put("a.txt", "changed by a command\n", hours_old=0)
    bench.files.note_command_ran()
    assert await read(bench, path) == ("changed by a command\n", "disk")


async def test_a_command_that_did_not_touch_the_file_changes_nothing(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.txt", "saved\n")
    bench.editor.texts[path] = "unsaved\n"
    await read(bench, path)
    bench.files.note_command_ran()
    assert await read(bench, path) == ("unsaved\n", "editor")


async def test_a_file_written_during_a_command_is_read_from_the_disk_the_first_time_too(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.txt", "changed by a command\n", hours_old=0)
    bench.editor.texts[path] = "old\n"
    bench.files.note_command_ran()
    assert await read(bench, path) == ("changed by a command\n", "disk")


async def test_an_old_file_is_asked_of_the_editor_after_a_command(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.txt", "saved\n")
    bench.editor.texts[path] = "unsaved\n"
    bench.files.note_command_ran()
    assert await read(bench, path) == ("unsaved\n", "editor")


async def test_a_buffer_that_caught_up_is_believed_again(tmp_path: Path):
    bench = Bench(tmp_path)
    path = bench.put("a.txt", "old\n")
    bench.editor.texts[path] = "old\n"
    await read(bench, path)
    bench.put("a.txt", "new\n", hours_old=0)
    bench.files.note_command_ran()
    bench.editor.texts[path] = "new\n"
    assert await read(bench, path) == ("new\n", "editor")
    bench.editor.texts[path] = "new and unsaved\n"
    assert await read(bench, path) == ("new and unsaved\n", "editor")


async def test_a_write_goes_through_the_editor_and_is_read_back(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(formatter=str.upper))
    path = bench.put("a.txt", "old\n")
    assert await write(bench, path, "new\n") == ("NEW\n", "editor")
    assert bench.editor.calls == [("write", path), ("read", path)]
    assert bench.on_disk("a.txt") == "NEW\n"


async def test_a_byte_order_mark_that_the_editor_leaves_out_is_put_back(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(plain_utf_8=True))
    path = bench.put("a.txt", "\ufeffold\n")
    assert await write(bench, path, "new\n") == ("new\n", "editor")
    assert bench.on_disk("a.txt") == "\ufeffnew\n"
    assert await read(bench, path) == ("new\n", "editor")
    assert bench.warnings == []


async def test_utf_16_is_not_trusted_to_editors(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(plain_utf_8=True))
    path = bench.put("a.txt", "\ufeffold\n", encoding="utf-16-le")
    assert await read(bench, path) == ("old\n", "disk")
    assert await write(bench, path, "new\n") == ("new\n", "disk")
    assert bench.on_disk("a.txt", encoding="utf-16-le") == "\ufeffnew\n"
    assert bench.editor.calls == []


@pytest.mark.parametrize("before", ["", "plain\n" * 3_000])
async def test_text_in_windows_1252_is_not_trusted_to_editors_wherever_it_shows(tmp_path: Path, before: str):
    bench = Bench(tmp_path, EditorHabits(plain_utf_8=True))
    path = bench.put("a.txt", f"{before}caf\u00e9\n", encoding="cp1252")
    assert await read(bench, path) == (f"{before}caf\u00e9\n", "disk")
    assert await write(bench, path, f"{before}na\u00efve\n") == (f"{before}na\u00efve\n", "disk")
    assert bench.on_disk("a.txt", encoding="cp1252") == f"{before}na\u00efve\n"
    assert bench.editor.calls == []


async def test_a_new_file_is_written_through_the_editor(tmp_path: Path):
    bench = Bench(tmp_path)
    path = str(tmp_path / "new.txt")
    assert await write(bench, path, "new\n") == ("new\n", "editor")
    assert bench.on_disk("new.txt") == "new\n"


async def test_a_write_without_the_capability_stays_away_from_the_editor(tmp_path: Path):
    bench = Bench(tmp_path, can_write=False)
    path = bench.put("a.txt", "old\n")
    bench.editor.texts[path] = "old\n"
    assert await write(bench, path, "new\n") == ("new\n", "disk")
    assert bench.editor.calls == []
    assert await read(bench, path) == ("new\n", "disk")


async def test_reads_without_the_capability_stay_away_from_the_editor(tmp_path: Path):
    bench = Bench(tmp_path, can_read=False)
    path = bench.put("a.txt", "old\n")
    assert await read(bench, path) == ("old\n", "disk")
    assert await write(bench, path, "new\n") == ("new\n", "disk")
    assert bench.editor.calls == [("write", path)]


async def test_a_write_that_the_editor_does_not_serve_happens_once_on_the_disk(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(mute=True), deadline=0.05)
    path = str(tmp_path / "new.txt")
    file = await bench.files.write_text_file(path, "new\n")
    assert (file.text, file.source) == ("new\n", "disk")
    assert bench.on_disk("new.txt") == "new\n"
    assert bench.warnings == [file.warning]


async def test_a_write_that_the_editor_did_without_saying_so_is_not_repeated(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(mute_after_writing=True, formatter=str.upper))
    path = bench.put("a.txt", "old\n")
    assert await write(bench, path, "new\n") == ("NEW\n", "disk")
    assert bench.on_disk("a.txt") == "NEW\n"
    assert "all the same" in bench.warnings[0]


async def test_a_write_that_is_not_saved_is_told(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(saves=False))
    path = bench.put("a.txt", "old\n")
    file = await bench.files.write_text_file(path, "new\n")
    assert (file.text, file.source) == ("new\n", "editor")
    assert bench.on_disk("a.txt") == "old\n"
    assert bench.warnings == [file.warning]


async def test_an_unsaved_new_file_is_what_was_written(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(saves=False))
    path = str(tmp_path / "new.txt")
    assert await write(bench, path, "new") == ("new", "editor")


async def test_cancelling_a_read_is_not_swallowed(tmp_path: Path):
    bench = Bench(tmp_path, EditorHabits(mute=True))
    path = bench.put("a.txt", "text\n")
    with anyio.move_on_after(0.01) as scope:
        await bench.files.read_text_file(path)
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    "error", [CommandFailedToStartError("No such program."), EditorUnavailableError("The editor is gone.")]
)
async def test_a_command_that_the_editor_cannot_start_runs_locally(tmp_path: Path, error: WorkspaceError):
    editor = FakeTerminal(lambda _: PlayedCommand(start_error=error), client_owned=True)
    local = FakeTerminal()
    warnings: list[str] = []
    request = CommandRequest("true", str(tmp_path))
    async with DelegatingTerminal(editor, local, on_warning=warnings.append).start(request) as command:
        assert not command.client_owned
    assert local.requests == [request]
    assert local.commands[0].released
    assert len(warnings) == 1
    assert error.sentence in warnings[0]


async def test_a_command_that_the_editor_refuses_does_not_run_locally(tmp_path: Path):
    editor = FakeTerminal(lambda _: PlayedCommand(start_error=REFUSED), client_owned=True)
    local = FakeTerminal()
    with pytest.raises(EditorRefusedError):
        async with DelegatingTerminal(editor, local, on_warning=lambda _: None).start(
            CommandRequest("true", str(tmp_path))
        ):
            pass
    assert local.requests == []


async def test_an_error_inside_the_context_comes_out_as_it_is(tmp_path: Path):
    editor, local = FakeTerminal(client_owned=True), FakeTerminal()
    terminal = DelegatingTerminal(editor, local, on_warning=lambda _: None)
    with pytest.raises(EditorUnavailableError):
        async with terminal.start(CommandRequest("true", str(tmp_path))):
            raise EditorUnavailableError("The editor went away later.")
    assert local.requests == []
    assert editor.commands[0].released
