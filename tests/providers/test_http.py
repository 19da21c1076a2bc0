import subprocess
import sys

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.config.load import process_environment
from pattern_acp.providers.http import is_plain_loopback, parse_retry_after

NOON_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "3"}, 3_000),
        ({"Retry-After": "0.5"}, 500),
        ({"Retry-After": "-1"}, 0),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 250),
        ({"Retry-After": "Fri, 15 Jan 2027 08:00:10 GMT"}, 10_000),
        ({"Retry-After": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], expected: int | None):
    assert parse_retry_after(httpx.Headers(headers), NOON_MS) == expected


@given(st.text(max_size=60))
def test_any_retry_after_can_be_read(text: str):
    parsed = parse_retry_after({"retry-after": text}, NOON_MS)
    assert parsed is None or parsed >= 0


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://localhost/v1", True),
        ("http://[::1]:8080", True),
        ("https://127.0.0.1/v1", False),
        ("http://127.example.com/v1", False),
        ("http://localhost.example.com", False),
        ("http://10.0.0.2", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_loopback_is_told_from_the_rest(url: str, expected: object):
    assert is_plain_loopback(url) is expected


COUNT_CERTIFICATES = """
import gc, ssl
from pattern_acp.domain.clock import SystemClock
from pattern_acp.providers.http import Deadlines, HttpClient
client = HttpClient(Deadlines(), SystemClock())
client.warm("https://models.invalid")
print(sum(isinstance(each, ssl.SSLContext) for each in gc.get_objects()))
"""


def test_certificates_are_read_once_however_many_proxies_there_are():
    proxies = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "localhost"}
    environment = {**process_environment(), **proxies}
    command = (sys.executable, "-c", COUNT_CERTIFICATES)
    ran = subprocess.run(command, capture_output=True, check=True, env=environment, text=True, timeout=50)
    assert ran.stdout.split() == ["1"]
