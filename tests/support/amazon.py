"""What Amazon does at its end: the binary frames of an answer, and the check of a request's signature.

Owns: the event stream's encoder and Signature Version 4 as its documentation tells it, both apart from what serves.
Must not know: botocore and our parser, which it judges.
"""

import base64
import hashlib
import hmac
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from struct import pack
from urllib.parse import quote

from pattern_acp.providers.event_streams import SseParser
from pattern_acp.providers.scripted import Pause
from tests.support.model_streams import Frame

ACCESS_KEY = "AKIA" + "TESTTESTTESTTEST"
SECRET_KEY = "planted" + "-secret-of-aws"


def event_frame(payload: bytes, headers: Mapping[str, str]) -> bytes:
    """One message of an event stream; all its headers are text."""
    encoded = b"".join(
        pack(">B", len(name.encode())) + name.encode() + b"\x07" + pack(">H", len(text.encode())) + text.encode()
        for name, text in headers.items()
    )
    lengths = pack(">II", 16 + len(encoded) + len(payload), len(encoded))
    message = lengths + pack(">I", zlib.crc32(lengths)) + encoded + payload
    return message + pack(">I", zlib.crc32(message))


def chunk_frame(event: str) -> bytes:
    """An event of the Messages API as Bedrock frames it."""
    payload = json.dumps({"bytes": base64.b64encode(event.encode()).decode(), "p": "abcdefghij"})
    headers = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    return event_frame(payload.encode(), headers)


def exception_frame(kind: str, message: str) -> bytes:
    """An exception in the middle of a stream, such as `throttlingException`."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return event_frame(json.dumps({"message": message}).encode(), headers)


def bedrock_frames(frames: Iterable[Frame]) -> Iterator[Frame]:
    """The frames of the Messages API in Bedrock's framing."""
    for frame in frames:
        if isinstance(frame, Pause):
            yield frame
            continue
        for event in SseParser().feed(frame):
            yield chunk_frame(event.data)


def is_signed(method: str, path: str, headers: Mapping[str, str], body: bytes, secret: str = SECRET_KEY) -> bool:
    """Whether a request that came bears the signature of whoever has `secret`; header names in lower case.

    From "Create a signed AWS API request" of the IAM User Guide. `path` is as it came, and is encoded once more.
    """
    kind, _, rest = headers.get("authorization", "").partition(" ")
    parts: dict[str, str] = {}
    for part in rest.split(","):
        name, _, value = part.strip().partition("=")
        parts[name] = value
    if kind != "AWS4-HMAC-SHA256":
        return False
    _, day, region, service, last = parts["Credential"].split("/")
    names = parts["SignedHeaders"].split(";")
    if not {"host", "x-amz-date"} <= {*names} or not headers["x-amz-date"].startswith(day):
        return False
    plain, _, query = path.partition("?")
    canonical = "\n".join(
        (
            method,
            quote(plain, safe="/-_.~"),
            query,
            *(f"{name}:{' '.join(headers[name].split())}" for name in names),
            "",
            parts["SignedHeaders"],
            hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{day}/{region}/{service}/{last}"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n{digest}"
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, last, to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.compare_digest(key.hex(), parts["Signature"])
