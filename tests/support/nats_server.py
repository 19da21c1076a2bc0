"""A real NATS server with JetStream, of a test alone."""

import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.programs import path_of


class NatsServer:
    """A server on a port of this machine, which keeps what it has in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, limit: str = "64MB") -> None:
        """Start it and wait until it says that it is ready."""
        config = self._folder / "server.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\n'
            f'jetstream {{ store_dir: "{self._folder}", max_file_store: {limit}, max_memory_store: 16MB }}\n',
            encoding="utf-8",
        )
        self._process = subprocess.Popen(
            [path_of("nats-server"), "-c", str(config)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if b"Server is ready" in line:
                return
        raise AssertionError("nats-server ended before it was ready")

    def kill(self) -> None:
        """End it as a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@contextmanager
def nats_server(folder: Path) -> Generator[NatsServer, None, None]:
    """Run a server until the context ends."""
    folder.mkdir(exist_ok=True)
    server = NatsServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
