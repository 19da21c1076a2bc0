import ipaddress
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pattern_acp.config.load import process_environment
from pattern_acp.domain.clock import SystemClock
from pattern_acp.providers.connections import Connections, OpenConnection, request_of
from pattern_acp.providers.endpoints import HttpRequest
from pattern_acp.providers.errors import ProviderRequestError
from pattern_acp.providers.exchanges import Asked
from pattern_acp.providers.http import Deadlines, HttpClient
from pattern_acp.testing.fault_server import http_answer, serve_faults


def certificate_of_loopback(file: Path) -> Path:
    """A certificate and its key in one file, good for 127.0.0.1 and for nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([]), datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file


async def test_a_certificate_that_is_trusted_lets_the_answer_through(tmp_path: Path):
    file = certificate_of_loopback(tmp_path / "both.pem")
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(file)
    async with serve_faults(own) as server:
        server.pieces = [http_answer(b"over TLS")]
        trusting = ssl.create_default_context(cafile=str(file))
        connections = Connections(connect_seconds=30, write_seconds=30, context=trusting)
        answer = await connections.send(Asked("GET", "Mine", f"https://127.0.0.1:{server.port}/", {}))
        assert await answer.piece() == b"over TLS"
        await answer.aclose()
        await connections.aclose()


async def test_a_connection_that_the_server_has_closed_is_not_used_again():
    async with serve_faults() as server:
        stream = await anyio.connect_tcp("127.0.0.1", server.port)
        connection = OpenConnection(stream, (False, "127.0.0.1", server.port))
        assert connection.is_fresh() is True
        # The server has nothing to say, and closes behind it.
        await stream.send(b"GET / HTTP/1.1\r\n\r\n")
        with anyio.fail_after(60):
            while connection.is_fresh():  # noqa: ASYNC110  # the socket belongs to its transport, so nobody else may wait
                await anyio.sleep(0.01)
        await connection.close()


async def test_an_answer_that_nobody_reads_to_its_end_takes_its_connection_with_it():
    async with serve_faults() as server:
        connections = Connections(connect_seconds=30, write_seconds=30)
        server.pieces = [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"]
        for _ in range(2):
            answer = await connections.send(Asked("GET", "Mine", f"{server.url}/", {}))
            await answer.aclose()
            assert await answer.piece() is None
        assert server.asked == 2
        await connections.aclose()


@pytest.mark.parametrize(
    ("url", "host", "target"),
    [
        ("https://models.example", "models.example", "/"),
        ("https://models.example:443/v1/messages", "models.example", "/v1/messages"),
        ("http://models.example:8080/v1?a=b&c", "models.example:8080", "/v1?a=b&c"),
        ("http://[::1]:11434/v1", "[::1]:11434", "/v1"),
        ("http://MODELS.example/ä b/%20", "models.example", "/%C3%A4%20b/%20"),
        ("https://bücher.example/", "xn--bcher-kva.example", "/"),
    ],
)
def test_an_address_becomes_a_host_and_a_target(url: str, host: str, target: str):
    _, head = request_of(Asked("GET", "Mine", url, {}))
    assert (dict(head.headers)[b"host"].decode(), head.target.decode()) == (host, target)


def test_a_name_and_password_of_the_address_are_sent_unless_there_is_a_key():
    url = "http://me:a%40b@models.example/"
    assert dict(request_of(Asked("GET", "Mine", url, {}))[1].headers)[b"authorization"] == b"Basic bWU6YUBi"
    given = request_of(Asked("GET", "Mine", url, {"Authorization": "Bearer key"}))[1]
    assert dict(given.headers)[b"authorization"] == b"Bearer key"


def test_given_headers_take_the_place_of_ours():
    head = request_of(Asked("POST", "Mine", "http://models.example/", {"Accept": "text/event-stream"}, b"1234"))[1]
    names = [name for name, _ in head.headers]
    assert sorted(names) == sorted(set(names))
    assert dict(head.headers)[b"accept"] == b"text/event-stream"
    assert dict(head.headers)[b"content-length"] == b"4"


@pytest.mark.parametrize("url", ["http://[", "http://127.0.0.1:70000/", f"https://{'ü' * 90}.example/"])
def test_an_address_that_leads_nowhere_is_refused_before_anything_is_sent(url: str):
    with pytest.raises(ProviderRequestError, match="Mine"):
        request_of(Asked("GET", "Mine", url, {}))


async def test_the_same_client_serves_loops_one_after_the_other_once_it_was_closed():
    client = HttpClient(Deadlines(), SystemClock())
    for _ in range(2):
        async with serve_faults() as server:
            server.pieces = [http_answer(b"hello")]
            async with client.post(HttpRequest("Mine", f"{server.url}/", {}, b"{}")) as response:
                assert await response.read() == b"hello"
            await client.aclose()


WHICH_WAY = """
import sys
from pattern_acp.domain.clock import SystemClock
from pattern_acp.providers.http import Deadlines, HttpClient
HttpClient(Deadlines(), SystemClock()).warm("https://models.invalid")
print("httpx" in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system may name a proxy")
@pytest.mark.parametrize(("proxy", "is_httpx"), [("", "False"), ("http://127.0.0.1:9", "True")])
def test_httpx_is_there_where_the_environment_names_a_proxy_and_only_there(proxy: str, is_httpx: str):
    kept = {name: text for name, text in process_environment().items() if not name.lower().endswith("_proxy")}
    environment = {**kept, "NO_PROXY": "localhost", **({"HTTPS_PROXY": proxy} if proxy else {})}
    command = (sys.executable, "-c", WHICH_WAY)
    ran = subprocess.run(command, capture_output=True, check=True, env=environment, text=True, timeout=60)
    assert ran.stdout.split() == [is_httpx]
