"""Text of what a server sent.

Owns: character sets, HTML as Markdown, which types are text. Must not know: HTTP. The libraries for HTML are imported
when the first page comes.
"""

import codecs
import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

HTML_CHARACTERS = 600_000
"""Characters of a page that are parsed as HTML: that takes some seconds, and cannot be stopped."""

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset=[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_UNSEEN = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "head", "title", "dialog")
_AROUND = ("nav", "footer", "aside")
_TAG = re.compile(r"<[^>]*>")
_TEXT_TYPES = frozenset(
    {
        "application/json", "application/xml", "application/javascript", "application/x-javascript",
        "application/ecmascript", "application/yaml", "application/x-yaml", "application/toml", "application/sql",
        "application/x-sh", "application/graphql", "application/x-ndjson",
    }
)  # fmt: skip

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

LEAST_TEXT = 200
"""Least characters of a page's main part; a shorter one is not the main part."""


def is_html(media_type: str, body: bytes) -> bool:
    """Return whether a body is HTML; one without a type is inspected."""
    if media_type in {"text/html", "application/xhtml+xml"}:
        return True
    return not media_type and body[:500].lstrip().lower().startswith((b"<!doctype html", b"<html"))


def is_text(media_type: str, body: bytes) -> bool:
    """Return whether a body is text by its type, or, without one, by having no zero bytes."""
    if media_type.startswith("text/") or media_type in _TEXT_TYPES or media_type.endswith(("+json", "+xml")):
        return True
    return media_type in {"", "application/octet-stream"} and b"\0" not in body[:8_192]


def text_of(body: bytes, charset: str) -> str:
    """Decode the body: by its byte order mark, as declared, as UTF-8, or as Windows-1252, which reads any bytes."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    declared = _META_CHARSET.search(body[:4_096]) if not charset else None
    for name in (charset or (declared[1].decode("ascii") if declared else "utf-8"), "utf-8"):
        try:
            return body.decode(name)
        except (LookupError, ValueError):
            continue
    return body.decode("cp1252", "replace")


def markdown_of(html: str, url: str) -> tuple[str, str]:
    """Return the title and the main part of a page as Markdown, links made absolute. Blocks up to a few seconds."""
    from bs4 import BeautifulSoup

    try:
        soup = BeautifulSoup(html[:HTML_CHARACTERS], "html.parser")
        title = " ".join(soup.title.get_text(" ").split()) if soup.title is not None else ""
        return title, _tidy(_converted(_main_part(soup), url))
    except RecursionError:
        # Some pages nest thousands of levels deep, by accident or to do harm.
        return "", _tidy(_TAG.sub(" ", html[:HTML_CHARACTERS]))


def _main_part(soup: "BeautifulSoup") -> "Tag":
    for tag in soup.find_all(_UNSEEN):
        tag.decompose()
    for name in ("main", "article"):
        found = soup.find_all(name)
        if len(found) == 1 and len(found[0].get_text(strip=True)) >= LEAST_TEXT:
            return found[0]
    whole = soup.body or soup
    around = [tag for tag in whole.find_all(_AROUND) if not tag.decomposed]
    if len(whole.get_text(strip=True)) - sum(len(tag.get_text(strip=True)) for tag in around) >= LEAST_TEXT:
        for tag in around:
            tag.decompose()
    return whole


def _converted(part: "Tag", url: str) -> str:
    from markdownify import MarkdownConverter

    for link in part.find_all("a", href=True):
        link["href"] = _absolute(url, str(link["href"]))
    for image in part.find_all("img"):
        source = str(image.get("src", ""))
        if not source or source.startswith("data:"):
            image.replace_with(str(image.get("alt", "")))
        else:
            image["src"] = _absolute(url, source)
    return str(MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(part))


def _absolute(base: str, link: str) -> str:
    try:
        return urljoin(base, link)
    except ValueError:
        return link


def _tidy(text: str) -> str:
    lines = [line.rstrip() for line in text.replace("\xa0", " ").splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
