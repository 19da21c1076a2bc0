"""A page in headless Chromium, on the official TypeScript SDK (npm), drives a served agent."""

import json
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from werkzeug.serving import make_server
from werkzeug.utils import send_from_directory
from werkzeug.wrappers import Request, Response

from tests.support.editor import JsonDict
from tests.support.programs import path_of
from tests.support.server_process import server_process, token_for
from tests.support.threaded_server import in_thread

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180), pytest.mark.needs("chromium")]

SEEN_SECONDS = 120
"""For the browser's start and two turns, on a busy machine."""


class Pages:
    """The page, the packages that it loads, and what it says that it saw."""

    def __init__(self, packages: Path) -> None:
        self._packages = packages
        self.seen: JsonDict | None = None

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer a request, as WSGI has it."""
        return self._answer(Request(environ))(environ, start_response)

    def _answer(self, request: Request) -> Response:
        if request.path == "/seen":
            self.seen = json.loads(request.get_data())
            return Response()
        if request.path.startswith("/packages/"):
            return send_from_directory(self._packages, request.path.removeprefix("/packages/"), request.environ)
        page = Path(__file__).with_name("browser.html").read_text(encoding="utf-8")
        return Response(page, mimetype="text/html")


async def seen_by_page(pages: Pages, address: str) -> JsonDict:
    """Open the page in a browser until it says what it saw."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}"]
        browser = subprocess.Popen(  # noqa: ASYNC220  nobody waits for it
            [path_of("chromium"), *options, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with anyio.fail_after(SEEN_SECONDS):
                while pages.seen is None:
                    assert browser.poll() is None, "the browser ended by itself"
                    await anyio.sleep(0.1)
            return pages.seen
        finally:
            browser.kill()
            browser.wait(30)


@pytest.mark.parametrize("is_allowed", [True, False], ids=["an allowed page", "another page"])
async def test_a_page_reads_and_edits_through_a_served_agent_if_its_origin_is_allowed(
    sdk_client: list[str], tmp_path: Path, is_allowed: bool
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "greeting.txt").write_text("hello\nworld\n", encoding="utf-8")
    pages = Pages(Path(sdk_client[-1]) / "node_modules")
    token = token_for(tmp_path)
    with in_thread(made := make_server("127.0.0.1", 0, pages, threaded=True)):
        page = f"http://127.0.0.1:{made.server_port}"
        origin = page if is_allowed else "http://127.0.0.1:1"
        listening = ("--local", "--listen", "127.0.0.1:0", "--origin", origin)
        async with server_process(tmp_path, token, *listening) as server:
            seen = await seen_by_page(pages, f"{page}/#{server.url}%20{token['PATTERN_ACP_TOKEN']}%20{work}")
    if not is_allowed:
        assert set(seen) == {"error"}
        return
    assert (seen["name"], seen["stops"]) == ("pattern-acp", ["end_turn"] * 2), seen
    assert len(seen["asked"]) == 1
    assert "tool_call" in seen["kinds"]
    assert (work / "greeting.txt").read_text(encoding="utf-8") == "good day\nworld\n"
