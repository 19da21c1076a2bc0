"""A model server that costs next to nothing: whole answers in Anthropic's format, made before they are asked for.

`tests.support.model_server` renders and sends frame by frame, which is right for tests; here its time would be
part of what is measured, so an answer is one write and its service time is noted.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from pattern_acp.providers.scripted import ScriptStep
from tests.support.model_streams import CallIds, anthropic_frames

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
MODEL_LIST = b'{"data":[{"id":"test-model","type":"model"}]}'


@dataclass(slots=True)
class Served:
    """One POST request: when its last byte was here and when its answer was sent (`time.perf_counter`)."""

    received: float
    answered: float
    size: int

    @property
    def seconds(self) -> float:
        return self.answered - self.received


@dataclass(slots=True)
class WireServer:
    """Answers POST requests with `answers`, round and round, until the context ends."""

    answers: Sequence[bytes]
    served: list[Served] = field(default_factory=list[Served])
    newest: bytes = b""
    """Body of the newest POST request."""
    _first: int = 0
    """Requests before the one that `answers` begin with."""
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> "WireServer":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def begin(self, answers: Sequence[bytes]) -> None:
        """Answer with these from the next request on."""
        self.answers, self._first = answers, len(self.served)

    def environment(self) -> dict[str, str]:
        """What makes an agent use this server."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "no-real-key",
            "PATTERN_ACP_MODEL": "anthropic/test-model",
        }

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        waiting = b""
        with connection:
            while True:
                while b"\r\n\r\n" not in waiting:
                    more = connection.recv(65536)
                    if not more:
                        return
                    waiting += more
                head, _, body = waiting.partition(b"\r\n\r\n")
                length = _content_length(head)
                parts, have = [body], len(body)
                while have < length:
                    parts.append(connection.recv(1 << 20))
                    have += len(parts[-1])
                self._answer(connection, parts, is_post=head.startswith(b"POST"), size=length)
                waiting = b"".join(parts)[length:]

    def _answer(self, connection: socket.socket, parts: Sequence[bytes], *, is_post: bool, size: int) -> None:
        received = time.perf_counter()
        if not is_post:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(MODEL_LIST)
            connection.sendall(head + MODEL_LIST)
            return
        served = Served(received, received, size)
        self.newest = b"".join(parts)[:size]
        self.served.append(served)
        connection.sendall(self.answers[(len(self.served) - 1 - self._first) % len(self.answers)])
        served.answered = time.perf_counter()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def wire_answers(
    turns: Sequence[Sequence[ScriptStep]], chunk: int = 0, frames: Callable[..., Iterable[object]] = anthropic_frames
) -> list[bytes]:
    """Whole HTTP responses, one a model request; `chunk` is the number of characters in one text delta.

    `frames` renders them in the format of a vendor.
    """
    ids = CallIds()
    answers: list[bytes] = []
    for turn in turns:
        made = [frame for frame in frames(turn, "test-model", ids, chunk) if isinstance(frame, bytes)]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in made)
        answers.append(HEAD + chunks + b"0\r\n\r\n")
    return answers
