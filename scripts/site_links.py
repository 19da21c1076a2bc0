"""A hook of mkdocs: links of a page to files outside of docs/ lead to the repository.

A link to what does not exist stays as it is, so that `mkdocs build --strict` finds it.
"""

import os
import re
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")


class Source(Protocol):
    """The file of a page."""

    src_uri: str


class Page(Protocol):
    """A page of the site."""

    file: Source


class Config(Protocol):
    """The settings of the site."""

    repo_url: str


def on_page_markdown(markdown: str, *, page: Page, config: Config, **_: object) -> str:
    """Rewrite the links of a page that leave docs/, or that lead to a folder."""
    folder = (DOCS / page.file.src_uri).parent

    def rewritten(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link[1]))
        if not target.exists() or (target.is_relative_to(DOCS) and target.is_file()):
            return link[0]
        kind = "tree" if target.is_dir() else "blob"
        address = f"{config.repo_url}/{kind}/main/{target.relative_to(ROOT).as_posix()}"
        return f"]({address}{link[2] or ''})"

    return LINK.sub(rewritten, markdown)
