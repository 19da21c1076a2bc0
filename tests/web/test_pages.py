"""Fetching pages, against a real server on loopback."""

import gzip
import zlib
from collections.abc import Mapping

import pytest

from pattern_acp.web import PAGE_BYTES, AddressRefusedError, PageFailedError, Pages, Resolve, site_of
from tests.support.web_server import Answer, web_server

OPEN = Pages(private_addresses=True)


def names(known: Mapping[str, list[str]]) -> Resolve:
    async def resolve(host: str, port: int) -> list[str]:
        del port
        return known[host]

    return resolve


async def test_a_page_comes_with_its_type_and_says_who_asks():
    async with web_server({"/a?b=c": Answer("grün".encode(), "Text/Plain; Charset=UTF-8")}) as server:
        page = await OPEN.fetch(server.url("/a?b=c#part"))
        assert (page.status, page.media_type, page.charset, page.body) == (200, "text/plain", "utf-8", "grün".encode())
        assert "User-Agent: pattern-acp/" in server.asked[0]
        assert f"Host: 127.0.0.1:{server.port}" in server.asked[0]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://example.com/x", "not an http or https URL"),
        ("file:///etc/passwd", "not an http or https URL"),
        ("javascript:alert(1)", "not an http or https URL"),
        ("example.com", "not an http or https URL"),
        ("http://", "not an http or https URL"),
        ("http://me:secret@example.com/", "user name or password"),
        ("http://exa mple.com/", "not a URL that"),
        ("http://[::1", "not a URL that"),
        ("http://xn--.example.com/", "not a URL that"),
        ("http://example.com:99999/", "not a URL that"),
        ("http://e.com/" + "x" * 5_000, "longer than"),
    ],
)
def test_a_url_that_is_not_fetched_is_refused_in_a_sentence(url: str, said: str):
    with pytest.raises(AddressRefusedError, match=said):
        site_of(url)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0",
    ],
)
async def test_addresses_of_this_machine_are_refused_however_they_are_written(host: str):
    async with web_server({"/": Answer(b"private")}) as server:
        with pytest.raises((AddressRefusedError, PageFailedError)):
            await Pages().fetch(server.url("/", host))
        assert server.asked == []


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "a.LOCALHOST.", "2130706433", "0x7f.1", "127.1", "[::1]", "0", "10.1.2.3",
     "192.168.0.1", "169.254.169.254", "[fe80::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]"],
)  # fmt: skip
def test_private_addresses_are_refused_without_asking_the_network(host: str):
    with pytest.raises(AddressRefusedError, match="private_addresses = true"):
        Pages().site(f"http://{host}:8080/x")
    assert Pages(private_addresses=True).site(f"http://{host}:8080/x").url


@pytest.mark.parametrize("host", ["example.com", "93.184.216.34", "[2606:2800:220:1::1]", "localhost.example.com"])
def test_names_and_public_addresses_are_not_refused_before_they_are_looked_up(host: str):
    assert Pages().site(f"https://{host}/").url == f"https://{host}/"


async def test_a_name_that_leads_to_any_private_address_is_refused():
    pages = Pages(resolve=names({"mixed.example": ["93.184.216.34", "10.0.0.1"]}))
    with pytest.raises(AddressRefusedError, match=r"mixed\.example is an address of this machine or its network"):
        await pages.fetch("http://mixed.example/")


async def test_a_name_is_resolved_once_and_the_connection_goes_to_that_address():
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        del port
        asked.append(host)
        # The first address answers nothing, so the next one is tried.
        return ["127.0.0.2", "127.0.0.1"]

    async with web_server({"/": Answer(b"here")}) as server:
        page = await Pages(private_addresses=True, resolve=resolve).fetch(server.url("/", "some.example"))
        assert page.body == b"here"
        assert asked == ["some.example"]
        assert f"Host: some.example:{server.port}" in server.asked[0]


async def test_a_redirect_within_the_site_is_followed_and_one_elsewhere_is_reported():
    found = {
        "/a": Answer(status=302, headers={"Location": "/b"}),
        "/b": Answer(b"there"),
        "/out": Answer(status=301, headers={"Location": "http://10.0.0.1/admin"}),
        "/loop": Answer(status=307, headers={"Location": "/loop"}),
        "/bad": Answer(status=302, headers={"Location": "file:///etc/passwd"}),
    }
    async with web_server(found) as server:
        assert (await OPEN.fetch(server.url("/a"))).body == b"there"
        assert (await OPEN.fetch(server.url("/out"))).moved_to == "http://10.0.0.1/admin"
        with pytest.raises(PageFailedError, match="more than 5 times"):
            await OPEN.fetch(server.url("/loop"))
        with pytest.raises(AddressRefusedError):
            await OPEN.fetch(server.url("/bad"))


async def test_each_hop_is_resolved_and_checked_again():
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def resolve(host: str, port: int) -> list[str]:
        del host, port
        return next(answers)

    pages = Pages(resolve=resolve, may_reach="127.0.0.1".__eq__)
    async with web_server({"/a": Answer(status=302, headers={"Location": "/b"})}) as server:
        with pytest.raises(AddressRefusedError):
            await pages.fetch(server.url("/a", "some.example"))


async def test_a_huge_page_is_cut():
    async with web_server({"/": Answer(b"x" * 100_000, repeat=100)}) as server:
        page = await OPEN.fetch(server.url("/"))
        assert (len(page.body), page.is_cut) == (PAGE_BYTES, True)


async def test_a_packed_page_is_unpacked_and_a_bomb_only_up_to_the_limit():
    bomb = gzip.compress(bytes(60_000_000), 9)
    found = {
        "/": Answer(gzip.compress(b"hello"), headers={"Content-Encoding": "gzip"}),
        "/bomb": Answer(bomb, headers={"Content-Encoding": "gzip"}),
        "/broken": Answer(b"no gzip", headers={"Content-Encoding": "gzip"}),
        "/other": Answer(zlib.compress(b"x"), headers={"Content-Encoding": "br"}),
    }
    async with web_server(found) as server:
        assert (await OPEN.fetch(server.url("/"))).body == b"hello"
        page = await OPEN.fetch(server.url("/bomb"))
        assert (len(page.body), page.is_cut) == (PAGE_BYTES, True)
        with pytest.raises(PageFailedError, match="cannot be read"):
            await OPEN.fetch(server.url("/broken"))
        with pytest.raises(PageFailedError, match="'br', which was not asked for"):
            await OPEN.fetch(server.url("/other"))


async def test_a_server_that_goes_silent_is_given_up():
    async with web_server({"/": Answer(b"begin", hangs=True)}) as server:
        with pytest.raises(PageFailedError, match=r"not there within 0\.3 seconds"):
            await OPEN.fetch(server.url("/"), seconds=0.3)


async def test_nobody_there_is_said():
    with pytest.raises(PageFailedError, match="could not be fetched"):
        await OPEN.fetch("http://127.0.0.1:1/")
    with pytest.raises(PageFailedError, match=r"could not be fetched: [^\[]"):
        await Pages().fetch("http://no-such-name.invalid/")
