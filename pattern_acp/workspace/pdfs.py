"""The text of PDF files, page by page.

Owns: reading it in a process of its own, with limits of size and time. Must not know: which pages are needed. A PDF is
a program of sorts: a small one can keep a reader busy for hours, and only a process can be ended. pypdf is imported
there, and nowhere else; it comes with the extra `[pdf]`.
"""

import struct
import zlib
from importlib.util import find_spec
from pathlib import Path

import anyio
import anyio.to_process
from anyio import BrokenWorkerProcess
from msgspec import Struct

from pattern_acp.workspace.errors import PdfUnreadableError

PDF_BYTES = 50_000_000
"""Limit on bytes of a PDF."""

PDF_SECONDS = 30.0
"""Longest time to read some pages."""

PAGE_CHARACTERS = 200_000
"""Limit on characters of one page; a printed page has 3,000."""

_DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
    struct.error, zlib.error,
)  # fmt: skip
"""Errors of pypdf for a damaged file besides its own classes."""


class PdfPages(Struct, frozen=True):
    """The number of pages, and the text of the requested ones, in their order."""

    count: int
    texts: tuple[str, ...]


async def read_pdf(path: str, first: int, last: int, *, name: str = "") -> PdfPages:
    """Read the text of pages `first` to `last` (1-based, both included), as far as they exist.

    Errors call the file `name`; empty for its path.

    Raises:
        WorkspaceError: it is too large, damaged, needs a password, or takes too long; or pypdf is not installed.
    """
    name = name or path
    if find_spec("pypdf") is None:
        raise PdfUnreadableError(
            f'{name} is a PDF, and the part that reads these is not installed; run: pip install "pattern-acp[pdf]".'
        )
    try:
        size = (await anyio.Path(path).stat()).st_size
    except OSError as error:
        raise PdfUnreadableError(f"{name} cannot be read: {error.strerror}.") from error
    if size > PDF_BYTES:
        raise PdfUnreadableError(f"{name} has {size:,} bytes; at most {PDF_BYTES:,} of a PDF are read.")
    try:
        with anyio.fail_after(PDF_SECONDS):
            found = await anyio.to_process.run_sync(_pages, path, first, last, cancellable=True)
    except TimeoutError as error:
        raise PdfUnreadableError(f"{name} took longer than {PDF_SECONDS:g} s to read; ask for fewer pages.") from error
    except BrokenWorkerProcess as error:
        raise PdfUnreadableError(f"{name} could not be read: its reader ended; the file may be damaged.") from error
    if isinstance(found, str):
        raise PdfUnreadableError(f"{name} {found}")
    return found


def _pages(path: str, first: int, last: int) -> PdfPages | str:
    """Read the pages, in the other process; return the end of a sentence when the file cannot be read."""
    import logging

    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    # Warnings about badly written files of others are of no concern here.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        with Path(path).open("rb") as file:
            reader = PdfReader(file)
            # Many files are encrypted with an empty password, only to forbid printing.
            if reader.is_encrypted and not reader.decrypt(""):
                return "needs a password, so it cannot be read."
            count = len(reader.pages)
            wanted = range(first - 1, min(last, count))
            return PdfPages(count, tuple(reader.pages[at].extract_text()[:PAGE_CHARACTERS] for at in wanted))
    except OSError as error:
        return f"cannot be read: {error.strerror or error}."
    except MemoryError:
        return "is too large to be read."
    except DependencyError:
        return "is encrypted with AES, which cannot be read here; save it without encryption."
    except (PyPdfError, *_DAMAGE) as error:
        return f"is a damaged PDF and cannot be read ({type(error).__name__})."
