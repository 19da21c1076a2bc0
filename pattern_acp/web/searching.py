"""Searching the web through a vendor that the user set up: Brave, Tavily, Exa, or a server of SearXNG.

Owns: the request of each vendor and what is read of its answer, one row a vendor. Must not know: tools, permissions, or
how HTTP is spoken (`web.pages`).
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import cast
from urllib.parse import urlencode

from msgspec import Struct

from pattern_acp.config.settings import ProviderSettings, SearchSettings, Secret
from pattern_acp.domain.canonical import Json
from pattern_acp.web.pages import PageFailedError, Pages, Site, WebRequest, site_of

MOST_RESULTS = 10

_TELL = "tell the user."

_REASONS = {401: "its key is wrong", 402: "its credit is used up", 403: "its key is wrong", 429: "its limit is reached"}


class WebResult(Struct, frozen=True):
    """One result: where it is, its title, an excerpt, and a date as the vendor writes it, where there is one."""

    url: str
    title: str
    text: str
    date: str = ""


class SearchVendor(Struct, frozen=True):
    """One vendor: its address, the variable of its key, its request, and where its results are."""

    address: str
    key_variable: str
    request: Callable[[str, str, str], WebRequest]
    """Made of the address, the key and the query."""
    path: tuple[str, ...]
    """The members of the answer that lead to the list of results."""
    text: tuple[str, ...]
    """The members of a result of which the first that there is is its excerpt."""
    date: str = ""


def _brave(address: str, key: str, query: str) -> WebRequest:
    parameters = urlencode({"q": query, "count": MOST_RESULTS, "text_decorations": "false"})
    return WebRequest(f"{address}/res/v1/web/search?{parameters}", {"X-Subscription-Token": key})


def _tavily(address: str, key: str, query: str) -> WebRequest:
    body = json.dumps({"query": query, "max_results": MOST_RESULTS}).encode()
    return WebRequest(f"{address}/search", {"Authorization": f"Bearer {key}"}, body)


def _exa(address: str, key: str, query: str) -> WebRequest:
    contents = {"text": {"maxCharacters": 600}}
    body = json.dumps({"query": query, "numResults": MOST_RESULTS, "contents": contents}).encode()
    return WebRequest(f"{address}/search", {"x-api-key": key}, body)


def _searxng(address: str, _key: str, query: str) -> WebRequest:
    return WebRequest(f"{address}/search?{urlencode({'q': query, 'format': 'json'})}", {})


VENDORS: Mapping[str, SearchVendor] = {
    "brave": SearchVendor(
        "https://api.search.brave.com", "BRAVE_API_KEY", _brave, ("web", "results"), ("description",), "age"
    ),
    "tavily": SearchVendor("https://api.tavily.com", "TAVILY_API_KEY", _tavily, ("results",), ("content",)),
    "exa": SearchVendor("https://api.exa.ai", "EXA_API_KEY", _exa, ("results",), ("text", "summary"), "publishedDate"),
    "searxng": SearchVendor("", "", _searxng, ("results",), ("content",), "publishedDate"),
}
"""The vendors, with what their documentation says of requests and answers (November 2026)."""


class WebSearcher:
    """Searches through one vendor. `address` is another one than its own, as a server of SearXNG has."""

    def __init__(self, name: str, key: Callable[[], Awaitable[str]], address: str = "") -> None:
        self.name = name
        self._vendor = VENDORS[name]
        self._key = key
        self._address = (address or self._vendor.address).rstrip("/")
        # The user named the address, which may be one of this machine.
        self._pages = Pages(private_addresses=True)

    def site(self) -> Site:
        """The site that is asked."""
        return site_of(self._address)

    async def search(self, query: str) -> tuple[WebResult, ...]:
        """Return the results for a query, best first.

        Raises:
            PageFailedError: there are none, and why.
        """
        key = await self._key() if self._vendor.key_variable else ""
        page = await self._pages.ask(self._vendor.request(self._address, key, query))
        if page.status != 200:
            reason = _REASONS.get(page.status, f"it answered with status {page.status}")
            raise PageFailedError(f"{self.name} did not search: {reason}", advice=_TELL)
        try:
            answer = cast("Json", json.loads(page.body))
        except ValueError as error:
            raise PageFailedError(f"{self.name} did not answer with JSON", advice=_TELL) from error
        return tuple(filter(None, map(self._result, self._listed(answer))))[:MOST_RESULTS]

    def _listed(self, answer: Json) -> list[Json]:
        for name in self._vendor.path:
            answer = answer.get(name) if isinstance(answer, dict) else None
        return list(answer) if isinstance(answer, list) else []

    def _result(self, item: Json) -> WebResult | None:
        if not isinstance(item, dict) or not isinstance(item.get("url"), str):
            return None
        texts = {name: value for name, value in item.items() if isinstance(value, str)}
        text = next((texts[name] for name in self._vendor.text if texts.get(name)), "")
        return WebResult(texts["url"], texts.get("title", ""), text, texts.get(self._vendor.date, ""))


def key_owner(name: str, environ: Mapping[str, str]) -> ProviderSettings | None:
    """Return a vendor as something with a key, from its variable or from `auth login`; None when it needs none."""
    vendor = VENDORS.get(name)
    if vendor is None or not vendor.key_variable:
        return None
    value = environ.get(vendor.key_variable, "").strip()
    key = Secret(value, f"${vendor.key_variable}") if value else None
    return ProviderSettings(name, "offline", vendor.address, api_key=key, api_key_env=vendor.key_variable)


def what_is_missing(settings: SearchSettings, *, has_key: bool) -> str:
    """Say what the user has to do before the vendor of their choice can be asked; empty when nothing."""
    vendor = VENDORS[settings.provider]
    if vendor.key_variable and not has_key:
        return f"Run `pattern-acp auth login {settings.provider}`, or set {vendor.key_variable}."
    return "" if settings.url or vendor.address else "Set search.url to the address of the server."
