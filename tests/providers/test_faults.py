"""What becomes of each fault of a server, on every wire: the table in docs/reference/providers.md."""

import datetime
import email.utils
import secrets
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec.structs import replace

from pattern_acp.config.settings import Wire
from pattern_acp.domain.errors import ProviderError
from pattern_acp.providers import http_errors
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderStop,
    Retrying,
    Stopped,
    TextDelta,
    ToolCallBegun,
    ToolCallFragment,
)
from pattern_acp.providers.http import Deadlines
from pattern_acp.providers.scripted import Pause, ScriptStep
from tests.support.conversations import request, user
from tests.support.fault_server import Piece, http_answer, serve_faults
from tests.support.faulty_provider import FaultyLine, faulty_line
from tests.support.wires import MODELS, WIRES, stream_of

STEPS = [ScriptStep(text="Grüße."), ScriptStep(tool="read_file", arguments={"path": "a"}, id="call_a")]
wires = pytest.mark.parametrize("wire", WIRES)


@dataclass(slots=True)
class Outcome:
    """What a request came to; `asked` are its attempts."""

    events: list[ProviderEvent]
    error: ProviderError | None
    asked: int

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def stop(self) -> ProviderStop | None:
        last = self.events[-1] if self.events else None
        return last.reason if isinstance(last, Stopped) else None


@dataclass(slots=True)
class Line:
    """A provider before a faulty server."""

    line: FaultyLine
    wire: Wire

    async def ask(self, *pieces: Piece) -> Outcome:
        server = self.line.server
        server.pieces, before = pieces, server.asked
        events: list[ProviderEvent] = []
        error: ProviderError | None = None
        try:
            async with self.line.provider.stream(request(user("Hi"), model=MODELS[self.wire])) as stream:
                # One by one, so that those before an error are kept.
                async for event in stream:
                    events.append(event)  # noqa: PERF401
        except ProviderError as caught:
            error = caught
        return Outcome(events, error, server.asked - before)


@asynccontextmanager
async def line(
    wire: Wire, *, address: str = "", limits: Deadlines | None = None, key: str = ""
) -> AsyncGenerator[Line, None]:
    with anyio.fail_after(30):
        async with faulty_line(wire, address=address, limits=limits, key=key) as built:
            yield Line(built, wire)


@wires
async def test_a_stream_that_is_cut_anywhere_is_tried_again_or_ends_as_interrupted_with_what_came(wire: Wire):
    whole = stream_of(wire, STEPS)
    async with line(wire) as it:
        complete = await it.ask(http_answer(whole))
        assert (complete.text, complete.stop, complete.error) == ("Grüße.", ProviderStop.TOOL_CALLS, None)
        # Every byte near the ends and about each twentieth between, which falls into every part of every event.
        for cut in sorted({*range(40), *range(40, len(whole), 19), *range(len(whole) - 8, len(whole))}):
            got = await it.ask(http_answer(whole[:cut]))
            assert complete.text.startswith(got.text)
            if got.error is not None:
                assert got.text == "", cut
                assert isinstance(got.error, http_errors.ProviderConnectionError | http_errors.ProviderProtocolError), (
                    cut
                )
                assert isinstance(got.error, http_errors.ProviderProtocolError) or got.asked == 5, cut
            else:
                assert got.stop in {ProviderStop.INTERRUPTED, ProviderStop.TOOL_CALLS}, cut
                assert got.asked == 1 or not got.text, cut


STATUSES: Sequence[tuple[bytes, type[ProviderError], int]] = (
    (http_answer(b"{}", status=429, content_type="application/json"), http_errors.ProviderOverloadedError, 5),
    (http_answer(b"{}", status=429, more="retry-after: 3\r\n"), http_errors.ProviderOverloadedError, 5),
    (http_answer(b"{}", status=429, more="retry-after: 900\r\n"), http_errors.ProviderOverloadedError, 1),
    (http_answer(b"<html>", status=500, content_type="text/html"), http_errors.ProviderOverloadedError, 5),
    (http_answer(b"", status=529), http_errors.ProviderOverloadedError, 5),
    (http_answer(b"<html>Sign in</html>", content_type="text/html"), http_errors.ProviderProtocolError, 1),
    (http_answer(b"{}", content_type="application/json"), http_errors.ProviderProtocolError, 1),
    (http_answer(b"", status=302, more="location: http://127.0.0.1:1/\r\n"), http_errors.ProviderRequestError, 1),
    (http_answer(b"data: " + b"x" * (9 * 1024 * 1024)), http_errors.ProviderProtocolError, 1),
    (http_answer(b"data: \xff\xfe\n\n"), http_errors.ProviderProtocolError, 1),
    (http_answer(b""), http_errors.ProviderConnectionError, 5),
    (b"", http_errors.ProviderConnectionError, 5),
    (b"SSH-2.0-OpenSSH_9.6\r\n", http_errors.ProviderConnectionError, 5),
)


@wires
@pytest.mark.parametrize(("answer", "kind", "asked"), STATUSES)
async def test_each_wrong_answer_has_its_error_and_its_number_of_attempts(
    wire: Wire, answer: bytes, kind: type[ProviderError], asked: int
):
    async with line(wire) as it:
        got = await it.ask(answer)
    assert (type(got.error), got.asked) == (kind, asked)
    assert len([event for event in got.events if isinstance(event, Retrying)]) == asked - 1
    assert "mine" in str(got.error)


@wires
async def test_silence_is_ended_by_its_limit_before_and_after_the_first_byte(wire: Wire):
    limits = replace(Deadlines(), first_byte=0.1, idle=0.1)
    async with line(wire, limits=limits) as it:
        for pieces in ((Pause(None),), (http_answer(b""), Pause(None)), (http_answer(b": hold on\n\n"), Pause(None))):
            got = await it.ask(*pieces)
            # Not `asked`: on a busy machine the limit may be over before the server has read the request.
            again = [event for event in got.events if isinstance(event, Retrying)]
            assert (type(got.error), len(again)) == (http_errors.ProviderStalledError, 1)


@wires
async def test_silence_behind_the_reason_for_which_the_answer_ended_costs_nothing(wire: Wire):
    whole = stream_of(wire, STEPS)
    behind: dict[Wire, bytes] = {"anthropic": b"event: message_stop", "openai": b"data: [DONE]"}
    end = whole.find(behind[wire]) if wire in behind else len(whole)
    assert end > 0
    async with line(wire, limits=replace(Deadlines(), idle=0.3)) as it:
        got = await it.ask(http_answer(whole[:end]), Pause(None))
    assert (got.text, got.stop, got.asked) == ("Grüße.", ProviderStop.TOOL_CALLS, 1)


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "gemini"])
async def test_a_connection_that_breaks_behind_the_last_event_costs_nothing(wire: Wire):
    async with line(wire) as it:
        got = await it.ask(http_answer(stream_of(wire, STEPS), more="content-length: 99999\r\n"))
    assert (got.text, got.stop, got.asked) == ("Grüße.", ProviderStop.TOOL_CALLS, 1)


@wires
async def test_an_answer_that_comes_byte_by_byte_is_whole(wire: Wire):
    whole = http_answer(stream_of(wire, STEPS))
    async with line(wire) as it:
        got = await it.ask(*(piece for byte in whole for piece in (bytes([byte]), Pause(0))))
    assert (got.text, got.stop) == ("Grüße.", ProviderStop.TOOL_CALLS)


@wires
async def test_two_calls_with_one_id_stay_two_calls(wire: Wire):
    steps = [replace_id(STEPS[1]), replace_id(STEPS[1])]
    async with line(wire) as it:
        got = await it.ask(http_answer(stream_of(wire, steps)))
    begun = [event.index for event in got.events if isinstance(event, ToolCallBegun)]
    assert len(set(begun)) == 2
    for index in begun:
        text = "".join(e.text for e in got.events if isinstance(e, ToolCallFragment) and e.index == index)
        assert text == '{"path":"a"}'


def replace_id(step: ScriptStep) -> ScriptStep:
    return ScriptStep(tool=step.tool, arguments=step.arguments, id="call_same")


@wires
@pytest.mark.parametrize("address", ["https://127.0.0.1:PORT", "http://nowhere.invalid"])
async def test_a_server_that_speaks_no_tls_and_a_name_that_is_none_cannot_be_reached(wire: Wire, address: str):
    async with line(wire, address=address, limits=Deadlines(connect=0.05)) as it:
        got = await it.ask(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert isinstance(got.error, http_errors.ProviderConnectionError)
    assert "cannot be reached" in str(got.error)


@wires
async def test_a_retry_after_of_seconds_or_as_a_date_is_waited_for_and_without_one_the_usual_pauses_are(wire: Wire):
    async with line(wire) as it:
        start = it.line.clock.now_ms()
        at = email.utils.formatdate(start / 1000 + 40, usegmt=True)
        whole = http_answer(stream_of(wire, STEPS))
        for more, waited in (("retry-after: 7\r\n", 7_000), (f"retry-after: {at}\r\n", 33_000), ("", 250)):
            before = it.line.clock.now_ms()
            it.line.server.then = [(whole,)]
            got = await it.ask(http_answer(b"{}", status=429, more=more))
            assert (got.text, got.asked) == ("Grüße.", 2)
            assert abs(it.line.clock.now_ms() - before - waited) <= 1_000 * (waited > 1_000)


@wires
async def test_a_redirect_takes_the_key_nowhere(wire: Wire):
    secret = secrets.token_hex(8)
    async with serve_faults() as elsewhere, line(wire, key=secret) as it:
        for status in (301, 302, 303, 307, 308):
            got = await it.ask(http_answer(b"", status=status, more=f"location: {elsewhere.url}/v1\r\n"))
            assert (type(got.error), got.asked) == (http_errors.ProviderRequestError, 1)
            assert "base_url" in str(got.error)
            assert secret not in str(got.error)
        assert elsewhere.asked == 0


@wires
async def test_bytes_that_are_no_utf8_become_replacement_characters_wherever_the_network_cuts(wire: Wire):
    """The stream is written in raw UTF-8, as most servers do, and one character of it is broken."""
    broken = stream_of(wire, [ScriptStep(text="Grüße 你好.")])
    broken = broken.replace(b"\\u00fc", b"\xc3\xbc").replace(b"\\u00df", b"\xc3").replace(b"\\u4f60", "你".encode())
    async with line(wire) as it:
        whole = await it.ask(http_answer(broken))
        assert (whole.text, whole.stop) == ("Grü\ufffde 你好.", ProviderStop.END)
        apart = await it.ask(*(bytes([byte]) for byte in http_answer(broken)))
        assert apart.text == whole.text


@wires
async def test_an_answer_of_nothing_is_told_and_not_tried_again(wire: Wire):
    async with line(wire) as it:
        got = await it.ask(http_answer(stream_of(wire, [ScriptStep(stop="end")])))
    assert (type(got.error), got.asked) == (http_errors.EmptyAnswerError, 1)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A certificate that nobody trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@wires
async def test_a_certificate_that_is_not_trusted_is_named_as_such_before_the_key_is_sent(
    wire: Wire, stranger: ssl.SSLContext
):
    async with serve_faults(stranger) as server, line(wire, address=f"https://127.0.0.1:{server.port}") as it:
        got = await it.ask()
        assert server.asked == 0
    assert isinstance(got.error, http_errors.ProviderConnectionError)
    assert "certificate" in str(got.error)
    assert "SSL_CERT_FILE" in str(got.error)
    assert len([event for event in got.events if isinstance(event, Retrying)]) == 4
