"""A folder full of files that tools stumble over.

Owns: making it, changing it meanwhile, and telling whether another folder was touched. Must not know: tools.
"""

import os
import random
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

PNG_HEAD: Final = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")

PLAIN: Final = (".hidden", "changing.txt", "sp ace.txt", "-rf")

STRANGE: Final = (
    "quo'te\".txt",
    "new\nline.txt",
    "*.txt",
    "unicode-\u00e9-e\u0301-\u65e5\u672c-\U0001f44d.txt",
    "n" * 255,
    "zero\u200bwidth",
)

FILES: Final[Mapping[str, bytes]] = {
    "a.txt": b"hello\n",
    "sub/b.py": b"class C:\n    def m(self):\n        return f()\n\ndef f():\n    return 1\n",
    "empty.txt": b"",
    "binary.bin": bytes(range(256)) * 20,
    "zeros.bin": bytes(5000),
    "crlf.txt": b"hello\r\nx\r\n",
    "mixed.txt": b"hello\r\nx\ny\rz\x0c\x0b\xc2\x85",
    "bom.txt": b"\xef\xbb\xbfhello\n",
    "utf16.txt": "hello\n".encode("utf-16"),
    "latin1.txt": b"hello \xe4\xf6\n",
    "no_permission.txt": b"hello\n",
    "doc.pdf": b"%PDF-1.4\nbroken",
    "image.png": PNG_HEAD,
    "note.ipynb": b"{}",
    ".env": b"NAME=x\n",
    "deep.json": b"[" * 5000,
    **dict.fromkeys((*PLAIN, *STRANGE), b"hello\n"),
}
"""Contents by name."""

NO_TEXT: Final = b"bad\xff\xfename.txt"
"""A name that is no UTF-8."""


def fill_with_odd_files(folder: Path, outside: Path, *, big: bool = False) -> None:
    """Make `folder` with what `odd_arguments.PATHS` names, and `outside` with one file that links lead to.

    `big`: with a file of 54 MB and a line of 5 MB.
    """
    (folder / "sub").mkdir(parents=True)
    outside.mkdir(parents=True)
    (outside / "secret.txt").write_text("outside\n")
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    (folder / "long_line.txt").write_bytes(b"hello " * (900_000 if big else 30_000))
    (folder / "big.txt").write_bytes(b"hello\n" * (9_000_000 if big else 20_000))
    (folder / "empty").mkdir()
    with suppress(OSError):
        # Some systems only take names that are text.
        Path(os.fsdecode(os.fsencode(folder) + b"/" + NO_TEXT)).write_bytes(b"hello\n")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening, suppress(OSError):
        listening.bind(str(folder / "socket"))
    links = {"loop": "loop", "loop_a": "loop_b", "loop_b": "loop_a", "dangling": "nowhere/at/all"}
    for name, target in {**links, "to_outside": outside, "to_outside_file": outside / "secret.txt"}.items():
        (folder / name).symlink_to(target)
    (folder / "no_permission").mkdir()
    for name in ("no_permission", "no_permission.txt"):
        (folder / name).chmod(0)


def disturb(folder: Path, draw: random.Random) -> None:
    """Change something, as a person or a build does meanwhile; nothing outside."""
    target = folder / draw.choice(("changing.txt", "a.txt", "sub/b.py", "sub/new.txt", "moving"))
    with suppress(OSError):
        match draw.randrange(4):
            case 0 if not target.is_symlink():
                target.write_text(draw.choice(("hello\n", "", "other\nhello\n")))
            case 1:
                target.unlink()
            case 2:
                target.unlink()
                target.symlink_to(draw.choice(("../outside/secret.txt", "/", "a.txt")))
            case _:
                target.mkdir()


def state_of(folder: Path) -> dict[str, bytes | str]:
    """Everything below a folder by path: contents of files, targets of links."""
    return {
        str(path): str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }
