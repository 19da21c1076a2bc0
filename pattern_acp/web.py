"""The web: fetching a page for the model, and asking a vendor's search.

Owns: the way from a URL to bytes, within limits, which addresses are public, HTML as Markdown, and the vendors. The
libraries for HTML are imported when the first page comes. Must not know: tools, policy, or what is done with a page.
What comes from here is data, whatever it says (invariant 8).

A name is resolved once, its addresses are checked, and the connection goes to one of them by number: a name that leads
elsewhere at the second look (DNS rebinding) gains nothing. Redirects within the site are followed, each checked in the
same way; one that leads to another host is reported instead, since the user allowed this host only.
"""

import codecs
import ipaddress
import json
import re
import socket
import zlib
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode, urljoin

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp import __version__
from pattern_acp.config.settings import ProviderSettings, SearchSettings, Secret
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.errors import WebError
from pattern_acp.domain.late_pattern import late_pattern

if TYPE_CHECKING:
    import httpx
    from bs4 import BeautifulSoup, Tag


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""An IPv4 address for gateways, in the last 32 bits (RFC 6052)."""


def literal_address(host: str) -> str | None:
    """Return the numeric address that a host spells, in any form that systems accept (`127.1`, `0x7f000001`).

    None for a name, except the loopback address for `localhost`, which names nothing else (RFC 6761).
    """
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return None


def is_public(address: str) -> bool:
    """Return whether a numeric address is reachable for everybody; an unreadable one is not."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = _inner(parsed)
        if inner is not None:
            return _is_public(inner)
    return _is_public(parsed)


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address at which packets to this one end up."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    is_special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local
    return address.is_global and not is_special


class AddressRefusedError(WebError):
    """The URL must not be fetched: another scheme, a password in it, a private address."""

    failure_code = "web.address-refused"


class PageFailedError(WebError):
    """The server did not deliver the page: no answer in time, a broken connection, an unreadable body."""

    failure_code = "web.page-failed"


TOTAL_SECONDS = 30.0
"""Longest time for a page, redirects included."""

CONNECT_SECONDS = 10.0

PAGE_BYTES = 5_000_000
"""Size limit of a page, on the wire and unpacked; the rest is left out."""

REDIRECTS = 5
TRIED_ADDRESSES = 3

URL_CHARACTERS = 4_000

_HOST = late_pattern(r"[\w.:-]+")

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Resolves a host and port to numeric addresses."""


class FetchedPage(Struct, frozen=True):
    """A response. `media_type` is in lower case and without parameters; `charset` is "" if the server named none."""

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes
    is_cut: bool = False
    moved_to: str = ""
    """The URL on another host to which the page redirects; then there is no body."""


class WebRequest(Struct, frozen=True):
    """A request to an address that the user set up: with a body a POST of JSON."""

    url: str
    headers: dict[str, str]
    body: bytes = b""


class Site(Struct, frozen=True):
    """A URL that may be fetched, in its normal form, and its host with the port if the URL has one."""

    url: str
    host: str


def site_of(url: str) -> Site:
    """The site of a URL.

    Raises:
        AddressRefusedError: it is no http or https URL, or holds a user name or password.
    """
    parsed = _parsed(url)
    host = parsed.host if parsed.port is None else f"{parsed.host}:{parsed.port}"
    return Site(str(parsed.copy_with(fragment=None)), host)


def allow_any_address(_address: str) -> bool:
    """Accept every address."""
    return True


async def resolve_by_system(host: str, port: int) -> list[str]:
    """Resolve a host as the system does. Raises OSError where there are none."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Pages:
    """Fetches pages.

    `private_addresses`: also from this machine and its networks. `may_reach` judges every address otherwise.
    """

    def __init__(
        self,
        *,
        private_addresses: bool = False,
        resolve: Resolve = resolve_by_system,
        may_reach: Callable[[str], bool] = is_public,
    ) -> None:
        self._may_reach = allow_any_address if private_addresses else may_reach
        self._resolve = resolve
        self._client: httpx.AsyncClient | None = None

    def site(self, url: str) -> Site:
        """Return `site_of`, refusing addresses that visibly must not be fetched, without asking the network.

        Raises:
            AddressRefusedError: it is no URL that is fetched, or it names an address of this machine or its network.
        """
        site = site_of(url)
        host = _parsed(site.url).host
        address = literal_address(host)
        if address is not None and not self._may_reach(address):
            raise _not_fetched(host)
        return site

    async def fetch(self, url: str, *, seconds: float = TOTAL_SECONDS) -> FetchedPage:
        """Fetch the page at `url`.

        Raises:
            AddressRefusedError: the URL or an address behind it is not one that is fetched.
            PageFailedError: the server gave no page in time.
        """
        # The first import takes a tenth of a second and more, which would block the loop.
        await anyio.to_thread.run_sync(import_module, "httpx")
        import httpx

        try:
            with anyio.fail_after(seconds):
                return await self._follow(site_of(url).url)
        except TimeoutError as error:
            raise PageFailedError(f"{_shown(url)} was not there within {seconds:g} seconds.") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error)).strip(" .") or type(error).__name__
            raise PageFailedError(f"{_shown(url)} could not be fetched: {reason[:200]}.") from error

    async def ask(self, asked: WebRequest, *, seconds: float = TOTAL_SECONDS) -> FetchedPage:
        """Return the answer to a request; no redirect is followed, as the headers may hold a key.

        Raises:
            PageFailedError: the server gave no answer in time.
        """
        await anyio.to_thread.run_sync(import_module, "httpx")
        import httpx

        shown = _shown(asked.url.partition("?")[0])
        headers = asked.headers | {"Accept": "application/json"}
        if asked.body:
            headers["Content-Type"] = "application/json"
        try:
            with anyio.fail_after(seconds):
                client = await self._opened()
                request = client.build_request(
                    "POST" if asked.body else "GET", asked.url, headers=headers, content=asked.body or None
                )
                response = await client.send(request, stream=True, follow_redirects=False)
                try:
                    return await _read(asked.url, response, is_wanted=True)
                finally:
                    with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                        await response.aclose()
        except TimeoutError as error:
            raise PageFailedError(f"{shown} did not answer within {seconds:g} seconds.") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            raise PageFailedError(f"{shown} could not be asked: {type(error).__name__}.") from error

    async def _follow(self, url: str) -> FetchedPage:
        for _ in range(REDIRECTS + 1):
            fetched, location = await self._get(url)
            if not location:
                return fetched
            after = site_of(urljoin(url, location)).url
            if not _is_same_site(_parsed(url), _parsed(after)):
                return FetchedPage(url, fetched.status, "", "", b"", moved_to=after)
            url = after
        raise PageFailedError(f"{_shown(url)} redirects more than {REDIRECTS} times.")

    async def _get(self, url: str) -> tuple[FetchedPage, str]:
        import httpx

        parsed = _parsed(url)
        port = parsed.port or (443 if parsed.scheme == "https" else 80)
        addresses = await self._addresses(parsed.host, port)
        client = await self._opened()
        for number, address in enumerate(addresses, 1):
            request = client.build_request(
                "GET",
                parsed.copy_with(host=address, fragment=None),
                headers={"Host": parsed.netloc.decode("ascii")},
                # The certificate has to be the name's, whatever address answers.
                extensions={"sni_hostname": parsed.raw_host.decode("ascii")},
            )
            try:
                response = await client.send(request, stream=True, follow_redirects=False)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if number == len(addresses):
                    raise
                continue
            try:
                location = response.headers.get("location", "") if response.has_redirect_location else ""
                return await _read(url, response, is_wanted=not location), location
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                    await response.aclose()
        raise PageFailedError(f"{parsed.host} has no address.")

    async def _addresses(self, host: str, port: int) -> list[str]:
        found = await self._resolve(host, port)
        if not all(self._may_reach(address) for address in found):
            raise _not_fetched(host)
        return found[:TRIED_ADDRESSES]

    async def _opened(self) -> "httpx.AsyncClient":
        if self._client is None:
            # Certificates take about 0.1 s.
            self._client = await anyio.to_thread.run_sync(_new_client)
        return self._client


def _not_fetched(host: str) -> AddressRefusedError:
    return AddressRefusedError(
        f"{host} is an address of this machine or its network, which is not fetched; the user can allow it with "
        "private_addresses = true in [fetch] of config.toml."
    )


def _new_client() -> "httpx.AsyncClient":
    import httpx

    return httpx.AsyncClient(
        # Loading certificates takes about 0.1 s.
        trust_env=False,
        timeout=httpx.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS),
        headers={
            "User-Agent": f"pattern-acp/{__version__}",
            "Accept": "text/markdown, text/html, text/plain, application/json, */*;q=0.5",
            "Accept-Encoding": "gzip",
        },
        # A connection belongs to the address that was checked for one name; it is not reused for another.
        limits=httpx.Limits(max_keepalive_connections=0),
    )


async def _read(url: str, response: "httpx.Response", *, is_wanted: bool) -> FetchedPage:
    content_type, _, parameters = response.headers.get("content-type", "").partition(";")
    body, is_cut = (await _body(response)) if is_wanted else (b"", False)
    return FetchedPage(
        url, response.status_code, content_type.strip().lower(), _charset(parameters), body, is_cut=is_cut
    )


async def _body(response: "httpx.Response") -> tuple[bytes, bool]:
    """Unpack the body up to the limit, and return whether there was more: a small body can unpack to gigabytes."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in {"", "identity", "gzip", "x-gzip"}:
        raise PageFailedError(f"{response.url.host} packed the page with {encoding[:20]!r}, which was not asked for.")
    unpacker = zlib.decompressobj(31) if "gzip" in encoding else None
    body = bytearray()
    async for chunk in response.aiter_raw():
        try:
            body += chunk if unpacker is None else unpacker.decompress(chunk, PAGE_BYTES + 1 - len(body))
        except zlib.error as error:
            raise PageFailedError("The page is packed in a way that cannot be read.") from error
        if len(body) > PAGE_BYTES:
            return bytes(body[:PAGE_BYTES]), True
    return bytes(body), False


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'").lower()
    return ""


def _parsed(url: str) -> "httpx.URL":
    import httpx

    if len(url) > URL_CHARACTERS:
        raise AddressRefusedError(f"The URL is longer than {URL_CHARACTERS:,} characters.")
    try:
        parsed = httpx.URL(url.strip())
        host = parsed.host  # decoded here; raises if it is no name
    except (httpx.InvalidURL, UnicodeError) as error:
        raise AddressRefusedError(f"{_shown(url)} is not a URL that can be fetched.") from error
    if parsed.scheme not in {"http", "https"} or not host:
        raise AddressRefusedError(f"{_shown(url)} is not an http or https URL; only these are fetched.")
    if not _HOST.fullmatch(host) or not 0 < (parsed.port or 80) < 65_536:
        raise AddressRefusedError(f"{_shown(url)} is not a URL that can be fetched.")
    if parsed.userinfo:
        raise AddressRefusedError("The URL holds a user name or password, which is not sent; give it without.")
    return parsed


def _is_same_site(before: "httpx.URL", after: "httpx.URL") -> bool:
    """Return whether an allowance for one host covers the other: the same name, with or without `www.`, and as safe."""
    if before.scheme == "https" and after.scheme == "http":
        return False
    if (before.port, after.port) != (None, None) and before.port != after.port:
        return False
    return before.host.removeprefix("www.") == after.host.removeprefix("www.")


def _shown(url: str) -> str:
    plain = "".join(character if character.isprintable() else "?" for character in url)
    return plain if len(plain) <= 200 else f"{plain[:199]}…"


HTML_CHARACTERS = 600_000
"""Characters of a page that are parsed as HTML: that takes some seconds, and cannot be stopped."""

_META_CHARSET = late_pattern(rb"<meta[^>]{0,200}?charset=[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_UNSEEN = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "head", "title", "dialog")
_AROUND = ("nav", "footer", "aside")
_TAG = late_pattern(r"<[^>]*>")
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
        """Return the results for a query, best first. Raises PageFailedError where there are none, and why."""
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
