"""What read_file gives of a PDF.

Owns: which pages are meant and how they are shown. Must not know: how a PDF is read.
"""

import re
from collections.abc import Sequence

from pattern_acp.domain.text_limits import cut_middle, plural
from pattern_acp.domain.tool_calls import TextContent
from pattern_acp.tools.base import BeyondEndError, ToolContext, ToolInputError, ToolOutcome
from pattern_acp.tools.targets import CodeTarget
from pattern_acp.workspace.pdfs import PdfPages, read_pdf

WINDOW_PAGES = 20
"""Pages of one read when the model asks for no others, and the most of one read."""

FOOTER_ROOM = 200
"""Characters kept free for saying what is left."""

_RANGE = re.compile(r"\s*(\d{1,6})\s*(?:(-)\s*(\d{1,6})?)?\s*")


def pages_asked(pages: str) -> tuple[int, int]:
    """First and last page of `3`, `2-5`, `4-` or nothing, at most `WINDOW_PAGES` of them.

    Raises:
        ToolInputError: it is no range.
    """
    if not pages.strip():
        return 1, WINDOW_PAGES
    found = _RANGE.fullmatch(pages)
    first = int(found[1]) if found else 0
    last = 0 if not found else first if not found[2] else int(found[3] or first + WINDOW_PAGES - 1)
    if first < 1 or last < first:
        raise ToolInputError('`pages` must be a page or a range of pages of a PDF, such as "3" or "2-5".')
    return first, min(last, first + WINDOW_PAGES - 1)


async def pdf_outcome(target: CodeTarget, pages: str, context: ToolContext) -> ToolOutcome:
    """The text of the pages.

    Raises:
        ToolInputError: `pages` is no range.
        ToolFailedError: the file has no such page.
        WorkspaceError: it cannot be read.
    """
    first, last = pages_asked(pages)
    found = await read_pdf(target.path, first, last)
    if not found.texts:
        raise BeyondEndError(f"{target.shown} has only {plural(found.count, 'page')}; choose others.")
    shown = _within(found.texts, first, context.result_limit - FOOTER_ROOM)
    end = first + len(shown) - 1
    summary = f"Pages {first}-{end} of {found.count:,}."
    return ToolOutcome(
        "\n".join([summary, *shown, *_footer(found, end)]),
        content=(TextContent(summary),),
    )


def _within(texts: Sequence[str], first: int, room: int) -> list[str]:
    shown: list[str] = []
    for number, text in enumerate(texts, first):
        body = text.strip() or "(no text on this page; it may be a picture or a scan)"
        page = f"[page {number}]\n{body}"
        if len(page) > room and shown:
            break
        shown.append(cut_middle(page, max(room, 0)).text)
        room -= len(page) + 1
    return shown


def _footer(found: PdfPages, end: int) -> list[str]:
    left = found.count - end
    return [f'[{plural(left, "page")} left; continue with pages="{end + 1}-"]'] if left > 0 else []
