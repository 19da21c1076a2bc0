"""Opening a block's text in the user's editor.

Owns: the file it is opened in, and which editor. Must not know: blocks, or how the change is applied.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from pattern_acp.domain.errors import PatternError
from pattern_acp.memory.block_files import EditableText

_FALLBACKS = ("notepad",) if sys.platform == "win32" else ("vi", "nano")


class EditingError(PatternError):
    """The text could not be edited; nothing was changed."""

    failure_code = "memory.editing-stopped"


class EditedText(Struct, frozen=True):
    """A text that the user edited, and its file until that is discarded."""

    text: str
    path: Path

    def discard(self) -> None:
        """Delete the file with its folder."""
        shutil.rmtree(self.path.parent, ignore_errors=True)


def edit_text(editable: EditableText, label: str, environ: Mapping[str, str]) -> EditedText:
    """Open a text in the editor as a file of this user alone, and wait for the editor to end.

    Raises:
        EditingError: there is no editor, it failed, or the file is no text afterwards; the sentence names the file.
    """
    command = editor_command(environ)
    # mkdtemp makes a folder that no other user can look into.
    folder = Path(tempfile.mkdtemp(prefix="pattern-acp-memory-"))
    path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '-', label) or 'block'}{editable.suffix}"
    path.write_text(editable.text, encoding="utf-8", newline="")
    try:
        ended = subprocess.run([*command, str(path)], env=dict(environ), check=False)  # noqa: S603  # the user's own editor
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise EditingError(
            f"The editor {command[0]} cannot be started ({error.strerror}); set VISUAL or EDITOR to another one."
        ) from error
    if ended.returncode != 0:
        raise EditingError(f"The editor ended with {ended.returncode}, so nothing was changed; your text is in {path}.")
    return EditedText(read_edited(path, editable.text), path)


def read_edited(path: Path, original: str) -> str:
    """The text of a file that was edited, `-` for stdin; the line end that editors put at the end is left out.

    Raises:
        EditingError: the file is gone, or no UTF-8 text.
    """
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise EditingError(f"The file {path} cannot be read ({error.strerror}); nothing was changed.") from error
    except UnicodeDecodeError as error:
        raise EditingError(f"The file {path} is no UTF-8 text, so nothing was changed; it was left there.") from error
    # Line ends of a pipe come as they were written.
    text = text.replace("\r\n", "\n")
    return text if original.endswith("\n") else text.removesuffix("\n")


def editor_command(environ: Mapping[str, str]) -> list[str]:
    """The user's editor: VISUAL, EDITOR, else the first usual one that is there.

    Raises:
        EditingError: there is none, or only a usual one and no terminal to show it in.
    """
    for name in ("VISUAL", "EDITOR"):
        if chosen := environ.get(name, "").strip():
            return shlex.split(chosen, posix=sys.platform != "win32")
    if sys.platform != "win32" and not (sys.stdin.isatty() and sys.stdout.isatty()):
        # What nobody chose would wait for keys that nobody can press.
        raise EditingError("There is no terminal to edit in; set VISUAL or EDITOR, or give the new text with --file.")
    for name in _FALLBACKS:
        if found := shutil.which(name, path=environ.get("PATH")):
            return [found]
    raise EditingError("No editor was found; set VISUAL or EDITOR, or give the new text with --file.")
