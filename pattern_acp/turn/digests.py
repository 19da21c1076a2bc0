"""What a request is known by in the journal (rule R4): its SHA-256 and its size, recorded before it is sent.

Owns: computing both without encoding a long history anew for every request. Must not
know: providers, or who records it.
"""

import hashlib
from dataclasses import replace

import msgspec

from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.messages import Message
from pattern_acp.providers.base import ProviderRequest


@dataclass(frozen=True, slots=True)
class _Known:
    """A message that was encoded before. It is kept, so that no other one can get its identity."""

    message: Message
    digest: bytes
    size: int


class RequestDigests:
    """Digests of the requests of one session.

    The digest of a request is that of everything but its messages, followed by the digest of each of them. Messages
    never change, so each is encoded once as long as the history holds it.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def of(self, request: ProviderRequest) -> tuple[str, int]:
        """SHA-256 in hexadecimal digits, and the bytes of the request as JSON but for commas between messages."""
        known = {id(message): self._of_message(message) for message in request.messages}
        head = _encoded(replace(request, messages=()))
        digest = hashlib.sha256(hashlib.sha256(head).digest())
        size = len(head)
        for message in request.messages:
            one = known[id(message)]
            digest.update(one.digest)
            size += one.size
        # Only these: what left the history is not kept for its sake.
        self._known = known
        return digest.hexdigest(), size

    def _of_message(self, message: Message) -> _Known:
        found = self._known.get(id(message))
        if found is not None:
            return found
        data = _encoded(message)
        return _Known(message, hashlib.sha256(data).digest(), len(data))


def _encoded(value: ProviderRequest | Message) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # JSON cannot hold a lone surrogate, which models write in escapes.
        return repr(value).encode("utf-8", "surrogatepass")
