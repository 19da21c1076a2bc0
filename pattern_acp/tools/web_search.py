"""The tool web_search."""

from functools import partial
from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct

from pattern_acp.domain.access import FetchUrl, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.errors import WebError
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import LinkContent, TextContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import PreparedCall, Progress, ToolContext, ToolFailedError, ToolOutcome
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.web import WebResult, WebSearcher

EXCERPT = 600
"""Characters of one result's text."""


class WebSearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of web_search."""

    query: Annotated[str, Meta(min_length=1)]


class WebSearch:
    """Searches the web through the vendor that the user set up; offered only where there is one."""

    spec = ToolSpec(
        "web_search",
        "Search the web; fetch_url reads a result. Not for what is in the project.",
        input_schema(WebSearchArguments),
    )
    kind = ToolKind.FETCH
    changes_things = False

    def __init__(self, searcher: WebSearcher) -> None:
        self._searcher = searcher

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`. The words go to the vendor's site, so that is what is decided on."""
        asked = parse_arguments(arguments, WebSearchArguments)
        # Late inside, as for fetch_url: an import that would block the loop.
        site = await anyio.to_thread.run_sync(self._searcher.site)
        title = one_line(f"Search the web ({self._searcher.name}): {asked.query}")
        return PreparedCall(title, (FetchUrl(site.host, site.url),), partial(self._run, asked.query, context))

    async def _run(self, query: str, context: ToolContext, _progress: Progress) -> ToolOutcome:
        try:
            found = await self._searcher.search(query)
        except WebError as error:
            raise ToolFailedError(error.sentence, advice=error.advice, failure_code=error.failure_code) from error
        text = "\n\n".join(map(_as_text, found)) or "Nothing was found; try other words."
        links = tuple(LinkContent(one.url, one_line(one.title or one.url), one_line(one.text, 200)) for one in found)
        return ToolOutcome(
            cut_middle(text, context.result_limit).text,
            content=(TextContent(f"{plural(len(found), 'result')}."), *links),
            origin=Origin.WEB,
        )


def _as_text(one: WebResult) -> str:
    head = " | ".join(filter(None, (one_line(one.title, 200), one.date, one.url)))
    return f"{head}\n{one_line(one.text, EXCERPT)}"
